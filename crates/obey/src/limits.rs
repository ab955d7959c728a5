//! Every timeout and limit of the commands that need the daemon's own code, each with its reason.

use std::time::Duration;

/// How long an ended session may take to release its agent before `obey doctor` reports an orphan.
pub(crate) const ORPHAN_WAIT: Duration = Duration::from_millis(500);

/// A clock that differs by more than this is wrong; time zones and daylight saving do not affect it.
pub(crate) const CLOCK_OFF: Duration = Duration::from_secs(60 * 60);

/// `obey doctor` warns below this much free space: the journal grows while agents work.
pub(crate) const DISK_LOW_BYTES: u64 = 1024 * 1024 * 1024;

/// Concurrent processes of `obey acp --standalone`; each has its own folder.
pub(crate) const STANDALONE_MAX: usize = 64;

/// Chunks of an editor's input that wait for the daemon; beyond that the editor's pipe fills.
pub(crate) const ACP_PIECES_AHEAD: usize = 16;

/// Bytes read from an editor at once.
pub(crate) const ACP_READ_BYTES: usize = 64 * 1024;

/// Timeout of an answer in a playback.
pub(crate) const PLAYBACK_WAIT: Duration = Duration::from_secs(10);

/// Unacknowledged lines of an editor and their bytes; they are resent when a daemon ends. Two of the longest.
pub(crate) const ACP_LINES_KEPT_MAX: usize = 4_096;
pub(crate) const ACP_BYTES_KEPT_MAX: usize = 64 * 1024 * 1024;

/// How much of one line is kept: a daemon refuses one that is longer than it takes, whatever follows.
pub(crate) const ACP_LINE_KEPT_MAX_BYTES: usize = surface_acp::limits::ACP_LINE_MAX_BYTES + 1;

/// How long an editor's connection looks for another daemon after it lost one. A daemon with much to recover
/// takes some seconds; one that never comes must not look like an agent that thinks.
pub(crate) const ACP_AGAIN_WAIT: Duration = Duration::from_secs(60);

/// Interval for checking for a daemon that was stopped and is not needed.
pub(crate) const ACP_LOOK_PAUSE: Duration = Duration::from_millis(500);

/// When a certificate that ends is mentioned: renewals fail and are noticed within weeks.
pub(crate) const CERTIFICATE_DAYS_LOW: i64 = 14;

/// How much of the daemon's log, and of its metrics, a bundle has: enough for days, small enough for a report.
pub(crate) const BUNDLE_LOG_BYTES: u64 = 1024 * 1024;

/// How long a bundle waits for the metrics of a daemon that hangs.
pub(crate) const BUNDLE_WAIT: Duration = Duration::from_secs(3);

/// How much of the registered projects `obey doctor` looks through for repositories, and how many it names: a large project
/// has some ten thousand files, and the first few repositories show what happened.
pub(crate) const REPOSITORIES_WALK_MAX: usize = 100_000;
pub(crate) const REPOSITORIES_SHOWN_MAX: usize = 5;

/// How much of a repository's configuration is read.
pub(crate) const REPOSITORY_CONFIG_MAX_BYTES: u64 = 256 * 1024;

/// How long `obey doctor` tries to reach an address of the configuration.
pub(crate) const REACH_WAIT: Duration = Duration::from_secs(3);

/// With fewer files than this a few hundred clients and sessions are too many; systems allow a process 4096 and more.
pub(crate) const OPEN_FILES_LOW: u64 = 4_096;
