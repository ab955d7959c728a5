//! Every timeout and limit of a connection to the daemon, each with its reason.

use std::time::Duration;

/// How long a started daemon may take to become ready. It opens a database and a few sockets, which takes
/// milliseconds; recovering many sessions on a slow disk takes seconds.
pub const START_WAIT: Duration = Duration::from_secs(10);

/// How long a daemon of another version may take to become ready: it may have to migrate a large database
/// first.
pub const UPGRADE_START_WAIT: Duration = Duration::from_secs(60);

/// How long another command may hold the start lock: it waits for its own daemon, then reports.
pub const START_LOCK_WAIT: Duration = Duration::from_secs(15);

/// How long to retry a lost connection, as across an upgrade of the daemon.
pub const RECONNECT_WAIT: Duration = Duration::from_secs(30);

/// How long a call waits for a new listener: replacing a daemon takes a fraction of a second.
pub const EXCHANGE_WAIT: Duration = Duration::from_secs(3);

/// How long nobody may hold a socket that a daemon left behind before a waiting client starts the next one: a service
/// manager that restarts the daemon is faster.
pub const REVIVE_WAIT: Duration = Duration::from_millis(1500);

/// Interval for checking whether a daemon is listening.
pub const EXCHANGE_PAUSE: Duration = Duration::from_millis(20);

/// Pause before each further attempt to reconnect; a restart takes a fraction of a second.
pub const RECONNECT_PAUSE: Duration = Duration::from_millis(250);

/// A stream that stays open this long counts as reconnected.
pub const RECONNECT_SETTLED: Duration = Duration::from_millis(500);

/// Largest message accepted from the daemon. Attachments come back as events.
pub const MESSAGE_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Letters of a prompt from which a name is made.
pub const NAME_PROMPT_MAX_CHARS: usize = 500;

/// Events read ahead of what was printed; beyond that the daemon keeps them in its journal.
pub const EVENTS_AHEAD: usize = 256;

/// The daemon's log is rotated if it is larger than this at a start.
pub const LOG_MAX_BYTES: u64 = 10 * 1024 * 1024;

/// Lines of the daemon's log that are quoted when it does not start.
pub const LOG_TAIL_LINES: usize = 6;

/// How long before its end the certificate of this device is renewed: a third of its 30 days.
pub const RENEW_BEFORE: Duration = Duration::from_secs(10 * 24 * 3600);

/// Bytes of the file of one machine: a certificate, a key and some words.
pub const MACHINE_FILE_MAX_BYTES: u64 = 64 * 1024;

/// How long it is remembered that a machine could not be reached, for calls that were made together: one that is away is waited for by
/// its relay for ten seconds.
pub const FAILURE_KEPT: Duration = Duration::from_secs(1);
