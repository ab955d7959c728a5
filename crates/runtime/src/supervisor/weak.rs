//! A reference to the supervisor for tasks that end with it.

use std::sync::{Arc, Weak};

use super::{Supervisor, SupervisorInner};

/// A supervisor that may be gone.
pub(crate) struct WeakSupervisor {
    inner: Weak<SupervisorInner>,
}

impl WeakSupervisor {
    pub(crate) fn upgrade(&self) -> Option<Supervisor> {
        self.inner.upgrade().map(|inner| Supervisor { inner })
    }
}

impl Supervisor {
    /// Returns a reference that does not keep the supervisor alive.
    pub(crate) fn downgrade(&self) -> WeakSupervisor {
        WeakSupervisor { inner: Arc::downgrade(&self.inner) }
    }
}
