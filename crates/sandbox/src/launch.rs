//! The daemon's side of one command: gives a stage its order, reads outputs and reports, kills at the deadline, clears
//! away what the command needed. Memory is bounded: what nobody reads stays in the pipes.

use std::ffi::OsString;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use domain::{Error, ErrorCode};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf, pipe};
use tokio::time::Instant;

use super::cgroup::Cgroup;
use super::history_copy::KeptHistory;
use super::order::{self, Order, Report};
use super::protect::Placeholders;
use super::stages::Stage;
use super::{Config, Tier};
use crate::limits;

/// What a stage says, line by line; ends with the stage.
type Reports = Lines<BufReader<OwnedReadHalf>>;

/// What a command brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    /// Always the last.
    Ended(CommandEnd),
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandEnd {
    /// As a shell would show it: 128 and the signal for a command that was killed, 124 for one that took too long.
    pub exit_code: i32,
    pub signal: i32,
    pub timed_out: bool,
    pub duration: Duration,
    pub tier: Tier,
}

/// What a shell's `timeout` returns.
const EXIT_TIMED_OUT: i32 = 124;

/// A command that runs. Dropping it kills the whole tree.
#[derive(Debug)]
pub struct Running {
    /// The stage itself, to end it if it does not answer.
    handle: Option<OwnedFd>,
    control: Option<OwnedWriteHalf>,
    reports: Option<Reports>,
    stdout: Option<pipe::Receiver>,
    stderr: Option<pipe::Receiver>,
    last: Option<Report>,
    /// What is said where the command's own words end, if a protected file may have been changed.
    unprotected: Option<String>,
    tier: Tier,
    started: Instant,
    deadline: Instant,
    /// When the stage, having been asked to kill, is killed itself.
    kill_by: Option<Instant>,
    timed_out: bool,
    ended: bool,
    leftovers: Option<Leftovers>,
}

/// The first report about a command.
enum First {
    Started,
    Report(Report),
    /// Nothing, and nothing will come.
    Silence,
}

/// What must be cleared away when a command is gone.
#[derive(Debug)]
pub(super) struct Leftovers {
    pub(super) history: Option<KeptHistory>,
    placeholders: Vec<Arc<Placeholders>>,
    cgroup: Option<Cgroup>,
    scratch: Option<Scratch>,
}

/// A folder for temporary files, gone with its command.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, "cannot remove a command's temporary folder");
        }
    }
}

/// Readies what a command needs beside its sandbox. Only the lower tier needs a folder for temporary files.
pub(super) fn ready(
    config: &Config,
    tier: Tier,
    order: &mut Order,
    placeholders: Vec<Arc<Placeholders>>,
) -> Result<Leftovers, Error> {
    let mut leftovers = Leftovers { history: None, placeholders, cgroup: None, scratch: None };
    if tier != Tier::Namespaces {
        let scratch = temporary_folder(&config.temporary).map_err(failed("temporary folder"))?;
        order.scratch = Some(scratch.clone().into_os_string());
        leftovers.scratch = Some(Scratch(scratch));
    }
    order.env = environment(order, tier);
    Ok(leftovers)
}

/// Gives a stage its order and waits until the command runs.
pub(super) async fn start(
    stage: Stage,
    order: Order,
    tier: Tier,
    mut leftovers: Leftovers,
    timeout: Duration,
) -> Result<Running, Error> {
    let Stage { control, handle, mut orders, told, stdout, stderr, cgroup } = stage;
    leftovers.cgroup = cgroup;
    let message = order::encode(&order).map_err(failed("order"))?;
    let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    // A stage that died says so by its silence.
    let _ = orders.write_all(&message).await;
    drop(orders);
    let now = Instant::now();
    let (read, mut write) = control.into_split();
    let _ = write.write_all(&millis.to_le_bytes()).await;
    let mut running = Running {
        handle,
        control: Some(write),
        reports: Some(BufReader::new(read).lines()),
        stdout: Some(stdout),
        stderr: Some(stderr),
        last: None,
        unprotected: None,
        tier,
        started: now,
        // The stage keeps the time, too, and should be the first to act.
        deadline: now + timeout + limits::TIMEOUT_SLACK,
        kill_by: None,
        timed_out: false,
        ended: false,
        leftovers: Some(leftovers),
    };
    running.wait_until_started(told).await?;
    Ok(running)
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |error| Error::new(ErrorCode::SandboxFailed, format!("{what}: {error}"))
}

/// Receives the first thing that comes from a stage, the handle to it, or from its keeper, which has none to give and says
/// next why there is no stage. An error if nobody is there to say anything.
pub(super) async fn take_handle(control: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let receive = || -> io::Result<Option<OwnedFd>> {
        let mut byte = order::HANDLE;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut byte)];
        if rustix::net::recvmsg(control, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let handles = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut list) => list.next(),
            _ => None,
        });
        Ok(handles.last())
    };
    let wait = tokio::time::timeout(limits::STAGE_WAIT, control.async_io(Interest::READABLE, receive));
    wait.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// The whole environment of a command: a few fixed names, then its own.
fn environment(order: &Order, tier: Tier) -> Vec<(OsString, OsString)> {
    let home = order.scratch.clone().unwrap_or_else(|| "/home/user".into());
    let temporary = order.scratch.clone().unwrap_or_else(|| "/tmp".into());
    let mut env: Vec<(OsString, OsString)> = vec![
        ("PATH".into(), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into()),
        ("HOME".into(), home),
        ("TMPDIR".into(), temporary),
        ("USER".into(), "user".into()),
        ("LOGNAME".into(), "user".into()),
        ("SHELL".into(), "/bin/sh".into()),
        ("TERM".into(), "dumb".into()),
        ("OBEY_SANDBOX".into(), tier.name().into()),
    ];
    // All of `C.UTF-8` that is not `C`. By `LANG`, every program would look for twelve more files to learn that.
    if !order.env.iter().any(|(name, _)| is_locale(name)) {
        env.push(("LC_CTYPE".into(), "C.UTF-8".into()));
    }
    for (name, value) in &order.env {
        env.retain(|(known, _)| known != name);
        env.push((name.clone(), value.clone()));
    }
    env
}

fn is_locale(name: &OsString) -> bool {
    name == "LANG" || name.as_encoded_bytes().starts_with(b"LC_")
}

/// Makes a folder nobody else can enter, with a name nobody can guess.
pub(super) fn temporary_folder(parent: &std::path::Path) -> io::Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    let path = parent.join(format!("{FOLDER_PREFIX}{}-{}", std::process::id(), crate::random::name()?));
    std::fs::DirBuilder::new().mode(0o700).create(&path)?;
    path.canonicalize()
}

/// What the folders' names start with; the number of the process that made them follows.
const FOLDER_PREFIX: &str = "obey-exec-";

/// Removes folders that a killed daemon of ours left behind. Others may make folders of such names beside them.
pub(super) fn sweep_folders(parent: &std::path::Path) {
    use std::os::unix::fs::MetadataExt;
    let own = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let maker = name.strip_prefix(FOLDER_PREFIX).and_then(|rest| rest.split('-').next());
        let stale = maker.is_some_and(|pid| !PathBuf::from("/proc").join(pid).exists());
        if stale && entry.metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == own) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

impl Running {
    /// Returns the tier the command runs at.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    async fn wait_until_started(&mut self, told: pipe::Receiver) -> Result<(), Error> {
        let first = tokio::time::timeout(limits::STAGE_WAIT, self.first_word(told)).await;
        match first {
            Ok(First::Started) => Ok(()),
            Ok(First::Report(Report::Unbuilt { step, errno })) => Err(unbuilt(&step, errno)),
            Ok(First::Report(Report::Unstarted { errno })) => {
                let error = io::Error::from_raw_os_error(errno);
                Err(Error::new(ErrorCode::CommandFailed, format!("the command cannot be started: {error}")))
            }
            Ok(First::Report(ended)) => {
                self.last = Some(ended);
                Ok(())
            }
            Ok(First::Silence) => {
                Err(Error::new(ErrorCode::SandboxFailed, "the sandbox ended before the command began"))
            }
            Err(_) => Err(Error::new(ErrorCode::SandboxFailed, "the sandbox was not ready in time")),
        }
    }

    /// Waits until what becomes the command says why it does not, or is gone: it took over, or it died. A stage that is at
    /// fault says so before anything of it goes.
    async fn first_word(&mut self, mut told: pipe::Receiver) -> First {
        let mut line = Vec::new();
        let _ = told.read_to_end(&mut line).await;
        if !line.is_empty() {
            return serde_json::from_slice(&line).map_or(First::Silence, First::Report);
        }
        let Some(reports) = self.reports.as_mut() else { return First::Silence };
        let control: &UnixStream = reports.get_ref().get_ref().as_ref();
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        if matches!(rustix::net::recv(control, &mut [0u8; 1][..], flags), Err(Errno::AGAIN | Errno::INTR)) {
            return First::Started;
        }
        let line = reports.next_line().await.ok().flatten();
        line.and_then(|line| serde_json::from_str(&line).ok()).map_or(First::Silence, First::Report)
    }

    /// Asks the stage to kill everything.
    pub fn kill(&mut self) {
        self.control = None;
        // From now on the clock runs for the stage, which may have been asked before.
        self.kill_by.get_or_insert(Instant::now() + limits::KILL_WAIT);
    }

    /// Returns what comes next; nothing after the end. Cancel-safe.
    pub async fn next(&mut self) -> Option<Output> {
        loop {
            if self.ended {
                return None;
            }
            // The last report says that nothing is left of the command; the stage itself need not be waited for.
            let reported = self.reports.is_none() || self.last.is_some();
            if self.stdout.is_none() && self.stderr.is_none() && reported {
                if let Some(text) = self.unprotected.take() {
                    return Some(Output::Stderr(text.into_bytes()));
                }
                return Some(self.finish().await);
            }
            let wait = self.kill_by.unwrap_or(self.deadline);
            // The clock first: a command that never stops writing must still be stopped. Then output: what a command
            // wrote before it ended is delivered before its end.
            let output = tokio::select! {
                biased;
                () = tokio::time::sleep_until(wait) => {
                    self.expire();
                    None
                }
                chunk = read(&mut self.stdout), if self.stdout.is_some() => chunk.map(Output::Stdout),
                chunk = read(&mut self.stderr), if self.stderr.is_some() => chunk.map(Output::Stderr),
                line = next_line(&mut self.reports), if self.reports.is_some() => {
                    self.take_report(line);
                    None
                }
            };
            if output.is_some() {
                return output;
            }
        }
    }

    fn take_report(&mut self, line: Option<String>) {
        let Some(line) = line else {
            self.reports = None;
            return;
        };
        // The first word about the end counts; the stage's own end comes after it.
        if self.last.is_none() {
            self.last = serde_json::from_str(&line).ok();
        }
        if let Some(Report::Unprotected { path, why }) = &self.last {
            tracing::warn!(path = %path.display(), why, "a command was ended: a protected file may have been changed");
            self.unprotected = Some(format!(
                "obey: {} {why}; the command was ended, since it could have written there. Look at the file before you go on\n",
                path.display()
            ));
        }
    }

    fn expire(&mut self) {
        if self.kill_by.is_some() {
            // The stage does not answer: it goes, and the kernel takes the command with it.
            if let Some(handle) = &self.handle {
                let _ = rustix::process::pidfd_send_signal(handle, Signal::KILL);
            }
            (self.stdout, self.stderr, self.reports) = (None, None, None);
        } else {
            self.timed_out = true;
            self.kill();
        }
    }

    async fn finish(&mut self) -> Output {
        if self.last.is_none() {
            // The stage died without a word: only the kernel knows when everything that was in its sandbox is gone.
            if let Some(handle) = self.handle.as_ref().and_then(|handle| handle.try_clone().ok()) {
                wait_until_gone(handle).await;
            }
        }
        self.ended = true;
        self.control = None;
        let handle = self.handle.take();
        if let Some(leftovers) = self.leftovers.take() {
            leftovers.clear(self.reports.take(), handle).await;
        }
        self.timed_out |= self.last == Some(Report::Expired);
        let (exit_code, signal) = match self.last {
            _ if self.timed_out => (EXIT_TIMED_OUT, libc::SIGKILL),
            Some(Report::Exited { code, signal }) => (code, signal),
            _ => (128 + libc::SIGKILL, libc::SIGKILL),
        };
        let duration = self.started.elapsed();
        Output::Ended(CommandEnd { exit_code, signal, timed_out: self.timed_out, duration, tier: self.tier })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.control = None;
        let (Some(leftovers), Ok(runtime)) = (self.leftovers.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        // The outputs close with us, the stage sees its socket close; somebody must still wait for it.
        let (reports, handle) = (self.reports.take(), self.handle.take());
        (self.stdout, self.stderr) = (None, None);
        runtime.spawn(async move {
            wait_for_end(reports, handle).await;
            leftovers.clear(None, None).await;
        });
    }
}

/// Waits until a stage is gone; one that does not go is killed.
async fn wait_for_end(reports: Option<Reports>, handle: Option<OwnedFd>) {
    let Some(mut reports) = reports else { return };
    let rest = async { while let Ok(Some(_)) = reports.next_line().await {} };
    if tokio::time::timeout(limits::KILL_WAIT, rest).await.is_err()
        && let Some(handle) = &handle
    {
        let _ = rustix::process::pidfd_send_signal(handle, Signal::KILL);
    }
}

/// Waits until the process behind a handle is gone, and with an init everything in its process namespace.
async fn wait_until_gone(handle: OwnedFd) {
    let wait = Timespec::try_from(limits::KILL_WAIT).ok();
    let waited = tokio::task::spawn_blocking(move || {
        let _ = rustix::event::poll(&mut [PollFd::new(&handle, PollFlags::IN)], wait.as_ref());
    });
    let _ = waited.await;
}

impl Leftovers {
    /// Clears away the command's own folder, and puts back a repository that it destroyed; then, when the stage is gone, its
    /// control group; then the placeholders, unless another command needs them by then.
    async fn clear(self, reports: Option<Reports>, handle: Option<OwnedFd>) {
        let Self { mut history, placeholders, cgroup, scratch } = self;
        if scratch.is_some() {
            let _ = tokio::task::spawn_blocking(move || drop(scratch)).await;
        }
        if history.as_ref().is_some_and(KeptHistory::is_destroyed) {
            let destroyed = history.take();
            let _ = tokio::task::spawn_blocking(move || drop(destroyed)).await;
        }
        tokio::spawn(async move {
            tokio::time::sleep(limits::PLACEHOLDERS_LINGER).await;
            let _ = tokio::task::spawn_blocking(move || drop((history, placeholders))).await;
        });
        tokio::spawn(async move {
            wait_for_end(reports, handle).await;
            if let Some(cgroup) = cgroup {
                cgroup.leave().await;
            }
        });
    }
}

async fn next_line(reports: &mut Option<Lines<BufReader<OwnedReadHalf>>>) -> Option<String> {
    match reports {
        Some(lines) => lines.next_line().await.ok().flatten(),
        None => None,
    }
}

/// Reads a piece of an output; none, and the output gone, at its end.
async fn read<R: AsyncReadExt + Unpin>(output: &mut Option<R>) -> Option<Vec<u8>> {
    let mut chunk = Vec::with_capacity(limits::OUTPUT_CHUNK_MAX);
    let from = output.as_mut()?;
    match from.read_buf(&mut chunk).await {
        Ok(0) | Err(_) => {
            *output = None;
            None
        }
        Ok(_) => Some(chunk),
    }
}

fn unbuilt(step: &str, errno: i32) -> Error {
    let error = io::Error::from_raw_os_error(errno);
    if step == "working directory" {
        return Error::invalid("working_dir", format_args!("is not a folder inside the project: {error}"));
    }
    Error::new(ErrorCode::SandboxFailed, format!("the sandbox could not be built ({step}): {error}"))
}
