//! The outgoing half of a session stream: sends the history if the client asked for it, then the live events,
//! in one loop over the journal. Answers a prompt when its turn ends. This is the only place that waits for a
//! slow client.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use domain::permission::Proposal;
use domain::request::RequestSubject;
use domain::turn::EndReason;
use domain::{Event, EventKind, RequestId, TurnId, any_event};
use runtime::Snapshot;
use runtime::journal::Cursor;
use serde_json::{Value, json};
use surface::follow::{self, FollowEnd, Follower, JournalGap};
use surface::pump::Flow;

use super::client_requests::{PendingClientRequest, Reply};
use super::connection::ConnectionContext;
use super::outbox::ClientGone;
use super::questions::SentQuestion;
use super::resume_state::{NoteWriter as _, NotedSession, Notes};
use super::rpc::{self, RpcError, RpcId};
use super::session_stream::SessionStreamState;
use super::to_wire::{self, PromptOwner, UpdateProjector};
use crate::limits;

/// How a feed begins.
pub(super) enum FeedStart {
    /// With the next event.
    Live,
    /// With the whole history, then the answer to the request.
    Told { rpc: RpcId, result: Value },
    /// With the answer to the request, then the current settings.
    Quiet { rpc: RpcId, result: Value },
}

/// The client's answers to a request so far, and the question that is pending. The pending answer may arrive
/// at any time, so it is awaited from the beginning.
pub(super) struct QuestionProgress {
    pub(super) replies: Vec<Reply>,
    pub(super) open: PendingClientRequest,
}

/// What was sent of a session before its feed begins.
#[derive(Default)]
pub(super) struct SentPast {
    /// Events up to this one are history.
    pub(super) until: u64,
    /// Events up to this one the client has, or does not want.
    pub(super) told: u64,
    pub(super) trails: BTreeMap<RequestId, QuestionProgress>,
}

/// Sends one session's events to the client.
pub(super) struct AcpFeed {
    pub(super) core: Arc<ConnectionContext>,
    pub(super) shared: Arc<SessionStreamState>,
    pub(super) projector: UpdateProjector,
    beginning: Option<FeedStart>,
    /// Events up to this one are history.
    until: u64,
    /// Events up to this one are sent, or need not be.
    told: u64,
    /// Questions that a previous daemon sent to the client.
    pub(super) trails: BTreeMap<RequestId, QuestionProgress>,
    /// Notes to be saved with the next lines.
    notes: Notes,
    /// Requests in the history that have no answer yet.
    waiting: BTreeMap<RequestId, (RequestSubject, Vec<Proposal>)>,
    /// The questions this client was sent.
    pub(super) asked: Arc<Mutex<HashMap<RequestId, SentQuestion>>>,
    lines: Vec<u8>,
    /// Consecutive text events of the history, being merged into one.
    merged: Option<Event>,
}

impl AcpFeed {
    pub(super) fn new(
        core: &Arc<ConnectionContext>,
        shared: &Arc<SessionStreamState>,
        snapshot: &Snapshot,
        beginning: FeedStart,
        past: SentPast,
    ) -> Self {
        Self {
            projector: UpdateProjector::new(&snapshot.spec, &core.client(), core.models(snapshot)),
            core: Arc::clone(core),
            shared: Arc::clone(shared),
            beginning: Some(beginning),
            until: past.until,
            told: past.told,
            trails: past.trails,
            notes: Notes::new(),
            waiting: BTreeMap::new(),
            asked: Arc::default(),
            lines: Vec::new(),
            merged: None,
        }
    }

    /// Runs until the stream is over. On an error, it answers the open requests with it.
    pub(super) async fn run(mut self) {
        let Err(FollowEnd::Failed(error)) = self.send_events().await else { return };
        if self.core.is_leaving() {
            return;
        }
        let fault = self.core.fault(&error);
        let open = self.shared.open.lock().await.take();
        self.shared.is_busy.store(false, Ordering::Relaxed);
        self.shared.answered.notify_waiters();
        let begun = match self.beginning.take() {
            Some(FeedStart::Told { rpc, .. } | FeedStart::Quiet { rpc, .. }) => Some(rpc),
            Some(FeedStart::Live) | None => None,
        };
        self.core.out.note(|notes| notes.prompt(&self.shared.id, None));
        for rpc in begun.into_iter().chain(open.map(|open| open.rpc)) {
            self.core.answer(&rpc, Err(fault.clone())).await;
        }
    }

    /// Sends the past, then each new event.
    async fn send_events(&mut self) -> Result<(), FollowEnd> {
        let cursor = self.core.supervisor.events_after(&self.shared.id, 0).await?;
        follow::follow(cursor, self).await
    }

    /// Sends the collected lines, and notes how far they reach.
    async fn flush(&mut self) -> Result<(), ClientGone> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let (lines, mut notes) = (std::mem::take(&mut self.lines), std::mem::take(&mut self.notes));
        let (id, told) = (&self.shared.id, self.told);
        let note = |all: &mut Notes| {
            all.append(&mut notes);
            all.set_sent(id, told);
        };
        self.core.out.send_noting(lines, note).await
    }

    /// Applies an event of the history, and sends it if the client asked for the history.
    async fn recall(&mut self, event: &Event) -> Result<(), FollowEnd> {
        match &event.kind {
            EventKind::RequestOpened { request, ask, automatic: false, proposals, .. } => {
                self.waiting.insert(*request, (ask.clone(), proposals.clone()));
            }
            EventKind::RequestSettled { request, .. } => {
                self.waiting.remove(request);
                if self.trails.remove(request).is_some() {
                    self.notes.trail(&self.shared.id, *request, None);
                }
            }
            any_event!(life turn output RequestOpened GrantsChanged settings plan usage worker report) => {}
        }
        if event.seq <= self.told || !matches!(self.beginning, Some(FeedStart::Told { .. })) {
            self.projector.take(event, PromptOwner::Others, &mut Vec::new());
            return Ok(());
        }
        let continues = self.merged.as_mut().is_some_and(|merged| append(merged, event));
        if !continues && let Some(former) = self.merged.replace(event.clone()) {
            self.projector.take(&former, PromptOwner::Others, &mut self.lines);
            self.told = event.seq - 1;
        }
        Ok(())
    }

    /// Called at the end of the history: answers the request that asked for it, and sends the requests that
    /// are still pending.
    async fn arrive(&mut self) -> Result<(), FollowEnd> {
        let Some(beginning) = self.beginning.take() else { return Ok(()) };
        if let Some(merged) = self.merged.take() {
            self.projector.take(&merged, PromptOwner::Others, &mut self.lines);
        }
        self.told = self.told.max(self.until);
        if !matches!(beginning, FeedStart::Live) {
            // This answers the request that opened the session.
            self.notes.opened(&self.shared.id, &NotedSession { until: self.until, asked: None });
        }
        match beginning {
            FeedStart::Live => {}
            FeedStart::Told { rpc, result } => rpc::write_result(&mut self.lines, &rpc, &result),
            FeedStart::Quiet { rpc, result } => {
                rpc::write_result(&mut self.lines, &rpc, &result);
                self.projector.standing(&mut self.lines);
            }
        }
        self.flush().await?;
        for (request, (ask, proposals)) in std::mem::take(&mut self.waiting) {
            self.ask_to_execute(request, &ask, &proposals);
        }
        Ok(())
    }

    /// Sends a request to the editor. What the editor must execute comes with its unredacted input.
    fn ask_to_execute(&mut self, request: RequestId, shown: &RequestSubject, proposals: &[Proposal]) {
        let asked = self.core.supervisor.ask_to_execute(&self.shared.id, request, shown);
        self.ask_client(request, &asked, proposals);
    }

    /// Sends a live event.
    async fn happen(&mut self, event: &Event) -> Result<(), FollowEnd> {
        self.shared.heard.send_modify(|count| *count += 1);
        let whose = if let EventKind::TurnStarted { turn, .. } = &event.kind {
            self.whose(*turn).await
        } else {
            PromptOwner::Others
        };
        if matches!(event.kind, EventKind::ModeChanged { .. }) {
            let snapshot = self.core.supervisor.snapshot(&self.shared.id).await?;
            self.projector.know(&snapshot);
        }
        self.projector.take(event, whose, &mut self.lines);
        self.told = event.seq;
        match &event.kind {
            EventKind::TurnEnded { turn, reason, error, .. } => {
                self.answer_prompt(*turn, *reason, error).await?;
            }
            EventKind::RequestOpened { request, ask, automatic: false, proposals, .. } => {
                self.flush().await?;
                self.ask_to_execute(*request, ask, proposals);
            }
            EventKind::RequestSettled { request, .. } => self.call_off(*request).await,
            EventKind::AgentLogged { line } => {
                self.core.out.log("info", format!("{}: {line}", self.shared.id));
            }
            EventKind::StatusChanged { to: domain::Status::Failed, message, .. } => {
                self.core.out.log("error", format!("{}: {message}", self.shared.id));
            }
            any_event!(
                SessionCreated StatusChanged AgentStarted AgentReady AgentExited Restarted TurnStarted
                InterruptRequested MessageAdded output RequestOpened GrantsChanged settings plan usage worker
                report
            ) => {}
        }
        Ok(())
    }

    /// Whether a turn was started by this client's prompt.
    async fn whose(&self, turn: TurnId) -> PromptOwner {
        let open = self.shared.open.lock().await;
        if open.as_ref().is_some_and(|open| open.turn == turn) {
            PromptOwner::Ours
        } else {
            PromptOwner::Others
        }
    }

    /// Answers the client's prompt when its turn has ended.
    async fn answer_prompt(
        &mut self,
        turn: TurnId,
        reason: EndReason,
        error: &str,
    ) -> Result<(), ClientGone> {
        let mut open = self.shared.open.lock().await;
        let Some(ended) = open.take_if(|open| open.turn == turn) else { return Ok(()) };
        drop(open);
        let answer = match ended.ends_as {
            Some(reason) => Ok(reason),
            None => to_wire::stop_reason(reason, error),
        };
        let (event, details) = match &answer {
            Ok("cancelled") => ("prompt_cancelled", json!({"stopReason": "cancelled"})),
            Ok(reason) => ("prompt_completed", json!({"stopReason": reason})),
            Err(fault) => ("prompt_failed", json!({"error": fault.message})),
        };
        self.core.evidence.report(event, self.shared.id.as_str(), &details);
        match answer {
            Ok(reason) => {
                rpc::write_result(&mut self.lines, &ended.rpc, &json!({"stopReason": reason}));
            }
            Err(fault) => {
                self.refuse(&ended.rpc, &fault);
            }
        }
        self.notes.prompt(&self.shared.id, None);
        // Only after the flush: the caller that waits for the answer may end this feed.
        let flushed = self.flush().await;
        self.shared.is_busy.store(false, Ordering::Relaxed);
        self.shared.answered.notify_waiters();
        flushed
    }

    fn refuse(&mut self, rpc: &RpcId, fault: &RpcError) {
        self.core.out.log("error", format!("{}: {}", self.shared.id, fault.message));
        rpc::write_fault(&mut self.lines, rpc, fault);
    }
}

impl Follower for AcpFeed {
    /// The settings changed.
    type Signal = ();

    async fn take(&mut self, events: Vec<Arc<Event>>) -> Result<Flow, FollowEnd> {
        for event in events {
            if event.seq <= self.until {
                self.recall(&event).await?;
            } else {
                self.arrive().await?;
                self.happen(&event).await?;
            }
            if self.lines.len() >= limits::ACP_FRAME_BYTES {
                self.flush().await?;
            }
        }
        Ok(Flow::More)
    }

    async fn signal(&mut self) -> Result<(), FollowEnd> {
        tokio::select! {
            () = self.shared.resettle.notified() => Ok(()),
            () = self.core.out.hung_up() => Err(FollowEnd::ClientGone),
        }
    }

    async fn handle(&mut self, (): ()) -> Result<Flow, FollowEnd> {
        let snapshot = self.core.supervisor.snapshot(&self.shared.id).await?;
        self.projector.resettle(&snapshot, &mut self.lines);
        Ok(Flow::More)
    }

    async fn before_wait(&mut self, cursor: &Cursor) -> Result<Flow, FollowEnd> {
        if cursor.seq() >= self.until {
            self.arrive().await?;
        }
        self.flush().await?;
        Ok(Flow::More)
    }

    async fn skipped(&mut self, gap: JournalGap) -> Result<(), FollowEnd> {
        // Events that were removed cannot be sent; the remaining ones can.
        self.core.out.log("warn", gap.error.message);
        Ok(())
    }
}

/// Appends a text event to the previous one, if it continues it.
fn append(merged: &mut Event, event: &Event) -> bool {
    let Some((text, more)) = merged.kind.continued_by(&event.kind) else { return false };
    if text.len() + more.len() > limits::ACP_REPLAY_CHUNK_BYTES {
        return false;
    }
    text.push_str(more);
    true
}

impl From<ClientGone> for FollowEnd {
    fn from(_: ClientGone) -> Self {
        Self::ClientGone
    }
}
