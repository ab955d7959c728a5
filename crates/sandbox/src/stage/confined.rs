//! The lower tier: a command held by Landlock and seccomp alone. The stage adopts every orphan below it, so that it can
//! find all of them; it kills until none is left, since processes may still be born while it does.

use std::fs::File;
use std::io;

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use super::{Fault, StageInput, Wake, inner};
use crate::order::Report;
use crate::sys::{self, Fork};

/// Makes the sandbox and attends its command; returns what to report last.
pub(super) fn run(given: StageInput) -> Result<Report, Fault> {
    let StageInput { plan, control, orders, told, filters, .. } = given;
    let groups = super::open_groups(&plan).map_err(Fault::at("cgroup"))?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).map_err(Fault::at("subreaper"))?;
    // The command belongs to the same user; it must not look into its keeper.
    let hidden = rustix::process::DumpableBehavior::NotDumpable;
    rustix::process::set_dumpable_behavior(hidden).map_err(Fault::at("hide"))?;
    let parent = rustix::process::getpid();
    match sys::fork().map_err(Fault::at("fork"))? {
        Fork::Child => {
            drop(control);
            let ready = die_with(parent).and_then(|()| super::join(&groups));
            super::volunteer();
            if let Err(error) = ready {
                crate::order::report(&told, &Fault { step: "cgroup", error }.report());
                sys::exit_now(1);
            }
            drop(groups);
            sys::exit_now(inner::run(&plan, &filters, orders, told))
        }
        Fork::Parent(child) => {
            drop((told, groups, orders));
            super::release_outputs().map_err(Fault::at("outputs"))?;
            attend(&control, child)
        }
    }
}

fn die_with(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    if rustix::process::getppid() == Some(parent) {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::ESRCH))
    }
}

/// Waits for the command, reaping what it leaves behind; then ends everything below.
fn attend(control: &File, child: i32) -> Result<Report, Fault> {
    let child = super::pid(child).map_err(Fault::at("fork"))?;
    let handle = rustix::process::pidfd_open(child, PidfdFlags::empty()).map_err(Fault::at("pidfd"))?;
    let wake = super::watch(control, &handle, &mut None, None, None).map_err(Fault::at("watch"))?;
    let mut ended = None;
    if wake == Wake::ChildEnded {
        let waited =
            rustix::process::waitpid(Some(child), WaitOptions::empty()).map_err(Fault::at("wait"))?;
        ended = waited.map(|(_, status)| status);
    }
    kill_all_below();
    Ok(match (wake, ended) {
        (Wake::ChildEnded, Some(status)) => super::exited(status),
        _ => wake.report(),
    })
}

/// Kills and reaps until no child is left. Children of children come to us when their parents die.
fn kill_all_below() {
    loop {
        let below = descendants();
        // All stand still before the first dies: the limit on their number then keeps any from starting another, and a
        // number that was freed goes to nobody while we still have it on our list.
        for signal in [Signal::STOP, Signal::KILL] {
            for process in &below {
                process.signal(signal);
            }
        }
        if !reap() {
            return;
        }
    }
}

/// A process that was seen below this one. Numbers are given again, so it is known by its start as well.
struct Seen {
    pid: Pid,
    parent: i32,
    started: u64,
}

impl Seen {
    fn read_identity(pid: i32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in brackets may hold anything; behind it, the parent is the second field and the start the twentieth.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(1);
        let parent = fields.next()?.parse().ok()?;
        Some(Self { pid: Pid::from_raw(pid)?, parent, started: fields.nth(17)?.parse().ok()? })
    }

    /// Signals this process and no other that has its number by now: what is the same after a handle was taken was the
    /// same when it was.
    fn signal(&self, signal: Signal) {
        let Ok(handle) = rustix::process::pidfd_open(self.pid, PidfdFlags::empty()) else { return };
        let now = Self::read_identity(self.pid.as_raw_nonzero().get());
        if now.is_some_and(|now| now.started == self.started) {
            // Gone meanwhile is as good.
            let _ = rustix::process::pidfd_send_signal(&handle, signal);
        }
    }
}

/// Reaps what has ended, waiting for at least one; tells whether any child is left.
fn reap() -> bool {
    let mut options = WaitOptions::empty();
    loop {
        match rustix::process::wait(options) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
        options = WaitOptions::NOHANG;
    }
}

/// Every process below this one. A process between two readings of the list is found on the next round.
fn descendants() -> Vec<Seen> {
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut others: Vec<Seen> = numbers.filter_map(Seen::read_identity).collect();
    let mut found: Vec<Seen> = Vec::new();
    let mut parents = vec![rustix::process::getpid().as_raw_nonzero().get()];
    while let Some(parent) = parents.pop() {
        let (below, rest) = others.into_iter().partition(|process| process.parent == parent);
        others = rest;
        let below: Vec<Seen> = below;
        parents.extend(below.iter().map(|process| process.pid.as_raw_nonzero().get()));
        found.extend(below);
    }
    found
}
