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
    read: Arc<Mutex<HashMap<SessionId, watch::Sender<u64>>>>,
}

impl Bridges {
    /// Notes that an agent has read its tools as they were at a revision.
    pub fn note_read(&self, session: &SessionId, revision: u64) {
        let mut all = self.lock();
        // Sessions that nobody waits for leave their names behind; sweep now and then.
        if all.len() > 64 && all.len().is_power_of_two() {
            all.retain(|_, sender| sender.receiver_count() > 0 || *sender.borrow() > 0);
        }
        let sender = all.entry(session.clone()).or_insert_with(|| watch::channel(0).0);
        sender.send_if_modified(|known| {
            let newer = revision > *known;
            *known = revision.max(*known);
            newer
        });
    }

    /// Waits until an agent has read its tools as of a revision, for a while. Returns whether it has.
    pub async fn has_read(&self, session: &SessionId, revision: u64) -> bool {
        let mut reader = {
            let mut all = self.lock();
            all.entry(session.clone()).or_insert_with(|| watch::channel(0).0).subscribe()
        };
        let wait = tokio::time::timeout(limits::TOOLS_READ_WAIT, reader.wait_for(|known| *known >= revision));
        matches!(wait.await, Ok(Ok(_)))
    }

    /// Forgets a session.
    pub fn forget(&self, session: &SessionId) {
        self.lock().remove(session);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, watch::Sender<u64>>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_is_told_when_the_tools_were_read() {
        let (bridges, session) = (Bridges::default(), SessionId::new("s"));
        assert!(!bridges.has_read(&session, 1).await);
        bridges.note_read(&session, 2);
        assert!(bridges.has_read(&session, 1).await);
        bridges.note_read(&session, 1);
        assert!(bridges.has_read(&session, 2).await);
        assert!(!bridges.has_read(&session, 3).await);
        let waiting = {
            let bridges = bridges.clone();
            let session = session.clone();
            tokio::spawn(async move { bridges.has_read(&session, 3).await })
        };
        tokio::task::yield_now().await;
        bridges.note_read(&session, 3);
        assert!(waiting.await.unwrap());
    }
}
