//! Workers: sessions that work for another session, on any provider. This is what surfaces can do with them; the parts
//! start them (`spawn`), see them through to their end (`drive`), end them with their parent (`parents`) and run
//! orchestrations of them (`orchestrations`). The rules are in `domain::worker` and `domain::orchestration`.

mod context;
mod drive;
mod orchestrations;
mod parent_reports;
mod parents;
mod run_orchestration;
mod spawn;

use std::sync::Arc;
use std::time::Duration;

use domain::worker::{self, WorkerEnd, WorkerRecord, WorkerStatus};
use domain::{Command, Error, ErrorCode, SessionId, Status, StopMode, Timestamp, WhenBusy};
use storage::Durability;
use storage::workers::{self as rows, WorkerRow};

pub(crate) use context::WorkerContext;
pub use context::WorkerLimits;
pub use orchestrations::{NewOrchestration, OrchestrationView};
pub(crate) use parents::watch_parents;
pub use spawn::SpawnWorker;

use crate::limits;
use crate::session::Snapshot;
use crate::supervisor::Supervisor;

/// The workers of all sessions. Cheap to clone.
#[derive(Clone)]
pub struct Workers {
    supervisor: Supervisor,
}

/// A worker at one moment.
#[derive(Clone, Debug)]
pub struct WorkerView {
    pub record: WorkerRecord,
    pub status: WorkerStatus,
    /// Its result, its error, or why it was cancelled; empty until it has ended.
    pub summary: String,
    pub ended_at: Option<Timestamp>,
    /// Why it is being cancelled; `None`: it is not.
    pub cancel_reason: Option<String>,
    /// Its session.
    pub snapshot: Arc<Snapshot>,
}

impl Workers {
    pub fn new(supervisor: &Supervisor) -> Self {
        Self { supervisor: supervisor.clone() }
    }

    fn context(&self) -> &WorkerContext {
        self.supervisor.worker_context()
    }

    /// Returns a worker by the id or the name of its session; a name is looked for among those of one parent.
    pub async fn find(&self, named: &str, parent: Option<&SessionId>) -> Result<WorkerView, Error> {
        let unknown = || {
            let message = format!("subagent_id: there is no worker {named:?}; `obey worker list` shows them");
            Error::new(ErrorCode::SessionNotFound, message)
        };
        if named.is_empty() {
            return Err(Error::invalid("subagent_id", "is required"));
        }
        if let Some(row) = self.row(&SessionId::new(named)).await? {
            return match parent.is_some_and(|parent| row.record.parent != *parent) {
                true => Err(unknown()),
                false => self.view(row).await,
            };
        }
        let mut found = self.rows_of(parent).await?;
        found.retain(|row| row.record.name == named);
        // Names are given again once their worker has ended; the newest one is meant.
        self.view(found.pop().ok_or_else(unknown)?).await
    }

    /// Returns the workers of a session, or of all sessions, oldest first.
    pub async fn list(&self, parent: Option<&SessionId>) -> Result<Vec<WorkerView>, Error> {
        if let Some(parent) = parent {
            self.supervisor.snapshot(parent).await?;
        }
        let mut views = Vec::new();
        for row in self.rows_of(parent).await? {
            // A session may be removed meanwhile.
            views.extend(self.view(row).await.ok());
        }
        Ok(views)
    }

    async fn rows_of(&self, parent: Option<&SessionId>) -> Result<Vec<WorkerRow>, Error> {
        let parent = parent.cloned();
        self.supervisor.store().read(move |connection| rows::list(connection, parent.as_ref())).await
    }

    async fn row(&self, session: &SessionId) -> Result<Option<WorkerRow>, Error> {
        let session = session.clone();
        self.supervisor.store().read(move |connection| rows::find(connection, &session)).await
    }

    async fn open_rows(&self, parent: Option<&SessionId>) -> Result<Vec<WorkerRow>, Error> {
        let parent = parent.cloned();
        self.supervisor.store().read(move |connection| rows::open(connection, parent.as_ref())).await
    }

    async fn view(&self, row: WorkerRow) -> Result<WorkerView, Error> {
        let snapshot = self.supervisor.snapshot(&row.record.session).await?;
        let is_pending = snapshot.state.status == Status::Created;
        let under_way = if is_pending { WorkerStatus::Pending } else { WorkerStatus::Running };
        Ok(WorkerView {
            status: row.status.unwrap_or(under_way),
            summary: row.summary,
            ended_at: row.ended_at,
            cancel_reason: row.cancel_reason,
            record: row.record,
            snapshot,
        })
    }

    /// Sends a message to a worker; during a turn it is added to that turn.
    pub async fn send(&self, id: &SessionId, text: String, by: String) -> Result<(), Error> {
        if text.trim().is_empty() {
            return Err(Error::invalid("content", "is required"));
        }
        let view = self.find(id.as_str(), None).await?;
        let ended = view.status.is_final() || view.snapshot.state.status.is_terminal();
        if ended || view.cancel_reason.is_some() {
            let status = if view.status.is_final() { view.status } else { WorkerStatus::Cancelled };
            return Err(worker::already_ended(id, status));
        }
        if view.status == WorkerStatus::Pending {
            let message =
                format!("worker {id} has not started yet: it waits for a free place; try again later");
            return Err(Error::new(ErrorCode::WrongState, message));
        }
        if view.snapshot.state.turns >= u64::from(view.record.max_turns) {
            let message = format!("worker {id} has had its {} turns (max_turns)", view.record.max_turns);
            return Err(Error::new(ErrorCode::LimitReached, message));
        }
        let command = Command::Prompt { text, attachments: Vec::new(), when_busy: WhenBusy::Steer, by };
        self.supervisor.command(id, command).await.map(drop)
    }

    /// Ends a worker and waits for its end. One that has ended already stays as it ended.
    pub async fn cancel(&self, id: &SessionId, reason: &str, force: bool) -> Result<WorkerView, Error> {
        let view = self.find(id.as_str(), None).await?;
        if !view.status.is_final() {
            self.end(&view.record, reason, force).await?;
        }
        self.find(id.as_str(), None).await
    }

    /// Removes the working tree that was made for a worker.
    pub async fn remove_tree(&self, view: &WorkerView, force: bool) -> Result<(), Error> {
        if view.record.worktree.is_empty() {
            return Ok(());
        }
        match self.supervisor.worktrees().remove(&view.record.worktree, force).await {
            // It was removed before.
            Err(error) if error.code == ErrorCode::WorktreeNotFound => Ok(()),
            removed => removed.map(drop),
        }
    }

    /// Notes that a worker is cancelled, stops its session, and waits until its end is on record.
    async fn end(&self, record: &WorkerRecord, reason: &str, force: bool) -> Result<(), Error> {
        let (session, reason) = (record.session.clone(), reason.to_owned());
        let noted =
            move |connection: &rusqlite::Connection| rows::request_cancel(connection, &session, &reason);
        self.supervisor.store().write(Durability::Synced, noted).await?;
        let id = &record.session;
        let mut ends = self.context().ends();
        if !force {
            self.cancel_turn(id).await?;
        }
        match self.supervisor.stop(id, StopMode::Now).await {
            Err(error) if error.code == ErrorCode::AlreadyStopped => {}
            stopped => drop(stopped?),
        }
        let on_record = async {
            while self.row(id).await?.is_some_and(|row| row.status.is_none()) {
                ends.changed().await.ok();
            }
            Ok(())
        };
        match tokio::time::timeout(limits::WORKER_CANCEL_WAIT, on_record).await {
            Ok(done) => done,
            // Whoever should have told it is gone.
            Err(_) => self.finish(record).await.map(drop),
        }
    }

    /// Asks a worker to end its turn, and gives it a moment.
    async fn cancel_turn(&self, id: &SessionId) -> Result<(), Error> {
        let handle = self.supervisor.session(id).await?;
        if handle.snapshot().state.turn.is_none() {
            return Ok(());
        }
        self.supervisor.command(id, Command::CancelTurn).await?;
        let over = handle.wait_until(|snapshot| snapshot.state.turn.is_none());
        // A turn that does not end is ended with its session.
        let _ = tokio::time::timeout(limits::WORKER_CANCEL_WAIT, over).await;
        Ok(())
    }

    /// Has the calls of a worker asked about again. Returns whether any were approved automatically.
    pub async fn revoke_auto_approve(&self, id: &SessionId, by: String) -> Result<bool, Error> {
        let applied = self.supervisor.command(id, Command::RevokeAutoApprove { by }).await?;
        Ok(!applied.events.is_empty())
    }

    /// Waits until a worker has ended, at most so long. Returns the worker as it is then.
    pub async fn wait(&self, id: &SessionId, at_most: Duration) -> Result<WorkerView, Error> {
        let mut ends = self.context().ends();
        let ended = async {
            loop {
                let view = self.find(id.as_str(), None).await?;
                if view.status.is_final() {
                    return Ok(view);
                }
                if ends.changed().await.is_err() {
                    return Ok(view);
                }
            }
        };
        match tokio::time::timeout(at_most, ended).await {
            Ok(view) => view,
            Err(_) => self.find(id.as_str(), None).await,
        }
    }

    /// Returns how a worker whose session has ended did.
    async fn end_of(&self, row: &WorkerRow, snapshot: &Snapshot) -> Result<WorkerEnd, Error> {
        let last = self.supervisor.last_turn(&row.record.session).await?;
        let last =
            last.map(|turn| worker::WorkerTurn { reason: turn.reason, text: turn.text, error: turn.error });
        let (status, error) = (snapshot.state.status, &snapshot.state.error);
        Ok(WorkerEnd::of(status, error, last.as_ref(), row.cancel_reason.as_deref()))
    }
}
