//! The part of the sandbox that runs in processes of its own, each with one thread and no runtime. A keeper makes a stage
//! for every sandbox; the stage prepares it as far as it can without knowing the command, waits for an order, watches the
//! command, and kills all of it when the daemon asks or goes away.
//! Must not be reached by the command: it holds the control socket and, at first, all rights of the new namespaces.

pub(crate) mod agent;
mod confined;
mod escape;
mod guard;
mod inner;
mod keep;
pub(super) mod landlock;
mod namespaced;
mod root;
mod seccomp;
pub(crate) mod tidy;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::order::{self, Plan, Report};
use super::{Tier, sys};

pub(crate) use keep::enter;

/// What went wrong, and at which step.
#[derive(Debug)]
pub(crate) struct Fault {
    step: &'static str,
    error: io::Error,
}

impl Fault {
    fn at<E: Into<io::Error>>(step: &'static str) -> impl Fn(E) -> Self {
        move |error| Self { step, error: error.into() }
    }

    fn report(&self) -> Report {
        Report::Unbuilt { step: self.step.into(), errno: self.error.raw_os_error().unwrap_or(0) }
    }
}

/// What a stage is given by its keeper.
struct StageInput {
    plan: Plan,
    /// To the daemon: reports go out; how long the command may take comes in; its end means that nobody wants it.
    control: File,
    /// Where the order will come from.
    orders: File,
    /// To the daemon, too: why there is no command, or, by being closed, that it took over.
    told: File,
    /// The user and group the keeper runs as.
    owner: (u32, u32),
    /// System calls the command must not use, ready to be handed to the kernel.
    filters: seccomp::Filters,
}

/// Runs the stage. Returns the exit code of the process.
fn run(given: StageInput) -> i32 {
    let control = match given.control.try_clone() {
        Ok(control) => control,
        Err(_) => return 2,
    };
    let ended = match given.plan.tier {
        Tier::Namespaces => namespaced::run(given),
        Tier::Landlock | Tier::None => confined::run(given),
        Tier::Refused => Err(Fault { step: "tier", error: io::Error::from_raw_os_error(libc::ENOTSUP) }),
    };
    match ended {
        Ok(report) => {
            order::report(&control, &report);
            // Who waits for that goes first: taking a sandbox apart takes longer than reading a line.
            rustix::thread::sched_yield();
            0
        }
        Err(fault) => {
            order::report(&control, &fault.report());
            1
        }
    }
}

/// Lets go of the command's outputs, so that they end when the command does.
fn release_outputs() -> io::Result<()> {
    let null = File::options().write(true).open("/dev/null")?;
    sys::place(null.as_fd(), 1)?;
    sys::place(null.as_fd(), 2)
}

/// What ended the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wake {
    ChildEnded,
    /// The daemon closed its side, or died.
    DaemonGone,
    Expired,
    /// Something happened to a protected name.
    Changed,
    /// It is time to look at protected names.
    Look,
}

impl Wake {
    /// What to report when the command did not end by itself.
    fn report(self) -> Report {
        if self == Self::Expired { Report::Expired } else { Report::Killed }
    }
}

/// Waits until a child ends, the daemon wants no more, the time is up or something is to be looked at. The clock starts when the
/// daemon says how long.
fn watch(
    control: &File,
    child: &OwnedFd,
    deadline: &mut Option<Instant>,
    changes: Option<BorrowedFd<'_>>,
    look_at: Option<Instant>,
) -> io::Result<Wake> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    loop {
        let left = |at: Option<Instant>| at.map(|at| at.saturating_duration_since(Instant::now()));
        let (until_end, until_look) = (left(*deadline), left(look_at));
        if until_end.is_some_and(|left| left.is_zero()) {
            return Ok(Wake::Expired);
        }
        let wait = until_end.into_iter().chain(until_look).min();
        let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
        let mut fds = vec![PollFd::new(child, PollFlags::IN), PollFd::new(control, PollFlags::IN)];
        fds.extend(changes.iter().map(|changes| PollFd::new(changes, PollFlags::IN)));
        match poll(&mut fds, wait.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let is_woken = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
        if is_woken(2) {
            return Ok(Wake::Changed);
        }
        if is_woken(0) {
            return Ok(Wake::ChildEnded);
        }
        if is_woken(1) {
            match time_given(control) {
                Some(time) => *deadline = Instant::now().checked_add(time),
                None => return Ok(Wake::DaemonGone),
            }
        } else if look_at.is_some_and(|at| at <= Instant::now()) {
            return Ok(Wake::Look);
        }
    }
}

/// Reads how long the command may take; none when the daemon closed its side.
fn time_given(mut control: &File) -> Option<Duration> {
    let mut millis = [0; size_of::<u64>()];
    io::Read::read_exact(&mut control, &mut millis).ok()?;
    Some(Duration::from_millis(u64::from_le_bytes(millis)))
}

fn pid(raw: i32) -> io::Result<Pid> {
    Pid::from_raw(raw).ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
}

/// How a child ended, as a report.
fn exited(status: rustix::process::WaitStatus) -> Report {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Report::Exited { code, signal: 0 },
        (None, signal) => {
            let signal = signal.unwrap_or(libc::SIGKILL);
            Report::Exited { code: 128 + signal, signal }
        }
    }
}

/// Joins the control groups prepared by the daemon. A group that went away holds nothing back, so that the command
/// must not run without it.
fn join(groups: &[File]) -> io::Result<()> {
    use std::io::Write;
    groups.iter().try_for_each(|mut group| group.write_all(b"0"))
}

fn open_groups(plan: &Plan) -> io::Result<Vec<File>> {
    plan.cgroups.iter().map(|path| File::options().write(true).open(path)).collect()
}

/// Offers the command to the kernel first when memory runs out.
fn volunteer() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
}
