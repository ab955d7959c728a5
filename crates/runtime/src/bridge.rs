//! Tracks, for each agent, which revision of its tool list it has read over the bridge (the MCP server that
//! offers it the tools of clients). Kept in memory only: this is about delivery in progress, not about what
//! happened.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::SessionId;
use tokio::sync::watch;

use crate::limits;

/// The bridges of all sessions.
#[derive(Clone, Default)]
pub struct Bridges {
    read: Arc<Mutex<HashMap<SessionId, ToolRevisions>>>,
}

/// What one agent knows of its tools.
#[derive(Default)]
struct ToolRevisions {
    known: watch::Sender<Known>,
    /// The agent has read a changed list while a caller waited for it. It will do so again; only a busy
    /// machine delays it.
    heeds: bool,
    /// A wait timed out and the agent was never seen to read a changed list. It may have no bridge at all.
    in_vain: bool,
}

/// Revisions of an agent's tool list.
#[derive(Clone, Copy, Default)]
struct Known {
    read: u64,
    /// Newest revision the agent was notified of. It may read the list when it needs it.
    told: u64,
}

impl Bridges {
    /// Records that an agent has read its tool list at a revision.
    pub fn note_read(&self, session: &SessionId, revision: u64) {
        self.note(session, |known| known.read = known.read.max(revision));
    }

    /// Records that an agent was notified of a revision of its tool list.
    pub fn note_told(&self, session: &SessionId, revision: u64) {
        self.note(session, |known| known.told = known.told.max(revision));
    }

    fn note(&self, session: &SessionId, change: impl FnOnce(&mut Known)) {
        self.lock().entry(session.clone()).or_default().known.send_modify(change);
    }

    /// Waits until an agent knows its tools as of a revision, or until a timeout. Returns whether it does: it
    /// has read the list, or, if it reads the list with its next turn (`late`), it was notified of the
    /// change. If an agent was never seen to read a changed list, only one caller waits for it until the
    /// timeout; later calls return at once.
    pub async fn knows(&self, session: &SessionId, revision: u64, late: bool) -> bool {
        let knows = |known: &Known| known.read >= revision || (late && known.told >= revision);
        let (mut reader, wait, before) = {
            let mut all = self.lock();
            let reading = all.entry(session.clone()).or_default();
            let known = *reading.known.borrow();
            if knows(&known) {
                return true;
            }
            let wait = match reading {
                ToolRevisions { heeds: true, .. } => limits::TOOLS_REREAD_WAIT,
                ToolRevisions { in_vain: true, .. } => return false,
                _ => limits::TOOLS_READ_WAIT,
            };
            (reading.known.subscribe(), wait, known.read)
        };
        let waited = tokio::time::timeout(wait, reader.wait_for(|known| knows(known))).await;
        let known = matches!(waited, Ok(Ok(_)));
        if let Some(reading) = self.lock().get_mut(session) {
            // Every agent reads the first list, so that one says nothing about changes.
            reading.heeds |= known && before > 0;
            reading.in_vain |= !known;
        }
        known
    }

    /// Removes what is known about a session.
    pub fn forget(&self, session: &SessionId) {
        self.lock().remove(session);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, ToolRevisions>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(bridges: &Bridges, revision: u64) -> tokio::task::JoinHandle<bool> {
        let bridges = bridges.clone();
        tokio::spawn(async move { bridges.knows(&SessionId::new("s"), revision, false).await })
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_is_told_when_the_tools_were_read() {
        let (bridges, session) = (Bridges::default(), SessionId::new("s"));
        bridges.note_read(&session, 2);
        assert!(bridges.knows(&session, 1, false).await);
        bridges.note_read(&session, 1);
        assert!(bridges.knows(&session, 2, false).await);
        let wait = waiting(&bridges, 3);
        tokio::task::yield_now().await;
        bridges.note_told(&session, 3);
        tokio::task::yield_now().await;
        assert!(!wait.is_finished());
        bridges.note_read(&session, 3);
        assert!(wait.await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_reads_with_its_turn_must_only_know_that_there_is_something_to_read() {
        let (bridges, session) = (Bridges::default(), SessionId::new("s"));
        bridges.note_read(&session, 1);
        bridges.note_told(&session, 2);
        assert!(bridges.knows(&session, 2, true).await);
        assert!(bridges.knows(&session, 1, true).await);
        assert!(!bridges.knows(&session, 3, true).await);
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_heeds_changes_is_given_more_time_and_one_that_does_not_is_not_waited_for_again() {
        let (bridges, session) = (Bridges::default(), SessionId::new("s"));
        bridges.note_read(&session, 1);
        let began = tokio::time::Instant::now();
        assert!(!bridges.knows(&session, 2, false).await);
        assert!(!bridges.knows(&session, 3, false).await);
        assert_eq!(began.elapsed(), limits::TOOLS_READ_WAIT);
        let bridges = Bridges::default();
        for revision in [1, 2] {
            let wait = waiting(&bridges, revision);
            tokio::task::yield_now().await;
            bridges.note_read(&session, revision);
            assert!(wait.await.unwrap());
        }
        let began = tokio::time::Instant::now();
        assert!(!bridges.knows(&session, 3, false).await);
        assert!(!bridges.knows(&session, 3, false).await);
        assert_eq!(began.elapsed(), limits::TOOLS_REREAD_WAIT * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_without_a_bridge_is_waited_for_once() {
        let (bridges, session) = (Bridges::default(), SessionId::new("s"));
        let began = tokio::time::Instant::now();
        assert!(!bridges.knows(&session, 1, false).await);
        assert!(!bridges.knows(&session, 1, false).await);
        assert_eq!(began.elapsed(), limits::TOOLS_READ_WAIT);
        bridges.note_read(&session, 1);
        assert!(bridges.knows(&session, 1, false).await);
    }
}
