//! The part of the sandbox that runs in a process of its own: reads an order, builds the sandbox around a command,
//! watches it, and kills all of it when the daemon asks or goes away. Has one thread and no runtime.
//! Must not be reached by the command: it holds the control socket and, at first, all rights of the new namespaces.

mod confined;
mod escape;
mod inner;
pub(super) mod landlock;
mod namespaced;
mod root;
mod seccomp;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::order::{self, Order, Report};
use super::{Tier, sys};

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

/// Runs the stage; its standard input is the control socket. Returns the exit code of the process.
pub(crate) fn enter() -> i32 {
    let control = match take_control() {
        Ok(control) => control,
        Err(_) => return 2,
    };
    let order = match order::read(&control) {
        Ok(order) => order,
        Err(error) => {
            order::report(&control, &Fault { step: "order", error }.report());
            return 2;
        }
    };
    let ended = match order.tier {
        Tier::Namespaces => namespaced::run(&order, &control),
        Tier::Landlock | Tier::None => confined::run(&order, &control),
        Tier::Refused => Err(Fault { step: "tier", error: io::Error::from_raw_os_error(libc::ENOTSUP) }),
    };
    match ended {
        Ok(report) => {
            order::report(&control, &report);
            0
        }
        Err(fault) => {
            order::report(&control, &fault.report());
            1
        }
    }
}

/// Leaves the daemon's surroundings: no descriptors but the control socket and the two outputs, no terminal, no
/// signals that were meant for the daemon's group.
fn take_control() -> io::Result<File> {
    sys::close_from(3, 0)?;
    sys::reset_signals();
    // Output whose reader is gone must not end the stage before it has killed the command.
    sys::ignore_signal(libc::SIGPIPE);
    let _ = rustix::process::setsid();
    let input = sys::take(0);
    let control = rustix::io::fcntl_dupfd_cloexec(&input, 3)?;
    let null = File::open("/dev/null")?;
    // The number 0 stays taken; the descriptor behind it becomes the command's empty input.
    sys::place(null.as_fd(), 0)?;
    std::mem::forget(input);
    Ok(File::from(control))
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
}

impl Wake {
    /// What to report when the command did not end by itself.
    fn report(self) -> Report {
        if self == Self::Expired { Report::Expired } else { Report::Killed }
    }
}

/// When the order's time is up; none if that is too far away to count.
fn deadline(order: &Order) -> Option<Instant> {
    Instant::now().checked_add(Duration::from_millis(order.timeout_ms))
}

/// Waits until a child ends, the daemon wants no more, or the time is up.
fn watch(control: &File, child: &OwnedFd, deadline: Option<Instant>) -> io::Result<Wake> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(Wake::Expired);
        }
        let wait = left.and_then(|left| Timespec::try_from(left).ok());
        let mut fds = [PollFd::new(child, PollFlags::IN), PollFd::new(control, PollFlags::IN)];
        match poll(&mut fds, wait.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        if !fds[0].revents().is_empty() {
            return Ok(Wake::ChildEnded);
        }
        if !fds[1].revents().is_empty() {
            return Ok(Wake::DaemonGone);
        }
    }
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

fn open_groups(order: &Order) -> io::Result<Vec<File>> {
    order.cgroups.iter().map(|path| File::options().write(true).open(path)).collect()
}

/// Offers the command to the kernel first when memory runs out.
fn volunteer() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
}
