//! What sessions use of the machine: whether there is room for another agent, what the agents there are have used, and whose a
//! control group is.

use std::path::Path;

use domain::resources::{Enforcement, ResourceReport};
use domain::{Error, ErrorCode, SessionId};
use sandbox::session_group::{GroupHome, available_memory};

use super::Supervisor;
use crate::limits;
use crate::session::Snapshot;

impl Supervisor {
    /// Returns the session whose agent a control group is for, by its name.
    pub fn session_of_group(&self, name: &str) -> Option<SessionId> {
        let (session, _) = self.inner.services.groups.run_of(name)?.rsplit_once('.')?;
        Some(SessionId::new(session))
    }

    /// Returns by what limits of sessions hold on this machine.
    pub fn enforcement(&self) -> Enforcement {
        self.inner.services.groups.enforcement()
    }

    /// Returns what the agent of a session uses, or what the last one used.
    pub fn resources(&self, snapshot: &Snapshot) -> ResourceReport {
        let running = self.actor(&snapshot.spec.id).and_then(|handle| handle.resources());
        running.or_else(|| snapshot.state.resources.clone()).unwrap_or_default()
    }

    /// Refuses another agent where there are too many already, or no memory is left for it.
    pub(super) fn check_room(&self) -> Result<(), Error> {
        self.containment().limits.check_reserve(available_memory())?;
        let most = self.inner.active_sessions_max.min(limits::ACTIVE_SESSIONS_MAX);
        if self.active_count() >= most {
            return Err(Error::new(
                ErrorCode::LimitReached,
                format!("{most} sessions are running already; stop one or raise sessions.max_active"),
            ));
        }
        Ok(())
    }
}

/// Finds where the agents of this daemon get their control groups. They are told from others' by the folder of its runs.
pub(super) fn find_groups(agents_dir: &Path) -> GroupHome {
    match host::process_tree::mark_of(agents_dir) {
        Ok(mark) => GroupHome::find(&mark.value().to_string_lossy()),
        Err(error) => {
            tracing::warn!(%error, dir = %agents_dir.display(), "agents get no control groups");
            GroupHome::default()
        }
    }
}
