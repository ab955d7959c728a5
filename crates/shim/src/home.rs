//! The session's directory as the shim sees it: the lock that proves it is alive, the reserve, the socket's
//! name. The shim works inside it (current directory), because a socket path may not be longer than 107
//! bytes. Must not know spool records or frames.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::{process, thread};

use crate::limits::{LOCK_ATTEMPTS_MAX, LOCK_RETRY, RESERVE_BYTES};
use crate::spool::segment_number;
use crate::sys;

/// The name of the lock; its holder is the living shim.
pub const LOCK_NAME: &str = "lock";
/// The name of the control socket.
pub const SOCKET_NAME: &str = "sock";
const RESERVE_NAME: &str = "reserve";

/// The directory, entered.
pub(crate) struct Home {
    path: PathBuf,
    identity: Identity,
    /// Held by being open; the kernel releases it however the shim ends.
    lock: Option<(File, Identity)>,
}

/// Device and inode, which identify a file independent of its name.
type Identity = (u64, u64);

fn identity(found: &Metadata) -> Identity {
    (found.dev(), found.ino())
}

impl Home {
    /// Enters `dir`, which must be a real directory of this user that no other user can enter.
    pub(crate) fn enter(dir: &Path) -> io::Result<Home> {
        let path = fs::canonicalize(dir)?;
        let handle =
            OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(dir)?;
        let found = handle.metadata()?;
        if found.uid() != sys::euid() || found.mode() & 0o077 != 0 {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        sys::change_dir_to(&handle)?;
        Ok(Home { path, identity: identity(&found), lock: None })
    }

    /// Takes the lock for the rest of this process's life.
    pub(crate) fn lock(&mut self) -> io::Result<()> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(LOCK_NAME)?;
        let mut attempts = 1;
        while let Err(error) = file.try_lock() {
            match error {
                fs::TryLockError::WouldBlock if attempts < LOCK_ATTEMPTS_MAX => thread::sleep(LOCK_RETRY),
                fs::TryLockError::WouldBlock => return Err(io::Error::from_raw_os_error(libc::EWOULDBLOCK)),
                fs::TryLockError::Error(error) => return Err(error),
            }
            attempts += 1;
        }
        // For people, and for a daemon that must ask for a new socket. Valid only while the lock is held.
        file.set_len(0)?;
        writeln!(file, "{}", process::id())?;
        let locked = identity(&file.metadata()?);
        self.lock = Some((file, locked));
        Ok(())
    }

    /// Returns whether there is a spool. An earlier agent's spool must not be continued: its positions belong
    /// to that agent.
    pub(crate) fn has_spool(&self) -> io::Result<bool> {
        for entry in fs::read_dir(".")? {
            if segment_number(&entry?.file_name()).is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reserves disk blocks for the exit record.
    pub(crate) fn reserve(&self) -> io::Result<()> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(RESERVE_NAME)?;
        sys::allocate(&file, RESERVE_BYTES)
    }

    /// Frees the reserve; it does not matter if it is already gone.
    pub(crate) fn free_reserve(&self) {
        let _ = fs::remove_file(RESERVE_NAME);
    }

    /// Opens the control socket, replacing one left by a dead shim or deleted by a cleaner.
    pub(crate) fn bind(&self) -> io::Result<UnixListener> {
        let _ = fs::remove_file(SOCKET_NAME);
        let listener = UnixListener::bind(SOCKET_NAME)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    /// Returns whether the directory and the lock are still those that were taken: without them the shim
    /// cannot be found. Errors other than "not found" prove nothing.
    pub(crate) fn is_there(&self) -> bool {
        let leads_to = |path: &Path, wanted: Identity| match fs::symlink_metadata(path) {
            Ok(found) => identity(&found) == wanted,
            Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        };
        leads_to(&self.path, self.identity)
            && self.lock.as_ref().is_none_or(|(_, locked)| leads_to(&self.path.join(LOCK_NAME), *locked))
    }

    /// Removes what only a living shim needs.
    pub(crate) fn tidy(&self) {
        let _ = fs::remove_file(SOCKET_NAME);
        self.free_reserve();
    }
}
