//! Orchestrations as surfaces see them: creating, listing, reading and cancelling. `run_orchestration` runs them.

use domain::orchestration::{Orchestration, OrchestrationChange, OrchestrationPlan};
use domain::{Error, ErrorCode, SessionId, Timestamp};
use host::{clock, ids};
use storage::Durability;
use storage::orchestrations::{self as rows, OrchestrationEvent, OrchestrationRow};
use tokio::sync::watch;

use super::Workers;
use super::run_orchestration::OrchestrationMessage;

/// An orchestration to start.
#[derive(Clone, Debug)]
pub struct NewOrchestration {
    pub parent: SessionId,
    pub plan: OrchestrationPlan,
    /// The parent was made for it and ends with it.
    pub owns_parent: bool,
    pub by: String,
}

/// An orchestration at one moment.
#[derive(Clone, Debug)]
pub struct OrchestrationView {
    pub id: String,
    pub parent: SessionId,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub state: Orchestration,
    /// The newest event of its journal.
    pub last_seq: u64,
}

impl OrchestrationView {
    /// Applies the next event of the journal.
    pub fn apply(&mut self, event: &OrchestrationEvent) {
        self.state.evolve(&event.change);
        self.last_seq = event.seq;
        if self.state.has_ended() {
            self.ended_at = self.ended_at.or(Some(event.at));
        }
    }
}

impl Workers {
    /// Starts an orchestration and returns its id; it is on record then. Providers and models are checked first.
    pub async fn orchestrate(&self, new: NewOrchestration) -> Result<String, Error> {
        let parent = self.supervisor.snapshot(&new.parent).await?;
        for (at, step) in new.plan.steps.iter().enumerate() {
            let wanted = crate::supervisor::NewWorker {
                prompt: step.prompt.clone(),
                provider: step.provider.clone(),
                model: step.model.clone(),
                ..Default::default()
            };
            let found = self.supervisor.worker_kind(&parent.spec, &wanted);
            found.map_err(|error| Error { message: format!("steps[{at}].{}", error.message), ..error })?;
        }
        super::spawn::check_parent(&parent)?;
        let row = OrchestrationRow {
            id: format!("orch_{}", ids::unique()),
            parent: new.parent,
            owns_parent: new.owns_parent,
            created_at: clock::now(),
            ended_at: None,
        };
        let created = OrchestrationChange::Created { plan: new.plan, by: new.by };
        let events = vec![OrchestrationEvent { seq: 1, at: row.created_at, change: created }];
        let stored = row.clone();
        let insert = move |connection: &rusqlite::Connection| {
            rows::insert(connection, &stored)?;
            rows::append(connection, &stored.id, &events)
        };
        {
            let _pass = self.context().pass().await;
            self.supervisor.store().write(Durability::Synced, insert).await?;
        }
        let id = row.id.clone();
        self.run_aside(row).await?;
        Ok(id)
    }

    /// Returns an orchestration.
    pub async fn orchestration(&self, id: &str) -> Result<OrchestrationView, Error> {
        let row = self.orchestration_row(id).await?;
        let events = self.orchestration_events(id, 0).await?;
        let mut state = Orchestration::default();
        events.iter().for_each(|event| state.evolve(&event.change));
        Ok(OrchestrationView {
            id: row.id,
            parent: row.parent,
            created_at: row.created_at,
            ended_at: row.ended_at,
            state,
            last_seq: events.last().map_or(0, |event| event.seq),
        })
    }

    /// Returns the ids of the orchestrations of a session, or of all, oldest first.
    pub async fn orchestration_ids(&self, parent: Option<&SessionId>) -> Result<Vec<String>, Error> {
        let parent = parent.cloned();
        let listed = move |connection: &rusqlite::Connection| rows::list(connection, parent.as_ref());
        Ok(self.supervisor.store().read(listed).await?.into_iter().map(|row| row.id).collect())
    }

    pub(super) async fn orchestration_row(&self, id: &str) -> Result<OrchestrationRow, Error> {
        if id.is_empty() {
            return Err(Error::invalid("orchestration_id", "is required"));
        }
        let wanted = id.to_owned();
        let found = self.supervisor.store().read(move |connection| rows::find(connection, &wanted)).await?;
        found.ok_or_else(|| {
            Error::new(
                ErrorCode::RecordNotFound,
                format!("orchestration_id: there is no orchestration {id:?}"),
            )
        })
    }

    /// Returns the events of an orchestration's journal after a sequence number.
    pub async fn orchestration_events(&self, id: &str, after: u64) -> Result<Vec<OrchestrationEvent>, Error> {
        let wanted = id.to_owned();
        self.supervisor.store().read(move |connection| rows::events(connection, &wanted, after)).await
    }

    /// Returns the number of the newest event as it grows; none if the orchestration does not run.
    pub fn orchestration_growth(&self, id: &str) -> Option<watch::Receiver<u64>> {
        self.context().orchestration(id).map(|running| running.newest.subscribe())
    }

    /// Returns a counter of orchestrations that this daemon started, of any session.
    pub fn orchestrations_started(&self) -> watch::Receiver<u64> {
        self.context().started()
    }

    /// Cancels an orchestration: what has not started does not start, what runs is ended.
    pub async fn cancel_orchestration(&self, id: &str, reason: &str) -> Result<(), Error> {
        self.orchestration_row(id).await?;
        self.request_cancel(id, reason).await;
        Ok(())
    }

    pub(super) async fn request_cancel(&self, id: &str, reason: &str) {
        if let Some(running) = self.context().orchestration(id) {
            // One that has just ended needs no cancelling.
            let _ = running.inbox.send(OrchestrationMessage::Cancel { reason: reason.to_owned() }).await;
        }
    }

    /// Returns the orchestrations of a session that have not ended.
    pub(super) async fn open_orchestrations(&self, parent: &SessionId) -> Result<Vec<String>, Error> {
        let open = self.supervisor.store().read(rows::open).await?;
        Ok(open.into_iter().filter(|row| row.parent == *parent).map(|row| row.id).collect())
    }

    pub(super) async fn resume_orchestrations(&self) -> Result<(), Error> {
        for row in self.supervisor.store().read(rows::open).await? {
            self.run_aside(row).await?;
        }
        Ok(())
    }
}
