//! Agents without a session: shims that no session needs, and folders of agents that have ended. Relies on
//! the lock in each folder, as the daemon does.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use runtime::process::scan;
use wire::obey::local::v1::ListSessionsRequest;

use super::Finding;
use crate::limits;
use client::connection::Client;
use client::format;

const CHECK: &str = "agents";

/// The content of the agents' folder.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sorted {
    /// Held for a live session.
    held: Vec<PathBuf>,
    /// Held, but not needed.
    orphans: Vec<PathBuf>,
    /// Neither held nor needed.
    leftovers: Vec<PathBuf>,
}

/// Checks the agents of a running daemon, or those left by one that has ended.
pub(super) async fn examine(data_dir: &Path, daemon: Option<&Client>) -> Vec<Finding> {
    let folder = data_dir.join("agents");
    let Some(client) = daemon else { return without_daemon(&folder) };
    let mut sorted = look(&folder, client).await;
    if !sorted.orphans.is_empty() {
        // A session that is ending releases its agent a moment later.
        tokio::time::sleep(limits::ORPHAN_WAIT).await;
        sorted = look(&folder, client).await;
    }
    let mut findings: Vec<Finding> = sorted.orphans.iter().map(|orphan| orphan_found(orphan)).collect();
    if !sorted.leftovers.is_empty() {
        let message = format!(
            "{} of agents that are gone below {}",
            format::plural(sorted.leftovers.len(), "folder"),
            folder.display()
        );
        findings.push(Finding::warning(CHECK, message, "remove them: obey gc"));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(CHECK, format!("{} held, no orphans", sorted.held.len())));
    }
    findings
}

fn without_daemon(folder: &Path) -> Vec<Finding> {
    let held = scan::find_held(folder).unwrap_or_default().iter().filter(|found| found.is_held).count();
    if held == 0 {
        return Vec::new();
    }
    let message = format!("{} without a daemon; the next one finds them", format::plural(held, "agent"));
    vec![Finding::ok(CHECK, message)]
}

fn orphan_found(folder: &Path) -> Finding {
    let pid = fs::read_to_string(folder.join(shim::LOCK_NAME)).ok();
    let pid = pid.and_then(|text| text.trim().parse::<u32>().ok());
    let who = pid.map_or_else(|| "a shim".to_owned(), |pid| format!("a shim (pid {pid})"));
    let message = format!("{who} holds {}, and no session needs it", folder.display());
    let end = pid.map_or_else(String::new, |pid| format!(", or: kill -9 {pid}"));
    Finding::broken(CHECK, message, format!("the next daemon ends it: obey upgrade{end}"))
}

async fn look(folder: &Path, client: &Client) -> Sorted {
    let listed = client.daemon().list_sessions(ListSessionsRequest::default()).await;
    // The finding about the daemon reports that it does not answer.
    let Ok(listed) = listed else { return Sorted::default() };
    let live: Vec<String> = listed.into_inner().sessions.into_iter().map(|session| session.id).collect();
    sort(scan::find_held(folder).unwrap_or_default(), &live)
}

/// Classifies folders. They are named `<session>.<run>`; only the last run of a live session is needed.
fn sort(found: Vec<scan::HeldDir>, live: &[String]) -> Sorted {
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    let named: Vec<_> = found
        .into_iter()
        .filter_map(|found| {
            let name = found.dir.file_name()?.to_str()?;
            // Other names belong to commands (`obey exec`), whose callers wait for them.
            let (session, run) = name.rsplit_once('.')?;
            Some((session.to_owned(), run.parse::<u64>().ok()?, found))
        })
        .collect();
    for (session, run, _) in &named {
        let newest = last.entry(session.clone()).or_default();
        *newest = (*newest).max(*run);
    }
    let mut sorted = Sorted::default();
    for (session, run, found) in named {
        let needed = live.contains(&session) && last.get(&session) == Some(&run);
        match (needed, found.is_held) {
            (true, true) => sorted.held.push(found.dir),
            (true, false) => {}
            (false, true) => sorted.orphans.push(found.dir),
            (false, false) => sorted.leftovers.push(found.dir),
        }
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_told_apart_by_session_run_and_lock() {
        let dir = |name: &str, is_held: bool| scan::HeldDir { dir: PathBuf::from(name), is_held };
        let found = vec![
            dir("/a/exec_1", true),
            dir("/a/sess_1.1", true),
            dir("/a/sess_1.2", true),
            dir("/a/sess_2.1", false),
            dir("/a/sess_3.1", true),
            dir("/a/sess_4.1", false),
        ];
        let sorted = sort(found, &["sess_1".to_owned(), "sess_2".to_owned()]);
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(sorted.held, paths(&["/a/sess_1.2"]));
        assert_eq!(sorted.orphans, paths(&["/a/sess_1.1", "/a/sess_3.1"]));
        assert_eq!(sorted.leftovers, paths(&["/a/sess_4.1"]));
    }
}
