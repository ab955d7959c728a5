//! The highest tier: a command in namespaces of its own. Three processes: the stage outside, which kills; an init
//! inside, which builds the root, then waits and reaps; the command itself. When the init dies, the kernel kills
//! everything in its process namespace, and the stage is told only when all of it is gone.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use rustix::process::{PidfdFlags, Signal, WaitOptions};
use rustix::thread::CapabilitySet;

use super::seccomp::Filters;
use super::{Fault, Given, Wake, inner, root};
use crate::sandbox::Network;
use crate::sandbox::order::{self, Plan, Report};
use crate::sandbox::sys::{self, Fork};

/// The number a command's user has inside when the daemon runs as root: no program there must take itself for root.
const INSIDE_UID: u32 = 1000;

/// Makes the sandbox and attends its command; returns what to report last.
pub(super) fn run(given: Given) -> Result<Report, Fault> {
    let groups = super::open_groups(&given.plan).map_err(Fault::at("cgroup"))?;
    enter_user_namespace().map_err(Fault::at("user namespace"))?;
    let flags =
        libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    sys::unshare(flags).map_err(Fault::at("namespaces"))?;
    let (armed, arm) = io::pipe().map_err(Fault::at("pipe"))?;
    let (go, start) = io::pipe().map_err(Fault::at("pipe"))?;
    match sys::fork().map_err(Fault::at("fork"))? {
        Fork::Child => {
            drop((armed, start));
            sys::exit_now(become_init(given, groups, arm, go))
        }
        Fork::Parent(init) => {
            let control = given.control;
            drop((arm, go, groups, given.orders));
            attend(&control, init, armed, start)
        }
    }
}

/// Waits for the init, and kills it when the daemon wants that.
fn attend(control: &File, init: i32, mut armed: impl Read, mut start: impl Write) -> Result<Report, Fault> {
    super::release_outputs().map_err(Fault::at("outputs"))?;
    let init = super::pid(init).map_err(Fault::at("fork"))?;
    let handle = rustix::process::pidfd_open(init, PidfdFlags::empty()).map_err(Fault::at("pidfd"))?;
    // The init is told to go on only when it is sure to die with us.
    let mut byte = [0];
    if armed.read_exact(&mut byte).is_ok() {
        let _ = start.write_all(&byte);
    }
    let wake = super::watch(control, &handle).map_err(Fault::at("watch"))?;
    let _ = rustix::process::pidfd_send_signal(&handle, Signal::KILL);
    // Returns when nothing is left inside.
    let waited = rustix::process::waitpid(Some(init), WaitOptions::empty()).map_err(Fault::at("wait"))?;
    Ok(match (wake, waited) {
        // The init reports an end itself, before it ends.
        (Wake::ChildEnded, Some((_, status))) => super::exited(status),
        (wake, _) => wake.report(),
    })
}

/// Enters a namespace in which the own user has every right over what belongs to it, and nothing else.
fn enter_user_namespace() -> io::Result<()> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    sys::unshare(libc::CLONE_NEWUSER)?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    let inside = |id: u32| if id == 0 { INSIDE_UID } else { id };
    std::fs::write("/proc/self/uid_map", format!("{} {uid} 1", inside(uid)))?;
    std::fs::write("/proc/self/gid_map", format!("{} {gid} 1", inside(gid)))
}

fn become_init(given: Given, groups: Vec<File>, mut arm: impl Write, mut go: impl Read) -> i32 {
    let armed = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let mut byte = [1];
    if armed.is_err() || arm.write_all(&byte).is_err() || go.read_exact(&mut byte).is_err() {
        return 1;
    }
    let Given { plan, control, orders, filters } = given;
    let started = prepare(&plan, groups).and_then(|laid| start(&plan, &filters, laid, orders, &control));
    match started {
        Ok(child) => wait_for(&control, child),
        Err(fault) => {
            order::report(&control, &fault.report());
            1
        }
    }
}

fn prepare(plan: &Plan, groups: Vec<File>) -> Result<root::Laid, Fault> {
    super::join(&groups).map_err(Fault::at("cgroup"))?;
    drop(groups);
    super::volunteer();
    sys::unshare(libc::CLONE_NEWCGROUP).map_err(Fault::at("cgroup namespace"))?;
    rustix::system::sethostname(b"sandbox").map_err(Fault::at("host name"))?;
    if plan.network == Network::Loopback {
        sys::loopback_up().map_err(Fault::at("loopback"))?;
    }
    root::lay(plan)
}

/// Makes the process that will be the command, waits for the order, and lets it go on when the root is complete.
fn start(
    plan: &Plan,
    filters: &Filters,
    laid: root::Laid,
    orders: File,
    control: &File,
) -> Result<i32, Fault> {
    let (mut unstarted, told) = io::pipe().map_err(Fault::at("pipe"))?;
    let (ordered, mut hand_on) = io::pipe().map_err(Fault::at("pipe"))?;
    match sys::fork().map_err(Fault::at("fork"))? {
        Fork::Child => {
            drop((unstarted, hand_on, laid, orders));
            let (ordered, told) = (OwnedFd::from(ordered), OwnedFd::from(told));
            sys::exit_now(inner::run(plan, filters, ordered.into(), told.into()))
        }
        Fork::Parent(child) => {
            drop((told, ordered));
            super::release_outputs().map_err(Fault::at("outputs"))?;
            let message = order::receive(&orders).map_err(Fault::at("order"))?;
            drop(orders);
            let order = order::decode(&message).map_err(Fault::at("order"))?;
            laid.finish(&order)?;
            inner::drop_rights().map_err(Fault::at("rights"))?;
            // What the init holds (the control socket) is nobody's business.
            let hidden = rustix::process::DumpableBehavior::NotDumpable;
            rustix::process::set_dumpable_behavior(hidden).map_err(Fault::at("hide"))?;
            // One that is gone has said why.
            let _ = hand_on.write_all(&message);
            drop(hand_on);
            inner::forward(&mut unstarted, control);
            Ok(child)
        }
    }
}

/// Reaps everything that ends inside until the command itself does; then ends the rest. The end is reported when
/// nothing is left, so that nobody has to wait for the namespaces to be taken apart.
fn wait_for(control: &File, child: i32) -> i32 {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get() == child => {
                end_all();
                order::report(control, &super::exited(status));
                return 0;
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return 1,
        }
    }
}

/// Kills and reaps every process of the namespace but this one. The kernel signals all of them at once, and what has
/// been signalled cannot fork any more.
fn end_all() {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => break,
            Err(_) => return,
        }
    }
    sys::kill_all_others();
    while !matches!(rustix::process::wait(WaitOptions::empty()), Err(rustix::io::Errno::CHILD)) {}
}

/// Nobody inside may have any right; used by tests of the stage, too.
pub(super) fn has_rights() -> io::Result<bool> {
    let sets = rustix::thread::capabilities(None)?;
    Ok(sets.effective != CapabilitySet::empty() || sets.permitted != CapabilitySet::empty())
}
