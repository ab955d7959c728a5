//! One session as one client has it open: what the client says to it, in order. Prompts become commands; their answers
//! are the feed's work, because they follow from the journal.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::turn::COMPACT;
use domain::{Command, EventKind, LaunchPolicy, ProviderKind, SessionId, Status, StopMode, TurnId, WhenBusy};
use runtime::Snapshot;
use serde_json::{Value, json};
use tokio::sync::{Mutex, Notify, OwnedSemaphorePermit, mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle};

use super::connection::ConnectionContext;
use super::editor_tools;
use super::feed::{AcpFeed, FeedStart, SentPast};
use super::from_wire;
use super::modes;
use super::presence::SessionHold;
use super::resume_state::{self, NoteWriter as _, NotedPrompt};
use super::rpc::{INTERNAL_ERROR, INVALID_REQUEST, RpcError, RpcId};
use super::watch::TurnWatch;
use crate::limits;

/// What a client says to a session.
pub(super) enum ClientMessage {
    Prompt { rpc: RpcId, blocks: Vec<Value> },
    Cancel { line: u64 },
    SetMode { rpc: RpcId, mode: String, as_option: bool },
    SetModel { rpc: RpcId, model: String, as_option: bool },
}

/// A prompt of this client that has not been answered.
pub(super) struct OpenPrompt {
    pub(super) turn: TurnId,
    pub(super) rpc: RpcId,
    /// The stop reason, where the client or we ended the turn.
    pub(super) ends_as: Option<&'static str>,
    /// Where the notify file ended when it was sent.
    pub(super) notify_from: Option<u64>,
}

impl OpenPrompt {
    /// Returns it as it is noted.
    pub(super) fn noted(&self) -> NotedPrompt {
        NotedPrompt {
            turn: self.turn,
            rpc: self.rpc.to_json(),
            ends_as: self.ends_as.map(str::to_owned),
            notify_from: self.notify_from,
        }
    }
}

/// What both halves of a talk know.
pub(super) struct SessionStreamState {
    pub(super) id: SessionId,
    /// Held while a prompt is being sent, so that the feed never meets a turn it cannot place.
    pub(super) open: Mutex<Option<OpenPrompt>>,
    /// A prompt was sent whose answer the client does not have yet.
    pub(super) is_busy: AtomicBool,
    /// What the client still says is not acted upon.
    is_closing: AtomicBool,
    /// This connection brought the agent to life.
    owns: AtomicBool,
    /// A prompt that reached the session over a daemon which ended before it could say so: it comes again, once.
    adopted: Mutex<Option<RpcId>>,
    /// Settings changed where no event tells of them.
    pub(super) resettle: Notify,
    /// A prompt was answered.
    pub(super) answered: Notify,
    /// Counts what was heard of the session.
    pub(super) heard: watch::Sender<u64>,
}

/// What a talk takes over from one that another daemon had.
#[derive(Default)]
pub(super) struct ResumedStream {
    pub(super) told: SentPast,
    pub(super) owns: bool,
    pub(super) open: Option<OpenPrompt>,
    pub(super) adopted: Option<RpcId>,
}

/// A session that is open. Dropping it ends both halves.
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

    /// Watches a turn that was sent over a daemon which has ended.
    pub(super) fn watch_again(&self, core: &Arc<ConnectionContext>, watch: TurnWatch, turn: TurnId) {
        tokio::spawn(watch.run(Arc::clone(core), Arc::clone(&self.shared), turn));
    }

    pub(super) fn id(&self) -> &SessionId {
        &self.shared.id
    }

    /// Passes on what the client says, unless it is too far ahead.
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

    /// Ends the running turn, behind everything said before. False: the client is so far ahead that its prompts are
    /// refused, so there is nothing of its to cancel.
    pub(super) fn cancel(&self, line: u64) -> bool {
        self.submit(ClientMessage::Cancel { line }).is_ok()
    }

    /// Whether this request is the prompt that is open.
    pub(super) fn is_prompt(&self, rpc: &RpcId) -> bool {
        // While a prompt is being sent nobody can have seen what it leads to.
        self.shared.open.try_lock().is_ok_and(|open| open.as_ref().is_some_and(|open| open.rpc == *rpc))
    }

    pub(super) fn is_busy(&self) -> bool {
        self.shared.is_busy.load(Ordering::Relaxed)
    }

    /// Whether the agent lives for this connection and nobody else.
    pub(super) fn is_ours_alone(&self) -> bool {
        self.shared.owns.load(Ordering::Relaxed) && self.here.is_alone()
    }

    /// Hears no more of the client, and says how a prompt that is open will have ended. A prompt that is being sent is
    /// sent to its end first: an agent must not come to life after everybody has left.
    pub(super) async fn hush(&self, reason: &'static str) {
        let mut open = self.shared.open.lock().await;
        if let Some(open) = open.as_mut() {
            open.ends_as = Some(reason);
        }
        self.listening.abort();
    }

    /// As `hush`, for a client that is still there: whatever it said before is answered, though not acted upon.
    pub(super) async fn conclude(&mut self, reason: &'static str) {
        {
            let mut open = self.shared.open.lock().await;
            if let Some(open) = open.as_mut() {
                open.ends_as = Some(reason);
            }
            self.shared.is_closing.store(true, Ordering::Relaxed);
        }
        self.said = None;
        // Fails only when it broke down; then nobody is left to answer.
        let _broken = (&mut self.listening).await;
    }

    /// Waits until no prompt is open, for a moment: its session has ended already.
    pub(super) async fn settle(&self) {
        let settled = async {
            loop {
                let mut answered = std::pin::pin!(self.shared.answered.notified());
                // From here on no answer is missed.
                answered.as_mut().enable();
                if !self.is_busy() {
                    return;
                }
                answered.await;
            }
        };
        let _late = tokio::time::timeout(limits::ACP_POLLING_INTERVAL * 10, settled).await;
    }

    /// Lets go of the session and returns the room it had.
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

async fn listen(
    core: Arc<ConnectionContext>,
    shared: Arc<SessionStreamState>,
    mut heard: mpsc::Receiver<ClientMessage>,
) {
    while let Some(said) = heard.recv().await {
        let is_closing = shared.is_closing.load(Ordering::Relaxed);
        let closed = || RpcError::new(INVALID_REQUEST, format!("session {} is being closed", shared.id));
        match said {
            ClientMessage::Prompt { rpc, .. } if is_closing => {
                core.answer(&rpc, Ok(json!({"stopReason": "cancelled"}))).await;
            }
            ClientMessage::SetMode { rpc, .. } | ClientMessage::SetModel { rpc, .. } if is_closing => {
                core.answer(&rpc, Err(closed())).await;
            }
            ClientMessage::Prompt { rpc, blocks } => {
                if let Err(fault) = core.prompt(&shared, &rpc, &blocks).await {
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
    /// Sends a prompt. Its answer comes with the end of the turn.
    async fn prompt(
        self: &Arc<Self>,
        shared: &Arc<SessionStreamState>,
        rpc: &RpcId,
        blocks: &[Value],
    ) -> Result<(), RpcError> {
        if shared.adopted.lock().await.take_if(|adopted| adopted == rpc).is_some() {
            // The session has it already, and its answer follows from the journal.
            self.out.note_taken(rpc, |_| {});
            return Ok(());
        }
        let mut open = shared.open.lock().await;
        if open.is_some() || shared.is_busy.load(Ordering::Relaxed) {
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
        let applied =
            self.supervisor.command(&shared.id, command).await.map_err(|error| self.fault(&error))?;
        let turn = applied.events.iter().find_map(|event| match event.kind {
            EventKind::TurnStarted { turn, .. } => Some(turn),
            _ => None,
        });
        let turn = turn.ok_or_else(|| RpcError::new(INTERNAL_ERROR, "the prompt began no turn"))?;
        if brings_to_life {
            shared.owns.store(true, Ordering::Relaxed);
        }
        shared.is_busy.store(true, Ordering::Relaxed);
        let notify_from = watch.as_ref().and_then(TurnWatch::notify_from);
        let sent = open.insert(OpenPrompt { turn, rpc: rpc.clone(), ends_as: None, notify_from });
        // Before anybody can tell of the turn.
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

    /// Says how the open prompt will have ended, whatever the agent makes of it.
    fn ends_as(&self, shared: &SessionStreamState, open: &mut OpenPrompt, reason: &'static str) {
        open.ends_as = Some(reason);
        self.out.note(|notes| notes.prompt(&shared.id, Some(&open.noted())));
    }

    /// Gives the agent what this editor offers, in place of what another one did.
    async fn offer_tools(&self, snapshot: &Snapshot) -> Result<(), RpcError> {
        if !self.defaults.lends_tools {
            return Ok(());
        }
        let tools = editor_tools::of(&self.client());
        let known = snapshot.state.tools.get(editor_tools::SOURCE).map(Vec::as_slice).unwrap_or_default();
        if known == tools {
            return Ok(());
        }
        let command = Command::RegisterTools { source: editor_tools::SOURCE.to_owned(), tools };
        let done = self.supervisor.command(&snapshot.spec.id, command).await;
        done.map(drop).map_err(|error| self.fault(&error))
    }

    /// Returns the session once it can take a prompt: an agent that is being ended is waited for, and one of a session
    /// that starts by itself is started again.
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

    async fn cancel(&self, shared: &SessionStreamState) {
        if let Some(open) = shared.open.lock().await.as_mut() {
            self.ends_as(shared, open, "cancelled");
        }
        if let Err(error) = self.supervisor.command(&shared.id, Command::CancelTurn).await {
            self.out.log("warn", format!("cannot cancel: {error}"));
        }
    }

    /// Ends the running turn of a prompt with its agent, as the bridge did; it then counts as ended like this.
    pub(super) async fn end_turn(&self, shared: &SessionStreamState, turn: TurnId, reason: &'static str) {
        {
            let mut open = shared.open.lock().await;
            match open.as_mut() {
                Some(open) if open.turn == turn => self.ends_as(shared, open, reason),
                _ => return,
            }
        }
        // One that has ended meanwhile needs no end.
        let _ended = self.supervisor.stop(&shared.id, StopMode::Now).await;
    }

    async fn set_mode(&self, shared: &SessionStreamState, mode: &str) -> Result<(), RpcError> {
        let fault = |error: domain::Error| self.fault(&error);
        let snapshot = self.supervisor.snapshot(&shared.id).await.map_err(fault)?;
        let choice = modes::choose(snapshot.spec.provider, mode)?;
        let said = |key: &String| snapshot.spec.provider_config.get(key).map_or("", String::as_str);
        let changes = choice.provider_config.iter().any(|(key, value)| said(key) != value);
        if changes {
            self.change_launch(shared, &snapshot, choice.provider_config).await?;
        }
        self.supervisor.set_mode(&shared.id, choice.mode).await.map_err(fault)?;
        if changes && choice.mode == snapshot.state.mode {
            shared.resettle.notify_one();
        }
        self.evidence.report("session_mode_changed", shared.id.as_str(), &json!({"modeId": mode}));
        Ok(())
    }

    /// Changes what the agent is started with; one that runs is ended, and the next prompt starts it anew.
    async fn change_launch(
        &self,
        shared: &SessionStreamState,
        snapshot: &Snapshot,
        provider_config: BTreeMap<String, String>,
    ) -> Result<(), RpcError> {
        let fault = |error: domain::Error| self.fault(&error);
        let turn = snapshot.state.turn.as_ref().map(|turn| turn.id);
        if let Some(turn) = turn {
            self.end_turn(shared, turn, "cancelled").await;
        }
        if snapshot.state.status.has_agent() {
            match self.supervisor.stop(&shared.id, StopMode::Now).await {
                Err(error) if error.code != domain::ErrorCode::AlreadyStopped => return Err(fault(error)),
                _ => {}
            }
        }
        let command = Command::Configure { provider_config };
        self.supervisor.command(&shared.id, command).await.map(drop).map_err(fault)
    }

    async fn set_model(&self, shared: &SessionStreamState, model: &str) -> Result<(), RpcError> {
        let fault = |error: domain::Error| self.fault(&error);
        let snapshot = self.supervisor.snapshot(&shared.id).await.map_err(fault)?;
        let model = if model == modes::DEFAULT_MODEL && snapshot.spec.provider != ProviderKind::ClaudeCode {
            snapshot.spec.model.clone()
        } else {
            model.to_owned()
        };
        let mut spec = snapshot.spec.clone();
        spec.model.clone_from(&model);
        let provider = self.supervisor.providers().get(spec.provider).map_err(fault)?;
        provider.check(&spec).map_err(fault)?;
        if model == snapshot.state.model {
            return Ok(());
        }
        let command = Command::SetModel { model };
        self.supervisor.command(&shared.id, command).await.map(drop).map_err(fault)
    }

    async fn answer_setting(
        &self,
        shared: &SessionStreamState,
        rpc: &RpcId,
        done: Result<(), RpcError>,
        as_option: bool,
    ) {
        let answer = match done {
            Ok(()) if as_option => match self.supervisor.snapshot(&shared.id).await {
                Ok(snapshot) => Ok(json!({"configOptions": self.settings(&snapshot)["configOptions"]})),
                Err(error) => Err(self.fault(&error)),
            },
            Ok(()) => Ok(json!({})),
            Err(fault) => Err(fault),
        };
        self.answer(rpc, answer).await;
    }
}
