//! `AcpService`: connections over the daemon's socket. Only carries bytes; `connection` interprets them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use domain::caller_environment::{self, CALLER_ENVIRONMENT_KEY};
use domain::{Error, ProviderKind};
use futures_core::Stream;
use runtime::Supervisor;
use tokio::sync::{mpsc, watch};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};
use wire::obey::v1 as pb;
use wire::obey::v1::acp_input::Input;
use wire::obey::v1::acp_output::Output;
use wire::obey::v1::acp_service_server::{AcpService, AcpServiceServer};

use super::connection::{AcpCaller, AcpConnection, ConnectionEnding, ResumableConnection};
use super::notify::NotificationSourceKind;
use super::outbox::OutputFrame;
use super::presence::OpenSessions;
use super::{AcpSessionDefaults, NotificationSource, Shared};
use crate::limits;
use surface::status;

/// Adds the service to a router. `leaving` becomes true when the daemon exits and the agents are to keep
/// running.
pub fn routes(routes: Routes, supervisor: Supervisor, leaving: watch::Receiver<bool>) -> Routes {
    let shared = Shared { supervisor, presence: OpenSessions::default(), leaving: Arc::new(leaving) };
    routes.add_service(AcpServiceServer::new(Service(shared)))
}

struct Service(Shared);

type Outputs = Pin<Box<dyn Stream<Item = Result<pb::AcpOutput, Status>> + Send>>;

#[tonic::async_trait]
impl AcpService for Service {
    type ConnectStream = Outputs;

    async fn connect(&self, request: Request<Streaming<pb::AcpInput>>) -> Result<Response<Outputs>, Status> {
        let wire = |error: Error| status::grpc(&error);
        let caller = AcpCaller::of(request.extensions());
        let mut inbound = request.into_inner();
        let (opened, lasting) = match inbound.message().await? {
            Some(pb::AcpInput { input: Some(Input::Open(mut open)) }) => {
                let notes = std::mem::take(&mut open.notes).into_iter().collect();
                let lasting = ResumableConnection { connection: std::mem::take(&mut open.connection), notes };
                (defaults(open).map_err(wire)?, lasting)
            }
            _ => return Err(wire(Error::invalid("open", "must be the first message of a connection"))),
        };
        self.0.supervisor.providers().get(opened.provider).map_err(wire)?;
        let supervisor = self.0.supervisor.clone();
        let (connection, frames) =
            AcpConnection::new(supervisor, opened, self.0.presence.clone(), lasting, caller);
        let (pieces, input) = mpsc::channel(limits::ACP_INPUT_READY_MAX);
        let (ending, is_ending) = watch::channel(ConnectionEnding::Open);
        tokio::spawn(leave_with((*self.0.leaving).clone(), ending));
        tokio::spawn(async move {
            while let Ok(Some(message)) = inbound.message().await {
                if let Some(Input::Lines(lines)) = message.input
                    && pieces.send(lines.into()).await.is_err()
                {
                    return;
                }
            }
        });
        tokio::spawn(connection.run(input, is_ending));
        let outputs = ReceiverStream::new(frames).map_while(output).map(Ok);
        Ok(Response::new(Box::pin(outputs)))
    }
}

/// Notifies a connection when the daemon exits; ends with the connection.
async fn leave_with(mut leaving: watch::Receiver<bool>, ending: watch::Sender<ConnectionEnding>) {
    tokio::select! {
        told = leaving.wait_for(|leaving| *leaving) => {
            if told.is_ok() {
                ending.send_replace(ConnectionEnding::Leave);
            }
        }
        () = ending.closed() => {}
    }
}

/// Converts a frame; `None` ends the stream.
fn output(frame: OutputFrame) -> Option<pb::AcpOutput> {
    Some(match frame {
        OutputFrame::Lines(lines, marks) => pb::AcpOutput {
            output: (!lines.is_empty()).then(|| Output::Lines(lines.into())),
            notes: marks.notes.into_iter().collect(),
            done: marks.done,
            leaving: false,
        },
        OutputFrame::Log { level, message } => {
            let log = pb::AcpLog { level: level.to_owned(), message };
            pb::AcpOutput { output: Some(Output::Log(log)), ..pb::AcpOutput::default() }
        }
        OutputFrame::Leave => pb::AcpOutput { leaving: true, ..pb::AcpOutput::default() },
        OutputFrame::End => return None,
    })
}

/// Converts the first message to the defaults of the connection's sessions.
fn defaults(open: pb::AcpOpen) -> Result<AcpSessionDefaults, Error> {
    let provider = ProviderKind::parse(&open.provider).ok_or_else(|| {
        Error::new(
            domain::ErrorCode::ProviderUnsupported,
            format!("provider: there is no provider {:?}", open.provider),
        )
    })?;
    let kind = NotificationSourceKind::parse(&open.notify_kind)
        .ok_or_else(|| Error::invalid("notify_kind", "must be file or fifo"))?;
    let path = PathBuf::from(open.notify_path);
    if !path.as_os_str().is_empty() && !path.is_absolute() {
        return Err(Error::invalid("notify_path", "must be absolute"));
    }
    let evidence = PathBuf::from(open.evidence_path);
    if !evidence.as_os_str().is_empty() && !evidence.is_absolute() {
        return Err(Error::invalid("evidence_path", "must be absolute"));
    }
    let mut provider_config: BTreeMap<String, String> = open.provider_config.into_iter().collect();
    let caller_environment = match provider_config.remove(CALLER_ENVIRONMENT_KEY) {
        Some(sent) => caller_environment::read(provider, &sent)?,
        None => BTreeMap::new(),
    };
    let defaults = AcpSessionDefaults::default();
    let or = |value: u64, default: Duration| {
        if value == 0 { default } else { Duration::from_millis(value) }
    };
    Ok(AcpSessionDefaults {
        provider,
        model: open.model,
        mode: open.mode,
        caller_environment,
        provider_config,
        environment: open.environment.into_iter().collect(),
        keep: open.keep,
        max_sessions: match open.max_sessions {
            0 => defaults.max_sessions,
            most => usize::try_from(most).unwrap_or(defaults.max_sessions),
        },
        idle_timeout: (open.idle_timeout_ms > 0).then(|| Duration::from_millis(open.idle_timeout_ms)),
        polling_interval: or(open.polling_interval_ms, defaults.polling_interval),
        notify: (!path.as_os_str().is_empty()).then_some(NotificationSource { path, kind }),
        evidence: (!evidence.as_os_str().is_empty()).then_some(evidence),
        lends_tools: true,
    })
}
