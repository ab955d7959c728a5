//! One session as one client has it open: handles the client's messages in order. Prompts become commands;
//! their answers follow from the journal and are sent by the feed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::turn::COMPACT;
use domain::{Command, EventKind, LaunchPolicy, SessionId, Status, StopMode, TurnId, WhenBusy};
use runtime::Snapshot;
use serde_json::{Value, json};
use tokio::sync::{Mutex, Notify, OwnedSemaphorePermit, mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle};

use super::connection::ConnectionContext;
use super::editor_tools;
use super::feed::{AcpFeed, FeedStart, SentPast};
use super::from_wire;
use super::presence::SessionHold;
use super::resume_state::{self, NoteWriter as _, NotedPrompt};
use super::rpc::{INTERNAL_ERROR, INVALID_REQUEST, RpcError, RpcId};
use super::to_wire;
use super::watch::TurnWatch;
use crate::limits;

/// The stop reason of a prompt that its client has cancelled.
const CANCELLED: &str = "cancelled";

/// A message of a client to a session.
pub(super) enum ClientMessage {
    Prompt { rpc: RpcId, blocks: Vec<Value>, key: String },
    Cancel { line: u64 },
    SetMode { rpc: RpcId, mode: String, as_option: bool },
    SetModel { rpc: RpcId, model: String, as_option: bool },
}

/// A prompt of this client that is not answered yet.
pub(super) struct OpenPrompt {
    pub(super) turn: TurnId,
    pub(super) rpc: RpcId,
    /// The stop reason, if the client or we ended the turn.
    pub(super) ends_as: Option<&'static str>,
    /// The size of the notify file when it was sent.
    pub(super) notify_from: Option<u64>,
}

impl OpenPrompt {
    /// Returns the prompt as a note.
    pub(super) fn noted(&self) -> NotedPrompt {
        NotedPrompt {
            turn: self.turn,
            rpc: self.rpc.to_json(),
            ends_as: self.ends_as.map(str::to_owned),
            notify_from: self.notify_from,
        }
    }
}

/// State shared by both halves of a session stream.
pub(super) struct SessionStreamState {
    pub(super) id: SessionId,
    /// Held while a prompt is being sent, so that the feed never sees a turn it cannot attribute.
    pub(super) open: Mutex<Option<OpenPrompt>>,
    /// A prompt was sent and the client does not have its answer yet.
    pub(super) is_busy: AtomicBool,
    /// The client has cancelled that prompt.
    is_cancelled: AtomicBool,
    /// Further messages of the client are answered but not executed.
    is_closing: AtomicBool,
    /// This connection started the agent.
    owns: AtomicBool,
    /// A prompt in the journal whose acceptance a previous daemon could not note. Its line is replayed once.
    adopted: Mutex<Option<RpcId>>,
    /// Settings changed without an event.
    pub(super) resettle: Notify,
    /// A prompt was answered.
    pub(super) answered: Notify,
    /// Counts the events of the session.
    pub(super) heard: watch::Sender<u64>,
}

impl SessionStreamState {
    /// Waits until the pending prompt is answered, or there is another reason to go on.
    async fn answered_or(&self, goes_on: impl Fn() -> bool) {
        loop {
            let mut answered = std::pin::pin!(self.answered.notified());
            // From here on no notification is missed.
            answered.as_mut().enable();
            if !self.is_busy.load(Ordering::Relaxed) || goes_on() {
                return;
            }
            answered.await;
        }
    }

    /// Waits for the answer to a prompt that was cancelled: a client need not wait for it before it sends the next one.
    async fn cancelled_is_answered(&self) {
        let goes_on =
            || self.is_closing.load(Ordering::Relaxed) || !self.is_cancelled.load(Ordering::Relaxed);
        self.answered_or(goes_on).await;
    }
}

/// What a stream takes over from a previous daemon.
#[derive(Default)]
pub(super) struct ResumedStream {
    pub(super) told: SentPast,
    pub(super) owns: bool,
    pub(super) open: Option<OpenPrompt>,
    pub(super) adopted: Option<RpcId>,
}

/// An open session. Dropping it ends both halves.
pub(super) struct SessionStream {
    said: Option<mpsc::Sender<ClientMessage>>,
    shared: Arc<SessionStreamState>,
    feeding: AbortHandle,
    listening: JoinHandle<()>,
    room: Option<OwnedSemaphorePermit>,
    here: SessionHold,
}

impl SessionStream {
    /// Opens a session for a client.
    pub(super) fn open(
        core: &Arc<ConnectionContext>,
        snapshot: &Snapshot,
        room: OwnedSemaphorePermit,
        beginning: FeedStart,
        past: ResumedStream,
    ) -> Self {
        let (said, heard) = mpsc::channel(limits::ACP_SAID_AHEAD_MAX);
        let shared = Arc::new(SessionStreamState {
            id: snapshot.spec.id.clone(),
            is_busy: AtomicBool::new(past.open.is_some()),
            is_cancelled: AtomicBool::new(
                past.open.as_ref().is_some_and(|open| open.ends_as == Some(CANCELLED)),
            ),
            open: Mutex::new(past.open),
            is_closing: AtomicBool::new(false),
            owns: AtomicBool::new(past.owns),
            adopted: Mutex::new(past.adopted),
            resettle: Notify::new(),
            answered: Notify::new(),
            heard: watch::Sender::new(0),
        });
        let feed = AcpFeed::new(core, &shared, snapshot, beginning, past.told);
        let listening = listen(Arc::clone(core), Arc::clone(&shared), heard);
        let (feeding, listening) = (tokio::spawn(feed.run()).abort_handle(), tokio::spawn(listening));
        let here = core.presence.enter(&snapshot.spec.id);
        Self { said: Some(said), shared, feeding, listening, room: Some(room), here }
    }

    /// Watches a turn that a previous daemon started.
    pub(super) fn watch_again(&self, core: &Arc<ConnectionContext>, watch: TurnWatch, turn: TurnId) {
        tokio::spawn(watch.run(Arc::clone(core), Arc::clone(&self.shared), turn));
    }

    pub(super) fn id(&self) -> &SessionId {
        &self.shared.id
    }

    /// Queues a message of the client; fails if the queue is full.
    pub(super) fn submit(&self, said: ClientMessage) -> Result<(), RpcError> {
        let sent = self.said.as_ref().map(|sender| sender.try_send(said));
        match sent {
            Some(Ok(())) => Ok(()),
            _ => {
                let most = limits::ACP_SAID_AHEAD_MAX;
                Err(RpcError::new(INTERNAL_ERROR, format!("{most} requests of this session wait already")))
            }
        }
    }

    /// Cancels the running turn, after everything that was queued before. Returns false if the queue is full:
    /// prompts are then refused too, so there is nothing to cancel.
    pub(super) fn cancel(&self, line: u64) -> bool {
        self.submit(ClientMessage::Cancel { line }).is_ok()
    }

    /// Whether this request is the pending prompt.
    pub(super) fn is_prompt(&self, rpc: &RpcId) -> bool {
        // While a prompt is being sent, the client cannot know its turn yet.
        self.shared.open.try_lock().is_ok_and(|open| open.as_ref().is_some_and(|open| open.rpc == *rpc))
    }

    pub(super) fn is_busy(&self) -> bool {
        self.shared.is_busy.load(Ordering::Relaxed)
    }

    /// Whether the agent runs only for this connection.
    pub(super) fn is_ours_alone(&self) -> bool {
        self.shared.owns.load(Ordering::Relaxed) && self.here.is_alone()
    }

    /// Stops reading the client's messages and sets the stop reason of a pending prompt. Waits for a prompt
    /// that is being sent: no agent may start after all clients have left.
    async fn hush(&self, reason: &'static str) {
        let mut open = self.shared.open.lock().await;
        if let Some(open) = open.as_mut() {
            open.ends_as = Some(reason);
        }
        self.listening.abort();
    }

    /// Like `hush`, for a client that is still connected: messages already queued are answered, but not
    /// executed.
    pub(super) async fn conclude(&mut self, reason: &'static str) {
        {
            let mut open = self.shared.open.lock().await;
            if let Some(open) = open.as_mut() {
                open.ends_as = Some(reason);
            }
            self.shared.is_closing.store(true, Ordering::Relaxed);
        }
        // A prompt that waits for the end of a cancelled one is not sent any more.
        self.shared.answered.notify_waiters();
        self.said = None;
        // `await` fails only if the task panicked; then nothing is left to answer.
        let _broken = (&mut self.listening).await;
    }

    /// The same for a client that may not read any more: what cannot be answered in time is dropped.
    pub(super) async fn conclude_or_hush(&mut self, reason: &'static str) {
        let concluded = tokio::time::timeout(limits::ACP_LAST_ANSWERS_WAIT, self.conclude(reason)).await;
        if concluded.is_err() {
            self.hush(reason).await;
        }
    }

    /// Handles the messages that are queued, and takes no more.
    pub(super) async fn finish(&mut self) {
        self.said = None;
        // What takes longer is dropped, as for a client that does not read its answers.
        let _late = tokio::time::timeout(limits::ACP_LAST_ANSWERS_WAIT, &mut self.listening).await;
    }

    /// Waits shortly until no prompt is pending. Its session has already ended.
    pub(super) async fn settle(&self) {
        let settled = self.shared.answered_or(|| false);
        let _late = tokio::time::timeout(limits::ACP_POLLING_INTERVAL * 10, settled).await;
    }

    /// Closes the stream and returns its permit.
    pub(super) fn leave(mut self) -> Option<OwnedSemaphorePermit> {
        self.room.take()
    }
}

impl Drop for SessionStream {
    fn drop(&mut self) {
        self.feeding.abort();
        self.listening.abort();
    }
}

/// Handles the messages of the client in order.
async fn listen(
    core: Arc<ConnectionContext>,
    shared: Arc<SessionStreamState>,
    mut heard: mpsc::Receiver<ClientMessage>,
) {
    while let Some(said) = heard.recv().await {
        if matches!(said, ClientMessage::Prompt { .. }) {
            shared.cancelled_is_answered().await;
        }
        let is_closing = shared.is_closing.load(Ordering::Relaxed);
        let closed = || RpcError::new(INVALID_REQUEST, format!("session {} is being closed", shared.id));
        match said {
            ClientMessage::Prompt { rpc, .. } if is_closing => {
                core.answer(&rpc, Ok(json!({"stopReason": "cancelled"}))).await;
            }
            ClientMessage::SetMode { rpc, .. } | ClientMessage::SetModel { rpc, .. } if is_closing => {
                core.answer(&rpc, Err(closed())).await;
            }
            ClientMessage::Prompt { rpc, blocks, key } => {
                if let Err(fault) = core.prompt(&shared, &rpc, &blocks, &key).await {
                    core.answer(&rpc, Err(fault)).await;
                }
            }
            ClientMessage::Cancel { line } => {
                if !is_closing {
                    core.cancel(&shared).await;
                }
                core.out.done([line]);
            }
            ClientMessage::SetMode { rpc, mode, as_option } => {
                let done = core.set_mode(&shared, &mode).await;
                core.answer_setting(&shared, &rpc, done, as_option).await;
            }
            ClientMessage::SetModel { rpc, model, as_option } => {
                let done = core.set_model(&shared, &model).await;
                core.answer_setting(&shared, &rpc, done, as_option).await;
            }
        }
    }
}

impl ConnectionContext {
    /// Sends a prompt. Its answer follows at the end of the turn.
    async fn prompt(
        self: &Arc<Self>,
        shared: &Arc<SessionStreamState>,
        rpc: &RpcId,
        blocks: &[Value],
        client_key: &str,
    ) -> Result<(), RpcError> {
        if shared.adopted.lock().await.take_if(|adopted| adopted == rpc).is_some() {
            // The session already has it, and its answer follows from the journal.
            self.out.note_taken(rpc, |_| {});
            return Ok(());
        }
        let mut open = shared.open.lock().await;
        // A repeated prompt may be the one that it is busy with.
        if open.is_some() || (client_key.is_empty() && shared.is_busy.load(Ordering::Relaxed)) {
            let message = format!("session {} is busy with a prompt; cancel it first", shared.id);
            return Err(RpcError::new(INVALID_REQUEST, message));
        }
        let snapshot = self.ready(&shared.id).await?;
        let provider = self.supervisor.providers().get(snapshot.spec.provider);
        let takes_files = provider.is_ok_and(|provider| provider.capabilities().attachments);
        let said = from_wire::content(blocks, takes_files)?;
        self.offer_tools(&snapshot).await?;
        let watch = TurnWatch::begin(&self.defaults, &said.text, None);
        let brings_to_life = !snapshot.state.status.has_agent();
        let command = if said.text.trim() == COMPACT && said.attachments.is_empty() && !brings_to_life {
            Command::Compact
        } else {
            let (text, attachments) = (said.text, said.attachments);
            let by = resume_state::signed(&self.by(), &self.connection, rpc);
            Command::Prompt { text, attachments, when_busy: WhenBusy::Refuse, by }
        };
        let applied = self.supervisor.command_once(&shared.id, command, client_key).await;
        let applied = applied.map_err(|error| self.fault(&error))?;
        let turn = applied.turn_started().map(|(turn, _)| turn);
        let turn = turn.ok_or_else(|| RpcError::new(INTERNAL_ERROR, "the prompt began no turn"))?;
        if applied.is_repeated && self.answer_ended(shared, rpc, turn).await? {
            return Ok(());
        }
        if brings_to_life {
            shared.owns.store(true, Ordering::Relaxed);
        }
        shared.is_cancelled.store(false, Ordering::Relaxed);
        shared.is_busy.store(true, Ordering::Relaxed);
        let notify_from = watch.as_ref().and_then(TurnWatch::notify_from);
        let sent = open.insert(OpenPrompt { turn, rpc: rpc.clone(), ends_as: None, notify_from });
        // Before any event of the turn can be sent.
        self.out.note_taken(rpc, |notes| {
            notes.prompt(&shared.id, Some(&sent.noted()));
            if brings_to_life {
                notes.owns(&shared.id);
            }
        });
        self.evidence.report("prompt_started", shared.id.as_str(), &json!({"turn": turn}));
        drop(open);
        if let Some(watch) = watch {
            tokio::spawn(watch.run(Arc::clone(self), Arc::clone(shared), turn));
        }
        Ok(())
    }

    /// Answers a repeated prompt whose turn has ended. Returns whether it had.
    async fn answer_ended(
        &self,
        shared: &SessionStreamState,
        rpc: &RpcId,
        turn: TurnId,
    ) -> Result<bool, RpcError> {
        let mut cursor =
            self.supervisor.events_after(&shared.id, 0).await.map_err(|error| self.fault(&error))?;
        loop {
            let events = cursor.available().await.map_err(|error| self.fault(&error))?;
            if events.is_empty() {
                return Ok(false);
            }
            for event in events {
                if let EventKind::TurnEnded { turn: ended, reason, error, .. } = &event.kind
                    && *ended == turn
                {
                    let answer = to_wire::stop_reason(*reason, error);
                    self.answer(rpc, answer.map(|reason| json!({"stopReason": reason}))).await;
                    return Ok(true);
                }
            }
        }
    }

    /// Sets the stop reason of the pending prompt, regardless of how the agent ends the turn.
    fn ends_as(&self, shared: &SessionStreamState, open: &mut OpenPrompt, reason: &'static str) {
        open.ends_as = Some(reason);
        self.out.note(|notes| notes.prompt(&shared.id, Some(&open.noted())));
    }

    /// Registers this editor's tools for the agent; they replace those of another editor. An agent in the sandbox gets none: an
    /// editor reads, writes and runs outside of it, wherever links that the agent made lead.
    async fn offer_tools(&self, snapshot: &Snapshot) -> Result<(), RpcError> {
        if !self.defaults.lends_tools {
            return Ok(());
        }
        let is_contained = snapshot.spec.containment.sandbox.is_some();
        let tools = if is_contained { Vec::new() } else { editor_tools::of(&self.client()) };
        let known = snapshot.state.tools.get(editor_tools::SOURCE).map(Vec::as_slice).unwrap_or_default();
        if known == tools {
            return Ok(());
        }
        let command = Command::RegisterTools { source: editor_tools::SOURCE.to_owned(), tools };
        let done = self.supervisor.command(&snapshot.spec.id, command).await;
        done.map(drop).map_err(|error| self.fault(&error))
    }

    /// Returns the session once it can take a prompt. Waits for an agent that is stopping, and restarts the
    /// agent of a session that launches immediately.
    async fn ready(&self, id: &SessionId) -> Result<Arc<Snapshot>, RpcError> {
        let fault = |error: domain::Error| self.fault(&error);
        let handle = self.supervisor.session(id).await.map_err(fault)?;
        let mut snapshot = handle.snapshot();
        if snapshot.state.status == Status::Stopping {
            snapshot = handle
                .wait_until(|snapshot| snapshot.state.status != Status::Stopping)
                .await
                .map_err(fault)?;
        }
        if snapshot.state.status.is_terminal() && snapshot.spec.launch == LaunchPolicy::Now {
            snapshot = self.supervisor.restart(id, BTreeMap::new()).await.map_err(fault)?;
        }
        Ok(snapshot)
    }

    /// Cancels the current turn; the prompt is answered as cancelled.
    async fn cancel(&self, shared: &SessionStreamState) {
        if let Some(open) = shared.open.lock().await.as_mut() {
            self.ends_as(shared, open, CANCELLED);
            shared.is_cancelled.store(true, Ordering::Relaxed);
        }
        if let Err(error) = self.supervisor.command(&shared.id, Command::CancelTurn).await {
            self.out.log("warn", format!("cannot cancel: {error}"));
        }
    }

    /// Ends the turn of a prompt by stopping its agent, as the former bridge did, and sets its stop reason.
    pub(super) async fn end_turn(&self, shared: &SessionStreamState, turn: TurnId, reason: &'static str) {
        {
            let mut open = shared.open.lock().await;
            match open.as_mut() {
                Some(open) if open.turn == turn => self.ends_as(shared, open, reason),
                _ => return,
            }
        }
        // An error means that the agent has already ended.
        let _ended = self.supervisor.stop(&shared.id, StopMode::Now).await;
    }
}
