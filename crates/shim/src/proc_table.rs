//! The process table as /proc shows it: parents and children, and signals that cannot hit a reused pid. Used
//! by the shim for its own tree and by the daemon for the tree of a shim that was killed. Must not know
//! agents or sessions.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::AsFd;

use crate::sys;

/// One process at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    pub session: i32,
    /// The kernel's start time; with the pid it identifies a process for this boot of the machine.
    pub start_ticks: u64,
    pub name: String,
    /// Ended, but not yet reaped by its parent.
    pub is_zombie: bool,
}

/// Looks up one process.
pub fn find(pid: i32) -> Option<Process> {
    parse_stat(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Returns all processes that this user may see.
pub fn list() -> io::Result<Vec<Process>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let Ok(entry) = entry else { continue };
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        found.extend(find(pid));
    }
    Ok(found)
}

/// Returns those of `all` that descend from one of `roots`, not including the roots. Zombies are traversed
/// but not returned: there is nothing left to signal.
pub fn descendants<'a>(all: &'a [Process], roots: &[i32]) -> Vec<&'a Process> {
    let mut children: HashMap<i32, Vec<&Process>> = HashMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(process);
    }
    let mut seen: HashSet<i32> = roots.iter().copied().collect();
    let mut open: Vec<i32> = roots.to_vec();
    let mut found = Vec::new();
    while let Some(pid) = open.pop() {
        for &child in children.get(&pid).into_iter().flatten() {
            if seen.insert(child.pid) {
                open.push(child.pid);
                found.push(child);
            }
        }
    }
    found.retain(|process| !process.is_zombie);
    found
}

/// Returns the living descendants of `root`. Walks down from it if the kernel supports that, because a
/// machine may run very many other processes.
///
/// May miss a process that moves or whose sibling is reaped at that moment. But an empty result means that
/// there is none, if the caller is `root` itself and adopts its orphans.
pub fn below(root: i32) -> io::Result<Vec<Process>> {
    loop {
        let Some(first) = children(root) else {
            let all = list()?;
            return Ok(descendants(&all, &[root]).into_iter().cloned().collect());
        };
        let mut found = Vec::new();
        let mut seen = HashSet::from([root]);
        let mut open = first.clone();
        while let Some(pid) = open.pop() {
            if seen.insert(pid) {
                open.extend(children(pid).into_iter().flatten());
                found.extend(find(pid).filter(|process| !process.is_zombie));
            }
        }
        // A process that ended during the walk has left its children to the root, after the root was visited.
        if !found.is_empty() || children(root).is_some_and(|last| last == first) {
            return Ok(found);
        }
    }
}

/// Returns the children of all threads of `pid`; `None` if it has ended or the kernel does not list them.
fn children(pid: i32) -> Option<Vec<i32>> {
    let mut found = Vec::new();
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let text = std::fs::read_to_string(thread.ok()?.path().join("children")).ok()?;
        found.extend(text.split_ascii_whitespace().filter_map(|word| word.parse::<i32>().ok()));
    }
    Some(found)
}

/// Signals `process` unless its pid was reused. Returns whether it was signalled.
pub fn signal(process: &Process, signo: i32) -> bool {
    // The handle is opened first: if the start time still matches afterwards, the handle is the right one.
    let Ok(handle) = sys::open_process(process.pid) else { return false };
    find(process.pid).is_some_and(|now| now.start_ticks == process.start_ticks)
        && sys::signal_process(handle.as_fd(), signo).is_ok()
}

/// Returns the id of this boot of the machine; start times of different boots cannot be compared.
pub fn boot_id() -> [u8; 16] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: Vec<u8> =
        text.bytes().filter_map(|byte| (byte as char).to_digit(16)).map(|d| d as u8).collect();
    let mut id = [0; 16];
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    id
}

/// Parses `/proc/PID/stat`.
fn parse_stat(stat: &[u8]) -> Option<Process> {
    // The name may contain anything, including parentheses and spaces: the last parenthesis ends it.
    let open = stat.iter().position(|&byte| byte == b'(')?;
    let close = stat.iter().rposition(|&byte| byte == b')')?;
    let pid = std::str::from_utf8(&stat[..open]).ok()?.trim().parse().ok()?;
    let rest = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(Process {
        pid,
        name: String::from_utf8_lossy(&stat[open + 1..close]).into_owned(),
        // A process whose first thread has ended shows as a zombie while other threads still run.
        is_zombie: matches!(*fields.first()?, "Z" | "X") && matches!(*fields.get(17)?, "0" | "1"),
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start_ticks: fields.get(19)?.parse().ok()?,
    })
}
