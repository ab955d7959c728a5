//! Every limit of this crate, each with its reason.

use std::time::Duration;

/// How long a process tree is killed from outside before giving up on processes that do not die.
pub const KILL_TREE_TIMEOUT: Duration = Duration::from_secs(2);

/// The same where the thread must not yield meanwhile, as at the daemon's end.
pub const KILL_MARKED_TIMEOUT: Duration = Duration::from_millis(500);

/// Pause between two passes: processes need a moment to die.
pub const KILL_TREE_INTERVAL: Duration = Duration::from_millis(5);

/// Parents that are looked at to find out who started a process: far more than any shell nests.
pub const ANCESTORS_MAX: usize = 128;
