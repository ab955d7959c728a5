//! The daemon's side of the keeper: asks it for stages, and keeps a few ready for commands to come. Making a sandbox takes
//! longer than most commands (the kernel makes a process that joins a control group wait for milliseconds), so that it
//! is done before there is a command: each sandbox serves one command, none is used twice. One that has a root of its own
//! is made for a project; projects in which commands run share the number that is kept.
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

use super::cgroup::{Cgroup, Groups};
use super::launch;
use super::recipe::{MadeFor, Recipe};
use super::stage::landlock::{SYSTEM, SYSTEM_ETC};
use crate::limits;

/// A sandbox without a command, seen from the daemon. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) control: UnixStream,
    /// The stage itself, once it has reported.
    pub(super) handle: Option<OwnedFd>,
    pub(super) orders: pipe::Sender,
    /// Closes when the command takes over.
    pub(super) told: pipe::Receiver,
    pub(super) stdout: pipe::Receiver,
    pub(super) stderr: pipe::Receiver,
    pub(super) cgroup: Option<Cgroup>,
}

/// The same before it belongs to a runtime.
struct Parts {
    control: StdStream,
    orders: OwnedFd,
    told: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    cgroup: Option<Cgroup>,
}

impl Stage {
    fn new(parts: Parts) -> io::Result<Self> {
        parts.control.set_nonblocking(true)?;
        Ok(Self {
            control: UnixStream::from_std(parts.control)?,
            handle: None,
            orders: pipe::Sender::from_owned_fd(parts.orders)?,
            told: pipe::Receiver::from_owned_fd(parts.told)?,
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

    /// Waits for its first report; false if its keeper died before that: nothing was made, nothing ran.
    async fn is_begun(&mut self) -> bool {
        let handle = launch::take_handle(&self.control).await;
        handle.map(|handle| self.handle = handle).is_ok()
    }

    /// Ends it and clears away what it needed.
    async fn dismiss(self) {
        let Self { mut control, orders, told, stdout, stderr, cgroup, .. } = self;
        drop((orders, told, stdout, stderr));
        let gone = async {
            let _ = tokio::io::AsyncWriteExt::shutdown(&mut control).await;
            // The byte that brings the handle, and perhaps a report.
            let mut rest = Vec::new();
            let _ = control.read_to_end(&mut rest).await;
        };
        let _ = tokio::time::timeout(limits::KILL_WAIT, gone).await;
        if let Some(cgroup) = cgroup {
            cgroup.leave().await;
        }
    }
}

/// The keeper's process. Dropping it ends it; its stages go on.
#[derive(Debug)]
struct Keeper {
    child: Option<Child>,
    door: Option<OwnedFd>,
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
        Ok(Self { child: Some(child), door: Some(door) })
    }

    fn request_stage(&self, plan: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(5))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
        let door = self.door.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        rustix::net::sendmsg(door, &[IoSlice::new(plan)], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // It goes by itself when its socket closes and the last of its stages has ended.
        self.door = None;
        if let Some(mut child) = self.child.take() {
            std::thread::spawn(move || child.wait());
        }
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
    project: MadeFor,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<Ready>,
    /// What is being made for later.
    making: Vec<MadeFor>,
    /// Where commands ran, and when last.
    used: Vec<(MadeFor, Instant)>,
    /// Counts the times everything that was ready had to go, so that what was begun before does not come after.
    generation: u64,
    last_used: Option<Instant>,
    /// Somebody looks after sandboxes that nobody takes.
    tended: bool,
}

impl State {
    /// Notes that a command is to run, and forgets where none has for long.
    fn note(&mut self, project: &MadeFor) {
        let now = Instant::now();
        self.last_used = Some(now);
        self.used.retain(|(used, last)| used != project && *last + limits::SANDBOX_IDLE > now);
        self.used.push((project.clone(), now));
    }

    /// Takes out what was made for projects in which no command has run for long.
    fn forgotten(&mut self) -> Vec<Ready> {
        let known: Vec<MadeFor> = self.used.iter().map(|(project, _)| project.clone()).collect();
        let (keep, forgotten): (VecDeque<Ready>, VecDeque<Ready>) =
            self.ready.drain(..).partition(|ready| known.contains(&ready.project));
        self.ready = keep;
        Vec::from(forgotten)
    }

    /// How many are kept ready for each project.
    fn share(&self) -> usize {
        (limits::SANDBOXES_READY / self.used.len().max(1)).max(1)
    }

    fn ready_for(&self, project: &MadeFor) -> usize {
        self.ready.iter().filter(|ready| ready.project == *project).count()
    }

    /// One of those being made is there, or will not be.
    fn made(&mut self, project: &MadeFor) {
        if let Some(at) = self.making.iter().position(|made_for| made_for == project) {
            self.making.swap_remove(at);
        }
    }

    /// Takes out the oldest if there are too many, first of a project that has more than its share.
    fn spare(&mut self) -> Option<Ready> {
        if self.ready.len() <= limits::SANDBOXES_READY {
            return None;
        }
        let share = self.share();
        let at = self.ready.iter().position(|ready| self.ready_for(&ready.project) > share);
        self.ready.remove(at.unwrap_or(0))
    }
}

/// Makes stages.
#[derive(Debug)]
pub(super) struct Stages {
    words: Vec<OsString>,
    watched: Vec<PathBuf>,
    keeper: Mutex<Option<Keeper>>,
    state: Mutex<State>,
    groups: Arc<Groups>,
    /// Tells whether anything was mounted or unmounted since it was last asked.
    mounts: Option<File>,
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
            groups: Arc::default(),
            mounts: File::open("/proc/self/mountinfo").ok(),
        }
    }

    /// Makes a sandbox for a command that waits for it.
    pub(super) async fn make(self: &Arc<Self>, recipe: Recipe) -> Result<Stage, Error> {
        for _ in 0..limits::KEEPERS_TRIED {
            let (stages, recipe) = (Arc::clone(self), recipe.clone());
            let made = tokio::task::spawn_blocking(move || stages.parts(&recipe)).await;
            let parts = made.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
            let mut stage = Stage::new(parts).map_err(|error| failed(&error))?;
            if stage.is_begun().await {
                return Ok(stage);
            }
            tokio::spawn(stage.dismiss());
        }
        Err(failed(&"what makes it ended"))
    }

    /// The same, with what it is made of as that was before it was begun.
    async fn make_marked(self: &Arc<Self>, recipe: Recipe) -> Result<(Stage, Marks), Error> {
        let stages = Arc::clone(self);
        let made =
            tokio::task::spawn_blocking(move || (stages.marks(&recipe.made_for()), stages.parts(&recipe)))
                .await;
        let (marks, parts) = made.map_err(|error| failed(&error))?;
        let stage = Stage::new(parts.map_err(|error| failed(&error))?).map_err(|error| failed(&error))?;
        Ok((stage, marks))
    }

    /// Returns a sandbox that was made before, or makes one.
    pub(super) async fn take(self: &Arc<Self>, recipe: Recipe) -> Result<Stage, Error> {
        while let Some(mut stage) = self.find(&recipe.made_for()) {
            if stage.is_begun().await {
                return Ok(stage);
            }
            tokio::spawn(stage.dismiss());
        }
        self.make(recipe).await
    }

    /// Sees to it that the next command finds a sandbox; to be called when the one before has begun.
    pub(super) fn make_ahead(self: &Arc<Self>, recipe: Recipe) {
        let stages = Arc::clone(self);
        tokio::spawn(stages.refill(recipe));
    }

    fn find(&self, project: &MadeFor) -> Option<Stage> {
        let changed = self.mounts_changed();
        let mut state = locked(&self.state);
        state.note(project);
        let mut out = Vec::new();
        if changed {
            state.generation += 1;
            out.extend(state.ready.drain(..));
        }
        out.extend(state.forgotten());
        let marks = if state.ready.is_empty() { Marks::new() } else { self.marks(project) };
        let mut found = None;
        while let Some(at) = state.ready.iter().position(|ready| ready.project == *project) {
            let Some(ready) = state.ready.remove(at) else { break };
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
        let project = recipe.made_for();
        while let Some(generation) = self.begin(&project) {
            match self.make_marked(recipe.clone()).await {
                Ok((stage, marks)) => {
                    let ready = Ready { stage, marks, project: project.clone() };
                    if let Some(spare) = self.keep(generation, ready) {
                        spare.stage.dismiss().await;
                    }
                }
                Err(error) => {
                    locked(&self.state).made(&project);
                    tracing::debug!(%error, "no sandbox is made ahead");
                    break;
                }
            }
        }
        self.tend();
    }

    /// Counts one in, unless there are enough.
    fn begin(&self, project: &MadeFor) -> Option<u64> {
        let mut state = locked(&self.state);
        let making = state.making.iter().filter(|made_for| *made_for == project).count();
        if state.ready_for(project) + making >= state.share() {
            return None;
        }
        state.making.push(project.clone());
        Some(state.generation)
    }

    /// Puts one to the others; returns one that is too much, or itself if it was begun too long ago.
    fn keep(&self, generation: u64, ready: Ready) -> Option<Ready> {
        let mut state = locked(&self.state);
        state.made(&ready.project);
        if state.generation != generation {
            return Some(ready);
        }
        state.ready.push_back(ready);
        state.spare()
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
        if let Some(until) = until.filter(|until| *until > Instant::now() || !state.making.is_empty()) {
            return Some(until.max(Instant::now() + limits::CLEAR_STEP));
        }
        state.tended = false;
        let out: Vec<Ready> = state.ready.drain(..).collect();
        drop(state);
        for ready in out {
            tokio::spawn(ready.stage.dismiss());
        }
        let (keeper, groups) = (locked(&self.keeper).take(), Arc::clone(&self.groups));
        tokio::task::spawn_blocking(move || {
            drop(keeper);
            groups.clear();
        });
        None
    }

    fn mounts_changed(&self) -> bool {
        let Some(mounts) = &self.mounts else { return true };
        let mut fds = [PollFd::new(mounts, PollFlags::PRI)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        !rustix::event::poll(&mut fds, Some(&now)).is_ok_and(|count| count == 0)
    }

    /// Which files and folders a sandbox made now would be made of.
    fn marks(&self, project: &MadeFor) -> Marks {
        self.watched
            .iter()
            .map(PathBuf::as_path)
            .chain(project.root.as_ref().map(Path::new))
            .map(mark)
            .collect()
    }

    fn parts(&self, recipe: &Recipe) -> io::Result<Parts> {
        let cgroup = match &recipe.session {
            Some(session) => Some(Cgroup::create_within(session, &recipe.plan.limits, recipe.with_cgroup)?),
            None if recipe.with_cgroup => self.groups.take(&recipe.plan.limits),
            None => None,
        };
        if recipe.with_cgroup && cgroup.is_none() {
            return Err(io::Error::other("cannot make a control group for the command"));
        }
        let mut plan = recipe.plan.clone();
        plan.cgroups = cgroup.as_ref().map(Cgroup::members).unwrap_or_default();
        let plan = serde_json::to_vec(&plan)?;
        let (control, theirs) = StdStream::pair()?;
        let (order, orders) = io::pipe()?;
        let (told, tell) = io::pipe()?;
        let (stdout, out) = io::pipe()?;
        let (stderr, err) = io::pipe()?;
        self.request_stage(&plan, &[theirs.as_fd(), order.as_fd(), tell.as_fd(), out.as_fd(), err.as_fd()])?;
        let (stdout, stderr) = (stdout.into(), stderr.into());
        Ok(Parts { control, orders: orders.into(), told: told.into(), stdout, stderr, cgroup })
    }

    /// Asks the keeper, a new one if there is none or it is gone.
    fn request_stage(&self, plan: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut keeper = locked(&self.keeper);
        if let Some(known) = keeper.as_ref()
            && known.request_stage(plan, descriptors).is_ok()
        {
            return Ok(());
        }
        *keeper = None;
        keeper.insert(Keeper::start(&self.words)?).request_stage(plan, descriptors)
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
