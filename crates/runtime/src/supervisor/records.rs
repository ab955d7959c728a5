//! The records of sessions: lists them by pages and removes them.

use std::collections::HashSet;
use std::sync::{MutexGuard, PoisonError};

use domain::{Error, ErrorCode, SessionId, StopMode};
use tokio::sync::oneshot;

use super::{Supervisor, not_found, snapshot_of};
use crate::limits;
use crate::retention::{self, Removed, Retention};
use crate::session::{ActorMessage, Snapshot};
use crate::workers::Workers;
use host::clock;
use storage::Durability;
use storage::sessions::{self, SessionPage};

impl Supervisor {
    /// Takes secrets out of a text that is written down; whatever campaigns say of their sessions' events.
    pub fn without_secrets(&self, text: &str) -> String {
        let clean = self.inner.services.scrubber.as_ref().and_then(|scrubber| scrubber.redacted(text));
        clean.unwrap_or_else(|| text.to_owned())
    }

    /// Whether secrets are taken out of a session's events before they are journalled.
    pub async fn scrubs_events(&self, id: &SessionId) -> Result<bool, Error> {
        let snapshot = self.snapshot(id).await?;
        Ok(self.inner.services.scrubber_of(&snapshot.spec).is_some())
    }

    /// Returns one page of all sessions, the one used last first, and how many there are on all pages.
    pub async fn page(&self, page: SessionPage) -> Result<(Vec<Snapshot>, u64), Error> {
        let (rows, total) = self.store().read(move |connection| sessions::page(connection, &page)).await?;
        let (leaving, rows): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| self.is_leaving(&row.spec.id));
        let total = total.saturating_sub(leaving.len() as u64);
        Ok((rows.into_iter().map(snapshot_of).collect(), total))
    }

    /// Returns the sessions in a folder or below it, most recently used first.
    pub(crate) async fn below(&self, folder: &str) -> Result<Vec<Snapshot>, Error> {
        let page = SessionPage {
            below: Some(folder.to_owned()),
            limit: limits::ACTIVE_SESSIONS_MAX,
            ..SessionPage::default()
        };
        Ok(self.page(page).await?.0)
    }

    /// Removes everything that has passed its retention, and everything unused.
    pub async fn collect_garbage(&self, retention: Retention) -> Result<Removed, Error> {
        let removed = retention::collect(&self.inner.services, retention, clock::now()).await?;
        self.forget_removed().await?;
        Ok(removed)
    }

    /// Does the same automatically. For this a clock that leaps ahead is not trusted.
    pub async fn collect_garbage_unasked(&self, retention: Retention) -> Result<Removed, Error> {
        let now = retention::believed_now(&self.inner.services).await?;
        let removed = retention::collect(&self.inner.services, retention, now).await?;
        self.forget_removed().await?;
        Ok(removed)
    }

    /// Removes what lists and searches know of sessions and events that are no longer stored.
    async fn forget_removed(&self) -> Result<(), Error> {
        self.overview().forget_removed().await?;
        self.history().forget_removed().await
    }

    /// Ends a session and removes everything about it. Callers that ask for it meanwhile get "not found".
    pub async fn delete(&self, id: &SessionId) -> Result<(), Error> {
        let handle = self.session(id).await?;
        Workers::new(self).end_all(id, "its parent was deleted").await?;
        let leaving = Leaving::new(self, id);
        if handle.snapshot().state.status.has_agent() {
            match handle.stop(StopMode::Now).await {
                Err(error) if error.code != ErrorCode::AlreadyStopped => return Err(error),
                _ => {}
            }
        }
        // Its actor must end before its rows are removed: it would write to them.
        let (done, left) = oneshot::channel();
        if handle.mailbox.send(ActorMessage::Detach { done }).await.is_ok() {
            // An actor that has ended has nothing to detach from.
            let _ = left.await;
        }
        let wanted = id.clone();
        let removed = self
            .store()
            .write(Durability::Synced, move |connection| sessions::remove(connection, &wanted))
            .await?;
        self.overview().forget(id);
        self.history().forget_removed().await?;
        drop(leaving);
        if removed { Ok(()) } else { Err(not_found(id)) }
    }

    pub(super) fn is_leaving(&self, id: &SessionId) -> bool {
        self.leaving().contains(id)
    }

    fn leaving(&self) -> MutexGuard<'_, HashSet<SessionId>> {
        self.inner.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prevents a session's actor from being started while its records are removed.
struct Leaving<'a> {
    supervisor: &'a Supervisor,
    id: &'a SessionId,
}

impl<'a> Leaving<'a> {
    fn new(supervisor: &'a Supervisor, id: &'a SessionId) -> Self {
        supervisor.leaving().insert(id.clone());
        Self { supervisor, id }
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.supervisor.leaving().remove(self.id);
    }
}
