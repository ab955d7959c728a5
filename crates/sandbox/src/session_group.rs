//! The control group of one run of an agent: everything the agent starts is in it, is limited and measured by it, and can be
//! killed through it. Outlives the daemon; its folders are stored with the run. Knows no session: a group has a name.

mod files;
mod reserve;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use domain::resources::{Enforcement, ResourceReport};
use domain::{Resource, ResourceLimits};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

pub use crate::cgroup::hierarchy::Controller;
use crate::cgroup::hierarchy::{Hierarchies, switch_on};
use crate::limits;
pub use reserve::available_memory;

/// What the names of these groups start with. Shims and the daemon know an agent's process by it.
pub const NAME_PREFIX: &str = "obey-agent-";

/// Where the groups of one daemon are made.
#[derive(Clone, Debug, Default)]
pub struct GroupHome {
    /// Tells the groups of daemons apart; part of their names.
    tag: String,
    found: Hierarchies,
}

/// How one run of an agent is limited; stored in the folder of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunLimits {
    pub group: Option<SessionGroup>,
    pub limits: ResourceLimits,
    /// Those that no group enforces; every process gets them for itself.
    pub per_process: ResourceLimits,
    pub enforcement: Enforcement,
    pub not_enforced: Vec<Resource>,
    /// Kills for memory that somebody was told of.
    pub oom_kills_told: u64,
}

/// The group of version 2 that the agent's own processes are in, beside those of its commands: a group whose members are
/// limited may have no processes of its own.
const AGENT_LEAF: &str = "agent";

/// The folders of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionGroup {
    unified: Option<PathBuf>,
    /// What version 2 limits here.
    controllers: BTreeSet<Controller>,
    legacy: BTreeMap<Controller, PathBuf>,
}

impl GroupHome {
    /// Looks where this process may make groups. Reads some small files.
    pub fn find(tag: &str) -> Self {
        Self { tag: tag.to_owned(), found: Hierarchies::find() }
    }

    /// Returns the name of the group of a run.
    pub fn name(&self, run: &str) -> String {
        format!("{NAME_PREFIX}{}-{run}", self.tag)
    }

    /// Returns the run whose group has this name, if it is one of ours.
    pub fn run_of<'a>(&self, name: &'a str) -> Option<&'a str> {
        name.strip_prefix(NAME_PREFIX)?.strip_prefix(self.tag.as_str())?.strip_prefix('-')
    }

    /// Returns by what a limit would hold here.
    pub fn enforcement_of(&self, resource: Resource) -> Enforcement {
        let controller = controller_of(resource);
        if self.found.unified.as_ref().is_some_and(|(_, controllers)| controllers.contains(&controller)) {
            Enforcement::CgroupV2
        } else if self.found.legacy.contains_key(&controller) {
            Enforcement::CgroupV1
        } else if holds_per_process(resource) {
            Enforcement::Rlimits
        } else {
            Enforcement::None
        }
    }

    /// Returns by what limits hold here, all in all.
    pub fn enforcement(&self) -> Enforcement {
        let all = Resource::ALL.map(|resource| self.enforcement_of(resource));
        let has = |wanted| all.contains(&wanted);
        let order = [Enforcement::CgroupV2, Enforcement::CgroupV1, Enforcement::Rlimits];
        order.into_iter().find(|wanted| has(*wanted)).unwrap_or_default()
    }

    /// Makes the group of a run and says what holds. Without a group, limits are left to single processes; where a group
    /// should be to be had, but cannot be made, that is an error only if something is to be limited.
    pub fn limit(&self, run: &str, most: ResourceLimits) -> io::Result<RunLimits> {
        let group = match self.create(&self.name(run), &most) {
            Ok(group) => group,
            Err(error) if most.is_empty() => {
                tracing::warn!(%error, run, "cannot make the control group of an agent");
                None
            }
            Err(error) => return Err(error),
        };
        let mut limited = RunLimits { limits: most, ..RunLimits::default() };
        for resource in Resource::ALL {
            let Some(amount) = most.get(resource) else { continue };
            match group.as_ref().map_or(Enforcement::None, |group| group.enforcement_of(resource)) {
                Enforcement::None if holds_per_process(resource) => {
                    limited.per_process.set(resource, Some(amount));
                }
                Enforcement::None => limited.not_enforced.push(resource),
                _ => {}
            }
        }
        limited.enforcement = match &group {
            Some(group) if group.limits_anything() => group.enforcement(),
            _ if limited.per_process.is_empty() => Enforcement::None,
            _ => Enforcement::Rlimits,
        };
        limited.group = group;
        Ok(limited)
    }

    fn create(&self, name: &str, most: &ResourceLimits) -> io::Result<Option<SessionGroup>> {
        let mut group = SessionGroup::default();
        let made = self.create_in(name, most, &mut group);
        if made.is_err() {
            for folder in group.folders() {
                // Nobody is in it yet.
                let _ = fs::remove_dir(folder);
            }
        }
        made.map(|()| (group != SessionGroup::default()).then_some(group))
    }

    fn create_in(&self, name: &str, most: &ResourceLimits, group: &mut SessionGroup) -> io::Result<()> {
        if let Some((home, controllers)) = &self.found.unified {
            let folder = home.join(name);
            make(&folder)?;
            group.unified = Some(folder.clone());
            group.controllers.clone_from(controllers);
            for controller in controllers {
                write_all(&folder, &files::unified(*controller, most))?;
            }
            // Commands of the session get limits of their own within it.
            if !switch_on(&folder).is_empty() {
                make(&folder.join(AGENT_LEAF))?;
            }
        }
        for (controller, home) in &self.found.legacy {
            let folder = home.join(name);
            // Some controllers share a hierarchy.
            if !group.legacy.values().any(|known| *known == folder) {
                make(&folder)?;
            }
            group.legacy.insert(*controller, folder.clone());
            write_all(&folder, &files::legacy(*controller, most))?;
        }
        Ok(())
    }

    /// Removes groups that nobody has been in for long, whichever daemon made them: its folder may be gone.
    pub fn remove_abandoned(&self) {
        let unified = self.found.unified.iter().map(|(home, _)| home);
        for home in unified.chain(self.found.legacy.values()) {
            for entry in fs::read_dir(home).into_iter().flatten().flatten() {
                let is_groups = entry.file_name().to_str().is_some_and(|name| name.starts_with(NAME_PREFIX));
                let made = entry.metadata().and_then(|meta| meta.modified());
                let age = made.ok().and_then(|made| made.elapsed().ok()).unwrap_or_default();
                if is_groups && age > limits::GROUP_ABANDONED_AGE && is_folder_empty(&entry.path()) {
                    // One that somebody joined meanwhile cannot be removed.
                    let _ = remove_folder(&entry.path());
                }
            }
        }
    }

    /// Returns the groups of ours that exist, by the runs they belong to.
    pub fn existing(&self) -> BTreeMap<String, SessionGroup> {
        let mut groups: BTreeMap<String, SessionGroup> = BTreeMap::new();
        let unified = self.found.unified.iter().map(|(home, _)| (None, home));
        let legacy = self.found.legacy.iter().map(|(controller, home)| (Some(*controller), home));
        for (controller, home) in unified.chain(legacy) {
            for entry in fs::read_dir(home).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let Some(run) = name.to_str().and_then(|name| self.run_of(name)) else { continue };
                let group = groups.entry(run.to_owned()).or_default();
                match controller {
                    None => group.unified = Some(entry.path()),
                    Some(controller) => drop(group.legacy.insert(controller, entry.path())),
                }
            }
        }
        groups
    }
}

fn controller_of(resource: Resource) -> Controller {
    match resource {
        Resource::Memory => Controller::Memory,
        Resource::Cpus => Controller::Cpu,
        Resource::Processes => Controller::Pids,
    }
}

/// Whether a limit means something for a single process. The kernel does not count the processes of root.
fn holds_per_process(resource: Resource) -> bool {
    match resource {
        Resource::Memory | Resource::Cpus => true,
        Resource::Processes => !rustix::process::geteuid().is_root(),
    }
}

fn make(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        // Left by a start that did not come to pass.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn write_all(folder: &Path, settings: &[files::Setting]) -> io::Result<()> {
    for (file, value, needed) in settings {
        let written = fs::write(folder.join(file), value);
        if *needed {
            written.map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", folder.join(file).display()))
            })?;
        }
    }
    Ok(())
}

impl SessionGroup {
    /// Returns the folder of version 2 in which the agent is started.
    pub fn unified_folder(&self) -> Option<PathBuf> {
        let folder = self.unified.as_ref()?;
        let leaf = folder.join(AGENT_LEAF);
        Some(if leaf.is_dir() { leaf } else { folder.clone() })
    }

    /// Returns the folder of version 2 that holds everything of the session.
    pub(crate) fn unified(&self) -> Option<&Path> {
        self.unified.as_deref()
    }

    /// Returns the folders of version 1.
    pub(crate) fn legacy(&self) -> &BTreeMap<Controller, PathBuf> {
        &self.legacy
    }

    /// Returns what version 2 limits for groups within this one.
    pub(crate) fn controllers_within(&self) -> BTreeSet<Controller> {
        self.unified.as_deref().map(switch_on).unwrap_or_default()
    }

    /// Returns the files of version 1 by which a process with one thread joins. Those of single threads, because the
    /// kernel moves the writer itself without waiting for everybody else.
    pub fn thread_files(&self) -> Vec<PathBuf> {
        let folders: BTreeSet<&PathBuf> = self.legacy.values().collect();
        folders.into_iter().map(|folder| folder.join("tasks")).collect()
    }

    fn folders(&self) -> BTreeSet<&PathBuf> {
        self.unified.iter().chain(self.legacy.values()).collect()
    }

    fn enforcement_of(&self, resource: Resource) -> Enforcement {
        let controller = controller_of(resource);
        if self.controllers.contains(&controller) {
            Enforcement::CgroupV2
        } else if self.legacy.contains_key(&controller) {
            Enforcement::CgroupV1
        } else {
            Enforcement::None
        }
    }

    fn limits_anything(&self) -> bool {
        self.enforcement() != Enforcement::None
    }

    fn enforcement(&self) -> Enforcement {
        let all = Resource::ALL.map(|resource| self.enforcement_of(resource));
        let order = [Enforcement::CgroupV2, Enforcement::CgroupV1];
        order.into_iter().find(|wanted| all.contains(wanted)).unwrap_or_default()
    }

    /// Returns the most memory that was in use at once, as far as the kernel says.
    pub fn peak_memory_bytes(&self) -> Option<u64> {
        match self.legacy.get(&Controller::Memory) {
            Some(folder) => files::number(folder, "memory.max_usage_in_bytes"),
            // Before Linux 5.19 there is no peak.
            None => self.unified.as_ref().and_then(|folder| {
                files::number(folder, "memory.peak").or_else(|| files::number(folder, "memory.current"))
            }),
        }
    }

    /// Returns the time that processors worked.
    pub fn cpu_ms(&self) -> Option<u64> {
        match self.legacy.get(&Controller::Cpuacct) {
            Some(folder) => Some(files::number(folder, "cpuacct.usage")? / 1_000_000),
            None => Some(files::entry(self.unified.as_ref()?, "cpu.stat", "usage_usec")? / 1_000),
        }
    }

    /// Returns how many processes the kernel killed because memory ran out.
    pub fn oom_kills(&self) -> u64 {
        let count = match self.legacy.get(&Controller::Memory) {
            Some(folder) => files::entry(folder, "memory.oom_control", "oom_kill"),
            None => {
                self.unified.as_ref().and_then(|folder| files::entry(folder, "memory.events", "oom_kill"))
            }
        };
        count.unwrap_or(0)
    }

    /// Returns the processes in the group that we can name.
    pub fn members(&self) -> BTreeSet<i32> {
        let mut members = BTreeSet::new();
        for folder in self.folders().into_iter().flat_map(|folder| with_inner(folder)) {
            let list = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            members.extend(
                list.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()).filter(|pid| *pid > 0),
            );
        }
        members
    }

    /// Whether nobody is in it, whoever it is.
    fn is_empty(&self) -> bool {
        self.folders().into_iter().all(|folder| is_folder_empty(folder))
    }

    /// Kills everything in the group, also what hides from its parents. Returns whether nothing is left.
    pub async fn kill(&self) -> bool {
        let deadline = Instant::now() + limits::KILL_WAIT;
        let mut is_first = true;
        while !self.is_empty() {
            // Version 2 kills all that are in its hierarchy at once; who is left then has moved, or there is no version 2.
            if !(is_first && self.kill_at_once()) {
                self.kill_held();
            }
            is_first = false;
            if Instant::now() >= deadline {
                tracing::warn!(group = ?self.folders(), "processes of a control group resist being killed");
                return false;
            }
            tokio::time::sleep(limits::CLEAR_STEP).await;
        }
        true
    }

    fn kill_at_once(&self) -> bool {
        self.unified.as_ref().is_some_and(|folder| fs::write(folder.join("cgroup.kill"), "1").is_ok())
    }

    /// Kills one after the other. They are held still, and may start nobody, meanwhile.
    fn kill_held(&self) {
        let hold = |is_held: bool| {
            if let Some(folder) = self.legacy.get(&Controller::Freezer) {
                let _ = fs::write(folder.join("freezer.state"), if is_held { "FROZEN" } else { "THAWED" });
            } else if let Some(folder) = &self.unified {
                let _ = fs::write(folder.join("cgroup.freeze"), if is_held { "1" } else { "0" });
            }
        };
        for folder in self.legacy.get(&Controller::Pids).iter().copied().chain(&self.unified) {
            let _ = fs::write(folder.join("pids.max"), "0");
        }
        hold(true);
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        for pid in self.members().into_iter().filter(|pid| *pid != own) {
            // Gone already, then.
            let pid = rustix::process::Pid::from_raw(pid);
            let _ = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL));
        }
        hold(false);
    }

    /// Kills what is in the group and removes it.
    pub async fn remove(&self) {
        if !self.kill().await {
            return;
        }
        let deadline = Instant::now() + limits::KILL_WAIT;
        for folder in self.folders() {
            // The kernel may take a moment to notice that the last process is gone.
            while let Err(error) = remove_folder(folder) {
                if Instant::now() >= deadline {
                    tracing::warn!(%error, folder = %folder.display(), "cannot remove an agent's control group");
                    break;
                }
                tokio::time::sleep(limits::CLEAR_STEP).await;
            }
        }
    }
}

/// Returns a group's folder and those of the groups within it.
fn with_inner(folder: &Path) -> Vec<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    let mut next = 0;
    while let Some(folder) = folders.get(next).cloned() {
        next += 1;
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
        }
    }
    folders
}

/// Whether nobody is in a group, nor in one within it.
fn is_folder_empty(folder: &Path) -> bool {
    with_inner(folder).iter().all(|folder| match fs::read(folder.join("cgroup.procs")) {
        Ok(members) => members.is_empty(),
        Err(_) => true,
    })
}

/// Removes a group and those that were made within it.
fn remove_folder(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_folder(&entry.path())?;
        }
    }
    match fs::remove_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl RunLimits {
    /// Returns the CPU time of the run; nothing without a control group that counts it.
    pub fn cpu_ms(&self) -> Option<u64> {
        self.group.as_ref().and_then(SessionGroup::cpu_ms)
    }

    /// Measures the run.
    pub fn report(&self) -> ResourceReport {
        let group = self.group.as_ref();
        ResourceReport {
            enforcement: self.enforcement,
            not_enforced: self.not_enforced.clone(),
            peak_memory_bytes: group.and_then(SessionGroup::peak_memory_bytes),
            cpu_ms: group.and_then(SessionGroup::cpu_ms),
            oom_kills: group.map_or(0, SessionGroup::oom_kills),
        }
    }
}

#[cfg(test)]
mod tests;
