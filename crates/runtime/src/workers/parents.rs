//! Ends workers and orchestrations together with their parent, and continues those of a previous daemon.

use std::collections::HashSet;

use domain::{Error, LaunchPolicy, SessionId};
use tokio::sync::broadcast::error::RecvError;

use super::Workers;
use crate::supervisor::Supervisor;

/// Why workers are ended when their parent is.
const PARENT_ENDED: &str = "its parent has ended";

/// Watches for sessions that end; ends with the supervisor.
pub(crate) fn watch_parents(supervisor: &Supervisor) {
    let mut statuses = supervisor.watch_statuses();
    let supervisor = supervisor.downgrade();
    tokio::spawn(async move {
        loop {
            let event = match statuses.recv().await {
                Ok(event) => Some(event),
                Err(RecvError::Lagged(_)) => None,
                Err(RecvError::Closed) => return,
            };
            let Some(supervisor) = supervisor.upgrade() else { return };
            let workers = Workers::new(&supervisor);
            match event {
                Some(event) => {
                    if event.kind.ends_session() {
                        workers.end_all_aside(&event.session, PARENT_ENDED);
                    }
                }
                // Some ends were missed: every parent is looked at.
                None => {
                    tokio::spawn(async move {
                        if let Err(error) = workers.end_orphans().await {
                            tracing::warn!(%error, "cannot look for workers whose parents have ended");
                        }
                    });
                }
            }
        }
    });
}

impl Workers {
    /// Ends all workers and orchestrations of a session, in a task of its own.
    pub(super) fn end_all_aside(&self, parent: &SessionId, reason: &str) {
        let (workers, parent, reason) = (self.clone(), parent.clone(), reason.to_owned());
        tokio::spawn(async move {
            if let Err(error) = workers.end_all(&parent, &reason).await {
                tracing::warn!(session = %parent, %error, "cannot end the workers of a session");
            }
        });
    }

    /// Ends all workers and orchestrations of a session: first what would start more of them.
    pub(crate) async fn end_all(&self, parent: &SessionId, reason: &str) -> Result<(), Error> {
        let open = self.open_rows(Some(parent)).await?;
        for id in self.open_orchestrations(parent).await? {
            self.request_cancel(&id, reason).await;
        }
        let ends = open.into_iter().filter(|row| row.cancel_reason.is_none()).map(|row| {
            let (workers, reason) = (self.clone(), reason.to_owned());
            tokio::spawn(async move {
                if let Err(error) = workers.end(&row.record, &reason, true).await {
                    tracing::warn!(worker = %row.record.session, %error, "cannot end a worker");
                }
            })
        });
        for end in ends.collect::<Vec<_>>() {
            // A task that panicked has said so.
            let _ = end.await;
        }
        Ok(())
    }

    /// Ends the workers whose parents have ended unnoticed.
    async fn end_orphans(&self) -> Result<(), Error> {
        let open = self.open_rows(None).await?;
        let parents: HashSet<&SessionId> = open.iter().map(|row| &row.record.parent).collect();
        for parent in parents {
            let has_ended = match self.supervisor.snapshot(parent).await {
                Ok(parent) => parent.state.status.is_terminal() && parent.spec.launch == LaunchPolicy::Now,
                // It was removed.
                Err(_) => true,
            };
            if has_ended {
                self.end_all_aside(parent, PARENT_ENDED);
            }
        }
        Ok(())
    }

    /// Returns the sessions of workers that have not ended.
    pub(crate) async fn unfinished(&self) -> Result<HashSet<SessionId>, Error> {
        Ok(self.open_rows(None).await?.into_iter().map(|row| row.record.session).collect())
    }

    /// Goes on with the workers and orchestrations of an earlier daemon.
    pub(crate) async fn resume_all(&self) -> Result<(), Error> {
        for row in self.open_rows(None).await? {
            // Those of an orchestration are driven by it.
            if row.record.orchestration.is_empty() {
                self.drive_aside(row.record);
            }
        }
        self.resume_orchestrations().await?;
        self.end_orphans().await
    }
}
