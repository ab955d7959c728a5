//! The highest tier: a command in namespaces of its own. Two processes: the stage, which is the init of the process
//! namespace: it builds the root, then waits, reaps and kills; and the command itself. Nothing inside can signal the
//! init; when it dies, the kernel kills everything in its process namespace.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::process::WaitOptions;
use rustix::thread::CapabilitySet;

use super::tidy::AfterCommand;
use super::{Fault, StageInput, Wake, inner, root};
use crate::Network;
use crate::order::{self, Plan, Report};
use crate::sys::{self, Fork};

/// What the stage is made into by its keeper.
pub(super) const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS;

/// The number a command's user has inside when the daemon runs as root: no program there must take itself for root.
const INSIDE_UID: u32 = 1000;

/// Makes the sandbox and attends its command; returns what to report last.
pub(super) fn run(given: StageInput) -> Result<Report, Fault> {
    let StageInput { plan, control, orders, told, owner, filters } = given;
    let groups = super::open_groups(&plan).map_err(Fault::at("cgroup"))?;
    map_user(owner).map_err(Fault::at("user namespace"))?;
    let laid = prepare(&plan, groups)?;
    let ends = sys::child_ends().map_err(Fault::at("signals"))?;
    let (ordered, hand_on) = io::pipe().map_err(Fault::at("pipe"))?;
    match sys::fork().map_err(Fault::at("fork"))? {
        Fork::Child => {
            drop((control, orders, laid, ends, hand_on));
            sys::exit_now(inner::run(&plan, &filters, OwnedFd::from(ordered).into(), told))
        }
        Fork::Parent(child) => {
            drop((ordered, told));
            super::release_outputs().map_err(Fault::at("outputs"))?;
            inner::bind_rights().map_err(Fault::at("rights"))?;
            let after = start(&laid, orders, hand_on)?;
            let ended = attend(&control, &ends, child);
            after.tidy();
            ended
        }
    }
}

/// The own user has every right over what belongs to the new namespaces, and over nothing else.
pub(super) fn map_user((uid, gid): (u32, u32)) -> io::Result<()> {
    std::fs::write("/proc/self/setgroups", "deny")?;
    let inside = |id: u32| if id == 0 { INSIDE_UID } else { id };
    std::fs::write("/proc/self/uid_map", format!("{} {uid} 1", inside(uid)))?;
    std::fs::write("/proc/self/gid_map", format!("{} {gid} 1", inside(gid)))
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

/// Waits for the order, completes the root and lets the process that becomes the command go on.
fn start(laid: &root::Laid, orders: File, mut hand_on: impl Write) -> Result<AfterCommand, Fault> {
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
    Ok(AfterCommand::of(&order))
}

/// Reaps everything that ends inside until the command itself does, its time is up or the daemon wants no more; then ends
/// the rest. The end is reported when nothing is left, so that nobody has to wait for the namespaces to be taken apart.
fn attend(control: &File, ends: &OwnedFd, child: i32) -> Result<Report, Fault> {
    let mut deadline: Option<Instant> = None;
    loop {
        let wake = super::watch(control, ends, &mut deadline).map_err(Fault::at("watch"))?;
        if wake != Wake::ChildEnded {
            end_all();
            return Ok(wake.report());
        }
        // One word may stand for several ends.
        let mut word = [0; size_of::<libc::signalfd_siginfo>()];
        let _ = rustix::io::read(ends, &mut word);
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if pid.as_raw_nonzero().get() == child {
                end_all();
                return Ok(super::exited(status));
            }
        }
    }
}

/// Kills and reaps every process of the namespace but this one. The kernel signals all of them at once, and what has
/// been signalled cannot fork any more.
pub(super) fn end_all() {
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
