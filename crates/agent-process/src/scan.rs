//! Finds session directories, and whether a living shim holds each. Trusts the lock, never a pid alone. Must
//! not connect to anything.

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

/// The holder of a lock.
pub(super) struct LockHolder {
    /// The pid the holder wrote; valid only while the lock is held.
    pub(super) pid: Option<i32>,
}

/// Returns every directory in `state_dir` that a shim has ever used, sorted. A missing `state_dir` contains
/// none.
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

/// Returns the name, without the run number, of the directory in `state_dir` that a process holds, if it is a
/// shim.
pub fn session_held_by(state_dir: &Path, pid: u32) -> Option<String> {
    let dir = value_of(pid, b"shim", b"--dir")?;
    let name = Path::new(&dir).strip_prefix(state_dir).ok()?.to_str()?;
    name.rsplit_once('.').map(|(session, _)| session.to_owned())
}

/// Returns the session that a process claims to bridge tools to: `obey mcp --session ID`. Any process can
/// claim that.
pub fn session_bridged_by(pid: u32) -> Option<String> {
    value_of(pid, b"mcp", b"--session")
}

/// Returns the value of a flag of a process that runs one of our commands.
fn value_of(pid: u32, command: &[u8], flag: &[u8]) -> Option<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = line.split(|&byte| byte == 0).skip(1);
    if words.next()? != command {
        return None;
    }
    let value = words.skip_while(|word| *word != flag).nth(1)?;
    Some(std::str::from_utf8(value).ok()?.to_owned())
}

/// Returns every directory in `state_dir`, whether or not a shim has ever used it, sorted.
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

/// Returns whether a living shim holds `dir`.
pub fn is_held(dir: &Path) -> io::Result<bool> {
    lock_holder(dir).map(|holder| holder.is_some())
}

/// Kills the shim that holds `dir`, and with it its agent.
pub(super) fn kill_holder(dir: &Path) {
    if let Ok(Some(holder)) = lock_holder(dir)
        && let Some(shim) = holder.pid.and_then(proc_table::find)
    {
        proc_table::signal(&shim, libc::SIGKILL);
    }
}

/// Returns the holder of the lock of `dir`, if a living shim has it.
pub(super) fn lock_holder(dir: &Path) -> io::Result<Option<LockHolder>> {
    let mut file = match File::open(dir.join(LOCK_NAME)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // A shared lock, so that two daemons checking at once do not take each other for a shim.
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
