//! The daemon's side of the keeper: asks it for stages, and keeps a few ready for commands to come. Making a sandbox takes
//! longer than most commands (the kernel makes a process that joins a control group wait for milliseconds), so that it
//! is done before there is a command: each sandbox serves one command, none is used twice.
//! Knows nothing of commands. A sandbox that was made before something changed in what it is made of is not used.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::{Error, ErrorCode};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::time::Instant;

use super::cgroup::Cgroup;
use super::order::Plan;
use super::stage::landlock::{SYSTEM, SYSTEM_ETC};
use crate::limits;

/// A sandbox without a command, seen from the daemon. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) control: UnixStream,
    pub(super) orders: pipe::Sender,
    pub(super) stdout: pipe::Receiver,
    pub(super) stderr: pipe::Receiver,
    pub(super) cgroup: Option<Cgroup>,
}

/// The same before it belongs to a runtime.
struct Parts {
    control: StdStream,
    orders: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    cgroup: Option<Cgroup>,
}

impl Stage {
    fn new(parts: Parts) -> io::Result<Self> {
        parts.control.set_nonblocking(true)?;
        Ok(Self {
            control: UnixStream::from_std(parts.control)?,
            orders: pipe::Sender::from_owned_fd(parts.orders)?,
            stdout: pipe::Receiver::from_owned_fd(parts.stdout)?,
            stderr: pipe::Receiver::from_owned_fd(parts.stderr)?,
            cgroup: parts.cgroup,
        })
    }

    /// Whether it is still there to take an order.
    fn lives(&self) -> bool {
        let mut fds = [PollFd::new(&self.control, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&now)).is_ok_and(|count| count == 0)
    }

    /// Ends it and clears away what it needed.
    async fn dismiss(self) {
        let Self { mut control, orders, stdout, stderr, cgroup } = self;
        drop((orders, stdout, stderr));
        let gone = async {
            let _ = tokio::io::AsyncWriteExt::shutdown(&mut control).await;
            // The byte that brings the handle, and perhaps a report.
            let mut rest = Vec::new();
            let _ = control.read_to_end(&mut rest).await;
        };
        let _ = tokio::time::timeout(limits::KILL_WAIT, gone).await;
        if let Some(cgroup) = cgroup {
            cgroup.remove().await;
        }
    }
}

/// The keeper's process. Dropping it ends it; its stages go on.
#[derive(Debug)]
struct Keeper {
    child: Child,
    door: OwnedFd,
}

impl Keeper {
    fn start(words: &[OsString]) -> io::Result<Self> {
        let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let (door, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let child = std::process::Command::new(program)
            .args(arguments)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { child, door })
    }

    fn ask(&self, plan: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
        rustix::net::sendmsg(&self.door, &[IoSlice::new(plan)], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // It would go by itself when its socket closes; one that is stopped or stuck would not.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What sandboxes are made of, as it was at some moment.
type Marks = Vec<Option<Mark>>;

/// Tells one file or folder from another that may have got its number since.
#[derive(Debug, PartialEq, Eq)]
struct Mark {
    device: u64,
    number: u64,
    /// Of files; folders are the same whatever comes and goes in them.
    changed: Option<(i64, i64)>,
}

#[derive(Debug)]
struct Ready {
    stage: Stage,
    marks: Marks,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<Ready>,
    /// How many are being made for later.
    making: usize,
    /// Counts the times everything that was ready had to go, so that what was begun before does not come after.
    generation: u64,
    last_used: Option<Instant>,
    /// Somebody looks after sandboxes that nobody takes.
    tended: bool,
}

/// Makes stages.
#[derive(Debug)]
pub(super) struct Stages {
    words: Vec<OsString>,
    watched: Vec<PathBuf>,
    keeper: Mutex<Option<Keeper>>,
    state: Mutex<State>,
    /// Tells whether anything was mounted or unmounted since it was last asked.
    mounts: Option<File>,
}

/// What every new sandbox is made by.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    pub(super) plan: Plan,
    pub(super) with_cgroup: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stages {
    pub(super) fn new(words: Vec<OsString>, folders: &[&[PathBuf]]) -> Self {
        let system = SYSTEM.iter().map(PathBuf::from);
        let etc = SYSTEM_ETC.iter().map(|name| Path::new("/etc").join(name));
        // What is in a folder is seen as it is; only files are taken as they were.
        let single = |path: &PathBuf| path.symlink_metadata().is_ok_and(|meta| !meta.is_dir());
        let own = folders.iter().flat_map(|list| list.iter().cloned());
        let watched = system.chain(etc).filter(single).chain(own).collect();
        Self {
            words,
            watched,
            keeper: Mutex::new(None),
            state: Mutex::new(State::default()),
            mounts: File::open("/proc/self/mountinfo").ok(),
        }
    }

    /// Makes a sandbox for a command that waits for it.
    pub(super) async fn make(self: &Arc<Self>, recipe: Recipe) -> Result<Stage, Error> {
        let stages = Arc::clone(self);
        let made = tokio::task::spawn_blocking(move || stages.parts(&recipe)).await;
        let parts = made.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
        Stage::new(parts).map_err(|error| failed(&error))
    }

    /// The same, with what it is made of as that was before it was begun.
    async fn make_marked(self: &Arc<Self>, recipe: Recipe) -> Result<(Stage, Marks), Error> {
        let stages = Arc::clone(self);
        let made = tokio::task::spawn_blocking(move || (stages.marks(), stages.parts(&recipe))).await;
        let (marks, parts) = made.map_err(|error| failed(&error))?;
        let stage = Stage::new(parts.map_err(|error| failed(&error))?).map_err(|error| failed(&error))?;
        Ok((stage, marks))
    }

    /// Returns a sandbox that was made before, or makes one.
    pub(super) async fn take(self: &Arc<Self>, recipe: Recipe) -> Result<Stage, Error> {
        match self.find() {
            Some(stage) => Ok(stage),
            None => self.make(recipe).await,
        }
    }

    /// Sees to it that the next command finds a sandbox; to be called when the one before has begun.
    pub(super) fn make_ahead(self: &Arc<Self>, recipe: Recipe) {
        let stages = Arc::clone(self);
        tokio::spawn(stages.refill(recipe));
    }

    fn find(&self) -> Option<Stage> {
        let changed = self.mounts_changed();
        let mut state = locked(&self.state);
        state.last_used = Some(Instant::now());
        let mut out = Vec::new();
        if changed {
            state.generation += 1;
            out.extend(state.ready.drain(..));
        }
        let marks = if state.ready.is_empty() { Marks::new() } else { self.marks() };
        let mut found = None;
        while let Some(ready) = state.ready.pop_front() {
            if ready.marks == marks && ready.stage.lives() {
                found = Some(ready.stage);
                break;
            }
            out.push(ready);
        }
        drop(state);
        for ready in out {
            tokio::spawn(ready.stage.dismiss());
        }
        found
    }

    /// Makes sandboxes until enough are ready; each only while somebody uses them.
    async fn refill(self: Arc<Self>, recipe: Recipe) {
        while let Some(generation) = self.begin() {
            match self.make_marked(recipe.clone()).await {
                Ok((stage, marks)) => {
                    if let Some(stale) = self.keep(generation, Ready { stage, marks }) {
                        stale.stage.dismiss().await;
                    }
                }
                Err(error) => {
                    locked(&self.state).making -= 1;
                    tracing::debug!(%error, "no sandbox is made ahead");
                    break;
                }
            }
        }
        self.tend();
    }

    /// Counts one in, unless there are enough.
    fn begin(&self) -> Option<u64> {
        let mut state = locked(&self.state);
        if state.ready.len() + state.making >= limits::SANDBOXES_READY {
            return None;
        }
        state.making += 1;
        Some(state.generation)
    }

    /// Puts one to the others; returns it if it was begun too long ago.
    fn keep(&self, generation: u64, ready: Ready) -> Option<Ready> {
        let mut state = locked(&self.state);
        state.making -= 1;
        if state.generation != generation {
            return Some(ready);
        }
        state.ready.push_back(ready);
        None
    }

    /// Lets go of sandboxes, and of the keeper, when nobody has needed one for a while.
    pub(super) fn tend(self: &Arc<Self>) {
        {
            let mut state = locked(&self.state);
            if std::mem::replace(&mut state.tended, true) {
                return;
            }
            state.last_used.get_or_insert_with(Instant::now);
        }
        let stages = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                let Some(until) = stages.upgrade().and_then(|stages| stages.release()) else { return };
                tokio::time::sleep_until(until).await;
            }
        });
    }

    /// Returns when to look again; none if everything was let go.
    fn release(&self) -> Option<Instant> {
        let mut state = locked(&self.state);
        let until = state.last_used.map(|last| last + limits::SANDBOX_IDLE);
        if let Some(until) = until.filter(|until| *until > Instant::now() || state.making > 0) {
            return Some(until.max(Instant::now() + limits::CLEAR_STEP));
        }
        state.tended = false;
        let out: Vec<Ready> = state.ready.drain(..).collect();
        drop(state);
        for ready in out {
            tokio::spawn(ready.stage.dismiss());
        }
        let keeper = locked(&self.keeper).take();
        tokio::task::spawn_blocking(move || drop(keeper));
        None
    }

    fn mounts_changed(&self) -> bool {
        let Some(mounts) = &self.mounts else { return true };
        let mut fds = [PollFd::new(mounts, PollFlags::PRI)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        !rustix::event::poll(&mut fds, Some(&now)).is_ok_and(|count| count == 0)
    }

    /// Which files and folders a sandbox made now would be made of.
    fn marks(&self) -> Marks {
        self.watched.iter().map(|path| mark(path)).collect()
    }

    fn parts(&self, recipe: &Recipe) -> io::Result<Parts> {
        let cgroup = if recipe.with_cgroup { Cgroup::create(&recipe.plan.limits) } else { None };
        if recipe.with_cgroup && cgroup.is_none() {
            return Err(io::Error::other("cannot make a control group for the command"));
        }
        let mut plan = recipe.plan.clone();
        plan.cgroups = cgroup.as_ref().map(Cgroup::members).unwrap_or_default();
        let plan = serde_json::to_vec(&plan)?;
        let (control, theirs) = StdStream::pair()?;
        let (order, orders) = io::pipe()?;
        let (stdout, out) = io::pipe()?;
        let (stderr, err) = io::pipe()?;
        self.ask(&plan, &[theirs.as_fd(), order.as_fd(), out.as_fd(), err.as_fd()])?;
        Ok(Parts { control, orders: orders.into(), stdout: stdout.into(), stderr: stderr.into(), cgroup })
    }

    /// Asks the keeper, a new one if there is none or it is gone.
    fn ask(&self, plan: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut keeper = locked(&self.keeper);
        if let Some(known) = keeper.as_ref()
            && known.ask(plan, descriptors).is_ok()
        {
            return Ok(());
        }
        *keeper = None;
        keeper.insert(Keeper::start(&self.words)?).ask(plan, descriptors)
    }
}

impl Drop for Stages {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        for ready in locked(&self.state).ready.drain(..) {
            runtime.spawn(ready.stage.dismiss());
        }
    }
}

fn mark(path: &Path) -> Option<Mark> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    let changed = (!meta.is_dir()).then(|| (meta.ctime(), meta.ctime_nsec()));
    Some(Mark { device: meta.dev(), number: meta.ino(), changed })
}

fn failed(error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorCode::SandboxFailed, format!("cannot start the sandbox: {error}"))
}
