//! Runs short programs to their end: in their own process group, without input, with bounded output and time.
//! For the daemon's own tools such as git; agents and their commands are held by shims.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The program to run. The environment is complete: nothing is inherited.
#[derive(Clone, Debug)]
pub struct ShortCommand {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    pub cwd: PathBuf,
    pub wait: Duration,
    pub output_max_bytes: usize,
}

/// The result of a program that ran to its end.
#[derive(Clone, Debug, Default)]
pub struct ShortCommandOutput {
    pub ok: bool,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// Why a program did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum ShortCommandError {
    #[error("it could not be started: {0}")]
    Start(std::io::Error),
    #[error("it did not end within {0:?}")]
    TimedOut(Duration),
    #[error("its output could not be read: {0}")]
    Output(std::io::Error),
}

impl ShortCommand {
    /// Runs the program. On timeout it is killed with everything it started.
    pub async fn run(self) -> Result<ShortCommandOutput, ShortCommandError> {
        let mut child = tokio::process::Command::new(&self.program)
            .args(&self.args)
            .env_clear()
            .envs(self.env)
            .current_dir(&self.cwd)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(ShortCommandError::Start)?;
        let group = child.id();
        let most = self.output_max_bytes;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let all = async {
            let (stdout, stderr, status) = tokio::join!(read(stdout, most), read(stderr, most), child.wait());
            let status = status.map_err(ShortCommandError::Output)?;
            Ok(ShortCommandOutput { ok: status.success(), stdout: stdout?, stderr: stderr? })
        };
        match tokio::time::timeout(self.wait, all).await {
            Ok(done) => done,
            Err(_) => {
                kill_group(group);
                Err(ShortCommandError::TimedOut(self.wait))
            }
        }
    }
}

/// Reads to the end. Bytes beyond the limit are discarded, so that the program does not block.
async fn read(from: Option<impl AsyncRead + Unpin>, most: usize) -> Result<Vec<u8>, ShortCommandError> {
    let Some(mut from) = from else { return Ok(Vec::new()) };
    let mut kept = Vec::new();
    let mut piece = [0; 8 * 1024];
    loop {
        let count = from.read(&mut piece).await.map_err(ShortCommandError::Output)?;
        if count == 0 {
            return Ok(kept);
        }
        let room = most.saturating_sub(kept.len()).min(count);
        kept.extend_from_slice(&piece[..room]);
    }
}

#[allow(unsafe_code)]
fn kill_group(leader: Option<u32>) {
    let Some(leader) = leader.and_then(|pid| i32::try_from(pid).ok()).filter(|pid| *pid > 1) else { return };
    // SAFETY: a plain system call; the group is our own child's, which has not been waited for yet.
    unsafe { libc::kill(-leader, libc::SIGKILL) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, wait: Duration) -> ShortCommand {
        ShortCommand {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            env: vec![("X".into(), "y".into())],
            cwd: "/".into(),
            wait,
            output_max_bytes: 10,
        }
    }

    #[tokio::test]
    async fn a_program_runs_to_its_end_in_its_own_environment() {
        let wait = Duration::from_secs(30);
        let done = sh("echo $X$HOME; echo e >&2; exit 3", wait).run().await.unwrap();
        assert_eq!(
            (done.ok, done.stdout.as_slice(), done.stderr.as_slice()),
            (false, &b"y\n"[..], &b"e\n"[..])
        );
        let done = sh("yes | head -c 100000", wait).run().await.unwrap();
        assert_eq!((done.ok, done.stdout.len()), (true, 10));
        let mut missing = sh("", wait);
        missing.program = "/nowhere/x".into();
        assert!(matches!(missing.run().await, Err(ShortCommandError::Start(_))));
    }

    #[tokio::test]
    async fn a_program_that_takes_too_long_is_killed_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("pid");
        let script = format!("sleep 1000 & echo $! > {}; wait", mark.display());
        let ended = sh(&script, Duration::from_millis(500)).run().await;
        assert!(matches!(ended, Err(ShortCommandError::TimedOut(_))));
        let pid: i32 = std::fs::read_to_string(mark).unwrap().trim().parse().unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        // An orphaned child that was killed is reaped by init at some later time.
        while std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(std::time::Instant::now() < deadline, "the child lives on");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
