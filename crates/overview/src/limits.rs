//! Every limit of `overview`, each with its reason. The limits of the rules are in `domain::limits`.

use std::time::Duration;

/// Folders that are searched upwards for the repository a session works in.
pub const BRANCH_PARENTS_MAX: usize = 32;

/// Ended sessions that an overview has, the newest: people look back some weeks, and each takes a kilobyte.
pub const OVERVIEW_ENDED_MAX: usize = 1_000;

/// How long a watcher of the overview gathers changes before it sends them: no longer than a frame or three, and far
/// below the tenth of a second after which people notice.
pub const OVERVIEW_GATHER_WAIT: Duration = Duration::from_millis(25);

/// How often the overview looks at agents that have fallen silent, while any works.
pub const OVERVIEW_LOOK_WAIT: Duration = Duration::from_secs(5);
