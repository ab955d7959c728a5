//! Every bound of running things, each with its reason. Bounds of the rules are in `domain::limits`.

use std::time::Duration;

/// Commands waiting for one session's actor. An actor answers in microseconds; a full mailbox means that the store
/// stands still, and callers then wait instead of piling up.
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

/// Events an agent inside the daemon may have under way; it waits beyond that.
pub const IN_PROCESS_EVENTS_MAX: usize = 256;

/// How often a commit that the disk refused is tried again.
pub const STORE_RETRY_WAIT: Duration = Duration::from_millis(250);

/// An unfinished line of at most this size is stored with the place of its end without a thought. Longer ones are read
/// again instead: storing one costs three times its size in memory.
pub const CARRY_CHEAP_BYTES: usize = 256 * 1024;

/// Status changes a slow watcher of all sessions may lag behind before it is told to come back.
pub const WATCH_LAG_MAX: usize = 4_096;

/// How long the actor of an ended session waits for commands before it leaves memory.
pub const ENDED_ACTOR_WAIT: Duration = Duration::from_secs(30);

/// Sessions with an agent at a time, unless configured otherwise. Agents cost 100 to 300 MB each.
pub const ACTIVE_SESSIONS_MAX: usize = 10_000;

/// A clock further ahead of everything on record than this is not believed when things are removed unasked: a machine
/// that was off for longer loses nothing by waiting for the next thing to happen.
pub const CLOCK_LEAP_MAX: Duration = Duration::from_secs(24 * 3600);

/// How long one shim may take to be attached at start; a stuck one must not hold up the others.
pub const REATTACH_WAIT: Duration = Duration::from_secs(5);

/// How long a shim may take to report the end of an agent that it was told to kill. It takes milliseconds; one that does
/// not is killed itself. With the steps before, a stop still stays below 5 s.
pub const KILL_WAIT: Duration = Duration::from_millis(1_500);

/// Default and largest time for `Execute`.
pub const EXECUTE_WAIT: Duration = Duration::from_secs(60);
pub const EXECUTE_WAIT_MAX: Duration = Duration::from_secs(3_600);

/// Bytes of one piece of a command's output.
pub const EXECUTE_CHUNK_MAX: usize = 64 * 1024;

/// A program that the daemon talks to ends this long after a daemon that was killed. Longer than the moment between its
/// start and the connection to its shim; a new daemon ends it at once.
pub const HELD_LINGER: Duration = Duration::from_secs(5);

/// Bytes under way to and from such a program; beyond that the spool holds what it says.
pub const HELD_PIPE_BYTES: usize = 64 * 1024;

/// Last words of a turn that are read from the journal again; as much as providers repeat at a turn's end.
pub const LAST_WORDS_MAX_BYTES: usize = 1024 * 1024;

/// What is kept of its complaints, for whoever wants to know why it ended.
pub const HELD_ERRORS_MAX_BYTES: usize = 4 * 1024;

/// Largest list of a campaign's commands. People write them; a repository might bring anything.
pub const CAMPAIGN_LIST_MAX_BYTES: u64 = 256 * 1024;

/// Largest `info/exclude` of a repository that is taken over; people's are a few lines.
pub const GIT_EXCLUDE_MAX_BYTES: u64 = 1024 * 1024;

/// Largest index of a working tree that is looked at: some ten million files.
pub const GIT_INDEX_MAX_BYTES: u64 = 1024 * 1024 * 1024;

/// Largest settings file. People write them; a repository might bring anything.
pub const SETTINGS_FILE_MAX_BYTES: u64 = 256 * 1024;

/// Rules that are suggested at once; people read a screenful.
pub const SUGGESTIONS_MAX: usize = 50;

/// Permission rules from one place; each is asked on every permission.
pub const RULES_MAX: usize = 1_000;

/// Longest time a permission may be set to wait for an answer: a year.
pub const ANSWER_WAIT_MAX_SECS: u32 = 365 * 24 * 3600;

/// How long one git command may take: checking out a large repository on a slow disk.
pub const GIT_WAIT: Duration = Duration::from_secs(120);

/// Output of git that is kept; lists of worktrees and of changed files stay far below.
pub const GIT_OUTPUT_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Entries of a repository's configuration that are overridden for one command; each is two variables, and a program's
/// environment is bounded.
pub const GIT_OVERRIDES_MAX: usize = 1_000;

/// Longest name of a worktree: it becomes part of a path.
pub const WORKTREE_NAME_MAX_BYTES: usize = 100;

/// Longest branch; git's own limit is that of file names.
pub const BRANCH_MAX_BYTES: usize = 244;

/// Workers that one session may have at work at a time, have had in all, and how deep workers may have workers. An
/// agent that spawns without end would take the machine with it.
pub const WORKERS_MAX: usize = 8;
pub const WORKERS_TOTAL_MAX: usize = 64;
pub const WORKERS_DEPTH_MAX: usize = 2;

/// How long the agent of a worker or a task stays once it has nothing to do.
pub const WORKER_IDLE_WAIT: Duration = Duration::from_secs(2);

/// Environments, hosts and tasks on one page of a list, where the caller does not say and at most.
pub const RECORDS_PAGE_DEFAULT: usize = 50;
pub const RECORDS_PAGE_MAX: usize = 500;

/// How long an agent may take to read the tools it is offered anew before its next prompt reaches it all the same.
pub const TOOLS_READ_WAIT: Duration = Duration::from_secs(10);

/// The same for an agent that has read a change before: it will again, however busy the machine is.
pub const TOOLS_REREAD_WAIT: Duration = Duration::from_secs(60);

/// Texts of one session that are watched at a time: speakers, and calls that show their output. More than agents run side by
/// side.
pub const LIVE_TEXTS_MAX: usize = 64;

/// How long a user can look at what was taken out of an event, and how much of it one session keeps.
pub const REVEAL_WAIT: Duration = Duration::from_secs(10 * 60);
pub const REVEAL_MAX_BYTES: usize = 1024 * 1024;

/// From starting an agent's shim to the word that its walls stand: they take milliseconds; a machine that swaps needs more.
pub const WALLS_WAIT: Duration = Duration::from_secs(10);

/// Grants of a session that a row of the audit names one by one; more are in the journal.
pub const AUDIT_GRANTS_MAX: usize = 16;
