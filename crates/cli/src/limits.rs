//! Every timeout and limit of the command line, each with its reason.

use std::time::Duration;

/// How often `obey upgrade` checks whether the old daemon has released its locks, or the service manager's
/// new one is there. Both take some ten milliseconds.
pub const UPGRADE_LOOK: Duration = Duration::from_millis(10);

/// Timeout of a query to `systemctl` and the like.
pub const MANAGER_WAIT: Duration = Duration::from_secs(10);

/// Timeout for them to start or stop the service; the daemon's own shutdown is faster.
pub const MANAGER_WORK_WAIT: Duration = Duration::from_secs(90);

/// How long a daemon may take to answer a ping before it counts as hung.
pub const PING_WAIT: Duration = Duration::from_secs(5);

/// How long `obey stop` waits for the daemon's end; stopping every session may take 5 s.
pub const STOP_WAIT: Duration = Duration::from_secs(15);

/// How long a shell waits for completions; longer feels broken.
pub const COMPLETION_WAIT: Duration = Duration::from_millis(500);

/// Text deltas within this time of each other become one row of a followed log.
pub const MERGE_WAIT: Duration = Duration::from_millis(200);

/// Timeout of `claude --version`; its cold start takes seconds.
pub const VERSION_WAIT: Duration = Duration::from_secs(10);

/// Retry interval of an agent's MCP server while the daemon is being replaced, and the number of retries:
/// five minutes in total.
pub const MCP_RETRY_WAIT: Duration = Duration::from_millis(250);
pub const MCP_RETRIES_MAX: u32 = 1_200;

/// After this many attempts (ten seconds) an agent's MCP server assumes that the daemon is gone and retries
/// less often.
pub const MCP_QUICK_RETRIES: u32 = 40;
pub const MCP_GONE_WAIT: Duration = Duration::from_secs(5);

/// How long an agent may take to answer a ping of its MCP server. Every agent answers at once unless the
/// machine is busy; one that never does delays its clients by this much once per change of their tools.
pub const MCP_PING_WAIT: Duration = Duration::from_secs(5);

/// Largest client configuration that `obey mcp install` reads; larger files are logs, not settings.
pub const CLIENT_CONFIG_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// How often `obey mcp install` retries when the client writes its file concurrently.
pub const INSTALL_RETRIES_MAX: u32 = 5;

/// How long `obey agents test` lets an agent work on one word.
pub const AGENT_TEST_WAIT: Duration = Duration::from_secs(180);

/// Pause of `obey connect` when it cannot accept a connection, such as without file descriptors.
pub const CONNECT_ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long `obey machine list` waits for one relay: a machine that is gone never holds up the others.
pub const MACHINE_LIST_WAIT: Duration = Duration::from_secs(5);

/// Largest file of a plan: the daemon takes a MiB of texts, and TOML adds quotes and names.
pub const PLAN_FILE_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// How long `obey plan run` waits before it looks for the next daemon.
pub const PLAN_RETRY_WAIT: Duration = Duration::from_millis(200);
