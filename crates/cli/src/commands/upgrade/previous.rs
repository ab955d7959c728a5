//! What is needed to restart the old daemon: its program, even if the file was replaced, and its environment. The daemon says
//! both itself; one of an earlier version, which other processes can look at, is looked at.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use client::connection::Client;
use config::failure::Result;
use config::running::Running;
use wire::obey::v1 as pb;

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

/// How the old daemon was started.
#[derive(Debug)]
pub(super) struct Previous {
    program: PathBuf,
    /// Another file is now at the program's path, and this one was made to keep it.
    is_copy: bool,
    /// `None` if it cannot be learned.
    pub(super) environment: Option<Vec<(OsString, OsString)>>,
}

impl Previous {
    /// Ensures that the old program can be restarted, and learns its environment.
    pub(super) async fn keep(running: &Running, client: &Client) -> Result<Self> {
        match client.daemon_operations().prepare_upgrade(pb::PrepareUpgradeRequest {}).await {
            Ok(prepared) => Ok(Self::told(prepared.into_inner())),
            Err(status) if status.code() == tonic::Code::Unimplemented => Ok(Self {
                program: running.program.clone(),
                is_copy: false,
                environment: environment(running.pid),
            }),
            Err(status) => Err(status.into()),
        }
    }

    fn told(prepared: pb::PrepareUpgradeResponse) -> Self {
        let pairs = prepared.environment.into_iter();
        let pairs = pairs.map(|pair| (OsString::from_vec(pair.name), OsString::from_vec(pair.value)));
        Self {
            program: prepared.program.into(),
            is_copy: prepared.is_copy,
            environment: Some(pairs.filter(|(name, _)| is_passed_on(name)).collect()),
        }
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Removes the copy once the new daemon runs.
    pub(super) fn forget(self) {
        if self.is_copy {
            // If this fails, the next upgrade overwrites it.
            let _absent = fs::remove_file(self.program);
        }
    }
}

fn is_passed_on(name: &OsStr) -> bool {
    !NOT_PASSED_ON.iter().any(|not| name == *not)
}

/// Returns the environment a process was started with, if the system provides it.
fn environment(pid: i32) -> Option<Vec<(OsString, OsString)>> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).ok()?;
    Some(read_environment(&bytes))
}

fn read_environment(bytes: &[u8]) -> Vec<(OsString, OsString)> {
    let entries = bytes.split(|byte| *byte == 0).filter_map(|entry| {
        let at = entry.iter().position(|byte| *byte == b'=')?;
        Some((OsStr::from_bytes(&entry[..at]).to_owned(), OsStr::from_bytes(&entry[at + 1..]).to_owned()))
    });
    entries.filter(|(name, _)| is_passed_on(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_is_read_without_what_was_meant_for_one_process() {
        let read = read_environment(b"A=1\0B=x=y\0LISTEN_FDS=1\0NOTIFY_SOCKET=@x\0EMPTY=\0broken\0");
        let text: Vec<(&str, &str)> =
            read.iter().map(|(name, value)| (name.to_str().unwrap(), value.to_str().unwrap())).collect();
        assert_eq!(text, [("A", "1"), ("B", "x=y"), ("EMPTY", "")]);
    }

    #[test]
    fn a_copy_goes_once_the_new_daemon_runs_and_the_original_stays() {
        let temp = tempfile::tempdir().unwrap();
        for is_copy in [true, false] {
            let file = temp.path().join("obey");
            fs::write(&file, "x").unwrap();
            let program = file.display().to_string();
            let variable = |name: &str| pb::StartVariable { name: name.into(), value: "1".into() };
            let environment = vec![variable("A"), variable("NOTIFY_SOCKET")];
            let told = Previous::told(pb::PrepareUpgradeResponse { environment, program, is_copy });
            assert_eq!(told.environment, Some(vec![("A".into(), "1".into())]));
            told.forget();
            assert_eq!(file.exists(), !is_copy);
        }
    }
}
