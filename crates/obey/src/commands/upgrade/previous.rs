//! What is needed to restart the old daemon: its program, even if the file was replaced, and its environment.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};
use crate::paths::{self, Paths};
use crate::running::Running;

/// Variables that were meant only for that process.
const NOT_PASSED_ON: [&str; 7] = [
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "LISTEN_PIDFDID",
    "NOTIFY_SOCKET",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
];

/// The program of the old daemon.
#[derive(Debug)]
pub(super) enum Previous {
    /// At its original path.
    InPlace(PathBuf),
    /// A copy, made because another file is now at its path.
    Copy(PathBuf),
}

impl Previous {
    /// Ensures that the old program can be restarted.
    pub(super) fn keep(running: &Running, paths: &Paths) -> Result<Self> {
        let alive = PathBuf::from(format!("/proc/{}/exe", running.pid));
        let identity = |path: &Path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
        let (now, then) = (identity(&running.program), identity(&alive));
        // Without /proc, the file at its path is the best guess.
        if then.is_none() || now == then {
            return Ok(Self::InPlace(running.program.clone()));
        }
        let folder = paths.state_dir.join("previous");
        paths::make_private(&folder)?;
        let copy = folder.join("obey");
        let copied = copy_program(&alive, &copy);
        copied.map_err(|error| {
            let message = format!("cannot keep a copy of the running program in {}: {error}", copy.display());
            Failure::failed(message).with_hint("make room there, or end the daemon yourself: obey stop")
        })?;
        Ok(Self::Copy(copy))
    }

    pub(super) fn program(&self) -> &Path {
        match self {
            Self::InPlace(path) | Self::Copy(path) => path,
        }
    }

    /// Removes the copy once the new daemon runs.
    pub(super) fn forget(self) {
        if let Self::Copy(path) = self {
            // If this fails, the next upgrade overwrites it.
            let _absent = fs::remove_file(path);
        }
    }
}

/// Copies the program of the old daemon.
fn copy_program(from: &Path, to: &Path) -> std::io::Result<()> {
    // A running program cannot be overwritten, so the copy is renamed into place.
    let draft = to.with_extension("new");
    let _absent = fs::remove_file(&draft);
    let mut source = fs::File::open(from)?;
    let mut copy = fs::OpenOptions::new().write(true).create_new(true).mode(0o700).open(&draft)?;
    std::io::copy(&mut source, &mut copy)?;
    drop(copy);
    fs::rename(draft, to)
}

/// Returns the environment a process was started with, if the system provides it.
pub(super) fn environment(pid: i32) -> Option<Vec<(OsString, OsString)>> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).ok()?;
    Some(read_environment(&bytes))
}

fn read_environment(bytes: &[u8]) -> Vec<(OsString, OsString)> {
    let entries = bytes.split(|byte| *byte == 0).filter_map(|entry| {
        let at = entry.iter().position(|byte| *byte == b'=')?;
        Some((OsStr::from_bytes(&entry[..at]).to_owned(), OsStr::from_bytes(&entry[at + 1..]).to_owned()))
    });
    entries.filter(|(name, _)| !NOT_PASSED_ON.iter().any(|not| name == not)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vars::Vars;

    #[test]
    fn an_environment_is_read_without_what_was_meant_for_one_process() {
        let read = read_environment(b"A=1\0B=x=y\0LISTEN_FDS=1\0NOTIFY_SOCKET=@x\0EMPTY=\0broken\0");
        let text: Vec<(&str, &str)> =
            read.iter().map(|(name, value)| (name.to_str().unwrap(), value.to_str().unwrap())).collect();
        assert_eq!(text, [("A", "1"), ("B", "x=y"), ("EMPTY", "")]);
    }

    #[test]
    fn a_program_that_was_replaced_is_copied_from_the_living_process() {
        let temp = tempfile::tempdir().unwrap();
        let paths = Paths::of(&Vars::of(&[("HOME", temp.path().to_str().unwrap())]), 1);
        let own = std::env::current_exe().unwrap();
        let pid = i32::try_from(std::process::id()).unwrap();
        let in_place = Running { pid, program: own.clone(), ..Running::default() };
        let kept = Previous::keep(&in_place, &paths).unwrap();
        assert!(matches!(&kept, Previous::InPlace(path) if *path == own), "{kept:?}");

        let other = temp.path().join("obey");
        fs::write(&other, "another one").unwrap();
        let replaced = Running { pid, program: other, ..Running::default() };
        let kept = Previous::keep(&replaced, &paths).unwrap();
        let copy = kept.program().to_owned();
        assert!(matches!(kept, Previous::Copy(_)));
        assert_eq!(fs::metadata(&copy).unwrap().len(), fs::metadata(&own).unwrap().len());
        assert_eq!(fs::metadata(&copy).unwrap().mode() & 0o777, 0o700);
        kept.forget();
        assert!(!copy.exists());
    }
}
