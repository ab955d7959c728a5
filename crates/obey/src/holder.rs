//! Whoever holds a daemon's lock: found by the number in the lock file, ended through a handle that cannot come to mean
//! another process. For daemons that nobody can reach over their socket any more.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FlockOperation;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A process that holds a lock.
pub(crate) struct Holder {
    pub(crate) pid: i32,
    process: OwnedFd,
}

impl Holder {
    /// Returns who holds the lock; nothing where nobody does or where its number is not known.
    pub(crate) fn of(lock: &Path) -> Option<Self> {
        let pid = number_in_held(lock)?;
        let process = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        // The handle is of the holder if the lock still tells the same: a number is free again only after its end.
        (number_in_held(lock)? == pid).then_some(Self { pid, process })
    }

    /// Has it end as `obey stop` would: its agents go on. Returns whether it ended in time.
    pub(crate) fn end(&self, patience: Duration) -> bool {
        if pidfd_send_signal(&self.process, Signal::TERM).is_err() {
            return false;
        }
        ended(&self.process, patience)
    }
}

fn number_in_held(lock: &Path) -> Option<i32> {
    let mut file = File::open(lock).ok()?;
    // A share is enough to find out, and takes the lock from nobody who starts right now.
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        return None;
    }
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Waits for the end of a process. Returns whether it came in time.
pub(crate) fn ended(process: &OwnedFd, patience: Duration) -> bool {
    let limit = Timespec::try_from(patience).ok();
    let mut waited = [PollFd::new(process, PollFlags::IN)];
    poll(&mut waited, limit.as_ref()).is_ok_and(|ended| ended > 0)
}
