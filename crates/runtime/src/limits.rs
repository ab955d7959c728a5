//! Every limit of the runtime, each with its reason. The limits of the rules are in `domain::limits`.

use std::time::Duration;

/// Commands waiting for one session's actor. An actor answers in microseconds; a full mailbox means that the
/// store does not respond. Callers then wait, which is back-pressure.
pub const MAILBOX_MAX: usize = 64;

/// How often a running agent's control group is asked whether the kernel killed something: soon enough to be told beside what
/// came of it, and a read of one small file.
pub const MEMORY_CHECK_WAIT: Duration = Duration::from_secs(2);

/// How often at most it is asked because the agent said something: an agent that streams says a hundred things a second.
pub const MEMORY_CHECK_PAUSE: Duration = Duration::from_millis(250);

/// An agent that is killed this soon after the kernel killed for memory was what it killed. A shim reports within
/// milliseconds; a machine without memory may take seconds.
pub const MEMORY_KILL_RECENT: Duration = Duration::from_secs(10);

/// Newest events of a session kept in memory. Readers that keep up never touch the disk; others read the store.
pub const TAIL_EVENTS_MAX: usize = 4_096;

/// Bytes of event bodies kept in memory for one session, so that large tool results do not pile up.
pub const TAIL_BYTES_MAX: usize = 1024 * 1024;

/// Events handed to a reader at once.
pub const READ_BATCH_MAX: usize = 512;

/// Events an agent inside the daemon may have pending; beyond that it waits.
pub const IN_PROCESS_EVENTS_MAX: usize = 256;

/// Wait before a commit that the disk refused is retried.
pub const STORE_RETRY_WAIT: Duration = Duration::from_millis(250);

/// An unfinished line up to this size is always stored together with its end offset. Longer ones are read
/// again instead: storing one costs three times its size in memory.
pub const CARRY_CHEAP_BYTES: usize = 256 * 1024;

/// Status changes a slow watcher of all sessions may lag behind before it must subscribe again.
pub const WATCH_LAG_MAX: usize = 4_096;

/// How long the actor of an ended session waits for commands before it is unloaded.
pub const ENDED_ACTOR_WAIT: Duration = Duration::from_secs(30);

/// Sessions with an agent at a time, unless configured otherwise. Agents need 100 to 300 MB each.
pub const ACTIVE_SESSIONS_MAX: usize = 10_000;

/// A clock further ahead of the newest record than this is not trusted for automatic removal. A machine that
/// was off for longer loses nothing by waiting for the next event.
pub const CLOCK_LEAP_MAX: Duration = Duration::from_secs(24 * 3600);

/// How long attaching to one shim may take at start; a stuck shim must not delay the others.
pub const REATTACH_WAIT: Duration = Duration::from_secs(5);

/// How long a shim may take to report the end of an agent it was asked to kill. It takes milliseconds; a shim
/// that exceeds this is killed itself. With the steps before, a stop still takes less than 5 s.
pub const KILL_WAIT: Duration = Duration::from_millis(1_500);

/// Default and maximum timeout of `Execute`.
pub const EXECUTE_WAIT: Duration = Duration::from_secs(60);
pub const EXECUTE_WAIT_MAX: Duration = Duration::from_secs(3_600);

/// Bytes of one chunk of a command's output.
pub const EXECUTE_CHUNK_MAX: usize = 64 * 1024;

/// A helper process ends this long after a daemon that was killed. Longer than the time between its start and
/// the connection to its shim; a new daemon ends it at once.
pub const HELD_LINGER: Duration = Duration::from_secs(5);

/// Bytes in flight to and from a helper process; beyond that its output stays in the spool.
pub const HELD_PIPE_BYTES: usize = 64 * 1024;

/// Final text of a turn that is read back from the journal; as much as providers repeat at a turn's end.
pub const LAST_WORDS_MAX_BYTES: usize = 1024 * 1024;

/// Bytes of a helper process's stderr that are kept to explain why it ended.
pub const HELD_ERRORS_MAX_BYTES: usize = 4 * 1024;

/// Largest command list of a campaign. People write them, but a repository might contain anything.
pub const CAMPAIGN_LIST_MAX_BYTES: u64 = 256 * 1024;

/// Largest `info/exclude` of a repository that is copied; those of people have a few lines.
pub const GIT_EXCLUDE_MAX_BYTES: u64 = 1024 * 1024;

/// Largest index of a working tree that is read: some ten million files.
pub const GIT_INDEX_MAX_BYTES: u64 = 1024 * 1024 * 1024;

/// Largest settings file. People write them, but a repository might contain anything.
pub const SETTINGS_FILE_MAX_BYTES: u64 = 256 * 1024;

/// Rules suggested at once; people read a screenful.
pub const SUGGESTIONS_MAX: usize = 50;

/// Permission rules from one source; each is evaluated for every permission.
pub const RULES_MAX: usize = 1_000;

/// Longest configurable wait for the answer to a permission: a year.
pub const ANSWER_WAIT_MAX_SECS: u32 = 365 * 24 * 3600;

/// Timeout of one git command: checking out a large repository on a slow disk.
pub const GIT_WAIT: Duration = Duration::from_secs(120);

/// Output of git that is kept; lists of worktrees and changed files stay far below.
pub const GIT_OUTPUT_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Entries of a repository's configuration that are overridden for one command. Each takes two variables, and
/// the size of an environment is bounded.
pub const GIT_OVERRIDES_MAX: usize = 1_000;

/// Longest name of a worktree; it becomes part of a path.
pub const WORKTREE_NAME_MAX_BYTES: usize = 100;

/// Longest branch name; git's own limit is that of file names.
pub const BRANCH_MAX_BYTES: usize = 244;

/// Workers that one session may have active at a time, may have had in total, and how deeply workers may
/// nest. An agent that spawns without end would exhaust the machine.
pub const WORKERS_MAX: usize = 8;
pub const WORKERS_TOTAL_MAX: usize = 64;
pub const WORKERS_DEPTH_MAX: usize = 2;

/// How long the agent of a worker or a task stays alive when it is idle.
pub const WORKER_IDLE_WAIT: Duration = Duration::from_secs(2);

/// Environments, hosts and tasks on one page of a list: by default and at most.
pub const RECORDS_PAGE_DEFAULT: usize = 50;
pub const RECORDS_PAGE_MAX: usize = 500;

/// How long an agent may take to read a changed tool list before its next prompt is sent anyway.
pub const TOOLS_READ_WAIT: Duration = Duration::from_secs(10);

/// The same for an agent that has read a changed list before: it will do so again, however busy the machine
/// is.
pub const TOOLS_REREAD_WAIT: Duration = Duration::from_secs(60);

/// Texts of one session that are watched at a time: speakers, and calls that show their output. More than agents run side by
/// side.
pub const LIVE_TEXTS_MAX: usize = 64;

/// How long a user can see what was redacted from an event, and how many bytes of it one session keeps.
pub const REVEAL_WAIT: Duration = Duration::from_secs(10 * 60);
pub const REVEAL_MAX_BYTES: usize = 1024 * 1024;

/// Time from starting an agent's shim to the confirmation that its containment is in place. It takes
/// milliseconds; a machine that swaps needs more.
pub const WALLS_WAIT: Duration = Duration::from_secs(10);

/// Grants of a session that a row of the audit names one by one; more are in the journal.
pub const AUDIT_GRANTS_MAX: usize = 16;
