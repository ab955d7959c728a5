//! The highest tier: a command in namespaces of its own. Two processes: the stage, which is the init of the process
//! namespace: it builds the root, then waits, reaps and kills; and the command itself. Nothing inside can signal the
//! init; when it dies, the kernel kills everything in its process namespace.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::process::WaitOptions;
use rustix::thread::CapabilitySet;

use super::guard::Guard;
use super::tidy::AfterCommand;
use super::{Fault, StageInput, Wake, inner, root};
use crate::order::{self, Plan, Report};
use crate::sys::{self, Fork};
use crate::{Network, limits};

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
            let (after, mut guard) = start(&laid, orders, hand_on)?;
            let ended = attend(&control, &ends, child, &mut guard);
            guard.clear();
            after.tidy();
            // Its watches take the kernel longer to take apart than anybody should wait for.
            std::mem::forget(guard);
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
fn start(laid: &root::Laid, orders: File, mut hand_on: impl Write) -> Result<(AfterCommand, Guard), Fault> {
    let message = order::receive(&orders).map_err(Fault::at("order"))?;
    drop(orders);
    let order = order::decode(&message).map_err(Fault::at("order"))?;
    laid.finish(&order)?;
    let own = [(order.root.as_os_str(), order.protected.as_slice())];
    let outside = order.protected_outside.iter();
    let outside = outside.map(|(folder, names)| (folder.as_os_str(), names.as_slice()));
    let mut guard = Guard::new(own.into_iter().chain(outside)).map_err(Fault::at("protected"))?;
    // The system may have no more watches; then covers are looked at instead.
    let _ = guard.watch();
    inner::keep_guarding_rights().map_err(Fault::at("rights"))?;
    // What the init holds (the control socket) is nobody's business.
    let hidden = rustix::process::DumpableBehavior::NotDumpable;
    rustix::process::set_dumpable_behavior(hidden).map_err(Fault::at("hide"))?;
    // One that is gone has said why.
    let _ = hand_on.write_all(&message);
    Ok((AfterCommand::of(&order), guard))
}

/// Reaps everything that ends inside until the command itself does, its time is up, the daemon wants no more or a protected file may
/// have been changed; then ends the rest. The end is reported when nothing is left, so that nobody has to wait for the
/// namespaces to be taken apart.
fn attend(control: &File, ends: &OwnedFd, child: i32, guard: &mut Guard) -> Result<Report, Fault> {
    let mut deadline: Option<Instant> = None;
    // Without being told of changes, covers are looked at from time to time.
    let step = (guard.changes().is_none()).then_some(limits::GUARD_STEP);
    let mut last = None;
    while last.is_none() {
        let look_at = step.map(|step| Instant::now() + step);
        let wake = super::watch(control, ends, &mut deadline, guard.changes(), look_at);
        let held = match wake.map_err(Fault::at("watch"))? {
            Wake::Changed => guard.handle(),
            Wake::Look => guard.check(),
            Wake::ChildEnded => {
                last = reap(ends, child);
                Ok(())
            }
            wake => {
                last = Some(wake.report());
                Ok(())
            }
        };
        if let Err(breach) = held {
            end_all();
            return Ok(breach.report());
        }
    }
    end_all();
    // Something may have been replaced that nobody was told of.
    if let Err(breach) = guard.check() {
        return Ok(breach.report());
    }
    last.ok_or_else(|| Fault { step: "watch", error: io::ErrorKind::Other.into() })
}

/// Reaps what has ended; says how, if it was the command.
fn reap(ends: &OwnedFd, child: i32) -> Option<Report> {
    // One word may stand for several ends.
    let mut word = [0; size_of::<libc::signalfd_siginfo>()];
    let _ = rustix::io::read(ends, &mut word);
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        if pid.as_raw_nonzero().get() == child {
            return Some(super::exited(status));
        }
    }
    None
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
