//! The lower tier: a command held by Landlock and seccomp alone. The stage adopts every orphan below it, so that it can
//! find all of them; it kills until none is left, since processes may still be born while it does.

use std::fs::File;
use std::io;

use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions};

use super::{Fault, Given, Wake, inner};
use crate::sandbox::order::Report;
use crate::sandbox::sys::{self, Fork};

/// Makes the sandbox and attends its command; returns what to report last.
pub(super) fn run(given: Given) -> Result<Report, Fault> {
    let Given { plan, control, orders, told, filters, .. } = given;
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
                crate::sandbox::order::report(&told, &Fault { step: "cgroup", error }.report());
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
    let wake = super::watch(control, &handle, &mut None).map_err(Fault::at("watch"))?;
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
        for pid in descendants() {
            // What cannot fork any more cannot run away while the others are being killed.
            let none = Rlimit { current: Some(0), maximum: Some(0) };
            let _ = rustix::process::prlimit(Some(pid), Resource::Nproc, none);
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        if !reap() {
            return;
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
fn descendants() -> Vec<Pid> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name in brackets may hold anything; the parent is the second field behind it.
        let parent =
            stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<i32>().ok());
        parents.extend(parent.map(|parent| (pid, parent)));
    }
    let mut found = vec![own];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        found.extend(parents.iter().filter(|(_, its)| *its == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    found.into_iter().skip(1).filter_map(Pid::from_raw).collect()
}
