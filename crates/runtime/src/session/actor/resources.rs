//! What a session's agent uses, and the moment the kernel kills something of it because memory ran out. Reads the control
//! group of the run; what follows from it is for the rules.

use std::sync::{Arc, LazyLock, PoisonError};
use std::time::Duration;

use domain::resources::OutOfMemory;
use domain::{Exit, Input};
use tokio::time::Instant;

use super::Actor;
use crate::limits;
use crate::process::{RunLimits, run_limits};
use crate::session::handle::SharedRunLimits;

/// The limits of the running agent, and which violations were already reported.
#[derive(Default)]
pub(in crate::session) struct MemoryWatch {
    run: SharedRunLimits,
    /// When to look again, and how long after the last look that is.
    due: Option<Instant>,
    wait: Duration,
    /// When it was looked last.
    looked_at: Option<Instant>,
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
        self.wait = limits::MEMORY_CHECK_WAIT;
        self.looked_at = None;
        let has_group = run.as_ref().is_some_and(|run| run.group.is_some());
        self.due = has_group.then(|| at_next_look(self.wait));
        *self.run.lock().unwrap_or_else(PoisonError::into_inner) = run;
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Whether enough time has passed since the last look, now that the agent said something.
    pub(super) fn is_worth_a_look(&self) -> bool {
        let is_soon = self.looked_at.is_some_and(|at| at.elapsed() < limits::MEMORY_CHECK_PAUSE);
        self.due.is_some() && !is_soon
    }

    /// Notes a look, and when the next one is due: soon where the agent works, later and later where it says nothing.
    fn note_look(&mut self, is_working: bool) {
        self.looked_at = Some(Instant::now());
        self.wait = match is_working {
            true => limits::MEMORY_CHECK_WAIT,
            false => (self.wait * 2).min(limits::MEMORY_CHECK_QUIET_WAIT),
        };
        self.due = self.due.map(|_| at_next_look(self.wait));
    }

    fn current(&self) -> Option<RunLimits> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Actor {
    /// Tells of processes that the kernel killed since the last look. `is_working`: the agent just said something.
    pub(super) async fn check_memory(&mut self, is_working: bool) {
        self.memory.note_look(is_working);
        if let Some(killed) = self.newly_killed() {
            self.take(Input::OutOfMemory(killed)).await;
        }
    }

    /// Adds to the end of an agent what it used, and that memory ran out where that was the cause.
    pub(super) async fn measured(&mut self, mut exit: Exit) -> Exit {
        exit.unprotected = super::super::walls::unprotected(&self.run_dir());
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

/// The time that all sessions count their looks from.
static FIRST_LOOK: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Returns when a look is due that should be this long from now. All sessions look at the same moments, so that a thousand
/// idle ones wake the daemon as often as one.
fn at_next_look(wait: Duration) -> Instant {
    *FIRST_LOOK + next_tick(FIRST_LOOK.elapsed() + wait)
}

/// Rounds a time up to a whole number of the shortest wait.
fn next_tick(time: Duration) -> Duration {
    let tick = limits::MEMORY_CHECK_WAIT.as_millis();
    let ticks = time.as_millis().div_ceil(tick);
    Duration::from_millis(u64::try_from(ticks * tick).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_look_at_the_same_moments() {
        let tick = limits::MEMORY_CHECK_WAIT;
        for millis in [1, 700, 1999, 2000] {
            assert_eq!(next_tick(Duration::from_millis(millis)), tick);
        }
        assert_eq!(next_tick(tick + Duration::from_millis(1)), tick * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_agent_is_looked_at_less_and_less_and_a_working_one_soon() {
        let mut watch =
            MemoryWatch { due: Some(Instant::now()), wait: limits::MEMORY_CHECK_WAIT, ..Default::default() };
        for _ in 0..8 {
            watch.note_look(false);
        }
        assert_eq!(watch.wait, limits::MEMORY_CHECK_QUIET_WAIT);
        assert!(!watch.is_worth_a_look(), "it was looked a moment ago");
        tokio::time::advance(limits::MEMORY_CHECK_PAUSE).await;
        assert!(watch.is_worth_a_look());
        watch.note_look(true);
        let due = watch.due.unwrap().saturating_duration_since(Instant::now());
        assert!(due <= limits::MEMORY_CHECK_WAIT * 2, "{due:?}");
    }

    #[test]
    fn without_a_group_nobody_looks() {
        let mut watch = MemoryWatch::default();
        watch.note_look(true);
        assert!(watch.due().is_none() && !watch.is_worth_a_look());
    }
}
