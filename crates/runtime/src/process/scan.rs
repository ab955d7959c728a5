//! Finding what is held: which session directories exist, and whether a living shim has each.
//! Trusts the lock, never a process number alone. Must not connect to anything.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use shim::{LOCK_NAME, proc_table};

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
    let dir = value_of(pid, b"shim", b"--dir")?;
    let name = Path::new(&dir).strip_prefix(state_dir).ok()?.to_str()?;
    name.rsplit_once('.').map(|(session, _)| session.to_owned())
}

/// The session that a process says it brings tools to: `obey mcp --session ID`. Anybody can say so.
pub fn session_bridged_by(pid: u32) -> Option<String> {
    value_of(pid, b"mcp", b"--session")
}

/// The value of a flag of a process that runs a command of ours.
fn value_of(pid: u32, command: &[u8], flag: &[u8]) -> Option<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = line.split(|&byte| byte == 0).skip(1);
    if words.next()? != command {
        return None;
    }
    let value = words.skip_while(|word| *word != flag).nth(1)?;
    Some(std::str::from_utf8(value).ok()?.to_owned())
}

/// Every directory in `state_dir`, whether or not a shim has ever been there, sorted.
pub fn find_all(state_dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(state_dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Whether a living shim holds `dir`.
pub fn is_held(dir: &Path) -> io::Result<bool> {
    lock_holder(dir).map(|holder| holder.is_some())
}

/// Kills the shim that holds `dir`, and so its agent.
pub(super) fn kill_holder(dir: &Path) {
    if let Ok(Some(holder)) = lock_holder(dir)
        && let Some(shim) = holder.pid.and_then(proc_table::find)
    {
        proc_table::signal(&shim, libc::SIGKILL);
    }
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
