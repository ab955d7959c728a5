//! Points at which a test can end the daemon as a crash would, between two steps that belong together. In a
//! debug build `OBEY_FAILPOINT=name` ends the process when the point is reached, `name=3` when it is reached
//! for the third time. In a release build a point compiles to nothing.

/// Every point, with what is done and what is still to follow when the process ends there. A test ends the
/// daemon at each of them and checks how the next daemon recovers.
pub const POINTS: &[(&str, &str)] = &[
    ("start.locked", "the locks are held, nothing is opened"),
    ("start.migrating", "a new format of the store is written, not committed"),
    ("start.stored", "the store is open, its number of starts as before"),
    ("start.numbered", "the number of starts is higher, nobody was greeted with it"),
    ("start.bound", "clients can connect, nobody answers"),
    ("start.recovered", "sessions are being taken up, readiness is not announced"),
    ("recover.attached", "an agent is held again, its outbox was not sent"),
    ("recover.resent", "the outbox was sent again, timers do not run"),
    ("orphan.found", "a folder nobody needs was found"),
    ("orphan.ended", "what it held is ended, the folder is there"),
    ("commit.before", "a transaction is written, not committed"),
    ("commit.after", "it is committed, nobody was told"),
    ("sync.before", "commits wait to be synced"),
    ("create.stored", "a session is on record, nobody starts it"),
    ("command.committed", "a command is on record, its caller was not answered"),
    ("command.answered", "its caller was answered, nothing was done yet"),
    ("launch.committed", "the start of an agent is on record, nothing was started"),
    ("launch.folder_made", "its folder is there, and empty"),
    ("launch.shim_running", "its shim has been started, and may have got anywhere"),
    ("launch.shim_ready", "the agent runs, its shim was not greeted"),
    ("launch.attached", "the agent is held, which is not on record"),
    ("greeting.committed", "the agent's first words are on record, not sent"),
    ("input.sending", "a frame is on record, not sent to the shim"),
    ("input.sent", "a frame was sent to the shim"),
    ("output.translated", "output was read, what it means is not on record"),
    ("output.committed", "what it means is on record, nobody has seen it"),
    ("output.shown", "everyone has seen it, its segment was not deleted"),
    ("stop.step", "a step of a stop is on record, not taken"),
    ("exit.committed", "an agent's end is on record, its shim waits"),
    ("exit.acknowledged", "the shim may leave, the folder is there"),
    ("exit.removed", "the folder is gone, what follows was not done"),
    ("execute.started", "a command runs, nobody was told"),
    ("leave.detached", "every agent was let go of, the store is open"),
];

/// Marks a point of the table. Costs nothing in a release build.
#[macro_export]
macro_rules! failpoint {
    ($name:literal) => {
        #[cfg(debug_assertions)]
        $crate::failpoint::reach($name);
    };
}

/// Ends the process if this is the configured point.
#[cfg(debug_assertions)]
pub fn reach(name: &str) {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static WANTED: LazyLock<Option<(String, u64)>> =
        LazyLock::new(|| read(&std::env::var("OBEY_FAILPOINT").ok()?));
    static REACHED: AtomicU64 = AtomicU64::new(0);
    let Some((wanted, times)) = &*WANTED else { return };
    if wanted == name && REACHED.fetch_add(1, Ordering::Relaxed) + 1 == *times {
        tracing::error!("failpoint {name} was reached");
        std::process::abort();
    }
}

#[cfg(debug_assertions)]
fn read(text: &str) -> Option<(String, u64)> {
    let (name, times) = match text.split_once('=') {
        Some((name, times)) => (name, times.parse().ok()?),
        None => (text, 1),
    };
    (!name.is_empty()).then(|| (name.to_owned(), times))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn a_failpoint_is_parsed_with_its_count() {
        assert_eq!(read("a.b"), Some(("a.b".into(), 1)));
        assert_eq!(read("a.b=3"), Some(("a.b".into(), 3)));
        assert_eq!((read(""), read("a=x")), (None, None));
    }

    /// Collects the names in `failpoint!("…")` below a folder.
    fn used_below(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                used_below(&path, found);
            } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("failpoint.rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let names = text.split("failpoint!(\"").skip(1).filter_map(|rest| rest.split('"').next());
                found.extend(names.map(str::to_owned));
            }
        }
    }

    #[test]
    fn the_table_names_every_point_and_no_other() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut used = Vec::new();
        used_below(crates, &mut used);
        let listed: BTreeSet<String> = POINTS.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(listed.len(), POINTS.len(), "a name is listed twice");
        assert_eq!(used.into_iter().collect::<BTreeSet<_>>(), listed);
    }
}
