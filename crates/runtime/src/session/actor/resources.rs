//! What a session's agent uses, and the moment the kernel kills something of it because memory ran out. Reads the control
//! group of the run; what follows from it is for the rules.

use std::sync::{Arc, PoisonError};

use domain::resources::OutOfMemory;
use domain::{Exit, Input};
use tokio::time::Instant;

use super::Actor;
use crate::limits;
use crate::process::{RunLimits, run_limits};
use crate::session::handle::SharedRunLimits;

/// How the running agent is limited, and what of it was noticed.
#[derive(Default)]
pub(in crate::session) struct MemoryWatch {
    run: SharedRunLimits,
    /// When to look again.
    due: Option<Instant>,
    /// When a kill was last noticed.
    killed_at: Option<Instant>,
}

impl MemoryWatch {
    pub(super) fn shared(&self) -> SharedRunLimits {
        Arc::clone(&self.run)
    }

    /// Begins with a run; nothing: there is none any more.
    pub(in crate::session) fn begin(&mut self, run: Option<RunLimits>) {
        self.killed_at = None;
        self.due = run
            .as_ref()
            .and_then(|run| run.group.as_ref())
            .map(|_| Instant::now() + limits::MEMORY_CHECK_WAIT);
        *self.run.lock().unwrap_or_else(PoisonError::into_inner) = run;
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Whether enough time has passed since the last look, now that the agent said something.
    pub(super) fn is_worth_a_look(&self) -> bool {
        let soonest = limits::MEMORY_CHECK_WAIT - limits::MEMORY_CHECK_PAUSE;
        self.due.is_some_and(|due| due.saturating_duration_since(Instant::now()) < soonest)
    }

    fn current(&self) -> Option<RunLimits> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Actor {
    /// Tells of processes that the kernel killed since the last look.
    pub(super) async fn check_memory(&mut self) {
        self.memory.due = Some(Instant::now() + limits::MEMORY_CHECK_WAIT);
        if let Some(killed) = self.newly_killed() {
            self.take(Input::OutOfMemory(killed)).await;
        }
    }

    /// Adds to the end of an agent what it used, and that memory ran out where that was the cause.
    pub(super) async fn measured(&mut self, mut exit: Exit) -> Exit {
        let newly = self.newly_killed();
        let Some(run) = self.memory.current() else { return exit };
        let report = run.report();
        let is_killed = exit.signal == Some(libc::SIGKILL) || exit.code == Some(128 + libc::SIGKILL);
        let is_recent = self.memory.killed_at.is_some_and(|at| at.elapsed() < limits::MEMORY_KILL_RECENT);
        if is_killed && is_recent {
            exit.out_of_memory = Some(OutOfMemory {
                kills: report.oom_kills,
                limit_bytes: run.limits.memory_bytes,
                peak_bytes: report.peak_memory_bytes,
            });
        } else if let Some(killed) = newly {
            self.take(Input::OutOfMemory(killed)).await;
        }
        exit.resources = Some(report);
        exit
    }

    /// Returns what the kernel killed that nobody was told of yet.
    fn newly_killed(&mut self) -> Option<OutOfMemory> {
        let mut run = self.memory.current()?;
        let group = run.group.as_ref()?;
        let kills = group.oom_kills();
        let new = kills.checked_sub(run.oom_kills_told).filter(|new| *new > 0)?;
        let killed = OutOfMemory {
            kills: new,
            limit_bytes: run.limits.memory_bytes,
            peak_bytes: group.peak_memory_bytes(),
        };
        self.memory.killed_at = Some(Instant::now());
        run.oom_kills_told = kills;
        if let Err(error) = run_limits::store(&self.run_dir(), &run) {
            // The next daemon would tell it once more.
            tracing::warn!(%error, "cannot keep what was told of an agent's memory");
        }
        *self.memory.run.lock().unwrap_or_else(PoisonError::into_inner) = Some(run);
        Some(killed)
    }
}
