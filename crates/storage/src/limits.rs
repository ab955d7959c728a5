//! Every limit of the store and the audit, each with its reason.

use std::time::Duration;

/// Bytes of stored events returned to a reader at once; one event is always returned, however large. A slow
/// reader must cost no more than this, and prompts and tool results can have megabytes each.
pub const READ_BATCH_MAX_BYTES: usize = 1024 * 1024;

/// Write operations in one transaction.
pub const COMMIT_OPS_MAX: usize = 1_000;

/// Operations waiting for the writer. Beyond that callers wait: back-pressure reaches agents' pipes, never
/// memory.
pub const STORE_QUEUE_MAX: usize = 4_096;

/// Streamed output is synced to disk after at most this long (invariant 7).
pub const SYNC_WAIT: Duration = Duration::from_millis(200);

/// Events and bytes of one write that its caller may commit on its own thread: short enough for an async
/// thread.
pub const HERE_EVENTS_MAX: usize = 32;
pub const HERE_BYTES_MAX: usize = 64 * 1024;

/// A commit that took this long met a slow disk; during the pause after it, only the writer's own thread
/// commits.
pub const HERE_SLOW: Duration = Duration::from_millis(5);
pub const HERE_PAUSE: Duration = Duration::from_secs(1);

/// Pages of the write-ahead log that are worth a checkpoint (16 MiB), and the length at which writers wait
/// until all of it is checkpointed (64 MiB).
pub const LOG_PAGES: i64 = 4_000;
pub const LOG_PAGES_MAX: i64 = 16_000;

/// Idle read-only connections that are kept.
pub const READERS_MAX: usize = 4;

/// Equal reports of one campaign or festival within this time count as one.
pub const DEDUP_WINDOW: Duration = Duration::from_millis(500);

/// Keys of clients kept for one session, and for creating sessions. A client retries its last command, not its thousandth.
pub const CLIENT_KEYS_MAX: i64 = 1_000;

/// Bits of a sequence number in a row id. Session key and sequence number share the 63 bits of a row id.
pub const SEQ_BITS: u32 = 32;

/// What is read to suggest rules: the newest sessions, the last requests of each, and none with a huge input.
/// Recurring answers show in the recent past, and a suggestion must not take longer.
pub const SUGGEST_SESSIONS_MAX: usize = 500;
pub const SUGGEST_EVENTS_MAX: i64 = 2_000;
pub const SUGGEST_EVENT_MAX_BYTES: i64 = 16 * 1024;

/// Rows of the audit read at once; a reader that wants more asks again.
pub const AUDIT_PAGE: usize = 500;

/// Minimum time between two marks of the audit: each takes three syncs, and the rows of a burst share one.
pub const AUDIT_MARK_EVERY: Duration = Duration::from_millis(50);

/// How often the thread that writes marks checks whether the audit still exists.
pub const AUDIT_MARK_IDLE_WAIT: Duration = Duration::from_secs(10);

/// Largest mark that is read; the largest that is written is a tenth of it.
pub const AUDIT_MARK_MAX_BYTES: u64 = 64 * 1024;

/// Problems found at starts that the mark keeps: the first ones tell most.
pub const AUDIT_BREACHES_MAX: usize = 16;

/// Words and quotes of one search; people type a handful.
pub const SEARCH_TERMS_MAX: usize = 32;

/// How large a database is whose pages are all looked at on request; it takes a second for each 200 MB.
pub const CHECKED_FILE_MAX_BYTES: u64 = 256 * 1024 * 1024;
