//! How things end: reaping, killing a tree until nothing is left of it, draining, and the exit record. The
//! exit record is written even on a full disk, from the reserve. Must not wait: every step returns.

use crate::frame::Target;
use crate::hold::{Phase, Shim, Stalled, ns};
use crate::limits::{
    DRAIN_MAX, DRAIN_READS_MAX, KILL_PASS_INTERVAL, KILL_PASS_SLOW_INTERVAL, KILL_QUICK_MAX,
    RESERVE_RECORD_BYTES_MAX, STALL_RETRY,
};
use crate::record::{Exit, Stream};
use crate::{proc_table, sys};
use std::os::fd::AsFd;
use std::process;

/// A tree being killed, pass by pass: members may fork between being listed and being killed.
pub(super) struct Killing {
    since_ns: u64,
    next_pass_ns: u64,
}

impl Killing {
    pub(super) fn next_pass_ns(&self) -> u64 {
        self.next_pass_ns
    }
}

/// Signals every living descendant of this process once.
pub(super) fn signal_tree(signo: i32) {
    // Without /proc the tree cannot be listed; the agent itself can still be signalled alone.
    let Ok(all) = proc_table::list() else { return };
    for process in proc_table::descendants(&all, &[process::id() as i32]) {
        proc_table::signal(process, signo);
    }
}

impl Shim {
    /// Starts killing every descendant, the agent included.
    pub(super) fn kill_tree(&mut self, now: u64) {
        if self.killing.is_none() {
            self.killing = Some(Killing { since_ns: now, next_pass_ns: now });
        }
        self.signal(libc::SIGKILL, Target::Agent, now);
        self.pass_over_tree(now);
    }

    /// Runs one pass of a kill in progress, if it is due.
    pub(super) fn pass_over_tree(&mut self, now: u64) {
        let Some(killing) = self.killing.as_mut().filter(|killing| now >= killing.next_pass_ns) else {
            return;
        };
        let resists = now.saturating_sub(killing.since_ns) >= ns(KILL_QUICK_MAX);
        killing.next_pass_ns = now + ns(if resists { KILL_PASS_SLOW_INTERVAL } else { KILL_PASS_INTERVAL });
        let left = proc_table::below(process::id() as i32).unwrap_or_default();
        for process in &left {
            proc_table::signal(process, libc::SIGKILL);
        }
        if left.is_empty() {
            self.killing = None;
        }
    }

    /// Reaps every child that has ended: the agent, and the orphans that were reparented to us.
    pub(super) fn reap(&mut self, now: u64) {
        while let Some(ended) = sys::reap() {
            if let Some(killing) = &mut self.killing {
                killing.next_pass_ns = now;
            }
            if ended.pid == self.agent.pid && matches!(self.phase, Phase::Running) {
                let exit = Exit { code: ended.code, signal: ended.signal, lost_bytes: 0 };
                self.phase = Phase::Ending { exit, deadline_ns: now + ns(DRAIN_MAX) };
                self.kill_tree(now);
            }
        }
    }

    /// Writes the exit record once all output is in the spool, or the deadline has passed.
    pub(super) fn finish_if_ended(&mut self, now: u64) {
        let Phase::Ending { mut exit, deadline_ns } = self.phase else { return };
        let is_drained = self.agent.stdout.is_none() && self.agent.stderr.is_none() && self.stalled.is_none();
        let is_complete = is_drained && self.killing.is_none();
        let is_late = now >= deadline_ns;
        if !is_complete && !is_late {
            return;
        }
        while self.stalled.is_none() {
            let Some(undelivered) = self.input.give_up() else { break };
            self.note(Stream::Input, &undelivered.encode(), now);
        }
        if self.stalled.is_some() && !is_late {
            return;
        }
        if is_late {
            self.drain_at_once(now);
            exit.lost_bytes += self.give_up_output(now);
        }
        self.home.free_reserve();
        match self.spool.append(Stream::Exit, &exit.encode(), now) {
            Ok(()) => {
                // After a failed flush the record is still in the file; only a power cut could lose it.
                let _ = self.spool.sync();
                self.phase = Phase::Exited { since_ns: now };
                self.agent.stdin = None;
            }
            Err(_) => {
                self.phase = Phase::Ending { exit, deadline_ns: now + ns(STALL_RETRY) };
                self.check_home(now);
            }
        }
    }

    /// Reads what is in the pipes now. Bounded, because a descendant that cannot be killed may continue
    /// writing.
    fn drain_at_once(&mut self, now: u64) {
        for _ in 0..DRAIN_READS_MAX {
            let before = self.spool.head();
            self.take_output(Stream::Out, now);
            self.take_output(Stream::Err, now);
            if self.spool.head() == before {
                return;
            }
        }
    }

    /// After the deadline: stores as much as fits into the freed reserve, and counts the rest as lost.
    fn give_up_output(&mut self, now: u64) -> u64 {
        let mut lost = 0;
        if let Some(stalled) = self.stalled {
            self.home.free_reserve();
            if matches!(stalled, Stalled::Output { len, .. } if len > RESERVE_RECORD_BYTES_MAX) {
                self.retry_within_reserve(now, stalled, &mut lost);
            } else {
                self.retry(now);
            }
            if let Some(Stalled::Output { len, .. }) = self.stalled.take() {
                lost += len as u64;
            }
        }
        let pipes = [self.agent.stdout.take(), self.agent.stderr.take()];
        lost + pipes.iter().flatten().map(|pipe| sys::unread_bytes(pipe.as_fd())).sum::<u64>()
    }

    fn retry_within_reserve(&mut self, now: u64, stalled: Stalled, lost: &mut u64) {
        let Stalled::Output { stream, len } = stalled else { return };
        // The first part is worth keeping: it usually contains the last whole lines.
        if self.spool.append(stream, &self.buffer[..RESERVE_RECORD_BYTES_MAX], now).is_ok() {
            self.stalled = None;
            *lost += (len - RESERVE_RECORD_BYTES_MAX) as u64;
        }
    }
}
