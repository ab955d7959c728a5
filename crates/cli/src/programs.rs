//! Runs small system programs and returns their output: a version, the state of a service. With a timeout; no
//! process stays.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

/// The output of a program.
#[derive(Clone, Debug)]
pub struct ProgramOutput {
    pub status: ExitStatus,
    /// Standard output, trimmed.
    pub out: String,
    /// Standard error, trimmed.
    pub err: String,
}

/// Runs a program to its end. The error is a text for people.
pub async fn ask(
    program: &Path,
    args: &[impl AsRef<OsStr>],
    wait: Duration,
) -> Result<ProgramOutput, String> {
    let run =
        tokio::process::Command::new(program).args(args).stdin(Stdio::null()).kill_on_drop(true).output();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match tokio::time::timeout(wait, run).await {
        Ok(Ok(output)) => {
            Ok(ProgramOutput { status: output.status, out: text(&output.stdout), err: text(&output.stderr) })
        }
        Ok(Err(error)) => Err(format!("cannot be run: {error}")),
        Err(_) => Err(format!("does not end within {} s", wait.as_secs())),
    }
}
