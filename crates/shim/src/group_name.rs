//! Which agents' control groups a process is in, by their names. An agent's descendants stay in its group, whatever
//! becomes of their parents. Used by the shim for whoever connects to it and by the daemon for its callers.
//! Must not make groups.

use std::collections::BTreeSet;

/// What the names of agents' groups start with.
pub const PREFIX: &str = "obey-agent-";

/// The names of the agents' groups that a process is in, in any hierarchy, outer ones included. `None` if it is gone or
/// hidden.
pub fn of(pid: i32) -> Option<BTreeSet<String>> {
    Some(names_in(&std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?))
}

/// Those of [`of`] that this process itself is not in: a daemon that an agent started is in the agent's group.
pub fn beyond_ours(pid: i32) -> Option<BTreeSet<String>> {
    let own = of(std::process::id() as i32)?;
    Some(of(pid)?.difference(&own).cloned().collect())
}

/// Whether a process is in no agent's group that this one is not in too. What cannot be read is not.
pub(crate) fn is_with_us(pid: i32) -> bool {
    beyond_ours(pid).is_some_and(|names| names.is_empty())
}

fn names_in(groups: &str) -> BTreeSet<String> {
    let paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let parts = paths.flat_map(|path| path.split('/'));
    parts.filter(|part| part.starts_with(PREFIX)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_every_hierarchy() {
        let groups = "4:memory:/x/obey-agent-1-a.1/below\n2:cpu,cpuacct:/obey-agent-1-a.1\n0::/user.slice/obey-agent-2-b.3\n";
        assert_eq!(
            names_in(groups).into_iter().collect::<Vec<_>>(),
            ["obey-agent-1-a.1", "obey-agent-2-b.3"]
        );
        assert!(names_in("0::/user.slice/my-obey-agent-x\n").is_empty());
    }

    #[test]
    fn a_process_is_with_itself() {
        assert!(is_with_us(std::process::id() as i32));
        assert!(!is_with_us(0), "what cannot be read is not");
    }
}
