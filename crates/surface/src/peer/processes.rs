//! Decides whether a process belongs to the user, to an agent, or cannot be attributed. The chain of
//! ancestors decides, read as `runtime` reads it; for a TCP socket, the chains of every process that has it
//! open. A process counts as the user's only if that is proven.

use std::collections::BTreeSet;
use std::fs;
use std::sync::OnceLock;

use runtime::process::ancestry::{self, Ancestor, Name, Peer as Process};
use runtime::process::{SHIM_NAME, group_name};

use super::{Agents, Caller};

/// Returns the caller that a process stands for.
pub(super) fn identify(process: &Process, agents: &dyn Agents) -> Caller {
    match process.ancestry() {
        Some(chain) => match classify(&chain, agents) {
            Caller::User => match by_groups(process, &chain, agents) {
                Caller::User if may_be_left_behind(&chain, agents) => Caller::Unknown,
                caller => caller,
            },
            // A command or a helper program of a session is in the session's group.
            Caller::Unknown if is_started_by_us(&chain) => match by_groups(process, &chain, agents) {
                Caller::User => Caller::Unknown,
                caller => caller,
            },
            caller => caller,
        },
        None => Caller::Unknown,
    }
}

/// Whether a process may be what an agent left behind whose shim was killed: it, or the highest above it that is not older
/// than the agent, was adopted by the first process or a service manager, as orphans are.
fn may_be_left_behind(chain: &[Ancestor], agents: &dyn Agents) -> bool {
    let Some(since) = agents.lost_since() else { return false };
    // What such a process has started itself cannot be told from what it adopted, so age decides. Any name can be chosen,
    // so every pair counts.
    let mut pairs = chain.iter().zip(chain.iter().skip(1));
    pairs.any(|(child, parent)| child.start_ticks >= since && (parent.pid == 1 || adopts_orphans(parent)))
}

/// Whether a process is a service manager: the kernel gives orphans to the nearest process that asked for them.
fn adopts_orphans(at: &Ancestor) -> bool {
    matches!(&at.name, Name::Known(name) if matches!(name.as_str(), "systemd" | "init"))
}

/// Whether the daemon started a process, and no shim is between the two.
fn is_started_by_us(chain: &[Ancestor]) -> bool {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let below = chain.iter().position(|at| at.pid == own).unwrap_or(0);
    below > 0 && !chain[..below].iter().any(may_hold)
}

/// Judges a process that nothing above it tells from the user's, by the control groups that it and those above it are in:
/// whatever an agent started stays in the agent's, also when its parents are gone.
fn by_groups(process: &Process, chain: &[Ancestor], agents: &dyn Agents) -> Caller {
    let groups = chain.iter().map(|at| (at.pid == process.pid, group_name::beyond_ours(at.pid)));
    let caller = judge_groups(groups, agents);
    // What was read is about this process only if it had its number all the time.
    if process.is_alive() { caller } else { Caller::Unknown }
}

/// The names of agents' groups of each process of a chain, and whether it is the calling one. Only that one must be readable.
fn judge_groups(
    groups: impl Iterator<Item = (bool, Option<BTreeSet<String>>)>,
    agents: &dyn Agents,
) -> Caller {
    let mut caller = Caller::User;
    for (is_itself, names) in groups {
        let Some(names) = names else {
            if is_itself {
                return Caller::Unknown;
            }
            continue;
        };
        for name in names {
            caller = match agents.session_of_group(&name) {
                Some(session) => return Caller::Agent(session),
                // An agent of another daemon.
                None => Caller::Unknown,
            };
        }
    }
    caller
}

/// Returns whose a TCP socket is. A shared one speaks for everybody who has it: one agent among them makes it the agent's,
/// one who cannot be told makes it nobody's.
pub(super) fn identify_socket(inode: u64, uid: u32, agents: &dyn Agents) -> Caller {
    let wanted = format!("socket:[{inode}]");
    let mut caller = None;
    for pid in holders_of(&wanted) {
        // The process is pinned before its descriptors are checked again, so that everything that follows
        // concerns the same process.
        let found = match Process::numbered(pid, uid) {
            Ok(process) if has_open(pid, &wanted) => identify(&process, agents),
            _ => Caller::Unknown,
        };
        match found {
            Caller::Agent(session) => return Caller::Agent(session),
            Caller::User if caller.is_none() => caller = Some(Caller::User),
            Caller::User => {}
            Caller::Unknown | Caller::Token | Caller::Device(_) | Caller::Page | Caller::ApiKey(_) => {
                caller = Some(Caller::Unknown)
            }
        }
    }
    caller.unwrap_or(Caller::Unknown)
}

/// Classifies a chain, which starts with the process itself. The highest session counts: below its shim, an
/// agent can make a process look like any other.
fn classify(chain: &[Ancestor], agents: &dyn Agents) -> Caller {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let mut session = None;
    let mut is_doubtful = false;
    for (step, at) in chain.iter().enumerate() {
        session = agents.session_of(at.pid).or(session);
        // Processes that the daemon itself starts work for a session or a command; they never speak for the
        // user.
        is_doubtful |= (at.pid == own && step > 0) || may_hold(at);
    }
    match session {
        Some(session) => Caller::Agent(session),
        None if is_doubtful => Caller::Unknown,
        None => Caller::User,
    }
}

/// Whether a process holds an agent or a command for a daemon. Shims above this daemon belong to another
/// daemon.
fn may_hold(at: &Ancestor) -> bool {
    let may = match &at.name {
        Name::Known(name) => name == SHIM_NAME,
        Name::HiddenOwn => true,
        Name::HiddenOther => false,
    };
    may && !above_us().contains(&(at.pid, at.start_ticks))
}

/// Our own ancestors, by process id and start time, as they were at the first call.
fn above_us() -> &'static [(i32, u64)] {
    static ABOVE: OnceLock<Vec<(i32, u64)>> = OnceLock::new();
    ABOVE.get_or_init(|| {
        let chain = ancestry::of(i32::try_from(std::process::id()).unwrap_or(0)).unwrap_or_default();
        chain.iter().skip(1).map(|at| (at.pid, at.start_ticks)).collect()
    })
}

/// Returns the processes that have a socket open, as far as we may inspect them.
fn holders_of(wanted: &str) -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| has_open(*pid, wanted))
        .collect()
}

fn has_open(pid: i32, wanted: &str) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    entries.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|link| link.as_os_str() == wanted))
}

#[cfg(test)]
mod tests {
    use domain::SessionId;

    use super::*;

    /// Treats some processes as agents of sessions.
    struct Known(&'static [(i32, &'static str)]);

    impl Agents for Known {
        fn session_of(&self, pid: i32) -> Option<SessionId> {
            self.0.iter().find(|(agent, _)| *agent == pid).map(|(_, session)| SessionId::new(*session))
        }

        fn session_of_group(&self, name: &str) -> Option<SessionId> {
            name.strip_prefix("obey-agent-ours-").map(SessionId::new)
        }
    }

    /// A chain given as (pid, name), lowest first.
    fn chain(rows: &[(i32, &str)]) -> Vec<Ancestor> {
        let parents = rows.iter().skip(1).map(|(pid, _)| *pid).chain([0]);
        rows.iter()
            .zip(parents)
            .map(|((pid, name), parent)| Ancestor {
                pid: *pid,
                parent,
                start_ticks: 1,
                name: match *name {
                    "hidden" => Name::HiddenOwn,
                    "theirs" => Name::HiddenOther,
                    name => Name::Known(name.to_owned()),
                },
            })
            .collect()
    }

    fn judge(rows: &[(i32, &str)], agents: &'static [(i32, &'static str)]) -> Caller {
        classify(&chain(rows), &Known(agents))
    }

    fn agent(session: &str) -> Caller {
        Caller::Agent(SessionId::new(session))
    }

    #[test]
    fn the_users_processes_have_nobody_above_them() {
        assert_eq!(judge(&[(30, "sh"), (20, "tmux"), (1, "init")], &[(9, "sess_a")]), Caller::User);
        assert_eq!(judge(&[(30, "sh"), (20, "theirs"), (1, "init")], &[]), Caller::User);
    }

    #[test]
    fn an_agents_processes_are_its_sessions_at_any_height() {
        let rows = [(30, "sh"), (20, "claude"), (10, "obey-shim"), (1, "init")];
        for known in [&[(30, "sess_a")], &[(20, "sess_a")], &[(10, "sess_a")] as &[_]] {
            assert_eq!(judge(&rows, known), agent("sess_a"));
        }
    }

    #[test]
    fn an_agent_cannot_pretend_to_be_of_another_session() {
        let rows = [(30, "sh"), (25, "obey-shim"), (20, "claude"), (10, "obey-shim"), (1, "init")];
        assert_eq!(judge(&rows, &[(25, "sess_other"), (10, "sess_own")]), agent("sess_own"));
    }

    #[test]
    fn what_a_shim_holds_is_not_the_user_even_if_nobody_knows_the_session() {
        assert_eq!(judge(&[(30, "git"), (10, "obey-shim"), (1, "init")], &[]), Caller::Unknown);
        assert_eq!(judge(&[(30, "sh"), (10, "hidden"), (1, "init")], &[]), Caller::Unknown);
    }

    #[test]
    fn what_the_daemon_started_is_not_the_user() {
        let own = std::process::id() as i32;
        assert_eq!(judge(&[(7, "sh"), (own, "obey"), (1, "init")], &[]), Caller::Unknown);
        assert_eq!(judge(&[(own, "obey"), (1, "init")], &[]), Caller::User, "the daemon itself");
    }

    #[test]
    fn an_orphan_that_is_not_older_than_an_agent_whose_shim_was_killed_is_not_the_user() {
        struct Lost(Option<u64>);
        impl Agents for Lost {
            fn session_of(&self, _: i32) -> Option<SessionId> {
                None
            }
            fn lost_since(&self) -> Option<u64> {
                self.0
            }
        }
        // Processes with their start times, lowest first.
        let is_doubted = |rows: &[(i32, &str, u64)], lost: Option<u64>| {
            let named: Vec<(i32, &str)> = rows.iter().map(|(pid, name, _)| (*pid, *name)).collect();
            let mut chain = chain(&named);
            chain.iter_mut().zip(rows).for_each(|(at, row)| at.start_ticks = row.2);
            may_be_left_behind(&chain, &Lost(lost))
        };
        let orphan: &[_] = &[(40, "obey", 120), (30, "sh", 110), (1, "init", 1)];
        let adopted: &[_] = &[(40, "obey", 120), (30, "sh", 110), (20, "systemd", 2), (1, "systemd", 1)];
        let terminal: &[_] =
            &[(40, "obey", 120), (30, "bash", 110), (20, "tmux: server", 50), (1, "init", 1)];
        assert!(
            is_doubted(orphan, Some(100)) && is_doubted(adopted, Some(100)) && is_doubted(orphan, Some(110))
        );
        let disguised: &[_] = &[(40, "init", 120), (1, "init", 1)];
        assert!(is_doubted(disguised, Some(100)), "names prove nothing");
        assert!(!is_doubted(terminal, Some(100)), "what hangs below an older process is not the agent's");
        assert!(
            !is_doubted(orphan, Some(111))
                && !is_doubted(orphan, None)
                && !is_doubted(&[(1, "init", 1)], Some(0))
        );
    }

    #[test]
    fn what_the_daemon_started_may_be_a_sessions_by_its_group() {
        let own = std::process::id() as i32;
        assert!(is_started_by_us(&chain(&[(7, "sh"), (6, "obey"), (own, "obey"), (1, "init")])));
        assert!(is_started_by_us(&chain(&[(7, "sh"), (own, "obey"), (2, "obey-shim"), (1, "init")])));
        assert!(!is_started_by_us(&chain(&[(7, "sh"), (6, "obey-shim"), (own, "obey"), (1, "init")])));
        assert!(!is_started_by_us(&chain(&[(7, "sh"), (6, "hidden"), (own, "obey"), (1, "init")])));
        assert!(!is_started_by_us(&chain(&[(own, "obey"), (1, "init")])), "the daemon itself");
        assert!(!is_started_by_us(&chain(&[(7, "sh"), (1, "init")])));
    }

    #[test]
    fn an_agents_process_is_known_by_its_group_when_its_parents_are_gone() {
        let judge = |rows: &[(bool, Option<&[&str]>)]| {
            let rows: Vec<(bool, Option<BTreeSet<String>>)> = rows
                .iter()
                .map(|(own, names)| {
                    (*own, names.map(|names| names.iter().map(|&name| name.to_owned()).collect()))
                })
                .collect();
            judge_groups(rows.into_iter(), &Known(&[]))
        };
        assert_eq!(judge(&[(true, Some(&[])), (false, Some(&[]))]), Caller::User);
        assert_eq!(judge(&[(true, Some(&["obey-agent-ours-a"])), (false, Some(&[]))]), agent("a"));
        assert_eq!(
            judge(&[(true, Some(&[])), (false, Some(&["obey-agent-ours-a"]))]),
            agent("a"),
            "it left the group"
        );
        assert_eq!(judge(&[(true, Some(&["obey-agent-theirs-a"]))]), Caller::Unknown);
        assert_eq!(judge(&[(true, None)]), Caller::Unknown, "what cannot be read is not the user's");
        assert_eq!(judge(&[(true, Some(&[])), (false, None)]), Caller::User);
    }

    #[test]
    fn the_holder_of_a_socket_is_found() {
        use std::os::fd::{AsFd, OwnedFd};
        use std::os::unix::fs::MetadataExt;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let copy: OwnedFd = listener.as_fd().try_clone_to_owned().unwrap();
        let inode = std::fs::File::from(copy).metadata().unwrap().ino();
        assert_eq!(holders_of(&format!("socket:[{inode}]")), [std::process::id() as i32]);
        assert_eq!(holders_of("socket:[1]"), [] as [i32; 0]);
        assert_eq!(identify_socket(inode, host::own_uid(), &super::super::NoAgents), Caller::User);
        assert_eq!(identify_socket(1, host::own_uid(), &super::super::NoAgents), Caller::Unknown);
    }
}
