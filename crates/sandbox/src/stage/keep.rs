//! The keeper: one small process that makes a stage of itself for every sandbox. The daemon starts it once, so that no
//! command pays for starting a program as large as the daemon or for copying the daemon's memory. It holds nothing but
//! the daemon's socket, and goes when that closes; its stages do not depend on it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use super::{Fault, StageInput, namespaced, seccomp};
use crate::order::{self, Plan};
use crate::sys::{self, Fork};
use crate::{Tier, limits};

/// Longest plan; the daemon's configuration names its folders.
const PLAN_MAX: usize = 128 * 1024;

/// What comes with a plan: the control socket, the orders, the way to tell of a start, the two outputs.
const DESCRIPTORS: usize = 5;

/// Runs the keeper; its standard input is the daemon's socket. Returns the exit code of the process.
pub(crate) fn enter() -> i32 {
    let Ok(door) = take_door() else { return 2 };
    // Stages that have ended are nobody's business here.
    sys::ignore_signal(libc::SIGCHLD);
    let mut made = seccomp::Made::default();
    let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut plan = vec![0; PLAN_MAX];
    let mut roots: Vec<OsString> = Vec::new();
    loop {
        let (len, descriptors) = match receive(&door, &mut plan) {
            Ok((0, _)) => {
                clear_roots(&roots);
                return 0;
            }
            Ok(received) => received,
            Err(Errno::INTR) => continue,
            Err(_) => return 1,
        };
        let Ok([control, orders, told, stdout, stderr]) = <[OwnedFd; DESCRIPTORS]>::try_from(descriptors)
        else {
            continue;
        };
        let control = File::from(control);
        let ready = serde_json::from_slice::<Plan>(&plan[..len]).map_err(io::Error::from);
        let ready = ready.and_then(|plan| Ok((made.filters(&plan)?, plan)));
        let given = match ready {
            Ok((filters, plan)) => StageInput {
                plan,
                control,
                orders: File::from(orders),
                told: File::from(told),
                owner,
                filters,
            },
            Err(error) => {
                refuse(&control, &Fault { step: "plan", error });
                continue;
            }
        };
        if let Some(root) = given.plan.root.as_ref().filter(|root| !roots.contains(root)) {
            roots.push(root.clone());
            // The oldest is the one whose commands ended first.
            roots.drain(..roots.len().saturating_sub(limits::KEEPER_ROOTS_MAX));
        }
        let forked = match given.plan.tier {
            Tier::Namespaces => sys::fork_into(namespaced::NAMESPACES),
            Tier::Landlock | Tier::None | Tier::Refused => sys::fork(),
        };
        match forked {
            Ok(Fork::Child) => {
                drop(door);
                sys::exit_now(become_stage(given, stdout, stderr));
            }
            Ok(Fork::Parent(_)) => {}
            Err(error) => refuse(&given.control, &Fault { step: "namespaces", error }),
        }
    }
}

/// Takes away what a killed daemon left at protected names, when the last stage, which dies with the daemon, is gone. What
/// another daemon needs stays.
fn clear_roots(roots: &[OsString]) {
    // The ends of single children are not reported: this waits for the last one.
    while !matches!(rustix::process::wait(rustix::process::WaitOptions::empty()), Err(Errno::CHILD)) {}
    // The daemon's descriptors, and with them its locks, are closed one after the other.
    let deadline = std::time::Instant::now() + limits::KEEPER_CLEAR_WAIT;
    for root in roots {
        while !crate::protect::clear_project(Path::new(root)) && std::time::Instant::now() < deadline {
            std::thread::sleep(limits::CLEAR_STEP);
        }
    }
}

/// Says why there is no stage, in its place: without a handle.
fn refuse(mut control: &File, fault: &Fault) {
    let _ = io::Write::write_all(&mut control, &order::HANDLE);
    order::report(control, &fault.report());
}

/// Leaves the daemon's surroundings: no descriptors but the socket, no terminal, no signals that were meant for the
/// daemon's group.
fn take_door() -> io::Result<OwnedFd> {
    sys::close_from(3, 0)?;
    sys::reset_signals();
    // Output whose reader is gone must not end a stage before it has killed the command.
    sys::ignore_signal(libc::SIGPIPE);
    let _ = rustix::process::setsid();
    let input = sys::take(0);
    let door = rustix::io::fcntl_dupfd_cloexec(&input, 3)?;
    let null = File::open("/dev/null")?;
    // The number 0 stays taken; the descriptor behind it becomes the commands' empty input.
    sys::place(null.as_fd(), 0)?;
    std::mem::forget(input);
    Ok(door)
}

fn receive(door: &OwnedFd, plan: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = rustix::net::recvmsg(door, &mut [IoSliceMut::new(plan)], &mut ancillary, flags)?;
    let mut descriptors = Vec::with_capacity(DESCRIPTORS);
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(list) = message {
            descriptors.extend(list);
        }
    }
    Ok((received.bytes, descriptors))
}

fn become_stage(given: StageInput, stdout: OwnedFd, stderr: OwnedFd) -> i32 {
    sys::reset_signals();
    sys::ignore_signal(libc::SIGPIPE);
    let _ = rustix::process::setsid();
    let placed = sys::place(stdout.as_fd(), 1).and_then(|()| sys::place(stderr.as_fd(), 2));
    if placed.and_then(|()| hand_over(&given.control)).is_err() {
        return 2;
    }
    // The numbers 1 and 2 are what the command gets; its outputs end when the last copy does.
    drop((stdout, stderr));
    super::run(given)
}

/// Gives the daemon a handle to this process, so that it can end a stage that does not answer.
fn hand_over(control: &File) -> io::Result<()> {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
    let own = rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty())?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let handles = [own.as_fd()];
    ancillary.push(SendAncillaryMessage::ScmRights(&handles));
    let byte = [io::IoSlice::new(&order::HANDLE)];
    rustix::net::sendmsg(control, &byte, &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}
