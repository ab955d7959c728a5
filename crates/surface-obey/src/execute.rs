//! `Execute`: runs one allowed command in a campaign's folder and streams its output.

use domain::Error;
use runtime::execute::{Execution, Output};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use wire::obey::local::v1 as pb;
use wire::obey::local::v1::execute_response::Output as PbOutput;

use super::{Obey, from_wire};
use surface::pump::Messages;

impl Obey {
    /// Validates the request and starts the command; its output is streamed.
    pub(super) async fn run_command(
        &self,
        request: pb::ExecuteRequest,
    ) -> Result<Messages<pb::ExecuteResponse>, Error> {
        if request.command.is_empty() {
            return Err(Error::invalid("command", "is required"));
        }
        if request.campaign_id.is_empty() {
            return Err(Error::invalid("campaign_id", "is required"));
        }
        let campaign = self.supervisor.campaigns().find(&request.campaign_id).await?;
        let timeout = request.timeout.map(|wait| from_wire::timeout("timeout", wait)).transpose()?.flatten();
        let execution = Execution {
            root: self.supervisor.campaigns().root(&campaign).await?,
            below: request.working_dir,
            command: request.command,
            args: request.args,
            environment: from_wire::string_map(request.environment),
            timeout: timeout.unwrap_or(self.about.execute_timeout),
            allowed: self.about.execute_allow.clone(),
        };
        let mut running = self.supervisor.execute(execution).await?;
        let (sender, receiver) = mpsc::channel(surface::limits::STREAM_READY_MAX);
        tokio::spawn(async move {
            loop {
                let output = tokio::select! {
                    output = running.next() => output,
                    // Dropping the running command kills its whole process tree.
                    () = sender.closed() => return,
                };
                let Some(output) = output else { return };
                let message = pb::ExecuteResponse { output: Some(to_wire(output)) };
                if sender.send(Ok(message)).await.is_err() {
                    return;
                }
            }
        });
        Ok(Box::pin(ReceiverStream::new(receiver)))
    }
}

/// Converts one part of the output.
fn to_wire(output: Output) -> PbOutput {
    match output {
        Output::Stdout(bytes) => PbOutput::Stdout(bytes),
        Output::Stderr(bytes) => PbOutput::Stderr(bytes),
        Output::Ended { exit_code, signal, duration, timed_out } => PbOutput::Result(pb::ExecuteResult {
            exit_code,
            duration: prost_types::Duration::try_from(duration).ok(),
            timed_out,
            signal,
        }),
    }
}
