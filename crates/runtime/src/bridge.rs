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
    read: Arc<Mutex<HashMap<SessionId, Reading>>>,
}

/// What one agent has read.
struct Reading {
    revision: watch::Sender<u64>,
    /// Somebody waited in vain before the agent had read anything: it may have no bridge at all.
    in_vain: bool,
}

impl Default for Reading {
    fn default() -> Self {
        Self { revision: watch::channel(0).0, in_vain: false }
    }
}

impl Bridges {
    /// Notes that an agent has read its tools as they were at a revision.
    pub fn note_read(&self, session: &SessionId, revision: u64) {
        let mut all = self.lock();
        let reading = all.entry(session.clone()).or_default();
        reading.revision.send_if_modified(|known| {
            let newer = revision > *known;
            *known = revision.max(*known);
            newer
        });
    }

    /// Waits until an agent has read its tools as of a revision, for a while. Returns whether it has. An agent that has
    /// never read any is waited for once.
    pub async fn has_read(&self, session: &SessionId, revision: u64) -> bool {
        let mut reader = {
            let mut all = self.lock();
            let reading = all.entry(session.clone()).or_default();
            if reading.in_vain && *reading.revision.borrow() == 0 {
                return false;
            }
            reading.revision.subscribe()
        };
        let wait = tokio::time::timeout(limits::TOOLS_READ_WAIT, reader.wait_for(|known| *known >= revision));
        let has_read = matches!(wait.await, Ok(Ok(_)));
        if !has_read && let Some(reading) = self.lock().get_mut(session) {
            reading.in_vain = true;
        }
        has_read
    }

    /// Forgets a session.
    pub fn forget(&self, session: &SessionId) {
        self.lock().remove(session);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Reading>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_is_told_when_the_tools_were_read() {
        let (bridges, session) = (Bridges::default(), SessionId::new("s"));
        bridges.note_read(&session, 2);
        assert!(bridges.has_read(&session, 1).await);
        bridges.note_read(&session, 1);
        assert!(bridges.has_read(&session, 2).await);
        assert!(!bridges.has_read(&session, 3).await);
        let (others, own) = (bridges.clone(), session.clone());
        let waiting = tokio::spawn(async move { others.has_read(&own, 3).await });
        tokio::task::yield_now().await;
        bridges.note_read(&session, 3);
        assert!(waiting.await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_without_a_bridge_is_waited_for_once() {
        let (bridges, session) = (Bridges::default(), SessionId::new("s"));
        let began = tokio::time::Instant::now();
        assert!(!bridges.has_read(&session, 1).await);
        assert!(!bridges.has_read(&session, 1).await);
        assert_eq!(began.elapsed(), limits::TOOLS_READ_WAIT);
        bridges.note_read(&session, 1);
        assert!(bridges.has_read(&session, 1).await);
    }
}
