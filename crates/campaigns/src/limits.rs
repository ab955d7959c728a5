//! Every limit of `campaigns`, each with its reason. The limits of the rules are in `domain::limits`.

use std::time::Duration;

/// Longest key of a client. Clients use UUIDs and the like.
pub const CLIENT_KEY_MAX_BYTES: usize = 200;

/// Environments, hosts and tasks on one page of a list: by default and at most.
pub const RECORDS_PAGE_DEFAULT: usize = 50;
pub const RECORDS_PAGE_MAX: usize = 500;

/// Records of one kind that programs may keep here: far more than a fleet has, and few enough to be read at once.
pub const RECORDS_MAX: usize = 10_000;

/// How long a login may take on a device without a browser, and how many may have begun.
pub const DEVICE_CODE_WAIT: Duration = Duration::from_secs(600);
pub const DEVICE_CODES_MAX: usize = 32;

/// Longest record.
pub const RECORD_MAX_BYTES: usize = 64 * 1024;

/// How long a host that has reported its status may be silent before it counts as offline: four heartbeats of half a minute.
pub const HOST_SILENT_WAIT: Duration = Duration::from_secs(120);
