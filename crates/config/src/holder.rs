//! The holder of a daemon's lock: whether there is one, and its process, found by the pid in the lock file
//! and ended through a handle that cannot come to mean another process. For daemons that are unreachable over
//! their socket.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FlockOperation;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A process that holds a lock.
pub struct Holder {
    pub pid: i32,
    process: OwnedFd,
}

impl Holder {
    /// Returns the holder of the lock; `None` if it is not held or the pid is unknown.
    pub fn of(lock: &Path) -> Option<Self> {
        let pid = number_in_held(lock)?;
        let process = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        // If the lock still contains the same pid, the handle is that of the holder: a pid is reused only
        // after its process ended.
        (number_in_held(lock)? == pid).then_some(Self { pid, process })
    }

    /// Ends it as `obey stop` would: its agents keep running. Returns whether it ended in time.
    pub fn end(&self, deadline: Duration) -> bool {
        if pidfd_send_signal(&self.process, Signal::TERM).is_err() {
            return false;
        }
        ended(&self.process, deadline)
    }
}

/// Returns whether a lock is held.
pub fn is_held(lock: &Path) -> bool {
    File::open(lock).is_ok_and(|file| is_taken(&file))
}

/// Requests a shared lock: enough to find out, without blocking a process that is just starting.
fn is_taken(lock: &File) -> bool {
    rustix::fs::flock(lock, FlockOperation::NonBlockingLockShared).is_err()
}

/// Returns whether a lock is held, and the pid of its last holder. `None`: the file does not exist.
pub fn look(lock: &Path) -> Option<(bool, Option<i32>)> {
    let mut file = File::open(lock).ok()?;
    let held = is_taken(&file);
    let mut text = String::new();
    let _unreadable = file.read_to_string(&mut text);
    Some((held, text.trim().parse().ok()))
}

fn number_in_held(lock: &Path) -> Option<i32> {
    look(lock).and_then(|(held, number)| number.filter(|_| held))
}

/// Waits for the end of a process. Returns whether it ended in time.
pub fn ended(process: &OwnedFd, deadline: Duration) -> bool {
    let limit = Timespec::try_from(deadline).ok();
    let mut waited = [PollFd::new(process, PollFlags::IN)];
    poll(&mut waited, limit.as_ref()).is_ok_and(|ended| ended > 0)
}
