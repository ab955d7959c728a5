//! Control groups for a command, where the daemon may make them: one that counts processes and one that counts memory
//! (or one for both). Where it may not, the per-process limits remain. Both versions of the kernel's interface are known.
//! Groups that are empty again serve another command: the kernel takes longer to make and remove one than most commands run.

pub(crate) mod hierarchy;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::Limits;
use crate::limits;
use crate::session_group::RunLimits;
use hierarchy::{Controller, own_folder, switch_on, unified_home};

/// The groups of one command. Must be left when it is gone.
#[derive(Debug)]
pub(super) struct Cgroup {
    folders: Vec<PathBuf>,
    /// Files of a session's groups that the command joins as well; they stay when it is gone.
    shared: Vec<PathBuf>,
    most: Limits,
    groups: Weak<Groups>,
}

/// Groups that nobody is in. They go with this.
#[derive(Debug, Default)]
pub(super) struct Groups {
    empty: Mutex<Vec<Cgroup>>,
}

impl Groups {
    /// Returns groups with these limits; none if the machine or its owner does not let us make any.
    pub(super) fn take(self: &Arc<Self>, most: &Limits) -> Option<Cgroup> {
        while let Some(group) = self.find(most) {
            // Somebody else may have removed them.
            if group.is_empty() {
                return Some(group);
            }
        }
        let mut group = Cgroup::create(most)?;
        group.groups = Arc::downgrade(self);
        Some(group)
    }

    fn find(&self, most: &Limits) -> Option<Cgroup> {
        let mut empty = self.lock();
        let at = empty.iter().position(|group| group.most == *most)?;
        Some(empty.swap_remove(at))
    }

    /// Removes those that wait for a command.
    pub(super) fn clear(&self) {
        let empty = std::mem::take(&mut *self.lock());
        drop(empty);
    }

    /// Keeps groups for the next command; gives them back if there are enough.
    fn keep(&self, group: Cgroup) -> Option<Cgroup> {
        let mut empty = self.lock();
        if empty.len() >= limits::SANDBOXES_READY {
            return Some(group);
        }
        empty.push(group);
        None
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Cgroup>> {
        self.empty.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the groups' names start with; the number of the process that made them follows.
const PREFIX: &str = "obey-exec-";

impl Cgroup {
    /// Makes the groups and sets their limits; none if the machine or its owner does not let us.
    pub(super) fn create(most: &Limits) -> Option<Self> {
        let name = format!("{PREFIX}{}-{}", std::process::id(), crate::random::name().ok()?);
        let folders = create_unified(&name, most).or_else(|| create_legacy(&name, most))?;
        Some(Self { folders, shared: Vec::new(), most: *most, groups: Weak::new() })
    }

    /// Makes groups inside those of a session, whose limits then hold for the command, too, and with which it is killed.
    /// Its own limits are set where they are stricter and the machine lets us; `is_limited` says that it must.
    pub(super) fn create_within(session: &RunLimits, most: &Limits, is_limited: bool) -> io::Result<Self> {
        let name = format!("{PREFIX}{}-{}", std::process::id(), crate::random::name()?);
        let mut made = Self { folders: Vec::new(), shared: Vec::new(), most: *most, groups: Weak::new() };
        let group = session.group.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let stricter = |controller| match controller {
            Controller::Memory if session.limits.memory_bytes.is_none_or(|max| max > most.memory_bytes) => {
                Some(most.memory_bytes)
            }
            Controller::Pids if session.limits.processes.is_none_or(|max| max > most.processes) => {
                Some(most.processes)
            }
            _ => None,
        };
        let wanted = |controller| if is_limited { stricter(controller) } else { None };
        for (controller, folder) in group.legacy() {
            let Some(value) = wanted(*controller) else {
                made.shared.push(folder.join("tasks"));
                continue;
            };
            let file = if *controller == Controller::Memory { "memory.limit_in_bytes" } else { "pids.max" };
            let own = folder.join(&name);
            fs::create_dir(&own)?;
            made.folders.push(own.clone());
            set(&own, file, value)?;
        }
        if let Some(folder) = group.unified() {
            let own = folder.join(&name);
            fs::create_dir(&own)?;
            made.folders.push(own.clone());
            let controllers = group.controllers_within();
            for (controller, file) in [(Controller::Memory, "memory.max"), (Controller::Pids, "pids.max")] {
                if let Some(value) = wanted(controller).filter(|_| controllers.contains(&controller)) {
                    set(&own, file, value)?;
                }
            }
            // Missing where the kernel has no swap accounting; the memory limit holds without it.
            let _ = set(&own, "memory.swap.max", 0);
        }
        Ok(made)
    }

    /// Removes groups that a killed daemon left behind: those whose maker is gone.
    pub(super) fn sweep() {
        let folders = [unified_home(), own_folder("cgroup", "pids"), own_folder("cgroup", "memory")];
        for folder in folders.into_iter().flatten() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let maker = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
                if maker.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                    // One that is in use all the same cannot be removed.
                    let _ = fs::remove_dir(entry.path());
                }
            }
        }
    }

    /// Returns the files through which a process joins.
    pub(super) fn members(&self) -> Vec<OsString> {
        // The kernel moves the thread that writes to `tasks` without waiting for all others; only version 1 has it.
        let own = self.folders.iter().map(|folder| {
            let threads = folder.join("tasks");
            if !self.is_pooled() && threads.exists() { threads } else { folder.join("cgroup.procs") }
        });
        own.chain(self.shared.iter().cloned()).map(PathBuf::into_os_string).collect()
    }

    /// Leaves the groups to the next command when everything in them is gone, or removes them.
    pub(super) async fn leave(self) {
        let deadline = tokio::time::Instant::now() + limits::KILL_WAIT;
        while !self.is_empty() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(limits::CLEAR_STEP).await;
        }
        let rest = match self.groups.upgrade() {
            Some(groups) if self.is_empty() && self.holds_little() => groups.keep(self),
            _ => Some(self),
        };
        if let Some(rest) = rest {
            rest.remove().await;
        }
    }

    /// Whether it is of those that serve one command after the other.
    fn is_pooled(&self) -> bool {
        self.groups.strong_count() > 0
    }

    fn is_empty(&self) -> bool {
        self.folders
            .iter()
            .all(|folder| fs::read(folder.join("cgroup.procs")).is_ok_and(|members| members.is_empty()))
    }

    /// What a command read stays in memory on its group's account; the next one should not begin with much of it.
    fn holds_little(&self) -> bool {
        self.folders.iter().all(|folder| {
            let used = ["memory.current", "memory.usage_in_bytes"]
                .iter()
                .find_map(|file| fs::read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok());
            used.is_none_or(|used| used <= limits::CGROUP_REST_MAX)
        })
    }

    /// Removes the groups. The kernel may take a moment to notice that the last process is gone.
    pub(super) async fn remove(mut self) {
        for folder in &std::mem::take(&mut self.folders) {
            // Version 2 kills what may be left; where the file is missing, there is nothing to kill with.
            let _ = fs::write(folder.join("cgroup.kill"), "1");
            let deadline = tokio::time::Instant::now() + limits::KILL_WAIT;
            while let Err(error) = fs::remove_dir(folder) {
                if error.kind() == io::ErrorKind::NotFound {
                    break;
                }
                if tokio::time::Instant::now() >= deadline {
                    tracing::warn!(%error, "cannot remove a command's control group");
                    break;
                }
                tokio::time::sleep(limits::CLEAR_STEP).await;
            }
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Only when nobody is in: a command was never started, or it is gone.
        for folder in &self.folders {
            let _ = fs::remove_dir(folder);
        }
    }
}

fn set(folder: &Path, file: &str, value: u64) -> io::Result<()> {
    fs::write(folder.join(file), value.to_string())
}

/// Version 2: one group below our own, if it was delegated to us.
fn create_unified(name: &str, most: &Limits) -> Option<Vec<PathBuf>> {
    let own = unified_home()?;
    let controllers = switch_on(&own);
    if ![Controller::Pids, Controller::Memory].iter().all(|wanted| controllers.contains(wanted)) {
        return None;
    }
    let folder = own.join(name);
    fs::create_dir(&folder).ok()?;
    let limited =
        set(&folder, "pids.max", most.processes).and_then(|()| set(&folder, "memory.max", most.memory_bytes));
    // Missing where the kernel has no swap accounting; the memory limit holds without them.
    let _ = set(&folder, "memory.swap.max", 0);
    let _ = set(&folder, "memory.oom.group", 1);
    keep(limited, vec![folder])
}

/// Version 1: a group in each of the two hierarchies.
fn create_legacy(name: &str, most: &Limits) -> Option<Vec<PathBuf>> {
    let mut folders = Vec::new();
    let mut limited = Ok(());
    for (controller, file, value) in
        [("pids", "pids.max", most.processes), ("memory", "memory.limit_in_bytes", most.memory_bytes)]
    {
        let folder = own_folder("cgroup", controller)?.join(name);
        limited = limited.and_then(|()| fs::create_dir(&folder)).and_then(|()| {
            folders.push(folder.clone());
            set(&folder, file, value)
        });
    }
    keep(limited, folders)
}

fn keep(limited: io::Result<()>, folders: Vec<PathBuf>) -> Option<Vec<PathBuf>> {
    if limited.is_ok() {
        return Some(folders);
    }
    for folder in folders {
        let _ = fs::remove_dir(folder);
    }
    None
}
