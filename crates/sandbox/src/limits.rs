//! Every bound of the sandbox, each with its reason.

use std::time::Duration;

/// How long a probe of the sandbox may take at start.
pub const PROBE_WAIT: Duration = Duration::from_secs(10);

/// How long the stage may take to build a sandbox. It needs milliseconds; a machine that swaps needs more.
pub const STAGE_WAIT: Duration = Duration::from_secs(10);

/// Sandboxes that wait for a command while commands keep coming: one takes some ten milliseconds to be made, most of it
/// waiting for the kernel, in which a fast client runs several commands; and few enough that nobody misses the memory.
pub const SANDBOXES_READY: usize = 8;

/// Projects that a keeper clears of placeholders if its daemon is killed: more than are worked on in half a minute.
pub const KEEPER_ROOTS_MAX: usize = 256;

/// How long a keeper waits for the locks of a killed daemon; those that stay are another daemon's.
pub const KEEPER_CLEAR_WAIT: Duration = Duration::from_secs(2);

/// How many keepers that die are replaced for one command.
pub const KEEPERS_TRIED: usize = 3;

/// Memory on the account of control groups that the next command may take over: what the start of a few programs leaves.
pub const CGROUP_REST_MAX: u64 = 64 << 20;

/// How long sandboxes are kept ready after the last command. An agent thinks for some seconds between two of them.
pub const SANDBOX_IDLE: Duration = Duration::from_secs(30);

/// Largest file of a repository that is read to see what it is, and most filters that are switched off in one.
pub const REPOSITORY_FILE_MAX: u64 = 1 << 20;
pub const REPOSITORY_FILTERS_MAX: usize = 100;

/// What is copied of a repository for the time of a command, beside what is packed: git packs by itself long before.
pub const HISTORY_BYTES_MAX: u64 = 1 << 30;

/// Files of a repository beside its objects that are looked at before a command: tens of them, or thousands of references
/// after a fetch.
pub const HISTORY_FILES_MAX: usize = 20_000;

/// How often a repository is looked at while commands that overlap run in it.
pub const HISTORY_CHECK_STEP: Duration = Duration::from_secs(1);

/// How long copies are kept of a repository in which no command ran: it is copied again when one does.
pub const HISTORY_KEEP: Duration = Duration::from_secs(7 * 24 * 3600);

/// Repositories of which it is remembered what was copied; what is forgotten is compared with the copies on disk.
pub const HISTORIES_MAX: usize = 64;

/// Files that are looked at to find a socket whose whole path nobody says, and sockets that are covered: a walk of this length
/// takes some ten milliseconds, and projects have a handful of sockets.
pub const SOCKETS_WALK_MAX: usize = 20_000;
pub const SOCKETS_COVERED_MAX: usize = 64;

/// How long a project's placeholders stay after a command, for the next one: long enough for an agent that runs several
/// in a row, too short for anybody to miss the names.
pub const PLACEHOLDERS_LINGER: Duration = Duration::from_millis(250);

/// How long after being asked the stage may take to kill everything, before it is killed itself.
pub const KILL_WAIT: Duration = Duration::from_secs(5);

/// How long after a command's time is up the daemon waits for the stage to notice.
pub const TIMEOUT_SLACK: Duration = Duration::from_millis(250);

/// How often something that is about to go is looked at.
pub const CLEAR_STEP: Duration = Duration::from_millis(5);

/// Bytes of output handed on at once; what a pipe holds.
pub const OUTPUT_CHUNK_MAX: usize = 64 * 1024;

/// What one command may use unless told otherwise: enough for the build of a large project, too little to take the
/// machine away from its owner.
pub const EXEC_PROCESSES_MAX: u64 = 256;
pub const EXEC_OPEN_FILES_MAX: u64 = 4096;
pub const EXEC_FILE_BYTES_MAX: u64 = 8 << 30;
pub const EXEC_MEMORY_BYTES_MAX: u64 = 4 << 30;
pub const EXEC_TEMPORARY_BYTES_MAX: u64 = 512 << 20;

/// Each of an agent's temporary folders and its home, which are memory: an agent builds there for hours.
pub const AGENT_TEMPORARY_BYTES_MAX: u64 = 4 << 30;

/// Endpoints of a model: each has an address of its own inside, of which there are some two hundred.
pub const AGENT_ENDPOINTS_MAX: usize = 64;

/// Connections of one agent that pass its walls at a time; agents have a handful.
pub const AGENT_CONNECTIONS_MAX: usize = 256;

/// Largest file an agent gets a copy of; configuration files have kilobytes.
pub const AGENT_COPY_MAX: u64 = 16 << 20;

/// The version of Landlock that keeps abstract sockets of others out of reach.
pub const LANDLOCK_SCOPES: i32 = 6;

/// An agent's group in which nobody is this long after it was made belongs to nobody: agents join within milliseconds.
pub const GROUP_ABANDONED_AGE: Duration = Duration::from_secs(3600);

/// The span over which processor time of a session is counted; the kernel's default.
pub const CPU_PERIOD_US: u64 = 100_000;

/// What a session's group weighs against others when processors are short, in version 2 and in version 1: the kernel's
/// defaults, so that sessions share evenly, however many processes each has.
pub const SESSION_CPU_WEIGHT: u64 = 100;
pub const SESSION_CPU_SHARES: u64 = 1_024;

/// How long everything inside is stopped while a file is there that may be about to replace a protected one: git renames its lock
/// within a millisecond, editors within some. An agent's own `git config` makes a lock too, and must not be stopped for long.
pub const REPLACEMENT_WAIT: Duration = Duration::from_millis(200);

/// How long a protected name may be absent before something is put there: editors move a file away before they write the new one.
pub const ABSENT_WAIT: Duration = Duration::from_secs(1);

/// How long the init waits for stopped processes to come out of the kernel; one that waits for a disk takes some milliseconds.
pub const FREEZE_WAIT: Duration = Duration::from_millis(500);

/// Changes of protected folders that are read at once and kept; more are treated as if they were lost.
pub const GUARD_READ_BYTES: usize = 16 * 1024;
pub const GUARD_EVENTS_MAX: usize = 4096;

/// How often covers are looked at where the system cannot tell of changes: it counts watches for each user.
pub const GUARD_STEP: Duration = Duration::from_millis(50);
