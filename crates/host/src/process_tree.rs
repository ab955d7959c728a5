//! Kills what an agent left running when its shim was killed: the agent's session, its descendants, and every
//! process that carries the agent's mark in its environment after moving to another session. A pid alone is
//! never trusted. Must not be used while the shim lives: the shim does it better.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use shim::proc_table::{self, Process};
use shim::record::Meta;
use tokio::time::{self, Instant};

use crate::clock;
use crate::limits::{ANCESTORS_MAX, KILL_MARKED_TIMEOUT, KILL_TREE_INTERVAL, KILL_TREE_TIMEOUT};

/// The variable that every descendant of an agent inherits unless it clears its environment.
pub const MARK_VARIABLE: &str = "OBEY_TREE";

/// Returns whether the calling process was started by an agent: below a shim, or with an agent's mark. A process that
/// hides this is not recognized; what it may do is decided by the daemon it calls.
pub fn is_inside_agent() -> bool {
    if std::env::var_os(MARK_VARIABLE).is_some() {
        return true;
    }
    let mut pid = std::os::unix::process::parent_id() as i32;
    for _ in 0..ANCESTORS_MAX {
        let Some(process) = proc_table::find(pid) else { return false };
        if process.name == shim::PROCESS_NAME {
            return true;
        }
        pid = process.parent;
    }
    false
}

/// Distinguishes the descendants of one directory's agent from all others. Not a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeMark(String);

impl TreeMark {
    pub fn value(&self) -> OsString {
        OsString::from(&self.0)
    }
}

/// Returns the mark of the agent held in `dir`. It is derived from the directory's identity, so it need not
/// be stored.
pub fn mark_of(dir: &Path) -> io::Result<TreeMark> {
    let found = fs::metadata(dir)?;
    Ok(TreeMark(format!("{:x}-{:x}", found.dev(), found.ino())))
}

/// Kills the agent described by `meta`, if that is known, and everything that carries its mark, until nothing
/// is left or the timeout expires. Returns how many processes survived.
pub async fn kill_tree(meta: Option<&Meta>, mark: &TreeMark) -> io::Result<usize> {
    let deadline = Instant::now() + KILL_TREE_TIMEOUT;
    loop {
        let all = proc_table::list()?;
        let tree = members(&all, meta, mark);
        for process in &tree {
            proc_table::signal(process, libc::SIGKILL);
        }
        if tree.is_empty() || Instant::now() >= deadline {
            return Ok(tree.len());
        }
        time::sleep(KILL_TREE_INTERVAL).await;
    }
}

/// Returns the age of the oldest process that carries the mark.
pub fn age(mark: &TreeMark) -> Option<Duration> {
    let all = proc_table::list().unwrap_or_default();
    members(&all, None, mark).iter().map(|process| clock::since_ticks(process.start_ticks)).max()
}

/// Kills everything that carries the mark, until nothing is left or the timeout expires. Does not yield
/// meanwhile: it takes milliseconds.
pub fn kill_marked(mark: &TreeMark) {
    let deadline = std::time::Instant::now() + KILL_MARKED_TIMEOUT;
    loop {
        let all = proc_table::list().unwrap_or_default();
        let tree = members(&all, None, mark);
        for process in &tree {
            proc_table::signal(process, libc::SIGKILL);
        }
        if tree.is_empty() || std::time::Instant::now() >= deadline {
            return;
        }
        std::thread::sleep(KILL_TREE_INTERVAL);
    }
}

/// Returns the processes of the agent's session or with its mark, and their descendants.
fn members<'a>(all: &'a [Process], meta: Option<&Meta>, mark: &TreeMark) -> Vec<&'a Process> {
    let own_session = meta.and_then(|meta| session_of(all, meta));
    let is_in_session = |process: &Process| {
        own_session.is_some_and(|(session, since)| process.session == session && process.start_ticks >= since)
    };
    let roots: Vec<&Process> =
        all.iter().filter(|process| is_in_session(process) || bears(process, mark)).collect();
    // The calling process does not count, even if it was started from inside an agent.
    let own = std::process::id() as i32;
    let numbers: Vec<i32> = roots.iter().map(|process| process.pid).collect();
    let mut found = proc_table::descendants(all, &numbers);
    found.extend(roots.into_iter().filter(|process| !process.is_zombie));
    found.retain(|process| process.pid != own);
    found
}

/// Returns the id of the agent's session and its start, unless that id may have been reused.
fn session_of(all: &[Process], meta: &Meta) -> Option<(i32, u64)> {
    let agent_pid = meta.agent_pid as i32;
    let is_this_boot = meta.boot_id == proc_table::boot_id();
    let namesake = all.iter().find(|process| process.pid == agent_pid);
    // The kernel does not reuse a number while a session has it. So if no other process has the agent's pid
    // now, a session with that id that is not older than the agent is the agent's.
    let is_agents_number =
        is_this_boot && namesake.is_none_or(|process| process.start_ticks == meta.start_ticks);
    is_agents_number.then_some((agent_pid, meta.start_ticks))
}

/// Returns whether a process started with the mark in its environment. Only processes of this user can be
/// read.
fn bears(process: &Process, mark: &TreeMark) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{}/environ", process.pid)) else { return false };
    let wanted = format!("{MARK_VARIABLE}={}", mark.0);
    environment.split(|&byte| byte == 0).any(|entry| entry == wanted.as_bytes())
}
