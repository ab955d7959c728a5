//! Identifies the process at the other end of a Unix socket and its chain of ancestors. The chain is read so
//! that no process can escape it by exiting, by being adopted or by reuse of its pid. A chain that cannot be
//! read completely is reported as unreadable. Used by the shim for its callers and by the daemon for its own.
//! Must not know agents or sessions.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::limits::{ANCESTORS_MAX, ANCESTRY_READS_MAX};
use crate::{proc_table, sys};

/// The process at the other end of a connected Unix socket. As long as [`Peer::is_alive`], its pid cannot be
/// reused.
#[derive(Debug)]
pub struct Peer {
    pub pid: i32,
    pub uid: u32,
    handle: OwnedFd,
}

/// One process of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ancestor {
    pub pid: i32,
    pub parent: i32,
    /// The kernel's start time; zero if `/proc` hides the process.
    pub start_ticks: u64,
    pub name: Name,
}

/// What is known of a process's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    Known(String),
    /// Hidden by `/proc`, and it runs as this user: it may be any process of ours.
    HiddenOwn,
    /// Hidden by `/proc`, and it belongs to another user.
    HiddenOther,
}

impl Peer {
    /// Returns the process of a socket. Fails if it cannot be named in our namespace or has already ended.
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Peer> {
        let (pid, uid) = sys::peer_credentials(socket)?;
        if pid <= 0 {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        let handle = match sys::peer_handle(socket) {
            // Kernels before 6.5. The pid may have been reused since the connection was made; only a walk
            // that compares start times can then detect that.
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => sys::open_process(pid)?,
            handle => handle?,
        };
        Ok(Peer { pid, uid, handle })
    }

    /// Returns the process that currently has a pid.
    pub fn numbered(pid: i32, uid: u32) -> io::Result<Peer> {
        Ok(Peer { pid, uid, handle: sys::open_process(pid)? })
    }

    /// Returns whether it has not ended.
    pub fn is_alive(&self) -> bool {
        sys::is_running(self.handle.as_fd())
    }

    /// Returns the process and all its ancestors, itself first, as they were at one moment at which it lived.
    /// `None` if the chain cannot be read completely, or kept changing.
    pub fn ancestry(&self) -> Option<Vec<Ancestor>> {
        of(self.pid).filter(|_| self.is_alive())
    }
}

/// Returns the chain of a process whose pid, as the caller knows, cannot be reused meanwhile.
pub fn of(pid: i32) -> Option<Vec<Ancestor>> {
    settled(|| walk(pid, read_ancestor))
}

/// Reads until two readings in a row agree. A parent changes only by exiting, and then to an older ancestor.
/// Two equal readings therefore mean that the chain was the same all the time in between.
fn settled(read: impl Fn() -> Option<Vec<Ancestor>>) -> Option<Vec<Ancestor>> {
    let key = |chain: &[Ancestor]| -> Vec<(i32, i32, u64)> {
        chain.iter().map(|at| (at.pid, at.parent, at.start_ticks)).collect()
    };
    let mut before: Option<Vec<Ancestor>> = None;
    for _ in 0..ANCESTRY_READS_MAX {
        let now = read();
        if let (Some(before), Some(now)) = (&before, &now)
            && key(before) == key(now)
        {
            return Some(now.clone());
        }
        before = now;
    }
    None
}

/// Follows parents up to the first process; `None` if the chain cannot be read or is too long.
fn walk(pid: i32, look: impl Fn(i32) -> Option<Ancestor>) -> Option<Vec<Ancestor>> {
    let mut chain: Vec<Ancestor> = Vec::new();
    let mut at = pid;
    while chain.len() < ANCESTORS_MAX {
        let found = look(at)?;
        // A child is never older than its parent: the pid was reused by another process.
        let youngest = chain.iter().rev().map(|child| child.start_ticks).find(|&ticks| ticks != 0);
        if youngest.is_some_and(|youngest| found.start_ticks > youngest) {
            return None;
        }
        at = found.parent;
        chain.push(found);
        // The first process, or one whose parent is outside of our namespace.
        if at <= 0 {
            return Some(chain);
        }
    }
    None
}

/// Reads one process, from /proc or, if it is hidden there, through a process handle.
fn read_ancestor(pid: i32) -> Option<Ancestor> {
    match proc_table::find(pid) {
        Some(found) => Some(Ancestor {
            pid,
            parent: found.parent,
            start_ticks: found.start_ticks,
            name: Name::Known(found.name),
        }),
        // `hidepid` shows neither other users' processes nor shims.
        None => {
            let (parent, uid) = sys::hidden_process(pid).ok()?;
            let name = if uid == sys::euid() { Name::HiddenOwn } else { Name::HiddenOther };
            Some(Ancestor { pid, parent, start_ticks: 0, name })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::HashMap;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A tree given as (pid, parent, start).
    fn tree(rows: &[(i32, i32, u64)]) -> impl Fn(i32) -> Option<Ancestor> {
        let rows: HashMap<i32, Ancestor> = rows
            .iter()
            .map(|&(pid, parent, start_ticks)| {
                (pid, Ancestor { pid, parent, start_ticks, name: Name::Known(format!("p{pid}")) })
            })
            .collect();
        move |pid| rows.get(&pid).cloned()
    }

    fn pids(chain: Option<Vec<Ancestor>>) -> Option<Vec<i32>> {
        chain.map(|chain| chain.iter().map(|at| at.pid).collect())
    }

    #[test]
    fn a_chain_is_followed_to_the_top_or_not_at_all() {
        let rows = [(1, 0, 0), (10, 1, 5), (20, 10, 6), (30, 20, 6)];
        assert_eq!(pids(walk(30, tree(&rows))), Some(vec![30, 20, 10, 1]));
        assert_eq!(pids(walk(30, tree(&rows[1..]))), None, "the top is not seen");
        assert_eq!(pids(walk(30, tree(&[(1, 0, 0), (30, 20, 6)]))), None, "the parent is gone");
        assert_eq!(pids(walk(30, tree(&[(1, 0, 0)]))), None, "the process is gone");
        let reused = [(1, 0, 0), (20, 1, 9), (30, 20, 6)];
        assert_eq!(pids(walk(30, tree(&reused))), None, "the parent's number belongs to a younger one");
        let long: Vec<_> = (1..5_000).map(|pid| (pid, pid - 1, 0)).collect();
        assert_eq!(pids(walk(4_999, tree(&long))), None, "too long");
    }

    #[test]
    fn a_hidden_ancestor_does_not_hide_a_reused_number() {
        let rows = [(1, 0, 0), (10, 1, 9), (20, 10, 0), (30, 20, 6)];
        assert_eq!(pids(walk(30, tree(&rows))), None);
    }

    #[test]
    fn a_chain_counts_only_once_it_is_read_twice_alike() {
        let old = [(1, 0, 0), (10, 1, 5), (30, 10, 6)];
        let new = [(1, 0, 0), (30, 1, 6)];
        let reads = Cell::new(0usize);
        let read = |until: usize| {
            reads.set(reads.get() + 1);
            if reads.get() <= until { walk(30, tree(&old)) } else { walk(30, tree(&new)) }
        };
        assert_eq!(pids(settled(|| read(1))), Some(vec![30, 1]), "adopted meanwhile");
        assert_eq!(reads.replace(0), 3);
        let flapping = || {
            reads.set(reads.get() + 1);
            if reads.get().is_multiple_of(2) { walk(30, tree(&old)) } else { walk(30, tree(&new)) }
        };
        assert_eq!(pids(settled(flapping)), None, "never twice the same");
        assert_eq!(pids(settled(|| None)), None);
    }

    #[test]
    fn our_own_chain_reaches_the_top() {
        let chain = of(std::process::id() as i32).unwrap();
        assert_eq!(chain[0].pid, std::process::id() as i32);
        assert_eq!(chain[1].pid, std::os::unix::process::parent_id() as i32);
        assert!(chain.last().unwrap().parent <= 0);
    }

    #[test]
    fn a_process_is_seen_where_proc_hides_it() {
        let own = std::process::id() as i32;
        match sys::hidden_process(own) {
            Ok((parent, uid)) => {
                assert_eq!(parent, std::os::unix::process::parent_id() as i32);
                assert_eq!(uid, sys::euid());
            }
            Err(error) => println!("SKIPPED: this kernel cannot tell ({error})"),
        }
    }

    #[test]
    fn a_peer_that_has_ended_has_no_ancestry() {
        let (near, far) = UnixStream::pair().unwrap();
        let peer = Peer::of(near.as_fd()).unwrap();
        assert_eq!((peer.pid, peer.uid), (std::process::id() as i32, sys::euid()));
        assert!(peer.is_alive() && peer.ancestry().is_some());
        drop(far);
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let peer = Peer::numbered(child.id() as i32, 0).unwrap();
        assert!(peer.ancestry().is_some());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!peer.is_alive());
        assert_eq!(peer.ancestry(), None);
    }

    /// Numbers are given out in order and begin again at the end; who may write the last one makes that happen at once.
    #[test]
    fn a_process_that_got_the_number_of_another_is_not_taken_for_it() {
        let sleep = || std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let end = |mut child: std::process::Child| {
            child.kill().unwrap();
            child.wait().unwrap();
        };
        let first = sleep();
        let pid = first.id();
        let peer = Peer::numbered(pid as i32, sys::euid()).unwrap();
        assert!(peer.is_alive() && peer.ancestry().is_some());
        end(first);
        let mut next = None;
        for _ in 0..1000 {
            if std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).is_err() {
                eprintln!("only root may choose the next process number; the rest of this test needs it");
                return;
            }
            let child = sleep();
            if child.id() == pid {
                next = Some(child);
                break;
            }
            end(child);
        }
        let next = next.expect("the number is free again");
        assert!(!peer.is_alive(), "the first one has ended");
        assert_eq!(peer.ancestry(), None, "and the other one's chain is not its own");
        let other = Peer::numbered(pid as i32, sys::euid()).unwrap();
        assert!(other.is_alive() && other.ancestry().is_some());
        end(next);
    }

    /// What holds where `/proc` hides the processes of others.
    fn check_inside_hidepid() {
        let own = std::process::id() as i32;
        assert!(!std::path::Path::new("/proc/1").exists(), "/proc hides the processes of others");
        // Without a way to look at hidden processes nobody is identified; with one, hidden ancestors have no name.
        if let Some(chain) = of(own) {
            assert_eq!(chain[0].pid, own);
            let above = &chain[1..];
            assert!(above.iter().any(|at| at.name == Name::HiddenOther), "{above:?}");
            assert!(above.iter().all(|at| at.pid != 1 || at.name == Name::HiddenOther), "{above:?}");
        }
    }

    #[test]
    fn ancestors_that_proc_hides_are_never_given_a_name() {
        use std::os::unix::fs::PermissionsExt as _;
        // This test runs itself again, inside.
        const INSIDE: &str = "TEST_INSIDE_HIDEPID";
        if std::env::var_os(INSIDE).is_some() {
            return check_inside_hidepid();
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let program = folder.path().join("tests");
        std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        let script = format!(
            "mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid 65534 --regid 65534 --clear-groups {} \
             --exact ancestry::tests::ancestors_that_proc_hides_are_never_given_a_name",
            program.display()
        );
        let run = std::process::Command::new("unshare")
            .args(["--mount", "sh", "-c", &script])
            .env(INSIDE, "1")
            .output()
            .unwrap();
        let said =
            format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
        if said.contains("Operation not permitted") || said.contains("permission denied") {
            eprintln!("only root may mount; this test needs that: {said}");
            return;
        }
        assert!(run.status.success() && said.contains("1 passed"), "{said}");
    }
}
