//! Finding what is held: which session directories exist, and whether a living shim has each.
//! Trusts the lock, never a process number. Must not connect to anything nor change anything.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use shim::LOCK_NAME;

/// A session's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldDir {
    pub dir: PathBuf,
    /// Whether a living shim holds its lock.
    pub is_held: bool,
}

/// Whoever holds a lock.
pub(super) struct LockHolder {
    /// What the holder wrote; true only as long as the lock is held.
    pub(super) pid: Option<i32>,
}

/// Every directory in `state_dir` that a shim has ever used, sorted. A missing `state_dir` holds nothing.
pub fn find_held(state_dir: &Path) -> io::Result<Vec<HeldDir>> {
    let entries = match fs::read_dir(state_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        // Links are not followed: a session's directory is a real one.
        if entry.file_type()?.is_dir() && entry.path().join(LOCK_NAME).try_exists()? {
            let dir = entry.path();
            let is_held = is_held(&dir)?;
            found.push(HeldDir { dir, is_held });
        }
    }
    found.sort_by(|a, b| a.dir.cmp(&b.dir));
    Ok(found)
}

/// The name, without the number of its run, of the directory in `state_dir` that a process holds, if it is a shim.
pub fn session_held_by(state_dir: &Path, pid: u32) -> Option<String> {
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = command.split(|&byte| byte == 0).skip(1);
    if words.next()? != b"shim" {
        return None;
    }
    let dir = words.skip_while(|word| *word != b"--dir").nth(1)?;
    let name = Path::new(std::str::from_utf8(dir).ok()?).strip_prefix(state_dir).ok()?.to_str()?;
    name.rsplit_once('.').map(|(session, _)| session.to_owned())
}

/// Whether a living shim holds `dir`.
pub fn is_held(dir: &Path) -> io::Result<bool> {
    lock_holder(dir).map(|holder| holder.is_some())
}

pub(super) fn lock_holder(dir: &Path) -> io::Result<Option<LockHolder>> {
    let mut file = match File::open(dir.join(LOCK_NAME)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // Shared, so that two daemons looking at once do not take each other for a shim.
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let pid = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
            Ok(Some(LockHolder { pid }))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}
