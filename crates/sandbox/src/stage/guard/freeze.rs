//! Stops every process of the own process namespace, and later continues those that were not stopped before. Only the init
//! process of a namespace does this.

use std::path::Path;
use std::time::Instant;

use crate::limits;
use crate::sys;

/// Everything inside is stopped.
pub(super) struct Frozen {
    is_init: bool,
}

/// Stops everything inside and waits until nothing runs any more.
pub(super) fn all() -> Frozen {
    let is_init = sys::signal_all_others(libc::SIGSTOP);
    let began = Instant::now();
    // What still has not stopped hangs in the kernel. What it does when it comes back is seen by what follows.
    while is_init && began.elapsed() < limits::FREEZE_WAIT && !threads().all(|thread| thread.rests()) {
        std::thread::yield_now();
    }
    Frozen { is_init }
}

impl Frozen {
    /// Lets everything go on but what was stopped before.
    pub(super) fn thaw(self) {
        if !self.is_init {
            return;
        }
        for process in numbers(Path::new("/proc")).filter(|number| *number != 1) {
            if !was_stopped_before(process) {
                sys::signal_one(process, libc::SIGCONT);
            }
        }
    }
}

/// The numbers that a folder of `/proc` lists.
fn numbers(folder: &Path) -> impl Iterator<Item = i32> + use<> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

struct Thread {
    process: i32,
    id: i32,
}

fn threads() -> impl Iterator<Item = Thread> {
    let processes = numbers(Path::new("/proc")).filter(|number| *number != 1);
    processes.flat_map(|process| {
        numbers(Path::new(&format!("/proc/{process}/task"))).map(move |id| Thread { process, id })
    })
}

impl Thread {
    /// Whether it executes nothing of its program: stopped, ended, or waiting for a child that has not become another program yet
    /// and is stopped itself.
    fn rests(&self) -> bool {
        let Self { process, id } = self;
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/task/{id}/stat")) else {
            return true;
        };
        // The name before it may hold anything.
        match stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()) {
            Some('T' | 't' | 'Z' | 'X') => true,
            Some('D') => {
                let call = std::fs::read_to_string(format!("/proc/{process}/task/{id}/syscall"));
                call.is_ok_and(|call| waits_for_child(&call))
            }
            _ => false,
        }
    }
}

/// Whether a line of `/proc/PID/syscall` is a `vfork`.
fn waits_for_child(line: &str) -> bool {
    let mut words = line.split(' ');
    let number = words.next().and_then(|word| word.parse::<i64>().ok());
    let first = words.next().and_then(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok());
    #[cfg(target_arch = "x86_64")]
    if number == Some(libc::SYS_vfork) {
        return true;
    }
    number == Some(libc::SYS_clone) && first.is_some_and(|flags| flags & libc::CLONE_VFORK as u64 != 0)
}

/// Whether a process was stopped before everything was: the signal that came then is still waiting for it.
fn was_stopped_before(process: i32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{process}/status")) else { return true };
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim).unwrap_or_default()
    };
    let pending = u64::from_str_radix(field("ShdPnd:"), 16).unwrap_or(0);
    field("State:").starts_with('T') && pending & (1 << (libc::SIGSTOP - 1)) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_thread_that_waits_for_its_vfork_is_known_by_its_call() {
        assert!(waits_for_child("58 0x0 0x0 0x0 0x0 0x0 0x0 0x7ffe 0x7f\n"));
        assert!(waits_for_child("56 0x4111 0x0 0x0 0x0 0x0 0x0 0x7ffe 0x7f\n"));
        assert!(!waits_for_child("56 0x1200011 0x0 0x0 0x0 0x0 0x0 0x7ffe 0x7f\n"));
        assert!(!waits_for_child("257 0xffffff9c 0x0 0x0 0x0 0x0 0x0 0x7ffe 0x7f\n"));
        assert!(!waits_for_child("running\n"));
    }
}
