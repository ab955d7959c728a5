//! Which processes of this machine belong to a test's world, and how to end them. A process belongs to a world if the
//! world's folder appears in its environment, its command line or its working folder: agents and shims leave the
//! daemon's process tree on purpose, so parentage proves nothing. Touches no process of anybody else.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// A live process of a world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    /// Arguments joined by blanks.
    pub command: String,
}

/// The live processes that belong to the world in `root`, this test excepted.
pub fn of_world(root: &Path) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let own = std::process::id() as i32;
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| *pid != own && alive(*pid) && belongs(*pid, root))
        .map(|pid| Process { pid, command: command(pid) })
        .collect()
}

/// Whether the process exists and is more than an unreaped exit status.
pub fn alive(pid: i32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The state follows the name, which is in parentheses and may itself contain any character.
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// Sends a signal; a process that is gone already is no error.
pub fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// Kills every process of the world, repeatedly, because a process may start another one while it is being killed.
pub fn kill_world(root: &Path) {
    const ROUNDS_MAX: usize = 50;
    for _ in 0..ROUNDS_MAX {
        let processes = of_world(root);
        if processes.is_empty() {
            return;
        }
        for process in processes {
            signal(process.pid, Signal::KILL);
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

fn belongs(pid: i32, root: &Path) -> bool {
    let root = root.as_os_str().as_bytes();
    let names_root = |file: &str| {
        let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        bytes.windows(root.len()).any(|window| window == root)
    };
    let inside = || {
        fs::read_link(format!("/proc/{pid}/cwd"))
            .is_ok_and(|cwd| cwd.as_os_str().as_bytes().starts_with(root))
    };
    names_root("environ") || names_root("cmdline") || inside()
}

fn command(pid: i32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ").trim_end().to_owned()
}
