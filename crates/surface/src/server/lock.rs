//! The lock that ensures only one daemon runs per user. It is held as long as the file is open, so that the
//! kernel releases it however the daemon ends. The process id in the file is for people.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use domain::{Error, ErrorCode};

use super::{folder, limits};

/// Proof that no other daemon runs with the same lock file.
#[derive(Debug)]
pub struct DaemonLock {
    path: PathBuf,
    /// Never read: closing it releases the lock.
    _file: File,
}

impl DaemonLock {
    /// Takes the lock, or returns which process holds it (OBEY-1012). Creates the folder with mode 0700 if it
    /// is missing. The file stays when the lock is released: removing it would let two daemons lock two
    /// different files.
    pub fn acquire(path: &Path) -> Result<Self, Error> {
        folder::private(folder::of(path), "the daemon's lock needs a folder of your own")?;
        let failed = |error: &std::io::Error| {
            let message = format!("cannot use the lock file {}: {}", path.display(), folder::plain(error));
            Error::new(ErrorCode::ListenFailed, message)
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)
            .map_err(|error| failed(&error))?;
        match lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(already_running(path, &mut file)),
            Err(TryLockError::Error(error)) => return Err(failed(&error)),
        }
        file.set_len(0)
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .map_err(|error| failed(&error))?;
        Ok(Self { path: path.to_owned(), _file: file })
    }

    /// Returns the path of the lock file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Retries, because clients that wait for a daemon probe the lock by taking a shared lock, which they release
/// at once.
fn lock(file: &File) -> Result<(), TryLockError> {
    for _ in 1..limits::LOCK_TRIES {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(limits::LOCK_PAUSE),
            result => return result,
        }
    }
    file.try_lock()
}

/// Returns the error that names the process that holds the lock, if its id can be read.
fn already_running(path: &Path, file: &mut File) -> Error {
    let mut text = String::new();
    // The process that holds the lock may not have written its id yet; then the message omits it.
    let _ = file.take(32).read_to_string(&mut text);
    let who = match text.trim().parse::<u32>() {
        Ok(pid) => format!("process {pid}"),
        Err(_) => "another process".to_owned(),
    };
    Error::new(
        ErrorCode::AlreadyRunning,
        format!("a daemon already runs: {who} holds {}; use it, or stop it first", path.display()),
    )
}
