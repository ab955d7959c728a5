//! Handles a client's messages once its session runs. A failed message is reported under the published code
//! and changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use domain::event::{Attachment, ClientTool};
use domain::request::RequestSubject;
use domain::tools::TURN_SOURCE;
use domain::{Command, Decision, Error, ErrorCode, EventKind, RequestId, SessionId, StopMode, WhenBusy};
use runtime::{Snapshot, Supervisor};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use wire::roz::v1 as pb;
use wire::roz::v1::session_request::Request as Said;
use wire::roz::v1::session_response::Response as Body;

use super::{RozClientGone, RozSender, StartedSession};
use crate::limits;
use crate::{from_wire, to_wire};
use surface::peer::Signer;
use surface::shorten;

/// The source of a start's tools, the input holder, and the author of everything that is not a message.
pub(super) const SOURCE: &str = "roz";

/// The instruction for an agent in the observe-orient-decide-act mode.
const OODA: &str = "Work in cycles: observe with the tools that only look, orient, decide on one action, act, and \
                    observe again before the next one.";

/// Whether tools of this source belong to a client of this surface.
pub(super) fn is_ours(source: &str) -> bool {
    source == TURN_SOURCE
        || source.strip_prefix(SOURCE).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The key by which a client makes the start and the messages of a stream take effect once.
pub(super) struct StreamKey {
    /// Empty: it has none.
    pub(super) key: String,
    /// Messages so far.
    pub(super) messages: u64,
}

impl StreamKey {
    /// Returns the key of the next message: that of the stream, with the message's number.
    fn of_message(&mut self) -> String {
        self.messages += 1;
        if self.key.is_empty() { String::new() } else { format!("{}/{}", self.key, self.messages) }
    }
}

/// The incoming half of a running session.
pub(super) struct RozStream {
    supervisor: Supervisor,
    session: SessionId,
    line: RozSender,
    signer: Signer,
    key: StreamKey,
    /// What the next message brings along and nothing has taken yet.
    past: Vec<Attachment>,
    takes_system_messages: bool,
    system_context: Option<String>,
    /// The task that sends a message to the agent.
    sending: Option<JoinHandle<()>>,
    /// Tells that task not to wait any longer.
    hurry: Arc<Notify>,
}

impl RozStream {
    pub(super) fn new(
        supervisor: Supervisor,
        opened: &StartedSession,
        line: RozSender,
        signer: Signer,
        key: StreamKey,
    ) -> Self {
        Self {
            supervisor,
            session: opened.snapshot.spec.id.clone(),
            line,
            signer,
            key,
            past: opened.past.clone(),
            takes_system_messages: opened.takes_system_messages,
            system_context: None,
            sending: None,
            hurry: Arc::default(),
        }
    }

    /// Executes a message of the client.
    pub(super) async fn handle_message(&mut self, request: pb::SessionRequest) -> Result<(), RozClientGone> {
        let done = match request.request {
            Some(Said::Start(_)) => {
                return self.refuse("already_started", "the session has started already").await;
            }
            Some(Said::Ping(_)) => return self.line.send_body(Body::Pong(pb::Pong {})).await,
            Some(Said::UserMessage(message)) => return self.message(message).await,
            Some(Said::ToolResult(result)) => return self.tool_result(result).await,
            Some(Said::CancelTurn(cancel)) => return self.cancel_turn(&cancel.reason).await,
            Some(Said::CancelSession(cancel)) => self.cancel_session(cancel).await,
            Some(Said::Feedback(feedback)) => self.feedback(feedback).await,
            Some(Said::PermissionDecision(decision)) => self.decide(decision).await,
            Some(Said::RegisterTools(tools)) => self.register(tools).await,
            None => Err(Error::invalid("request", "is empty")),
        };
        match done {
            Ok(()) => Ok(()),
            Err(error) => self.line.send_body(to_wire::failure(&error)).await,
        }
    }

    /// Waits until the last message has reached the session.
    pub(super) async fn settle(&mut self) {
        if let Some(sending) = self.sending.take() {
            // `await` fails only if the task panicked; then there is nothing to wait for.
            let _ = sending.await;
        }
    }

    async fn refuse(&self, code: &str, message: &str) -> Result<(), RozClientGone> {
        self.line.send_body(to_wire::error(code, message, false)).await
    }

    async fn snapshot(&self) -> Result<Arc<Snapshot>, Error> {
        self.supervisor.snapshot(&self.session).await
    }

    async fn command(&self, command: Command) -> Result<(), Error> {
        self.supervisor.command(&self.session, command).await.map(drop)
    }

    /// Sends a prompt, unless a turn is running or another prompt is being sent.
    async fn message(&mut self, message: pb::UserMessage) -> Result<(), RozClientGone> {
        let busy = self.sending.as_ref().is_some_and(|sending| !sending.is_finished());
        let in_turn = self.snapshot().await.is_ok_and(|snapshot| snapshot.state.turn.is_some());
        let key = self.key.of_message();
        // A repeated message finds the turn that it began.
        if busy || (in_turn && key.is_empty()) {
            return self
                .refuse("turn_in_progress", "a turn is in progress; wait for its end or cancel it")
                .await;
        }
        let prompt = match self.read(message) {
            Ok(prompt) => prompt,
            Err(error) => return self.line.send_body(to_wire::failure(&error)).await,
        };
        self.past.clear();
        self.system_context = None;
        let (supervisor, session, line) = (self.supervisor.clone(), self.session.clone(), self.line.clone());
        self.hurry = Arc::default();
        let hurry = Arc::clone(&self.hurry);
        // In a separate task: the agent may need time to read its tools, and further messages are handled
        // meanwhile.
        self.sending = Some(tokio::spawn(async move {
            if let Err(error) = prompt.send(&supervisor, &session, &hurry, &key).await {
                let body = match error.code {
                    ErrorCode::WrongState => to_wire::error("turn_in_progress", error.to_string(), false),
                    _ => to_wire::failure(&error),
                };
                // A client that is gone needs no answer.
                let _ = line.send_body(body).await;
            }
        }));
        Ok(())
    }

    /// Validates a prompt and collects its attachments: history, mode, system context, and the client's
    /// files.
    fn read(&self, message: pb::UserMessage) -> Result<RozPrompt, Error> {
        let id = from_wire::message_id(message.message_id)?;
        if message.content.trim().is_empty() && message.context.is_empty() {
            return Err(Error::invalid("content", "is required"));
        }
        from_wire::content(&message.content)?;
        let mut files = self.past.clone();
        let instruct = if self.takes_system_messages { from_wire::system_text } else { from_wire::text_file };
        if from_wire::is_ooda(message.ai_mode.as_deref()) {
            files.push(instruct("mode", OODA));
        }
        let given = message.system_context.filter(|context| !context.is_empty());
        if let Some(context) = given.or_else(|| self.system_context.clone()) {
            files.push(instruct("system_context", &context));
        }
        files.extend(from_wire::context(message.context)?);
        from_wire::check_size(&files)?;
        let tools = from_wire::tools(&message.tools)?;
        Ok(RozPrompt { id: id.unwrap_or_else(own_id), text: message.content, files, tools })
    }

    /// Returns the result of a tool that the client ran. A result that no call waits for is ignored.
    async fn tool_result(&self, result: pb::ToolResult) -> Result<(), RozClientGone> {
        let Ok(snapshot) = self.snapshot().await else { return Ok(()) };
        let state = &snapshot.state;
        let waiting = state.requests.values().find(|pending| match &pending.ask {
            RequestSubject::ClientTool { call, .. } => call.as_str() == result.tool_call_id,
            _ => false,
        });
        let Some(pending) = waiting else {
            if state.turn.is_none() {
                return self.refuse("no_active_turn", "no turn is active; the result is ignored").await;
            }
            tracing::debug!(session = %self.session, call = result.tool_call_id, "a result nobody waits for");
            return Ok(());
        };
        let (ok, output) = from_wire::result(&result);
        let command = Command::ReturnTool { request: pending.id, ok, output, by: SOURCE.to_owned() };
        match self.command(command).await {
            // The request was settled first, by its timeout or by the end of the turn.
            Err(error) if error.code == ErrorCode::RequestNotFound => Ok(()),
            Err(error) => self.line.send_body(to_wire::failure(&error)).await,
            Ok(()) => Ok(()),
        }
    }

    /// Cancels the current turn, including a prompt that is still being sent.
    async fn cancel_turn(&mut self, reason: &str) -> Result<(), RozClientGone> {
        self.hurry.notify_one();
        self.settle().await;
        let open = self.snapshot().await.is_ok_and(|snapshot| snapshot.state.turn.is_some());
        if !open {
            return self.refuse("no_active_turn", "no turn is active").await;
        }
        let cancelled = async {
            if !reason.is_empty() {
                self.note_reason("the client cancelled the turn", reason).await?;
            }
            self.command(Command::CancelTurn).await
        };
        match cancelled.await {
            Ok(()) => Ok(()),
            Err(error) => self.line.send_body(to_wire::failure(&error)).await,
        }
    }

    /// Cancels the turn and stops the session; the feed then ends the stream.
    async fn cancel_session(&mut self, cancel: pb::CancelSession) -> Result<(), Error> {
        self.hurry.notify_one();
        self.settle().await;
        let reason = if cancel.reason.is_empty() { "no reason given".to_owned() } else { cancel.reason };
        self.note_reason("the client cancelled the session", &reason).await?;
        self.command(Command::CancelTurn).await?;
        let (supervisor, session) = (self.supervisor.clone(), self.session.clone());
        tokio::spawn(async move {
            if let Err(error) = supervisor.stop(&session, StopMode::Graceful).await {
                tracing::debug!(%session, %error, "a cancelled session was ended already, or by force");
            }
        });
        Ok(())
    }

    /// Records in the journal what a client did and why.
    async fn note_reason(&self, what: &str, reason: &str) -> Result<(), Error> {
        let message = format!("{what}: {}", shorten::text(reason, limits::REASON_MAX_BYTES));
        let level = domain::event::Level::Info;
        self.command(Command::Report(EventKind::Notice { level, code: None, message })).await
    }

    /// Records the rating of a message in the journal.
    async fn feedback(&self, feedback: pb::MessageFeedback) -> Result<(), Error> {
        if !feedback.session_id.is_empty() && feedback.session_id != self.session.as_str() {
            return Err(Error::invalid("feedback.session_id", "is not the session of this stream"));
        }
        if !["up", "down"].contains(&feedback.rating.as_str()) {
            return Err(Error::invalid("feedback.rating", "must be up or down"));
        }
        let id = from_wire::message_id(Some(feedback.message_id))?;
        let id = id.ok_or_else(|| Error::invalid("feedback.message_id", "is required"))?;
        let report = EventKind::ActivityReported {
            activity: "feedback".to_owned(),
            agent_name: SOURCE.to_owned(),
            content: feedback.rating.clone(),
            tool: String::new(),
            call: String::new(),
            ok: feedback.rating == "up",
            tokens_input: 0,
            tokens_output: 0,
            extra: BTreeMap::from([("message_id".to_owned(), id), ("rating".to_owned(), feedback.rating)]),
        };
        self.command(Command::Report(report)).await
    }

    /// Answers a permission request. A decision that no request waits for is ignored.
    async fn decide(&self, decision: pb::PermissionDecision) -> Result<(), Error> {
        let snapshot = self.snapshot().await?;
        let Some((request, tool)) = waiting_permission(&snapshot, &decision.tool_call_id) else {
            tracing::debug!(session = %self.session, call = decision.tool_call_id, "a decision nobody waits for");
            return Ok(());
        };
        let (decision, message) = if decision.approved {
            (Decision::AllowOnce, String::new())
        } else {
            (Decision::Deny, format!("Permission denied by user for: {tool}"))
        };
        let by = self.signer.sign_answer(SOURCE.to_owned())?;
        self.command(Command::Decide { request, decision, message, updated_input: None, grant: None, by })
            .await
    }

    /// Replaces the tools of a source.
    async fn register(&mut self, register: pb::RegisterTools) -> Result<(), Error> {
        let tools = from_wire::tools(&register.tools)?;
        let context = register.system_context.filter(|context| !context.is_empty());
        // The context goes with a later message; an oversized one is better rejected now.
        from_wire::check_size(
            &context.iter().map(|text| from_wire::text_file("", text)).collect::<Vec<_>>(),
        )?;
        let source = register.source.filter(|source| !source.is_empty());
        if source.as_ref().is_some_and(|source| source.chars().count() > domain::limits::NAME_MAX_CHARS) {
            return Err(Error::invalid("source", "is too long"));
        }
        let snapshot = self.snapshot().await?;
        let command = |source: String, tools| Command::RegisterTools { source, tools };
        match source {
            Some(source) => {
                let prefix = format!("{source}__");
                let own = format!("{SOURCE}/{source}");
                for (other, offered) in snapshot.state.tools.iter().filter(|(other, _)| **other != own) {
                    let kept: Vec<ClientTool> =
                        offered.iter().filter(|tool| !tool.name.starts_with(&prefix)).cloned().collect();
                    if kept.len() < offered.len() && is_ours(other) {
                        self.command(command(other.clone(), kept)).await?;
                    }
                }
                self.command(command(own, tools)).await?;
            }
            None => {
                // Without a source they are added to the tools of the start; the newest tool of a name wins.
                let mut all = snapshot.state.tools.get(SOURCE).cloned().unwrap_or_default();
                all.retain(|known| !tools.iter().any(|tool| tool.name == known.name));
                let all = if tools.is_empty() { tools } else { all.into_iter().chain(tools).collect() };
                self.command(command(SOURCE.to_owned(), all)).await?;
            }
        }
        if let Some(context) = context {
            self.system_context = Some(context);
        }
        Ok(())
    }
}

/// Finds the permission that a client means by the id of its call, or of the request itself.
pub(crate) fn waiting_permission(snapshot: &Snapshot, id: &str) -> Option<(RequestId, String)> {
    snapshot.state.requests.values().find_map(|pending| {
        let permission = pending.ask.permission()?;
        let named = permission.call.as_ref().is_some_and(|call| call.as_str() == id);
        (named || pending.id.to_string() == id).then(|| (pending.id, permission.tool.clone()))
    })
}

/// A message that will become a turn.
struct RozPrompt {
    id: String,
    text: String,
    files: Vec<Attachment>,
    tools: Vec<ClientTool>,
}

impl RozPrompt {
    /// Registers the tools of the turn, waits until the agent has read them, and sends the prompt.
    async fn send(
        self,
        supervisor: &Supervisor,
        session: &SessionId,
        hurry: &Notify,
        client_key: &str,
    ) -> Result<(), Error> {
        let only_now = !self.tools.is_empty();
        let offer = |tools| Command::RegisterTools { source: TURN_SOURCE.to_owned(), tools };
        if only_now {
            supervisor.command(session, offer(self.tools)).await?;
        }
        let snapshot = supervisor.snapshot(session).await?;
        // An agent cannot call a tool it has not read. In-process agents and the scripted one get the tools
        // directly.
        let provider = supervisor.providers().get(snapshot.spec.provider)?;
        let bridged = provider.capabilities().process
            && snapshot.spec.provider != domain::ProviderKind::Scripted
            && snapshot.state.tools.values().any(|tools| !tools.is_empty());
        if bridged {
            let (revision, late) = (snapshot.state.tools_revision, provider.reads_tools_with_a_turn());
            let knows = tokio::select! {
                knows = supervisor.bridges().knows(session, revision, late) => knows,
                () = hurry.notified() => false,
            };
            if !knows {
                tracing::warn!(%session, "the agent has not read its tools; it is told to go on all the same");
            }
        }
        let command = Command::Prompt {
            text: self.text,
            attachments: self.files,
            when_busy: WhenBusy::Refuse,
            by: to_wire::signature(&self.id),
        };
        let sent = supervisor.command_once(session, command, client_key).await;
        if sent.is_err() && only_now {
            // No turn starts, so no end of a turn would remove them.
            supervisor.command(session, offer(Vec::new())).await?;
        }
        sent.map(drop)
    }
}

/// Returns an id for a message without one.
fn own_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let now = host::clock::now().0;
    format!("msg_{now:x}_{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
