//! How much memory there is left for another agent: on the machine, and in the control group the daemon itself is in.

use std::fs;
use std::path::Path;

use super::files;
use crate::cgroup::hierarchy::own_folder;

/// Returns the memory that can still be had without anybody being killed; `None` where nobody says.
pub fn available_memory() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available_in(&text));
    let unified = own_folder("cgroup2", "").and_then(|own| lowest(&own, left_unified));
    let legacy = own_folder("cgroup", "memory").and_then(|own| lowest(&own, left_legacy));
    [machine, unified, legacy].into_iter().flatten().min()
}

fn available_in(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1_024)
}

/// The least of what a group and those above it leave.
fn lowest(own: &Path, left: fn(&Path) -> Option<u64>) -> Option<u64> {
    own.ancestors().take_while(|folder| folder.join("cgroup.procs").exists()).filter_map(left).min()
}

fn left_unified(folder: &Path) -> Option<u64> {
    let most = files::number(folder, "memory.max")?;
    let used = files::number(folder, "memory.current")?;
    let kept = files::entry(folder, "memory.stat", "inactive_file").unwrap_or(0);
    Some(most.saturating_sub(used.saturating_sub(kept)))
}

fn left_legacy(folder: &Path) -> Option<u64> {
    let most = files::number(folder, "memory.limit_in_bytes")?;
    let used = files::number(folder, "memory.usage_in_bytes")?;
    let kept = files::entry(folder, "memory.stat", "total_inactive_file").unwrap_or(0);
    Some(most.saturating_sub(used.saturating_sub(kept)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_says_how_much_is_left() {
        assert_eq!(available_in("MemTotal: 9 kB\nMemAvailable:   2048 kB\n"), Some(2 << 20));
        assert_eq!(available_in("MemTotal: 9 kB\n"), None);
        assert!(available_memory().is_some_and(|bytes| bytes > 0));
    }

    #[test]
    fn a_group_leaves_what_it_has_not_used_and_can_give_back() {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("memory.max", "100\n"),
            ("memory.current", "80\n"),
            ("memory.stat", "anon 50\ninactive_file 30\n"),
        ] {
            fs::write(dir.path().join(file), text).unwrap();
        }
        assert_eq!(left_unified(dir.path()), Some(50));
        fs::write(dir.path().join("memory.max"), "max\n").unwrap();
        assert_eq!(left_unified(dir.path()), None);
    }
}
