//! Every timeout and limit of the command, each with its reason.

use std::time::Duration;

/// How long a started daemon may take to become ready. It opens a database and a few sockets, which takes
/// milliseconds; recovering many sessions on a slow disk takes seconds.
pub(crate) const START_WAIT: Duration = Duration::from_secs(10);

/// How long a daemon of another version may take to become ready: it may have to migrate a large database
/// first.
pub(crate) const UPGRADE_START_WAIT: Duration = Duration::from_secs(60);

/// How often `obey upgrade` checks whether the old daemon has released its locks, or the service manager's
/// new one is there. Both take some ten milliseconds.
pub(crate) const UPGRADE_LOOK: Duration = Duration::from_millis(10);

/// How long another command may hold the start lock: it waits for its own daemon, then reports.
pub(crate) const START_LOCK_WAIT: Duration = Duration::from_secs(15);

/// Timeout of a query to `systemctl` and the like.
pub(crate) const MANAGER_WAIT: Duration = Duration::from_secs(10);

/// Timeout for them to start or stop the service; the daemon's own shutdown is faster.
pub(crate) const MANAGER_WORK_WAIT: Duration = Duration::from_secs(90);

/// How long an ended session may take to release its agent before `obey doctor` reports an orphan.
pub(crate) const ORPHAN_WAIT: Duration = Duration::from_millis(500);

/// A clock that differs by more than this is wrong; time zones and daylight saving do not affect it.
pub(crate) const CLOCK_OFF: Duration = Duration::from_secs(60 * 60);

/// How long a daemon may take to answer a ping before it counts as hung.
pub(crate) const PING_WAIT: Duration = Duration::from_secs(5);

/// How long `obey stop` waits for the daemon's end; stopping every session may take 5 s.
pub(crate) const STOP_WAIT: Duration = Duration::from_secs(15);

/// How long to retry a lost connection, as across an upgrade of the daemon.
pub(crate) const RECONNECT_WAIT: Duration = Duration::from_secs(30);

/// How long a call waits for a new listener: replacing a daemon takes a fraction of a second.
pub(crate) const EXCHANGE_WAIT: Duration = Duration::from_secs(3);

/// Interval for checking whether a daemon is listening.
pub(crate) const EXCHANGE_PAUSE: Duration = Duration::from_millis(20);

/// Pause before each further attempt to reconnect; a restart takes a fraction of a second.
pub(crate) const RECONNECT_PAUSE: Duration = Duration::from_millis(250);

/// A stream that stays open this long counts as reconnected.
pub(crate) const RECONNECT_SETTLED: Duration = Duration::from_millis(500);

/// Largest message accepted from the daemon. Attachments come back as events.
pub(crate) const MESSAGE_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Events read ahead of what was printed; beyond that the daemon keeps them in its journal.
pub(crate) const EVENTS_AHEAD: usize = 256;

/// Lines typed ahead.
pub(crate) const LINES_AHEAD: usize = 64;

/// Interval of the status line: often enough to look alive, rarely enough to cost nothing.
pub(crate) const STATUS_TICK: Duration = Duration::from_millis(120);

/// Text deltas within this time of each other become one row of a followed log.
pub(crate) const MERGE_WAIT: Duration = Duration::from_millis(200);

/// The daemon's log is rotated if it is larger than this at a start.
pub(crate) const LOG_MAX_BYTES: u64 = 10 * 1024 * 1024;

/// Lines of the daemon's log that are quoted when it does not start.
pub(crate) const LOG_TAIL_LINES: usize = 6;

/// `obey doctor` warns below this much free space: the journal grows while agents work.
pub(crate) const DISK_LOW_BYTES: u64 = 1024 * 1024 * 1024;

/// Timeout of `claude --version`; its cold start takes seconds.
pub(crate) const VERSION_WAIT: Duration = Duration::from_secs(10);

/// How long sessions may take to detach from their agents when the daemon ends; each only closes a
/// connection.
pub(crate) const DETACH_WAIT: Duration = Duration::from_secs(2);

/// How long remaining readers may delay the daemon's end.
pub(crate) const RUNTIME_END_WAIT: Duration = Duration::from_secs(1);

/// How often the workbench looks for expired sessions; they are rejected on use anyway.
pub(crate) const SWEEP_INTERVAL: Duration = Duration::from_secs(30);
/// Maximum worker threads. The daemon's own work is small: more would only pass it around.
pub(crate) const WORKERS_MAX: usize = 8;

/// Chunks of an editor's input that wait for the daemon; beyond that the editor's pipe fills.
pub(crate) const ACP_PIECES_AHEAD: usize = 16;

/// Bytes read from an editor at once.
pub(crate) const ACP_READ_BYTES: usize = 64 * 1024;

/// Concurrent processes of `obey acp --standalone`; each has its own folder.
pub(crate) const STANDALONE_MAX: usize = 64;

/// Timeout of an answer in a playback.
pub(crate) const PLAYBACK_WAIT: Duration = Duration::from_secs(10);

/// Retry interval of an agent's MCP server while the daemon is being replaced, and the number of retries:
/// five minutes in total.
pub(crate) const MCP_RETRY_WAIT: Duration = Duration::from_millis(250);
pub(crate) const MCP_RETRIES_MAX: u32 = 1_200;

/// After this many attempts (ten seconds) an agent's MCP server assumes that the daemon is gone and retries
/// less often.
pub(crate) const MCP_QUICK_RETRIES: u32 = 40;
pub(crate) const MCP_GONE_WAIT: Duration = Duration::from_secs(5);

/// How long an agent may take to answer a ping of its MCP server. Every agent answers at once unless the
/// machine is busy; one that never does delays its clients by this much once per change of their tools.
pub(crate) const MCP_PING_WAIT: Duration = Duration::from_secs(5);

/// Projects whose sessions are cached for the user's own clients; an evicted one starts another session.
pub(crate) const PROJECTS_MAX: usize = 256;

/// Largest client configuration that `obey mcp install` reads; larger files are logs, not settings.
pub(crate) const CLIENT_CONFIG_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// How often `obey mcp install` retries when the client writes its file concurrently.
pub(crate) const INSTALL_RETRIES_MAX: u32 = 5;

/// How long after its start a daemon has settled: recovery and the sandbox probe are over.
pub(crate) const SETTLE_WAIT: Duration = Duration::from_secs(1);

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

/// How long `obey agents test` lets an agent work on one word.
pub(crate) const AGENT_TEST_WAIT: Duration = Duration::from_secs(180);
