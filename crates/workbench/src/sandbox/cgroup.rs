//! Control groups for a command, where the daemon may make them: one that counts processes and one that counts memory
//! (or one for both). Where it may not, the per-process limits remain. Both versions of the kernel's interface are known.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Limits;
use crate::limits;

/// The groups of one command. Must be removed when it is gone.
#[derive(Debug)]
pub(super) struct Cgroup {
    folders: Vec<PathBuf>,
}

/// What the groups' names start with; the number of the process that made them follows.
const PREFIX: &str = "obey-exec-";

impl Cgroup {
    /// Makes the groups and sets their limits; none if the machine or its owner does not let us.
    pub(super) fn create(most: &Limits) -> Option<Self> {
        let name = format!("{PREFIX}{}-{}", std::process::id(), crate::random::name().ok()?);
        create_unified(&name, most).or_else(|| create_legacy(&name, most))
    }

    /// Removes groups that a killed daemon left behind: those whose maker is gone.
    pub(super) fn sweep() {
        let folders =
            [own_folder("cgroup2", ""), own_folder("cgroup", "pids"), own_folder("cgroup", "memory")];
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
        self.folders.iter().map(|folder| folder.join("cgroup.procs").into_os_string()).collect()
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
        // Only when a command was never started: its groups are empty.
        for folder in &self.folders {
            let _ = fs::remove_dir(folder);
        }
    }
}

fn set(folder: &Path, file: &str, value: u64) -> io::Result<()> {
    fs::write(folder.join(file), value.to_string())
}

/// Version 2: one group below our own, if it was delegated to us.
fn create_unified(name: &str, most: &Limits) -> Option<Cgroup> {
    let own = own_folder("cgroup2", "")?;
    let has = |file: &str| {
        let list = fs::read_to_string(own.join(file)).unwrap_or_default();
        ["pids", "memory"].iter().all(|wanted| list.split_whitespace().any(|one| one == *wanted))
    };
    if !has("cgroup.controllers") {
        return None;
    }
    if !has("cgroup.subtree_control") {
        fs::write(own.join("cgroup.subtree_control"), "+pids +memory").ok()?;
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
fn create_legacy(name: &str, most: &Limits) -> Option<Cgroup> {
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

fn keep(limited: io::Result<()>, folders: Vec<PathBuf>) -> Option<Cgroup> {
    if limited.is_ok() {
        return Some(Cgroup { folders });
    }
    for folder in folders {
        let _ = fs::remove_dir(folder);
    }
    None
}

/// Returns the folder of our own group in a hierarchy.
fn own_folder(kind: &str, controller: &str) -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        controllers.split(',').any(|one| one == controller).then_some(path)
    })?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mount = mounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let fits = fields.get(2) == Some(&kind)
            && (controller.is_empty() || fields.get(3)?.split(',').any(|option| option == controller));
        fits.then(|| fields[1].to_owned())
    })?;
    Some(Path::new(&mount).join(own.trim_start_matches('/')))
}
