//! The inside of an agent's walls: the init of its namespaces, which builds the root, passes signals on, reaps, and kills
//! everything when the agent or the outer process is gone; and the last steps of the process that becomes the agent.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, WaitOptions};

use super::guard::Guard;
use super::{Fault, inner, landlock, namespaced, root, seccomp};
use crate::order::{self, Plan, Report};
use crate::sys::{self, Fork};

/// What every agent gets of its own; the network only where it does not share the machine's.
pub(crate) const NAMESPACES: libc::c_int =
    libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;

/// What the outer process wants inside.
pub(crate) struct AgentStageInput {
    pub(crate) plan: Plan,
    pub(crate) command: Vec<OsString>,
    pub(crate) working_dir: PathBuf,
    /// The user and group the outer process runs as.
    pub(crate) owner: (u32, u32),
    /// Where to listen for the outer process.
    pub(crate) listen: Vec<(IpAddr, u16)>,
}

/// Builds the walls and attends the agent. Returns the exit code of the init; what counts is what it reported.
pub(crate) fn run(given: AgentStageInput, control: UnixStream, told: File) -> i32 {
    let tell = match told.try_clone() {
        Ok(tell) => tell,
        Err(_) => return 2,
    };
    match build(given, &control, told) {
        Ok((child, ends, guard)) => {
            drop(tell);
            attend(&control, &ends, child, guard);
            0
        }
        Err(fault) => {
            order::report(&tell, &fault.report());
            1
        }
    }
}

fn build(given: AgentStageInput, control: &UnixStream, told: File) -> Result<(i32, OwnedFd, Guard), Fault> {
    let AgentStageInput { plan, command, working_dir, owner, listen } = given;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(Fault::at("parent"))?;
    namespaced::map_user(owner).map_err(Fault::at("user namespace"))?;
    sys::unshare(libc::CLONE_NEWCGROUP).map_err(Fault::at("cgroup namespace"))?;
    if !plan.shares_network() {
        sys::loopback_up().map_err(Fault::at("loopback"))?;
        offer(control, &listen).map_err(Fault::at("endpoints"))?;
    }
    let filters = seccomp::of_agent().map_err(Fault::at("seccomp"))?;
    let laid = root::lay(&plan)?;
    drop(laid);
    let protected = plan.agent.iter().flat_map(|agent| &agent.protected);
    let mut guard = Guard::new(protected.map(|(folder, names)| (folder.as_os_str(), names.as_slice())))
        .map_err(Fault::at("protected"))?;
    // An agent lives long: without being told of changes it does not start.
    guard.watch().map_err(Fault::at("inotify (fs.inotify.max_user_instances, max_user_watches)"))?;
    let ends = sys::child_ends().map_err(Fault::at("signals"))?;
    match sys::fork().map_err(Fault::at("fork"))? {
        Fork::Child => {
            drop((ends, guard));
            sys::exit_now(become_agent(&plan, &filters, &command, &working_dir, &told))
        }
        Fork::Parent(child) => {
            drop(told);
            super::release_outputs().map_err(Fault::at("outputs"))?;
            release_input().map_err(Fault::at("input"))?;
            inner::bind_rights().and_then(|()| inner::keep_guarding_rights()).map_err(Fault::at("rights"))?;
            let hidden = rustix::process::DumpableBehavior::NotDumpable;
            rustix::process::set_dumpable_behavior(hidden).map_err(Fault::at("hide"))?;
            Ok((child, ends, guard))
        }
    }
}

/// Listens inside for the outer process, which accepts.
fn offer(control: &UnixStream, listen: &[(IpAddr, u16)]) -> io::Result<()> {
    for place in listen {
        let listener = TcpListener::bind(place)?;
        sys::send_descriptor(control.as_fd(), listener.as_fd())?;
    }
    Ok(())
}

fn release_input() -> io::Result<()> {
    sys::place(File::open("/dev/null")?.as_fd(), 0)
}

/// Reaps and passes signals on until the agent ends or the outer process is gone; then ends the rest.
fn attend(control: &UnixStream, ends: &OwnedFd, agent: i32, mut guard: Guard) {
    // What was replaced before anybody was told of it.
    let mut held = guard.check();
    while held.is_ok() {
        let mut fds = vec![PollFd::new(ends, PollFlags::IN), PollFd::new(control, PollFlags::IN)];
        let changes = guard.changes();
        fds.extend(changes.iter().map(|changes| PollFd::new(changes, PollFlags::IN)));
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => break,
        }
        let woken: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        if woken.get(2) == Some(&true) {
            // First of all: every moment counts.
            held = guard.handle();
            continue;
        }
        if woken[1] {
            let mut byte = [0];
            match (&mut &*control).read(&mut byte) {
                Ok(1) => sys::signal_group(agent, byte[0].into()),
                _ => break,
            }
        }
        if woken[0] {
            let mut word = [0; size_of::<libc::signalfd_siginfo>()];
            let _ = rustix::io::read(ends, &mut word);
            while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
                if pid.as_raw_nonzero().get() == agent {
                    namespaced::end_all();
                    guard.clear();
                    order::report(control, &super::exited(status));
                    return;
                }
            }
        }
    }
    namespaced::end_all();
    guard.clear();
    if let Err(breach) = held {
        order::report(control, &breach.report());
    }
}

/// The last steps: a session of its own, no rights, no new ones, Landlock, seccomp, its folder, and then the program.
/// Returns only if that failed.
fn become_agent(
    plan: &Plan,
    filters: &seccomp::Filters,
    command: &[OsString],
    working_dir: &std::path::Path,
    told: &File,
) -> i32 {
    let ready = || -> Result<(), Fault> {
        sys::reset_signals();
        rustix::process::setsid().map_err(Fault::at("session"))?;
        inner::give_up_rights()?;
        rustix::process::chdir(working_dir).map_err(Fault::at("working directory"))?;
        sys::close_from(3, libc::CLOSE_RANGE_CLOEXEC).map_err(Fault::at("descriptors"))?;
        landlock::restrict_built(plan).map_err(Fault::at("Landlock"))?;
        inner::refuse_calls(filters)
    };
    if let Err(fault) = ready() {
        order::report(told, &fault.report());
        return 1;
    }
    let env: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let program = command.first().map_or(OsStr::new(""), OsString::as_os_str);
    let error = if program.as_bytes().starts_with(b"/") {
        sys::exec(program, command, &env)
    } else {
        io::Error::from_raw_os_error(libc::EINVAL)
    };
    order::report(told, &Report::Unstarted { errno: error.raw_os_error().unwrap_or(0) });
    127
}
