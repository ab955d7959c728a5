//! One look at a process from outside: whether it runs and how much CPU time it has used. Must not know whose it is.

/// What was seen of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessLook {
    pub is_alive: bool,
    /// CPU time of the process and of its children that have ended.
    pub cpu_ms: Option<u64>,
}

/// Looks at a process. One that has ended and was not reaped does not run.
pub fn look(pid: u32) -> ProcessLook {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => parse(&stat),
        Err(_) => ProcessLook { is_alive: false, cpu_ms: None },
    }
}

/// Returns whether a process exists, which one that has ended and was not reaped does. Costs a hundredth of a look.
pub fn exists(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    // One of another user exists too.
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

fn parse(stat: &str) -> ProcessLook {
    // The name is in brackets and may contain anything, brackets too.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let fields: Vec<&str> = after.split_whitespace().collect();
    let is_alive = !matches!(fields.first(), None | Some(&("Z" | "X")));
    // utime, stime, cutime and cstime are fields 14 to 17 of proc_pid_stat(5), the state is field 3.
    let ticks: Option<u64> =
        fields.get(11..15).and_then(|times| times.iter().map(|time| time.parse::<u64>().ok()).sum());
    ProcessLook { is_alive, cpu_ms: ticks.map(|ticks| ticks.saturating_mul(1_000) / TICKS_PER_SECOND) }
}

/// The unit of the kernel's times towards programs, the same on every architecture that Linux runs agents on.
const TICKS_PER_SECOND: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_runs_is_told_from_one_that_does_not_exist() {
        assert!(look(std::process::id()).is_alive);
        // No kernel numbers processes so high.
        assert!(!look(u32::MAX).is_alive);
        assert!(exists(std::process::id()));
        assert!(exists(1), "though it may be another user's");
        assert!(!exists(u32::MAX));
        assert!(!exists(i32::MAX as u32));
    }

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 20 30 20 0 1 0 100 0 0";
        assert_eq!(parse(stat), ProcessLook { is_alive: true, cpu_ms: Some(2_500) });
        assert!(!parse("7 (a) Z 1 7 7 0").is_alive);
        assert!(!parse("").is_alive);
    }
}
