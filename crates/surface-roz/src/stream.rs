//! `StreamSession`: one client's session, from its start until the client leaves. The client's messages
//! become commands; the journal becomes messages to the client (`feed`). When a client leaves, its tools are
//! removed but the session stays.

mod feed;
mod messages;
mod start;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::event::ClientTool;
use domain::request::RequestSubject;
use domain::{Command, Error, ErrorCode, SessionId, StopMode};
use runtime::Supervisor;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};
use wire::roz::v1 as pb;
use wire::roz::v1::session_request::Request as Said;
use wire::roz::v1::session_response::Response as Body;

use super::{Roz, to_wire};
use crate::limits;
use feed::RozFeed;
use messages::{RozStream, StreamKey};
use start::StartedSession;
use surface::peer::Signer;
use surface::pump::Messages;

pub(super) use messages::waiting_permission;
pub(super) use start::session_in;

impl Roz {
    /// Serves one stream in a task of its own.
    pub(super) fn session(
        &self,
        inbound: Streaming<pb::SessionRequest>,
        signer: Signer,
        client_key: String,
    ) -> Messages<pb::SessionResponse> {
        let (sender, receiver) = mpsc::channel(surface::limits::STREAM_READY_MAX);
        tokio::spawn(self.clone().serve(inbound, RozSender { sender }, signer, client_key));
        Box::pin(ReceiverStream::new(receiver))
    }

    async fn serve(
        self,
        mut inbound: Streaming<pb::SessionRequest>,
        line: RozSender,
        signer: Signer,
        client_key: String,
    ) {
        let Some(start) = first(&mut inbound, &line).await else { return };
        let mut early = VecDeque::new();
        let lazy_workbench = self.clone();
        let opening = lazy_workbench.open(start, &client_key);
        tokio::pin!(opening);
        let opened = loop {
            tokio::select! {
                opened = &mut opening => break opened,
                said = inbound.message(), if early.len() < limits::STARTING_MESSAGES_MAX => match said {
                    Ok(Some(pb::SessionRequest { request: Some(Said::Ping(_)) })) => {
                        if line.send_body(Body::Pong(pb::Pong {})).await.is_err() {
                            break opening.await;
                        }
                    }
                    Ok(Some(request)) => early.push_back(request),
                    // The client has closed its half. Its session starts nevertheless and handles the queued
                    // messages.
                    Ok(None) => break opening.await,
                    Err(status) => {
                        line.fail(&unreadable(&status)).await;
                        break opening.await;
                    }
                },
            }
        };
        match opened {
            Ok(opened) => {
                let key = StreamKey { key: client_key.clone(), messages: 0 };
                self.run_stream(opened, inbound, early, line, signer, key).await;
            }
            Err(error) => line.fail(&error).await,
        }
    }

    /// Runs both halves of the stream until the client leaves or the session ends.
    async fn run_stream(
        self,
        opened: StartedSession,
        mut inbound: Streaming<pb::SessionRequest>,
        mut early: VecDeque<pb::SessionRequest>,
        line: RozSender,
        signer: Signer,
        key: StreamKey,
    ) {
        let session = opened.snapshot.spec.id.clone();
        let leaving = ClientAttachment::new(self.supervisor.clone(), session.clone(), self.streams.clone());
        if line.send_body(opened.greeting.clone()).await.is_err() {
            return;
        }
        let (last_word, is_last_word) = watch::channel(false);
        let feed = RozFeed::new(self.supervisor.clone(), &opened, line.clone(), is_last_word);
        let mut run_stream = RozStream::new(self.supervisor.clone(), &opened, line.clone(), signer, key);
        let mut feed = tokio::spawn(feed.run());
        loop {
            let said = match early.pop_front() {
                Some(request) => Ok(Some(request)),
                None => tokio::select! {
                    said = inbound.message() => said,
                    // The feed ends when the client is gone or the session has ended.
                    _ = &mut feed => return,
                },
            };
            let heard = match said {
                Ok(Some(request)) => run_stream.handle_message(request).await,
                Ok(None) => break,
                Err(status) => {
                    // A dropped connection is an error too; then this message reaches no one.
                    line.fail(&unreadable(&status)).await;
                    Err(RozClientGone)
                }
            };
            if heard.is_err() {
                feed.abort();
                return;
            }
        }
        run_stream.settle().await;
        // A client that has closed its half cannot return tool results any more.
        leaving.take_tools().await;
        last_word.send_replace(true);
        tokio::select! {
            biased;
            () = line.hung_up() => feed.abort(),
            // `await` fails only if the task panicked; then there is nothing left to send.
            heard = &mut feed => if heard.unwrap_or(false) {
                self.complete(&session).await;
            },
        }
    }

    /// Ends the session: the client has closed its half and received everything.
    async fn complete(&self, session: &SessionId) {
        match self.supervisor.stop(session, StopMode::Graceful).await {
            Err(error) if error.code != ErrorCode::AlreadyStopped => {
                tracing::debug!(%session, %error, "cannot end a session whose client is done");
            }
            _ => {}
        }
    }
}

/// Waits for a start. Before it only pings are answered.
async fn first(inbound: &mut Streaming<pb::SessionRequest>, line: &RozSender) -> Option<pb::StartSession> {
    loop {
        let said = match inbound.message().await {
            Ok(Some(request)) => request.request,
            Ok(None) => return None,
            Err(status) => {
                line.fail(&unreadable(&status)).await;
                return None;
            }
        };
        let answer = match said {
            Some(Said::Start(start)) => return Some(start),
            Some(Said::Ping(_)) => Body::Pong(pb::Pong {}),
            Some(_) | None => to_wire::error("no_session", "send StartSession first", false),
        };
        line.send_body(answer).await.ok()?;
    }
}

/// A message that could not be decoded, for example because it is too large; the decoder names the limit.
fn unreadable(status: &Status) -> Error {
    match status.code() {
        tonic::Code::OutOfRange => {
            Error::new(ErrorCode::LimitReached, format!("message: {}", status.message()))
        }
        _ => Error::invalid("message", format_args!("cannot be read: {}", status.message())),
    }
}

/// The sending side of a client's stream.
#[derive(Clone)]
struct RozSender {
    sender: mpsc::Sender<Result<pb::SessionResponse, Status>>,
}

/// The client is gone.
struct RozClientGone;

impl RozSender {
    async fn send(&self, message: pb::SessionResponse) -> Result<(), RozClientGone> {
        self.sender.send(Ok(message)).await.map_err(|_| RozClientGone)
    }

    async fn send_body(&self, body: Body) -> Result<(), RozClientGone> {
        self.send(to_wire::response(body)).await
    }

    /// Reports the error that ends the stream.
    async fn fail(&self, error: &Error) {
        if let Some(detail) = &error.detail {
            tracing::warn!(code = %error.code, message = error.message, detail, "answering with an error");
        }
        // A client that is gone needs no reason.
        let _ = self.send_body(to_wire::failure(error)).await;
    }

    fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    async fn hung_up(&self) {
        self.sender.closed().await;
    }
}

/// A client's part in its session. When it is dropped, the client's pending tool calls fail.
struct ClientAttachment {
    supervisor: Supervisor,
    session: SessionId,
    streams: SessionStreams,
}

impl ClientAttachment {
    fn new(supervisor: Supervisor, session: SessionId, streams: SessionStreams) -> Self {
        *streams.lock().entry(session.clone()).or_default() += 1;
        Self { supervisor, session, streams }
    }

    async fn take_tools(&self) {
        let is_only_one = self.streams.lock().get(&self.session).is_none_or(|streams| *streams < 2);
        if is_only_one {
            take_tools(&self.supervisor, &self.session).await;
        }
    }
}

/// How many streams each session has. A client that opens its stream again may be there before the end of the old one is
/// noticed, which must not take the new one's tools away.
#[derive(Clone, Default)]
pub(super) struct SessionStreams(Arc<Mutex<HashMap<SessionId, usize>>>);

impl SessionStreams {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a stream less; returns whether it was the last one of its session.
    fn leave(&self, session: &SessionId) -> bool {
        let mut streams = self.lock();
        let left = streams.get(session).map_or(0, |count| count.saturating_sub(1));
        if left == 0 {
            streams.remove(session);
        } else {
            streams.insert(session.clone(), left);
        }
        left == 0
    }
}

impl Drop for ClientAttachment {
    fn drop(&mut self) {
        let (supervisor, session) = (self.supervisor.clone(), self.session.clone());
        if !self.streams.leave(&session) {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                take_tools(&supervisor, &session).await;
                supervisor.bridges().forget(&session);
            });
        }
    }
}

/// Unregisters a client's tools and fails the calls that wait for them. Does nothing if the session has
/// ended.
async fn take_tools(supervisor: &Supervisor, session: &SessionId) {
    if let Err(error) = try_take_tools(supervisor, session).await {
        tracing::debug!(%session, %error, "cannot take a client's tools away");
    }
}

/// Also releases the input, which the client held.
async fn try_take_tools(supervisor: &Supervisor, session: &SessionId) -> Result<(), Error> {
    let snapshot = supervisor.snapshot(session).await?;
    if snapshot.state.status.is_terminal() {
        return Ok(());
    }
    supervisor.command(session, Command::HoldInput { holder: None }).await?;
    let sources = snapshot.state.tools.iter().filter(|(source, _)| messages::is_ours(source));
    let offers: Vec<(&String, &Vec<ClientTool>)> = sources.filter(|(_, tools)| !tools.is_empty()).collect();
    for (source, _) in &offers {
        let command = Command::RegisterTools { source: (*source).clone(), tools: Vec::new() };
        supervisor.command(session, command).await?;
    }
    // New calls are impossible now; the earlier ones are in this snapshot.
    let is_theirs = |name: &str| offers.iter().any(|(_, tools)| tools.iter().any(|tool| tool.name == name));
    let snapshot = supervisor.snapshot(session).await?;
    for pending in snapshot.state.requests.values() {
        if matches!(&pending.ask, RequestSubject::ClientTool { tool, .. } if is_theirs(tool)) {
            let (ok, by) = (false, "obey".to_owned());
            let output = "the client that runs this tool has left".to_owned();
            let command = Command::ReturnTool { request: pending.id, ok, output, by };
            supervisor.command(session, command).await?;
        }
    }
    Ok(())
}
