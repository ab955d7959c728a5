//! Every limit of the runtime, each with its reason. The limits of the rules are in `domain::limits`.

use std::time::Duration;

pub use campaigns::limits::RECORDS_PAGE_DEFAULT;
pub use git::limits::{BRANCH_MAX_BYTES, GIT_OUTPUT_MAX_BYTES};

/// Commands waiting for one session's actor. An actor answers in microseconds; a full mailbox means that the
/// store does not respond. Callers then wait, which is back-pressure.
pub const MAILBOX_MAX: usize = 64;

/// How often a running agent's control group is asked whether the kernel killed something: soon enough to be told beside what
/// came of it, and a read of one small file.
pub const MEMORY_CHECK_WAIT: Duration = Duration::from_secs(2);

/// How often the group of an agent that says nothing is asked: what is killed there is told a little later, and a thousand idle
/// sessions cost next to nothing.
pub const MEMORY_CHECK_QUIET_WAIT: Duration = Duration::from_secs(16);

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

/// Maximum timeout of `Execute`.
pub const EXECUTE_WAIT_MAX: Duration = Duration::from_secs(3_600);

/// Bytes of one chunk of a command's output.
pub const EXECUTE_CHUNK_MAX: usize = 64 * 1024;

/// A helper process ends this long after a daemon that was killed. Longer than the time between its start and
/// the connection to its shim; a new daemon ends it at once.
pub const HELD_LINGER: Duration = Duration::from_secs(5);

/// Bytes in flight to and from a helper process; beyond that its output stays in the spool.
pub const HELD_PIPE_BYTES: usize = 64 * 1024;

/// Bytes of a helper process's stderr that are kept to explain why it ended.
pub const HELD_ERRORS_MAX_BYTES: usize = 4 * 1024;

/// Largest command list of a campaign. People write them, but a repository might contain anything.
pub const CAMPAIGN_LIST_MAX_BYTES: u64 = 256 * 1024;

/// Largest `info/exclude` of a repository that is copied; those of people have a few lines.
pub const GIT_EXCLUDE_MAX_BYTES: u64 = 1024 * 1024;

/// Largest index of a working tree that is read: some ten million files.
pub const GIT_INDEX_MAX_BYTES: u64 = 1024 * 1024 * 1024;

/// Rules suggested at once; people read a screenful.
pub const SUGGESTIONS_MAX: usize = 50;

/// Files that one diff names. A person reads hundreds; the counts of all are told.
pub const DIFF_FILES_MAX: usize = 5_000;

/// Paths that one diff names as skipped. An agent can make any number of them; the count of all is told.
pub const DIFF_SKIPPED_MAX: usize = 200;

/// Skipped paths that one refusal names with their remedy: a message of a few lines.
pub const SKIPPED_NAMED_MAX: usize = 5;

/// Paths given to one git command as arguments: 500 of the longest fit into the system's limit of 2 MiB.
pub const GIT_ARGUMENTS_MAX: usize = 500;

/// Lines and bytes of one file's diff; beyond that it is cut and says so. As much as a screen can show smoothly.
pub const DIFF_LINES_MAX: usize = 20_000;
pub const DIFF_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Lines of context around a change, at most.
pub const DIFF_CONTEXT_MAX: u32 = 1_000;

/// Commits that one rebase replays; each costs three commands.
pub const REBASE_COMMITS_MAX: usize = 500;

/// Conflicting files that an error names; git names the others.
pub const CONFLICTS_NAMED_MAX: usize = 10;

/// Most protected names that the refusal of a merge lists; the rest is counted.
pub const PROTECTED_NAMED_MAX: usize = 10;

/// Longest name of a session made from its prompt: lists show 20 letters, of which a number needs three.
pub const NAME_FROM_PROMPT_MAX_BYTES: usize = 17;

/// The beginning of a prompt that is looked at for a name.
pub const NAME_PROMPT_MAX_BYTES: usize = 1024;

/// Recordings of the files at a turn's start that run at a time; each runs git, beside agents that just started to work.
pub const TURN_TREES_AT_ONCE_MAX: usize = 2;

/// From a recording that several sessions of one folder shared to the next one, so that they share that too.
pub const TURN_TREE_PAUSE: Duration = Duration::from_millis(100);

/// Untracked files that such a recording stores, and the largest of them: what an agent writes, not its data.
pub const TURN_TREE_FILES_MAX: usize = 2_000;
pub const TURN_TREE_FILE_MAX_BYTES: u64 = 1024 * 1024;

/// How soon after a look at the files of a turn that had changed none the next one follows: each runs git, and an agent may
/// make many calls a second.
pub const EDIT_CHECK_PAUSE: Duration = Duration::from_secs(2);

/// Turns that wait until their checkpoint is made; each holds some names.
pub const EDITED_TURNS_WAITING_MAX: usize = 64;

/// Largest header of a checkpoint's bundle: two lines of names.
pub const BUNDLE_HEADER_MAX_BYTES: u64 = 64 * 1024;

/// Largest `.obey/worktree.toml`. People write a few lines; a repository might contain anything.
pub const SETUP_FILE_MAX_BYTES: u64 = 64 * 1024;

/// Ignored files that are copied into a new worktree, and the largest of them: settings and keys, not build products.
pub const SETUP_COPIES_MAX: usize = 100;
pub const SETUP_COPY_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// How long the set-up hook of a project may take: by default, and at most.
pub const SETUP_WAIT: Duration = Duration::from_secs(600);
pub const SETUP_WAIT_MAX: Duration = Duration::from_secs(3_600);

/// Output of a set-up hook that is kept to explain a failure.
pub const SETUP_OUTPUT_MAX_BYTES: usize = 64 * 1024;

/// Characters of a tool's input or output in the history that the agent of a fork is told. The gist is at the beginning.
pub const FORK_TOOL_TEXT_MAX_CHARS: usize = 2_000;

/// How long keys of clients are kept. A client that retries after a week asks for something new.
pub const CLIENT_KEYS_TTL: Duration = Duration::from_secs(7 * 24 * 3600);

/// Numbers that are tried for a name that is taken. There are not that many living sessions.
pub const NAME_NUMBERS_MAX: usize = 2_000;

/// Workers that one session may have active at a time, may have had in total, and how deeply workers may
/// nest. An agent that spawns without end would exhaust the machine.
pub const WORKERS_MAX: usize = 8;
pub const WORKERS_TOTAL_MAX: usize = 64;
pub const WORKERS_DEPTH_MAX: usize = 2;

/// Workers of one session that run at a time unless configured otherwise. Whoever starts more at once waits; agents need 100
/// to 300 MB each, and a plan says how many steps it has.
pub const WORKERS_AT_ONCE: usize = 100;

/// Workers of one session that have not ended, those that wait included. More comes from a program out of control.
pub const WORKERS_WAITING_MAX: usize = 1_000;

/// How long a worker may take unless configured otherwise. One that takes longer is stuck or has too much to do.
pub const WORKER_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// How long a cancelled worker may take to end its turn, and its end to be put on record.
pub const WORKER_CANCEL_WAIT: Duration = Duration::from_secs(5);

/// How long the worker that is next waits before it asks again for one of the daemon's places for agents; the end of another
/// worker wakes it earlier.
pub const WORKER_ROOM_WAIT: Duration = Duration::from_millis(100);

/// Messages that one orchestration may have pending; each of its steps sends one, the others wait.
pub const ORCHESTRATION_INBOX_MAX: usize = 1_024;

/// How long the agent of a worker or a task stays alive when it is idle.
pub const WORKER_IDLE_WAIT: Duration = Duration::from_secs(2);

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

/// Shortest bucket of a series of usage: agents report once per reply.
pub const USAGE_STEP_MIN_SECS: u64 = 60;

/// How long budgets of a day may go on counting for the day before, after midnight or a jump of the clock. A minute more or
/// less of a day's budget matters to nobody.
pub const BUDGET_LOOK_WAIT: Duration = Duration::from_secs(60);

/// Files of one folder that are looked at when a client completes a name: a hundred times a large repository of one program.
pub const FILE_LIST_MAX: usize = 200_000;

/// How long a list of files is used: somebody types a name within it, and a new file is offered soon after.
pub const FILE_LIST_TTL: Duration = Duration::from_secs(5);

/// Folders whose lists are kept at a time; further ones are read for every call.
pub const FILE_LISTS_MAX: usize = 8;

/// How long a folder without a repository is read for its files: who types waits for the answer.
pub const FILE_WALK_WAIT: Duration = Duration::from_secs(2);

/// Files of one answer: by default and at most. People read a few lines below the field.
pub const FOUND_FILES_DEFAULT: usize = 20;
pub const FOUND_FILES_MAX: usize = 100;

/// How many times as many of the best paths are put in order: some of them are links, or gone.
pub const FOUND_FILES_SPARE: usize = 4;

/// Events that are read first for the answer of a turn that an earlier daemon began, then more of them.
pub const RECALLED_EVENTS_MIN: u64 = 4_096;

/// Longest text that files are looked for by: a path.
pub const FILE_TEXT_MAX_BYTES: usize = 4 * 1024;
