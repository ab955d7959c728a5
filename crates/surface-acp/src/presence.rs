//! Counts which connections have a session open, because an agent is stopped with the last connection that
//! uses it. Lives as long as the daemon and holds only current connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::SessionId;

/// The sessions that connections of this protocol have open. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct OpenSessions {
    open: Arc<Mutex<HashMap<SessionId, usize>>>,
}

/// One connection's hold on a session; released on drop.
pub(super) struct SessionHold {
    presence: OpenSessions,
    id: SessionId,
}

impl OpenSessions {
    pub(super) fn enter(&self, id: &SessionId) -> SessionHold {
        *self.locked().entry(id.clone()).or_default() += 1;
        SessionHold { presence: self.clone(), id: id.clone() }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionHold {
    /// Returns whether no other connection has the session open.
    pub(super) fn is_alone(&self) -> bool {
        self.presence.locked().get(&self.id).is_none_or(|count| *count <= 1)
    }
}

impl Drop for SessionHold {
    fn drop(&mut self) {
        let mut open = self.presence.locked();
        if let Some(count) = open.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_is_alone() {
        let presence = OpenSessions::default();
        let id = SessionId::new("sess_1");
        let first = presence.enter(&id);
        assert!(first.is_alone());
        let second = presence.enter(&id);
        assert!(!first.is_alone() && !second.is_alone());
        drop(first);
        assert!(second.is_alone());
        drop(second);
        assert!(presence.locked().is_empty());
    }
}
