//! Every wait and bound of the command, each with its reason.

use std::time::Duration;

/// How long a daemon that was started may take until it says that it is ready. It opens a database and a few
/// sockets, which takes milliseconds; recovering many sessions on a slow disk takes seconds.
pub(crate) const START_WAIT: Duration = Duration::from_secs(10);

/// How long a daemon of another version may take until it is ready: it may have to change a large database first.
pub(crate) const UPGRADE_START_WAIT: Duration = Duration::from_secs(60);

/// How often `obey upgrade` looks whether the old daemon has let go, or a service manager's new one is there. Both
/// take some ten milliseconds.
pub(crate) const UPGRADE_LOOK: Duration = Duration::from_millis(10);

/// How long another command may hold the start lock: it waits for its own daemon, then tells.
pub(crate) const START_LOCK_WAIT: Duration = Duration::from_secs(15);

/// How long `systemctl` and the like may take to answer a question.
pub(crate) const MANAGER_WAIT: Duration = Duration::from_secs(10);

/// How long they may take to start or end the service; the daemon's own end is bounded by less.
pub(crate) const MANAGER_WORK_WAIT: Duration = Duration::from_secs(90);

/// How long a session that has ended may take to let go of its agent, before `obey doctor` calls it an orphan.
pub(crate) const ORPHAN_WAIT: Duration = Duration::from_millis(500);

/// A clock that differs by more than this is wrong; zones and daylight saving do not matter to it.
pub(crate) const CLOCK_OFF: Duration = Duration::from_secs(60 * 60);

/// How long a daemon may take to answer a ping before it counts as hung.
pub(crate) const PING_WAIT: Duration = Duration::from_secs(5);

/// How long `obey stop` waits for the daemon's end; stopping every session may take 5 s.
pub(crate) const STOP_WAIT: Duration = Duration::from_secs(15);

/// How long a lost connection is taken up again, as across an upgrade of the daemon.
pub(crate) const RECONNECT_WAIT: Duration = Duration::from_secs(30);

/// How long a call waits for somebody to listen where somebody did: an exchange of daemons takes a fraction of a second.
pub(crate) const EXCHANGE_WAIT: Duration = Duration::from_secs(3);

/// Between two looks whether somebody listens.
pub(crate) const EXCHANGE_PAUSE: Duration = Duration::from_millis(20);

/// Pause before each further attempt to reconnect; a restart takes a fraction of a second.
pub(crate) const RECONNECT_PAUSE: Duration = Duration::from_millis(250);

/// A stream that stays open this long counts as connected again.
pub(crate) const RECONNECT_SETTLED: Duration = Duration::from_millis(500);

/// Largest message taken from the daemon. Attachments come back as events.
pub(crate) const MESSAGE_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Events read ahead of what was printed; beyond that the daemon keeps them in its journal.
pub(crate) const EVENTS_AHEAD: usize = 256;

/// Lines typed ahead of what was asked.
pub(crate) const LINES_AHEAD: usize = 64;

/// How often the status line moves: often enough to look alive, seldom enough to cost nothing.
pub(crate) const STATUS_TICK: Duration = Duration::from_millis(120);

/// Pieces of text that follow each other within this time become one row of a followed log.
pub(crate) const MERGE_WAIT: Duration = Duration::from_millis(200);

/// The daemon's log is set aside when it is larger than this at a start.
pub(crate) const LOG_MAX_BYTES: u64 = 10 * 1024 * 1024;

/// Lines of the daemon's log that are quoted when it does not start.
pub(crate) const LOG_TAIL_LINES: usize = 6;

/// `obey doctor` warns below this much free space: the journal grows while agents work.
pub(crate) const DISK_LOW_BYTES: u64 = 1024 * 1024 * 1024;

/// How long `claude --version` may take; a cold start of it needs seconds.
pub(crate) const VERSION_WAIT: Duration = Duration::from_secs(10);

/// How long sessions may take to let go of their agents when the daemon ends; each only closes a connection.
pub(crate) const DETACH_WAIT: Duration = Duration::from_secs(2);

/// How long readers that are still at it may hold up the daemon's end.
pub(crate) const RUNTIME_END_WAIT: Duration = Duration::from_secs(1);

/// How often the workbench looks for sessions whose time ran out; they are refused on use anyway.
pub(crate) const SWEEP_INTERVAL: Duration = Duration::from_secs(30);
/// Threads that serve. The daemon's own work is small: more of them would only pass it around.
pub(crate) const WORKERS_MAX: usize = 8;

/// Pieces of an editor's input that wait for the daemon; beyond that the editor's pipe fills.
pub(crate) const ACP_PIECES_AHEAD: usize = 16;

/// Bytes read from an editor at once.
pub(crate) const ACP_READ_BYTES: usize = 64 * 1024;

/// Processes of `obey acp --standalone` at once; each has a folder of its own.
pub(crate) const STANDALONE_MAX: usize = 64;

/// How long an answer may take in a playback.
pub(crate) const PLAYBACK_WAIT: Duration = Duration::from_secs(10);

/// How long an agent's MCP server waits between two attempts to reach a daemon that is being exchanged, and how often
/// it tries: five minutes in all.
pub(crate) const MCP_RETRY_WAIT: Duration = Duration::from_millis(250);
pub(crate) const MCP_RETRIES_MAX: u32 = 1_200;

/// After so many attempts, ten seconds' worth, an agent's MCP server takes the daemon for gone and looks for it less often.
pub(crate) const MCP_QUICK_RETRIES: u32 = 40;
pub(crate) const MCP_GONE_WAIT: Duration = Duration::from_secs(5);

/// How long an agent may take to answer a ping of its MCP server. Every agent answers at once unless the machine is
/// busy; one that never does costs its clients this much once per change of their tools.
pub(crate) const MCP_PING_WAIT: Duration = Duration::from_secs(5);

/// Projects whose sessions are remembered for clients of the user's own; one that is forgotten begins another.
pub(crate) const PROJECTS_MAX: usize = 256;

/// Largest configuration of a client that `obey mcp install` reads; those that grow to this size are logs, not settings.
pub(crate) const CLIENT_CONFIG_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// How often `obey mcp install` begins again when the client writes its file at the same time.
pub(crate) const INSTALL_RETRIES_MAX: u32 = 5;

/// How long after its start a daemon has settled: recovery and the trial of the sandbox are over.
pub(crate) const SETTLE_WAIT: Duration = Duration::from_secs(1);

/// Lines of an editor that a daemon is not done with, and their bytes: they are sent again when it ends. Two of the longest.
pub(crate) const ACP_LINES_KEPT_MAX: usize = 4_096;
pub(crate) const ACP_BYTES_KEPT_MAX: usize = 64 * 1024 * 1024;

/// How much of one line is kept: a daemon refuses one that is longer than it takes, whatever follows.
pub(crate) const ACP_LINE_KEPT_MAX_BYTES: usize = surface_acp::limits::ACP_LINE_MAX_BYTES + 1;

/// How long an editor's connection looks for another daemon after it lost one. A daemon that has much to recover takes
/// some seconds; one that never comes must not look like an agent that thinks.
pub(crate) const ACP_AGAIN_WAIT: Duration = Duration::from_secs(60);

/// Between two looks for a daemon that somebody stopped and nobody needs.
pub(crate) const ACP_LOOK_PAUSE: Duration = Duration::from_millis(500);

/// How long `obey agents test` lets an agent work on one word.
pub(crate) const AGENT_TEST_WAIT: Duration = Duration::from_secs(180);
