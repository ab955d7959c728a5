//! What is known of the agents' bridges to the tools of others: which revision of its tools each agent has read. Kept
//! in memory only: it says what is on its way, not what happened.

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
    /// It has read a change while somebody waited for that: it will again, and only a busy machine keeps it from it.
    heeds: bool,
    /// Somebody waited in vain, and it was never seen to heed a change: it may have no bridge at all.
    in_vain: bool,
}

/// Revisions of its tools.
#[derive(Clone, Copy, Default)]
struct Known {
    read: u64,
    /// It knows that there is this one, and may read it when it needs it.
    told: u64,
}

impl Bridges {
    /// Notes that an agent has read its tools as they were at a revision.
    pub fn note_read(&self, session: &SessionId, revision: u64) {
        self.note(session, |known| known.read = known.read.max(revision));
    }

    /// Notes that an agent was told that its tools are those of a revision now.
    pub fn note_told(&self, session: &SessionId, revision: u64) {
        self.note(session, |known| known.told = known.told.max(revision));
    }

    fn note(&self, session: &SessionId, change: impl FnOnce(&mut Known)) {
        self.lock().entry(session.clone()).or_default().known.send_modify(change);
    }

    /// Waits until an agent knows its tools as of a revision, for a while. Returns whether it does: it has read them, or,
    /// where it reads them with its next turn (`late`), knows that there are new ones. An agent that was never seen to
    /// heed a change is waited for in vain once.
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
            // The first list is read by all.
            reading.heeds |= known && before > 0;
            reading.in_vain |= !known;
        }
        known
    }

    /// Forgets a session.
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
