//! What sessions use of the machine: whether there is room for another agent, what the agents there are have used, and whose a
//! control group is.

use std::path::Path;

use domain::resources::{Enforcement, ResourceReport};
use domain::{Error, ErrorCode, SessionId};
use sandbox::session_group::{GroupHome, RunLimits, available_memory};

use super::Supervisor;
use crate::limits;
use crate::session::Snapshot;

/// What waits inside the daemon.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueDepths {
    /// Prompts that wait for the end of a turn, in sessions that run.
    pub prompts: usize,
    /// Messages to the actors of sessions.
    pub messages: usize,
    /// Writes to the store.
    pub writes: usize,
}

impl Supervisor {
    /// Returns what the user should know about a project's folder, in words.
    pub fn folder_warning(&self, folder: &Path) -> Option<String> {
        self.containment().withheld.warning(folder)
    }

    /// Returns what waits now.
    pub fn queue_depths(&self) -> QueueDepths {
        let mut depths = QueueDepths { writes: self.store().queue_depth(), ..QueueDepths::default() };
        let handles: Vec<_> = self.lock().values().cloned().collect();
        for handle in handles {
            depths.prompts += handle.snapshot.borrow().state.queue.entries.len();
            depths.messages += handle.mailbox.max_capacity() - handle.mailbox.capacity();
        }
        depths
    }

    /// Returns where the database is.
    pub fn database(&self) -> std::path::PathBuf {
        self.store().path().to_owned()
    }

    /// Returns the session whose agent a control group is for, by its name.
    pub fn session_of_group(&self, name: &str) -> Option<SessionId> {
        let (session, _) = self.inner.services.groups.run_of(name)?.rsplit_once('.')?;
        Some(SessionId::new(session))
    }

    /// Returns how the agent of a session that runs now is limited, and its control group.
    pub fn run_limits(&self, session: &SessionId) -> Option<RunLimits> {
        self.actor(session).and_then(|handle| handle.run_limits())
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
