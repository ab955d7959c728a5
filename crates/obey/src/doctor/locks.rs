//! The locks of daemons and of the commands that start them. A lock ends with its holder, so a held lock
//! without an answering daemon means a hung daemon; a file that is not held is harmless.

use std::fs;
use std::path::Path;

use super::Finding;
use config::holder;

/// Checks every lock in these folders.
pub(super) fn examine<'a>(folders: impl IntoIterator<Item = &'a Path>, runs: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for folder in folders {
        let mut paths: Vec<_> =
            fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        paths.sort();
        let is_lock = |path: &Path| path.extension().is_some_and(|ext| ext == "lock");
        findings.extend(paths.iter().filter(|path| is_lock(path)).filter_map(|path| lock(path, runs)));
    }
    findings
}

/// Reports a lock that is held although no daemon answers.
fn lock(path: &Path, runs: bool) -> Option<Finding> {
    const CHECK: &str = "lock";
    if runs {
        return None;
    }
    let shown = path.display();
    match holder::look(path)? {
        (true, Some(pid)) => Some(Finding::broken(
            CHECK,
            format!("{shown} is held by process {pid}, but no daemon answers"),
            format!("end it; agents go on: kill {pid}, or kill -9 {pid} where that does not help"),
        )),
        (true, None) => Some(Finding::broken(
            CHECK,
            format!("{shown} is held, but no daemon answers"),
            format!("find its holder and end it: fuser -v {shown}"),
        )),
        (false, Some(pid)) => {
            let message = format!("{shown} is left over from process {pid}; the next daemon takes it");
            Some(Finding::ok(CHECK, message))
        }
        (false, None) => None,
    }
}
