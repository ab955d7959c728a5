//! Every timeout and limit of the assembled daemon, each with its reason.

use std::time::Duration;

/// How long sessions may take to detach from their agents when the daemon ends; each only closes a
/// connection.
pub const DETACH_WAIT: Duration = Duration::from_secs(2);

/// How long remaining readers may delay the daemon's end.
pub const RUNTIME_END_WAIT: Duration = Duration::from_secs(1);

/// Characters of a turn's prompt in the summary of the checkpoint before it; a list shows one line of each.
pub const CHECKPOINT_PROMPT_CHARS: usize = 120;

/// How often checkpoints that are too old are removed; their age is counted in days.
pub const CHECKPOINT_SWEEP_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// How often the workbench looks for expired sessions; they are rejected on use anyway.
pub const SWEEP_INTERVAL: Duration = Duration::from_secs(30);

/// Maximum worker threads. The daemon's own work is small: more would only pass it around.
pub const WORKERS_MAX: usize = 8;

/// Projects whose sessions are cached for the user's own clients; an evicted one starts another session.
pub const PROJECTS_MAX: usize = 256;

/// How long after its start a daemon has settled: recovery and the sandbox probe are over.
pub const SETTLE_WAIT: Duration = Duration::from_secs(1);

/// How long one way of telling a person may take: a desktop answers at once, a webhook crosses the internet.
pub const NOTICE_WAIT: Duration = Duration::from_secs(10);

/// How long one push service may take: several are told one after the other.
pub const PUSH_WAIT: Duration = Duration::from_secs(4);

/// How long a push service keeps a notice for a browser that is not there: a working day.
pub const PUSH_TTL: Duration = Duration::from_secs(8 * 60 * 60);

/// Notices that wait for one way; more sessions than this never ask at once.
pub const NOTICES_AHEAD: usize = 256;

/// How long a daemon that lost its socket may take to end before the next one gives up; stopping every session may take 5 s.
pub const STOP_WAIT: Duration = Duration::from_secs(15);

/// How often measured times are added to their buckets. At 10,000 commits a second some 2 MB wait until then.
pub const METRICS_INTERVAL: Duration = Duration::from_secs(10);

/// How long one delivery to a collector of traces and logs may take; what comes meanwhile waits in a bounded queue.
pub const TELEMETRY_WAIT: Duration = Duration::from_secs(5);

/// How long a collector may delay the daemon's end, once for traces and once for logs: the last turn is worth a second.
pub const TELEMETRY_END_WAIT: Duration = Duration::from_secs(1);

/// How much of a collector's answer is read; it says how many records it refused.
pub const TELEMETRY_ANSWER_MAX_BYTES: usize = 64 * 1024;

/// The longest text of a log record that is sent; a collector refuses requests of some megabytes.
pub const TELEMETRY_TEXT_MAX_BYTES: usize = 16 * 1024;
