//! The files of a control group: what is written to limit it and what is read to measure it. Knows the names and formats of
//! both versions; makes and removes nothing.

use std::fs;
use std::path::Path;

use domain::ResourceLimits;

use crate::cgroup::hierarchy::Controller;
use crate::limits;

/// A file, what is written to it, and whether the limit holds without it.
pub(super) type Setting = (&'static str, String, bool);

/// Returns what limits a group of version 2.
///
/// `memory.oom.group` stays off, as it is in version 1: the kernel kills the largest process, mostly a build or a test, and
/// the agent lives to see it fail.
pub(super) fn unified(controller: Controller, most: &ResourceLimits) -> Vec<Setting> {
    let mut settings = Vec::new();
    match controller {
        Controller::Memory => {
            if let Some(bytes) = most.memory_bytes {
                settings.push(("memory.max", bytes.to_string(), true));
                // Absent where swap is not accounted for.
                settings.push(("memory.swap.max", "0".to_owned(), false));
            }
        }
        Controller::Pids => {
            settings.extend(most.processes.map(|count| ("pids.max", count.to_string(), true)))
        }
        Controller::Cpu => {
            settings.push(("cpu.weight", limits::SESSION_CPU_WEIGHT.to_string(), false));
            if let Some(quota) = most.cpu_millis.map(quota_us) {
                settings.push(("cpu.max", format!("{quota} {}", limits::CPU_PERIOD_US), true));
            }
        }
        Controller::Cpuacct | Controller::Freezer => {}
    }
    settings
}

/// Returns what limits a group of version 1.
pub(super) fn legacy(controller: Controller, most: &ResourceLimits) -> Vec<Setting> {
    let mut settings = Vec::new();
    match controller {
        Controller::Memory => {
            if let Some(bytes) = most.memory_bytes {
                settings.push(("memory.limit_in_bytes", bytes.to_string(), true));
                // With swap; after the limit without, which it may not be below.
                settings.push(("memory.memsw.limit_in_bytes", bytes.to_string(), false));
            }
        }
        Controller::Pids => {
            settings.extend(most.processes.map(|count| ("pids.max", count.to_string(), true)))
        }
        Controller::Cpu => {
            settings.push(("cpu.shares", limits::SESSION_CPU_SHARES.to_string(), false));
            if let Some(quota) = most.cpu_millis.map(quota_us) {
                settings.push(("cpu.cfs_period_us", limits::CPU_PERIOD_US.to_string(), true));
                settings.push(("cpu.cfs_quota_us", quota.to_string(), true));
            }
        }
        Controller::Cpuacct | Controller::Freezer => {}
    }
    settings
}

fn quota_us(cpu_millis: u64) -> u64 {
    cpu_millis.saturating_mul(limits::CPU_PERIOD_US) / 1_000
}

/// Reads a file that holds one number.
pub(super) fn number(folder: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()
}

/// Reads one entry of a file that holds names and numbers.
pub(super) fn entry(folder: &Path, file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(folder.join(file)).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(write: fn(Controller, &ResourceLimits) -> Vec<Setting>, most: &ResourceLimits) -> String {
        let controllers = [Controller::Memory, Controller::Pids, Controller::Cpu];
        let all = controllers.into_iter().flat_map(|controller| write(controller, most));
        all.map(|(file, value, needed)| format!("{file}={value}{}\n", if needed { "" } else { " ?" }))
            .collect()
    }

    #[test]
    fn every_limit_has_its_file_in_both_versions() {
        let most =
            ResourceLimits { memory_bytes: Some(4 << 30), cpu_millis: Some(2_500), processes: Some(500) };
        assert_eq!(
            shown(unified, &most),
            "memory.max=4294967296\nmemory.swap.max=0 ?\npids.max=500\ncpu.weight=100 ?\ncpu.max=250000 100000\n"
        );
        assert_eq!(
            shown(legacy, &most),
            "memory.limit_in_bytes=4294967296\nmemory.memsw.limit_in_bytes=4294967296 ?\npids.max=500\n\
             cpu.shares=1024 ?\ncpu.cfs_period_us=100000\ncpu.cfs_quota_us=250000\n"
        );
        assert_eq!(shown(unified, &ResourceLimits::default()), "cpu.weight=100 ?\n");
        assert_eq!(shown(legacy, &ResourceLimits::default()), "cpu.shares=1024 ?\n");
    }
}
