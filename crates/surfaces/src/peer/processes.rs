//! The process tree as `/proc` shows it: ancestors of a process, and the processes that have a socket open.
//! Reads only; a process that cannot be followed to the top is reported as such, never taken for harmless.

use std::fs;

use super::limits;

/// What a walk needs to know of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    parent: i32,
    /// Clock ticks after boot.
    started: u64,
}

/// Looks at a process and its ancestors and returns the first answer, or that nobody up to the top has one. Nothing
/// when the chain cannot be followed.
pub(super) fn find_ancestor<T>(pid: i32, look: impl Fn(i32) -> Option<T>) -> Option<Option<T>> {
    // Parents end and their children move up while we read.
    (0..limits::WALKS_MAX).find_map(|_| walk(pid, process, sees_all(), &look))
}

fn walk<T>(
    pid: i32,
    process: impl Fn(i32) -> Option<Process>,
    sees_all: bool,
    look: impl Fn(i32) -> Option<T>,
) -> Option<Option<T>> {
    let mut current = pid;
    let mut youngest = u64::MAX;
    for step in 0..limits::ANCESTORS_MAX {
        let Some(found) = process(current) else {
            // Where other users' processes are hidden, the first hidden ancestor is theirs and not an agent's.
            return (step > 0 && !sees_all).then_some(None);
        };
        if found.started > youngest {
            // A child is never older than its parent: the number has been given to somebody else meanwhile.
            return None;
        }
        youngest = found.started;
        if let Some(answer) = look(current) {
            return Some(Some(answer));
        }
        if found.parent <= 0 {
            return Some(None);
        }
        current = found.parent;
    }
    None
}

/// Whether `/proc` shows other users' processes.
fn sees_all() -> bool {
    process(1).is_some()
}

fn process(pid: i32) -> Option<Process> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Reads `pid (name) state parent … start-time …`. The name may hold blanks and brackets; what follows the last
/// bracket does not.
fn parse(stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut columns = rest.split_ascii_whitespace();
    let parent = columns.nth(1)?.parse().ok()?;
    let started = columns.nth(17)?.parse().ok()?;
    Some(Process { parent, started })
}

/// Returns the processes that have a socket open, as far as we may look.
pub(super) fn holders_of(inode: u64) -> Vec<i32> {
    let wanted = format!("socket:[{inode}]");
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| has_open(*pid, &wanted))
        .collect()
}

fn has_open(pid: i32, wanted: &str) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    entries.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|link| link.as_os_str() == wanted))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// A tree given as (pid, parent, start).
    fn tree(rows: &[(i32, i32, u64)]) -> impl Fn(i32) -> Option<Process> {
        let rows: HashMap<i32, Process> = rows
            .iter()
            .map(|(pid, parent, started)| (*pid, Process { parent: *parent, started: *started }))
            .collect();
        move |pid| rows.get(&pid).copied()
    }

    fn is(wanted: i32) -> impl Fn(i32) -> Option<i32> {
        move |pid| (pid == wanted).then_some(pid)
    }

    #[test]
    fn ancestors_are_found_at_any_height() {
        let rows = [(1, 0, 0), (10, 1, 5), (20, 10, 6), (30, 20, 6)];
        assert_eq!(walk(30, tree(&rows), true, is(30)), Some(Some(30)));
        assert_eq!(walk(30, tree(&rows), true, is(10)), Some(Some(10)));
        assert_eq!(walk(30, tree(&rows), true, is(99)), Some(None));
    }

    #[test]
    fn a_chain_that_breaks_is_not_taken_for_harmless() {
        assert_eq!(walk(30, tree(&[]), true, is(10)), None, "the process is gone");
        assert_eq!(walk(30, tree(&[]), false, is(10)), None);
        assert_eq!(walk(30, tree(&[(1, 0, 0), (30, 20, 6)]), true, is(10)), None, "the parent is gone");
        let reused = [(1, 0, 0), (20, 1, 9), (30, 20, 6)];
        assert_eq!(
            walk(30, tree(&reused), true, is(10)),
            None,
            "the parent's number belongs to a younger one"
        );
        let rows: Vec<_> = (1..5_000).map(|pid| (pid, pid - 1, 0)).collect();
        assert_eq!(walk(4_999, tree(&rows), true, is(1)), None, "too long");
    }

    #[test]
    fn hidden_ancestors_are_other_users() {
        let rows = [(20, 10, 5), (30, 20, 6)];
        assert_eq!(walk(30, tree(&rows), false, is(99)), Some(None));
        assert_eq!(walk(30, tree(&rows), false, is(20)), Some(Some(20)));
    }

    #[test]
    fn names_cannot_forge_a_parent() {
        let stat = "7 (a) S 1 (b c) R 42 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987 1 2";
        assert_eq!(parse(stat), Some(Process { parent: 42, started: 987 }));
        assert_eq!(parse("7 (a) S"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn our_own_ancestry_reaches_the_top() {
        let own = std::process::id() as i32;
        assert_eq!(find_ancestor(own, is(own)), Some(Some(own)));
        assert_eq!(find_ancestor(own, |pid| (pid != own).then_some(())), Some(Some(())));
        assert_eq!(find_ancestor(own, |_| None::<()>), Some(None));
    }

    #[test]
    fn the_holder_of_a_socket_is_found() {
        use std::os::fd::{AsFd, OwnedFd};
        use std::os::unix::fs::MetadataExt;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let copy: OwnedFd = listener.as_fd().try_clone_to_owned().unwrap();
        let inode = std::fs::File::from(copy).metadata().unwrap().ino();
        assert_eq!(holders_of(inode), [std::process::id() as i32]);
        assert_eq!(holders_of(1), [] as [i32; 0]);
    }
}
