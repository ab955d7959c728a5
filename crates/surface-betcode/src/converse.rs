//! `Converse`: one client's conversation with one session. Two halves run concurrently: the client's messages
//! become commands, and the journal becomes events for the client. After the client has closed its half, it
//! still receives the running turn to its end.

mod feed;
mod start;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use domain::{Command, Error, ErrorCode, RequestId, SessionId};
use host::clock;
use runtime::Snapshot;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status, Streaming};
use wire::betcode::v1 as pb;
use wire::betcode::v1::agent_event::Event as Body;
use wire::betcode::v1::agent_request::Request as Said;

use super::presence::BetcodeClient;
use super::to_wire::{self, Severity};
use super::{Betcode, from_wire};
use feed::ConverseFeed;
use surface::client_key::client_key;
use surface::pump::Messages;

impl Betcode {
    /// Opens the stream of a conversation; a separate task serves it.
    pub(super) fn conversation(
        &self,
        request: Request<Streaming<pb::AgentRequest>>,
    ) -> Result<Messages<pb::AgentEvent>, Error> {
        let client = BetcodeClient::of(&request)?;
        let key = StreamKey::new(client_key(request.metadata()));
        let (sender, receiver) = mpsc::channel(surface::limits::STREAM_READY_MAX);
        let betcode = self.clone();
        tokio::spawn(betcode.converse(client, key, request.into_inner(), ConverseSender { sender }));
        Ok(Box::pin(ReceiverStream::new(receiver)))
    }

    /// Runs a conversation to its end and reports errors to the client.
    async fn converse(
        self,
        mut client: BetcodeClient,
        key: StreamKey,
        mut inbound: Streaming<pb::AgentRequest>,
        line: ConverseSender,
    ) {
        let start = match inbound.message().await {
            Ok(Some(pb::AgentRequest { request: Some(Said::Start(start)) })) => start,
            Ok(Some(_)) => {
                let error = Error::invalid("start", "must be the first message of a conversation");
                return line.fail(&error).await;
            }
            Ok(None) => return,
            Err(status) => return line.fail(&unreadable(&status)).await,
        };
        let opened = match from_wire::start(start) {
            Ok(start) => {
                if let Some(name) = start.client.clone() {
                    client.rename(name);
                }
                self.open(start, &client, &key.key).await
            }
            Err(error) => Err(error),
        };
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => return line.fail(&error).await,
        };
        let session = opened.snapshot.spec.id.clone();
        let attachment = self.attach(&session, &client);
        let info = to_wire::session_info(&opened.snapshot, &opened.worktree_id, opened.is_resumed);
        if line.send(to_wire::unnumbered(clock::now(), info)).await.is_err() {
            return;
        }
        if let Err(error) = self.settle_lock(&session).await {
            return line.fail(&error).await;
        }
        let talk = ConverseStream { betcode: self.clone(), client, key, session, line };
        talk.run(inbound, &opened, attachment.ending.clone()).await;
    }
}

/// A conversation that has been opened.
struct OpenedConversation {
    snapshot: Arc<Snapshot>,
    worktree_id: String,
    /// The last event the client has.
    after: u64,
    is_resumed: bool,
}

/// The sending side of a client's stream.
#[derive(Clone)]
struct ConverseSender {
    sender: mpsc::Sender<Result<pb::AgentEvent, Status>>,
}

/// The client is gone.
struct ConverseClientGone;

impl ConverseSender {
    async fn send(&self, event: pb::AgentEvent) -> Result<(), ConverseClientGone> {
        self.sender.send(Ok(event)).await.map_err(|_| ConverseClientGone)
    }

    async fn send_body(&self, body: Body) -> Result<(), ConverseClientGone> {
        self.send(to_wire::unnumbered(clock::now(), body)).await
    }

    /// Reports an error; the conversation continues.
    async fn refuse(&self, error: &Error) -> Result<(), ConverseClientGone> {
        log(error);
        self.send_body(to_wire::error(error, Severity::Inline)).await
    }

    /// Reports the error that ends the conversation.
    async fn fail(&self, error: &Error) {
        log(error);
        // A client that is gone needs no reason.
        let _ = self.send_body(to_wire::error(error, Severity::Fatal)).await;
    }

    async fn hung_up(&self) {
        self.sender.closed().await;
    }
}

fn log(error: &Error) {
    if let Some(detail) = &error.detail {
        tracing::warn!(code = %error.code, message = error.message, detail, "answering with an error");
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

/// The key by which a client makes the start and the messages of a stream take effect once.
struct StreamKey {
    /// Empty: it has none.
    key: String,
    /// Messages so far.
    messages: AtomicU64,
}

impl StreamKey {
    fn new(key: String) -> Self {
        Self { key, messages: AtomicU64::new(0) }
    }

    /// Returns the key of the next message: that of the stream, with the message's number.
    fn of_message(&self) -> String {
        let number = self.messages.fetch_add(1, Ordering::Relaxed) + 1;
        if self.key.is_empty() { String::new() } else { format!("{}/{number}", self.key) }
    }
}

/// A running conversation.
struct ConverseStream {
    betcode: Betcode,
    client: BetcodeClient,
    key: StreamKey,
    session: SessionId,
    line: ConverseSender,
}

impl ConverseStream {
    /// Handles the client's messages until it closes its half, fails, or the feed ends.
    async fn run(
        self,
        mut inbound: Streaming<pb::AgentRequest>,
        opened: &OpenedConversation,
        ending: watch::Receiver<Option<Error>>,
    ) {
        let (last_word, is_last_word) = watch::channel(false);
        let feed = ConverseFeed::new(&self, opened, is_last_word, ending);
        let mut feed = tokio::spawn(feed.run());
        loop {
            let said = tokio::select! {
                said = inbound.message() => said,
                // The feed ends when the client is gone, or its session, its worktree or the daemon.
                _ = &mut feed => return,
            };
            let answered = match said {
                Ok(Some(request)) => self.handle_message(request).await,
                Ok(None) => break,
                Err(status) => {
                    self.line.fail(&unreadable(&status)).await;
                    feed.abort();
                    return;
                }
            };
            if answered.is_err() {
                feed.abort();
                return;
            }
        }
        last_word.send_replace(true);
        tokio::select! {
            // `await` fails only if the task panicked; then there is nothing left to send.
            _ = &mut feed => {}
            () = self.line.hung_up() => feed.abort(),
        }
    }

    /// Executes a message of the client; a failed message is reported and changes nothing else.
    async fn handle_message(&self, request: pb::AgentRequest) -> Result<(), ConverseClientGone> {
        let done = match request.request {
            Some(Said::Message(message)) => self.prompt(message).await,
            Some(Said::Permission(response)) => self.decide(response).await,
            Some(Said::QuestionResponse(response)) => self.answer(response).await,
            Some(Said::Cancel(_)) => self.cancel().await,
            Some(Said::Start(_)) => {
                Err(Error::invalid("start", "was sent already; open another stream for another session"))
            }
            None => Err(Error::invalid("request", "is empty")),
        };
        match done {
            Ok(()) => Ok(()),
            Err(error) => self.line.refuse(&error).await,
        }
    }

    async fn command(&self, command: Command) -> Result<runtime::Applied, Error> {
        self.betcode.supervisor.command(&self.session, command).await
    }

    /// Sends a prompt, which only the client that holds the input may do.
    async fn prompt(&self, message: pb::UserMessage) -> Result<(), Error> {
        self.betcode.require_lock(&self.session, &self.client).await?;
        if !message.agent_id.is_empty() {
            return self.prompt_worker(message).await;
        }
        let prompt = from_wire::prompt(message, &self.client.signature())?;
        self.betcode.check_length(&self.session).await?;
        let key = self.key.of_message();
        self.betcode.supervisor.command_once(&self.session, prompt, &key).await.map(drop)
    }

    /// Sends a message to a worker of the session.
    async fn prompt_worker(&self, message: pb::UserMessage) -> Result<(), Error> {
        if !message.attachments.is_empty() {
            return Err(Error::invalid("message.attachments", "cannot be sent to a worker; leave them out"));
        }
        let workers = self.betcode.workers();
        let found =
            workers.find(&message.agent_id, Some(&self.session)).await.map_err(|error| {
                match error.message.strip_prefix("subagent_id: ") {
                    Some(what) => Error::invalid("message.agent_id", what),
                    None => error,
                }
            })?;
        workers.send(&found.record.session, message.content, self.client.signature()).await
    }

    async fn cancel(&self) -> Result<(), Error> {
        self.command(Command::CancelTurn).await.map(drop)
    }

    /// Answers a permission request. A repeated identical answer is accepted; a different one is an error.
    async fn decide(&self, response: pb::PermissionResponse) -> Result<(), Error> {
        let (request, command) = from_wire::decision(response, &self.client.answer_signature()?)?;
        let meant = if let Command::Decide { decision, .. } = &command { Some(*decision) } else { None };
        let applied = self.command(command).await?;
        if !applied.events.is_empty() {
            return Ok(());
        }
        let snapshot = self.betcode.supervisor.snapshot(&self.session).await?;
        let settled = snapshot.state.settled_request(request);
        let same = settled.is_some_and(|settled| match &settled.outcome {
            domain::request::RequestOutcome::Decided { decision } => Some(*decision) == meant,
            _ => false,
        });
        // The same decision twice is not an error: a response may be lost and sent again.
        if same { Ok(()) } else { Err(stale(&snapshot, request)) }
    }

    /// Answers the questions of a request.
    async fn answer(&self, response: pb::UserQuestionResponse) -> Result<(), Error> {
        let snapshot = self.betcode.supervisor.snapshot(&self.session).await?;
        let id = RequestId::parse(&response.question_id);
        let ask = id.and_then(|id| snapshot.state.requests.get(&id)).map(|pending| &pending.ask);
        let (request, command) = from_wire::answers(response, ask, &self.client.answer_signature()?)?;
        let applied = self.command(command).await?;
        if applied.events.is_empty() {
            let snapshot = self.betcode.supervisor.snapshot(&self.session).await?;
            return Err(stale(&snapshot, request));
        }
        Ok(())
    }
}

/// The error for an answer to a request that is already settled.
fn stale(snapshot: &Snapshot, request: RequestId) -> Error {
    let how = snapshot
        .state
        .settled_request(request)
        .map_or_else(String::new, |settled| format!(": {} by {}", settled.outcome.word(), settled.by));
    Error::new(ErrorCode::WrongState, format!("{request} is settled already{how}"))
}
