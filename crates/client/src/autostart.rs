//! Starts the daemon if none is listening: in its own session, with its output in a log file, waiting for its
//! ready line. Two concurrent commands start one daemon. Must not know what the daemon does.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::FlockOperation;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{ChildStdout, Command};

use crate::connection::{self, unreachable_daemon};
use crate::limits;
use config::failure::{Failure, Result};
use config::holder;
use config::paths::{self, Paths};

/// What to start and where it will listen.
#[derive(Clone, Debug)]
pub struct Launch {
    /// This program, except in tests.
    pub program: PathBuf,
    /// Flags for `serve` in addition to the socket.
    pub flags: Vec<OsString>,
    /// Variables that differ from ours: paths made absolute, because the daemon changes its working
    /// directory.
    pub variables: Vec<(&'static str, PathBuf)>,
    /// The whole environment, if it is not to be inherited.
    pub environment: Option<Vec<(OsString, OsString)>>,
    pub socket: PathBuf,
    pub paths: Paths,
    pub deadline: StartDeadline,
}

/// How long the daemon may take to become ready, and what happens after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartDeadline {
    /// A person waits. A slower daemon keeps running and may still become ready.
    Short,
    /// It may have to migrate its database first. A slower daemon is killed, so that another one can be
    /// started.
    Long,
}

impl StartDeadline {
    fn limit(self) -> Duration {
        match self {
            StartDeadline::Short => limits::START_WAIT,
            StartDeadline::Long => limits::UPGRADE_START_WAIT,
        }
    }
}

/// The result of a start.
#[derive(Debug, PartialEq, Eq)]
pub enum Started {
    /// Our daemon is ready; the addresses it listens on.
    Ready { pid: u32, listen: String },
    /// Another daemon was already started.
    Already,
}

/// The exclusive right to start or replace the daemon. A command that waits for it then finds a daemon that
/// is ready.
#[derive(Debug)]
pub struct StartLock(#[allow(dead_code, reason = "held by being open")] File);

/// Waits for the exclusive right to start or replace the daemon.
pub async fn hold(paths: &Paths) -> Result<StartLock> {
    paths::make_private(&paths.state_dir)?;
    lock(&paths.start_lock()).await.map(StartLock)
}

/// Starts a daemon and waits until it is ready.
pub async fn start(launch: &Launch) -> Result<Started> {
    let lock = hold(&launch.paths).await?;
    start_holding(launch, &lock).await
}

/// Like `start`, for a caller that already holds the lock.
pub async fn start_holding(launch: &Launch, _lock: &StartLock) -> Result<Started> {
    if connection::probe(&launch.socket).await? {
        return Ok(Started::Already);
    }
    let log_path = launch.paths.log_file();
    let (log, begin) = open_log(&log_path).map_err(|error| cannot_write(&log_path, &error))?;
    let mut command = Command::new(&launch.program);
    if let Some(environment) = &launch.environment {
        command.env_clear().envs(environment.iter().map(|(name, value)| (name, value)));
    }
    let mut child = command
        .args(["serve", "--background", "--socket"])
        .arg(&launch.socket)
        .args(&launch.flags)
        .envs(launch.variables.iter().map(|(name, path)| (name, path)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        // The caller's folder must stay removable while the daemon runs.
        .current_dir("/")
        .spawn()
        .map_err(|error| Failure::failed(format!("cannot start {}: {error}", launch.program.display())))?;
    let pid = child.id().unwrap_or_default();
    let Some(stdout) = child.stdout.take() else { return Err(Failure::failed("the daemon has no output")) };
    let limit = launch.deadline.limit();
    let why = match tokio::time::timeout(limit, ready(stdout)).await {
        Ok(Some(listen)) => return Ok(Started::Ready { pid, listen }),
        Ok(None) if another_starts(launch, limit).await? => return Ok(Started::Already),
        Ok(None) => "it was started but ended at once".to_owned(),
        Err(_) => format!("it was started but is not ready after {} s", limit.as_secs()),
    };
    if launch.deadline == StartDeadline::Long {
        // An error means that it has already ended.
        let _gone = child.kill().await;
    }
    Err(not_started(launch, &why, &log_path, begin))
}

/// Waits for a daemon that was faster than ours, such as one of the service manager: it holds a lock before it listens. Returns whether
/// one listens.
async fn another_starts(launch: &Launch, limit: Duration) -> Result<bool> {
    let locks = [launch.socket.with_extension("lock"), launch.paths.data_dir.join("daemon.lock")];
    let last = tokio::time::Instant::now() + limit;
    loop {
        // Looked at first: it may listen and let go of nothing, or end, in between.
        let is_held = locks.iter().any(|lock| holder::is_held(lock));
        if connection::probe(&launch.socket).await? {
            return Ok(true);
        }
        if !is_held || tokio::time::Instant::now() >= last {
            return Ok(false);
        }
        tokio::time::sleep(limits::EXCHANGE_PAUSE).await;
    }
}

/// Reads up to the ready line; `None` if the output ends before it.
async fn ready(stdout: ChildStdout) -> Option<String> {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(listen) = config::ready::read_ready_line(&line) {
            return Some(listen.to_owned());
        }
    }
    None
}

fn not_started(launch: &Launch, why: &str, log_path: &Path, begin: u64) -> Failure {
    let mut failure = unreachable_daemon(&launch.socket, why);
    for line in log_tail(log_path, begin) {
        failure.message.push_str("\n  | ");
        failure.message.push_str(&line);
    }
    failure.with_hint(format!("its log is {}; see it start with: obey serve", log_path.display()))
}

/// Takes the lock on a blocking thread.
async fn lock(path: &Path) -> Result<File> {
    let open = OpenOptions::new().create(true).append(true).mode(paths::PRIVATE_FILE).open(path);
    let file = open.map_err(|error| cannot_write(path, &error))?;
    let waiting = tokio::task::spawn_blocking(move || {
        rustix::fs::flock(&file, FlockOperation::LockExclusive).map(|()| file).map_err(std::io::Error::from)
    });
    match tokio::time::timeout(limits::START_LOCK_WAIT, waiting).await {
        Ok(Ok(locked)) => locked.map_err(|error| cannot_write(path, &error)),
        Ok(Err(error)) => Err(Failure::failed(format!("cannot wait for {}: {error}", path.display()))),
        Err(_) => Err(Failure::failed(format!(
            "another command has been starting the daemon for {} s",
            limits::START_LOCK_WAIT.as_secs()
        ))
        .with_hint(format!("it holds {}; end that command and try again", path.display()))),
    }
}

/// Opens the log for appending, and returns the offset where this start's output begins.
fn open_log(path: &Path) -> std::io::Result<(File, u64)> {
    if fs::metadata(path).is_ok_and(|meta| meta.len() > limits::LOG_MAX_BYTES) {
        fs::rename(path, path.with_extension("log.1"))?;
    }
    let mut file = OpenOptions::new().create(true).append(true).mode(paths::PRIVATE_FILE).open(path)?;
    let begin = file.seek(SeekFrom::End(0))?;
    Ok((file, begin))
}

/// Returns the last lines of the daemon's log that were written after `begin`.
fn log_tail(path: &Path, begin: u64) -> Vec<String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|mut file| {
        file.seek(SeekFrom::Start(begin))?;
        file.read_to_end(&mut bytes)
    });
    if read.is_err() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines
        .iter()
        .skip(lines.len().saturating_sub(limits::LOG_TAIL_LINES))
        .map(|line| (*line).to_owned())
        .collect()
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
