//! Every limit of `campaigns`, each with its reason. The limits of the rules are in `domain::limits`.

use std::time::Duration;

/// Longest key of a client. Clients use UUIDs and the like.
pub const CLIENT_KEY_MAX_BYTES: usize = 200;

/// Environments, hosts and tasks on one page of a list: by default and at most.
pub const RECORDS_PAGE_DEFAULT: usize = 50;
pub const RECORDS_PAGE_MAX: usize = 500;

/// How long a host that has reported its status may be silent before it counts as offline: four heartbeats of half a minute.
pub const HOST_SILENT_WAIT: Duration = Duration::from_secs(120);
