//! Every bound of this surface, each with its reason. Shared ones are in `surface::limits`.

/// Largest message of a roz client that is read at all; above what a message may hold, as for betcode.
pub const STREAM_MESSAGE_MAX_BYTES: usize = 32 * 1024 * 1024;

/// Messages of a roz client that wait while its session starts.
pub const STARTING_MESSAGES_MAX: usize = 64;

/// How often a roz client hears that a turn still goes on.
pub const KEEPALIVE_EVERY: std::time::Duration = std::time::Duration::from_secs(15);

/// How long a permission of a roz session waits before it is denied, where its environment does not say.
pub const APPROVAL_WAIT: std::time::Duration = std::time::Duration::from_secs(300);

/// Longest result of a client's tool. It goes to the model and into the journal.
pub const TOOL_RESULT_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Longest name of a client's tool: agents put the server's name before it, and models take 128 letters.
pub const TOOL_NAME_MAX_CHARS: usize = 100;

/// Longest id that a client may give to a message.
pub const MESSAGE_ID_MAX_CHARS: usize = 200;

/// Longest detail of an activity.
pub const ACTIVITY_DETAIL_MAX_CHARS: usize = 512;

/// The part of a client's context budget, in percent, from which a conversation is compacted between turns.
pub const COMPACT_AT_PERCENT: u64 = 85;

/// Events of a team that are ready for its watcher.
pub const TEAM_READY_MAX: usize = 64;

/// Tools that a client offers with one message, all together. They are part of every request to a model, so that real
/// ones are far smaller.
pub const TOOLS_MAX_BYTES: usize = 2 * 1024 * 1024;

/// Longest reason that a client gives for cancelling its session; people read it.
pub const REASON_MAX_BYTES: usize = 4 * 1024;

/// How long a call waits for the session of a task whose agent is being started: longer than any agent takes.
pub const TASK_START_WAIT: std::time::Duration = std::time::Duration::from_secs(60);

/// Longest name of a record, and of what it names.
pub const RECORD_NAME_MAX_BYTES: usize = 200;

/// How long a lease holds by default and at most: a holder that is alive renews it.
pub const LEASE_DEFAULT: std::time::Duration = std::time::Duration::from_secs(300);
pub const LEASE_MAX: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

/// How often a program that logs in may ask, as it is told.
pub const LOGIN_POLL_EVERY: std::time::Duration = std::time::Duration::from_secs(5);

/// Longest time between two tasks of a trigger that is due every so often: a year.
pub const TRIGGER_EVERY_MAX: std::time::Duration = std::time::Duration::from_secs(366 * 24 * 3600);

/// How often the times of triggers are looked at without a change: the clock of a machine may be set, and it may sleep.
pub const TRIGGER_LOOK_EVERY: std::time::Duration = std::time::Duration::from_secs(60);

/// Records that a count of them reads at once: the longest page there is.
pub const METRICS_PAGE: i64 = 500;
