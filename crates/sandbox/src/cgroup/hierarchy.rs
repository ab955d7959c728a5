//! Where on this machine control groups can be made: below our own group of each hierarchy, as far as it was given to us.
//! Both versions of the kernel's interface, also side by side. Makes no group itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The leaf of version 2 that the daemon itself is in: a group whose members are limited may have no processes of its own.
/// `obey service` has systemd make it (`DelegateSubgroup=`).
pub(crate) const DAEMON_LEAF: &str = "obey-daemon";

/// What is counted and limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Controller {
    Memory,
    Pids,
    Cpu,
    /// Version 1 only: time used.
    Cpuacct,
    /// Version 1 only: holds processes still.
    Freezer,
}

impl Controller {
    const UNIFIED: [Controller; 3] = [Self::Memory, Self::Pids, Self::Cpu];
    const LEGACY: [Controller; 5] = [Self::Memory, Self::Pids, Self::Cpu, Self::Cpuacct, Self::Freezer];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
            Self::Cpuacct => "cpuacct",
            Self::Freezer => "freezer",
        }
    }
}

/// The folders below which we may make groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hierarchies {
    /// Version 2, and what it limits there.
    pub(crate) unified: Option<(PathBuf, BTreeSet<Controller>)>,
    /// Version 1, for what version 2 does not limit.
    pub(crate) legacy: BTreeMap<Controller, PathBuf>,
}

impl Hierarchies {
    /// Looks for them, and switches version 2's controllers on where that is ours to do.
    pub(crate) fn find() -> Self {
        let unified = unified_home().filter(|home| is_writable(home)).map(|home| {
            let controllers = switch_on(&home);
            (home, controllers)
        });
        let taken = unified.as_ref().map(|(_, controllers)| controllers.clone()).unwrap_or_default();
        let legacy = Controller::LEGACY
            .into_iter()
            .filter(|controller| !taken.contains(controller))
            .filter_map(|controller| Some((controller, own_folder("cgroup", controller.name())?)))
            .filter(|(_, folder)| is_writable(folder))
            .collect();
        Self { unified, legacy }
    }
}

/// Returns the folder of version 2 below which groups are made: our own, or the one above the leaf that we are in.
pub(crate) fn unified_home() -> Option<PathBuf> {
    let own = own_folder("cgroup2", "")?;
    match own.file_name() {
        Some(name) if name == DAEMON_LEAF => own.parent().map(Path::to_owned),
        _ => Some(own),
    }
}

/// Returns what version 2 limits below a folder, after switching on what is to be had.
pub(crate) fn switch_on(home: &Path) -> BTreeSet<Controller> {
    let listed = |file: &str| -> BTreeSet<Controller> {
        let list = fs::read_to_string(home.join(file)).unwrap_or_default();
        let has = |controller: &Controller| list.split_whitespace().any(|word| word == controller.name());
        Controller::UNIFIED.into_iter().filter(has).collect()
    };
    let missing: Vec<Controller> =
        listed("cgroup.controllers").difference(&listed("cgroup.subtree_control")).copied().collect();
    // Set by systemd for what it started.
    let is_service = std::env::var_os("INVOCATION_ID").is_some();
    if !missing.is_empty() && may_have_children(home, is_service) {
        for controller in missing {
            // One by one: some may be refused. What is on is read below.
            let _ = fs::write(home.join("cgroup.subtree_control"), format!("+{}", controller.name()));
        }
    }
    listed("cgroup.subtree_control")
}

/// Whether the folder's own group has no processes, or may have them: then its children can be limited. Where only we are in
/// it, we move to a leaf. Not below a service manager: it could not start the next daemon in a group that has
/// limited children, and this one's agents outlive it.
fn may_have_children(home: &Path, is_service: bool) -> bool {
    // Only the machine's own root has no type.
    if !home.join("cgroup.type").exists() {
        return true;
    }
    let members = fs::read_to_string(home.join("cgroup.procs")).unwrap_or_default();
    if members.trim().is_empty() {
        return true;
    }
    let own = std::process::id().to_string();
    if is_service || members.split_whitespace().any(|pid| pid != own) {
        return false;
    }
    let leaf = home.join(DAEMON_LEAF);
    let made = fs::create_dir(&leaf).is_ok() || leaf.is_dir();
    made && fs::write(leaf.join("cgroup.procs"), own).is_ok()
}

/// Whether we may make groups in a folder and move processes between those.
fn is_writable(folder: &Path) -> bool {
    let may = |path: &Path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    may(folder) && may(&folder.join("cgroup.procs"))
}

/// Returns the folder of our own group in a hierarchy.
pub(crate) fn own_folder(kind: &str, controller: &str) -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    folder_in(&groups, &mounts, kind, controller)
}

/// Finds it in what the kernel says of our groups and of what is mounted. A container may see only a part of a hierarchy.
fn folder_in(groups: &str, mounts: &str, kind: &str, controller: &str) -> Option<PathBuf> {
    let own = groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        controllers.split(',').any(|one| one == controller).then_some(path)
    })?;
    mounts.lines().find_map(|line| {
        let (place, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let (found, options) = (system.next()?, system.nth(1)?);
        if found != kind || !(controller.is_empty() || options.split(',').any(|option| option == controller))
        {
            return None;
        }
        let mut place = place.split(' ').skip(3);
        let (root, at) = (place.next()?, place.next()?);
        let below = Path::new(own).strip_prefix(root).ok()?;
        Some(Path::new(at).join(below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_groups_are_found_in_both_versions() {
        let groups = "4:memory:/a/b\n2:cpu,cpuacct:/\n1:name=systemd:/x\n0::/user.slice/obey.service\n";
        let mounts = "30 23 0:26 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n\
                      31 23 0:27 /a /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n\
                      32 23 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                      33 23 0:29 /elsewhere /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";
        let found = |kind, controller| {
            folder_in(groups, mounts, kind, controller).map(|folder| folder.display().to_string())
        };
        assert_eq!(found("cgroup2", "").as_deref(), Some("/sys/fs/cgroup/unified/user.slice/obey.service"));
        assert_eq!(found("cgroup", "memory").as_deref(), Some("/sys/fs/cgroup/memory/b"));
        assert_eq!(found("cgroup", "cpuacct").as_deref(), Some("/sys/fs/cgroup/cpu,cpuacct/"));
        assert_eq!(found("cgroup", "pids"), None, "not listed as ours");
        assert_eq!(found("cgroup", "freezer"), None);
    }

    /// A group of version 2, as files: the kernel of a test machine may have no controllers for it.
    #[test]
    fn controllers_are_switched_on_only_where_nobody_is_in_the_group() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        for (file, text) in [
            ("cgroup.type", "domain\n"),
            ("cgroup.controllers", "cpuset cpu io memory pids\n"),
            ("cgroup.subtree_control", ""),
            ("cgroup.procs", "1\n2\n"),
        ] {
            fs::write(home.join(file), text).unwrap();
        }
        assert!(switch_on(home).is_empty());
        assert_eq!(fs::read_to_string(home.join("cgroup.subtree_control")).unwrap(), "", "others are in it");
        fs::write(home.join("cgroup.procs"), "").unwrap();
        switch_on(home);
        let written = fs::read_to_string(home.join("cgroup.subtree_control")).unwrap();
        assert_eq!(written, "+cpu", "a plain file keeps the last line that was written");
        fs::write(home.join("cgroup.subtree_control"), "cpu memory pids").unwrap();
        assert_eq!(switch_on(home), BTreeSet::from(Controller::UNIFIED));
    }

    #[test]
    fn a_daemon_that_is_alone_moves_to_a_leaf() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        fs::write(home.join("cgroup.type"), "domain\n").unwrap();
        fs::write(home.join("cgroup.procs"), format!("{}\n", std::process::id())).unwrap();
        assert!(!may_have_children(home, true), "a manager could not start the next one");
        assert!(!home.join(DAEMON_LEAF).exists());
        assert!(may_have_children(home, false));
        let moved = fs::read_to_string(home.join(DAEMON_LEAF).join("cgroup.procs")).unwrap();
        assert_eq!(moved, std::process::id().to_string());
    }
}
