//! Runs short programs to their end: in their own process group, without input or with one message, with bounded output and time.
//! For the daemon's own tools such as git; agents and their commands are held by shims.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

/// The program to run. The environment is complete: nothing is inherited.
#[derive(Clone, Debug)]
pub struct ShortCommand {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    pub cwd: PathBuf,
    pub wait: Duration,
    pub output_max_bytes: usize,
    /// The folders below which it may write, as far as the kernel can tell; nothing: wherever its user may.
    pub writes_below: Option<Vec<PathBuf>>,
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
        let mut child = self.spawn(Stdio::null())?;
        let group = child.id();
        let most = self.output_max_bytes;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let all = async {
            let (stdout, stderr, status) = tokio::join!(read(stdout, most), read(stderr, most), child.wait());
            let status = status.map_err(ShortCommandError::Output)?;
            Ok(ShortCommandOutput { ok: status.success(), stdout: stdout?, stderr: stderr? })
        };
        within(self.wait, group, all).await
    }

    /// Sends the program one message, and ends its input once it has answered with a line. Returns that line; what else it says is
    /// not kept.
    pub async fn ask(self, message: &[u8]) -> Result<Vec<u8>, ShortCommandError> {
        let mut child = self.spawn(Stdio::piped())?;
        let group = child.id();
        let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut input), Some(output)) = (input, output) else {
            return Err(ShortCommandError::Output(std::io::Error::other("no streams")));
        };
        let talk = async {
            let mut output = BufReader::new(output);
            let mut answer = Vec::new();
            input.write_all(message).await.map_err(ShortCommandError::Output)?;
            let mut line = (&mut output).take(self.output_max_bytes as u64);
            line.read_until(b'\n', &mut answer).await.map_err(ShortCommandError::Output)?;
            drop(input);
            read(Some(output), 0).await?;
            child.wait().await.map_err(ShortCommandError::Output)?;
            Ok(answer)
        };
        let all = async {
            let (answer, silenced) = tokio::join!(talk, read(errors, 0));
            silenced.and(answer)
        };
        within(self.wait, group, all).await
    }

    fn spawn(&self, input: Stdio) -> Result<tokio::process::Child, ShortCommandError> {
        let mut command = tokio::process::Command::new(&self.program);
        command
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.cwd)
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let started = match &self.writes_below {
            None => command.spawn(),
            Some(folders) => spawn_limited(command, folders),
        };
        started.map_err(ShortCommandError::Start)
    }
}

/// Starts a program that may write below some folders only. A thread cannot take its own limit back, so it has one for itself.
fn spawn_limited(
    mut command: tokio::process::Command,
    folders: &[PathBuf],
) -> std::io::Result<tokio::process::Child> {
    let runtime = tokio::runtime::Handle::try_current().map_err(std::io::Error::other)?;
    std::thread::scope(|scope| {
        let start = || {
            let _entered = runtime.enter();
            // A kernel without Landlock limits nothing; `obey doctor` says so.
            sandbox::write_scope::write_only_below(folders)?;
            command.spawn()
        };
        let thread =
            std::thread::Builder::new().name("short-command".to_owned()).spawn_scoped(scope, start)?;
        thread.join().unwrap_or_else(|_| Err(std::io::Error::other("the thread that starts it panicked")))
    })
}

async fn within<T>(
    wait: Duration,
    group: Option<u32>,
    work: impl Future<Output = Result<T, ShortCommandError>>,
) -> Result<T, ShortCommandError> {
    match tokio::time::timeout(wait, work).await {
        Ok(done) => done,
        Err(_) => {
            kill_group(group);
            Err(ShortCommandError::TimedOut(wait))
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
            writes_below: None,
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
    async fn a_program_writes_only_below_its_folders() {
        let home = tempfile::tempdir().unwrap();
        let (allowed, other) = (home.path().join("allowed"), home.path().join("other"));
        std::fs::create_dir_all(&allowed).unwrap();
        std::os::unix::fs::symlink(&other, allowed.join("link")).unwrap();
        let mut program = sh("echo a > file && ! echo b > link", Duration::from_secs(30));
        (program.cwd, program.writes_below) = (allowed.clone(), Some(vec![allowed.clone()]));
        assert!(program.run().await.unwrap().ok);
        assert!(allowed.join("file").exists() && !other.exists());
        std::fs::write(&other, "this thread is not limited").unwrap();
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

    #[tokio::test]
    async fn a_program_that_answers_is_let_end_and_a_silent_one_is_killed() {
        let script = "read line; echo \"to $line\"; cat > /dev/null; echo more";
        assert_eq!(sh(script, Duration::from_secs(30)).ask(b"me\n").await.unwrap(), b"to me\n");
        let silent = sh("sleep 1000", Duration::from_millis(50)).ask(b"me\n").await;
        assert!(matches!(silent, Err(ShortCommandError::TimedOut(_))), "{silent:?}");
    }
}
