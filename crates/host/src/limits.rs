//! Every bound of what is asked of the machine, each with its reason.

use std::time::Duration;

/// Passes over a tree that is being killed from outside before giving up on what cannot die.
pub const KILL_TREE_TIMEOUT: Duration = Duration::from_secs(2);

/// The same where nobody may yield meanwhile, as at the daemon's end.
pub const KILL_MARKED_TIMEOUT: Duration = Duration::from_millis(500);

/// Between two such passes: members need a moment to die.
pub const KILL_TREE_INTERVAL: Duration = Duration::from_millis(5);
