//! What a sandbox is made by, and for whom: one that was made ahead serves only who it was made for.

use std::ffi::OsString;

use super::order::Plan;
use crate::session_group::{RunLimits, SessionGroup};

/// What a sandbox is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MadeFor {
    /// The project's root; none if it will do for any.
    pub(super) root: Option<OsString>,
    /// The groups of the session whose commands it is for.
    pub(super) group: Option<SessionGroup>,
}

/// What every new sandbox is made by.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    pub(super) plan: Plan,
    pub(super) with_cgroup: bool,
    /// The session that the command belongs to, if it has control groups.
    pub(super) session: Option<RunLimits>,
}

impl Recipe {
    /// Returns what a sandbox of it is made for.
    pub(super) fn made_for(&self) -> MadeFor {
        let group = self.session.as_ref().and_then(|session| session.group.clone());
        MadeFor { root: self.plan.root.clone(), group }
    }
}
