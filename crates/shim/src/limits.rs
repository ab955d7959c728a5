//! Every limit of the shim and of the formats it shares with the daemon, each with its reason. Must not hold
//! anything but constants.

use std::time::Duration;

/// The version both sides announce; formats are only ever extended, so a higher one is still understood.
pub const PROTOCOL: u8 = 1;

/// A segment is deleted as a whole, so this is the granularity at which consumed output is freed.
pub const SEGMENT_BYTES_MAX: u64 = 16 << 20;

/// A single read of the agent's output, and so the usual largest record. Four times a default pipe.
pub const READ_BYTES_MAX: usize = 256 << 10;

/// A record longer than this was not written by any shim: the length field is damaged.
pub const RECORD_BYTES_MAX: usize = 1 << 20;

/// Size of one batch of a reader: large enough to amortise the call, small enough to stay responsive.
pub const BATCH_BYTES_MAX: usize = 1 << 20;

/// Records in one batch, so that a flood of tiny records cannot grow the list of entries.
pub const BATCH_RECORDS_MAX: usize = 4096;

/// The default cap of unconsumed output on disk; beyond it the agent blocks in its own write call.
pub const SPOOL_BYTES_DEFAULT: u64 = 1 << 30;

/// Segments are at most this fraction of the cap, so that deleting consumed ones always gets below it.
pub const SEGMENTS_PER_SPOOL_MIN: u64 = 4;

/// Nothing smaller can hold a segment with one full record.
pub const SPOOL_BYTES_MIN: u64 = 4 << 20;

/// Reserved on disk so that the exit record fits on a full file system.
pub const RESERVE_BYTES: u64 = 64 << 10;

/// How much of the freed reserve a stalled record may use; the rest stays for the exit record.
pub const RESERVE_RECORD_BYTES_MAX: usize = 32 << 10;

/// The agent's stdout pipe, as large as one read. More brings no measurable gain, and has a cost: the pipes
/// of one user may hold 64 MiB in total, beyond which the kernel gives every new pipe of that user two pages.
/// At 1 MiB each that limit would be reached with 57 agents.
pub const STDOUT_PIPE_BYTES: i32 = READ_BYTES_MAX as i32;

/// A control frame: a prompt with attached images fits, a damaged length does not.
pub const FRAME_BYTES_MAX: usize = 64 << 20;

/// Input waiting for the agent to read it; beyond this the shim stops reading its control socket.
pub const INPUT_QUEUED_BYTES_MAX: usize = 64 << 20;

/// Answers waiting for a daemon that does not read; beyond this the shim stops reading from that daemon.
pub const CONTROL_OUT_BYTES_MAX: usize = 64 << 10;

/// Simultaneous connections: one daemon, its successor, and a few that have not sent a greeting.
pub const CONNECTIONS_MAX: usize = 8;

/// A connection that has not sent HELLO by then is closed, so that silent ones cannot occupy all places.
pub const GREETING_TIMEOUT: Duration = Duration::from_secs(10);

/// Output older than this is on stable storage (streamed output may lose at most 200 ms to a power cut).
pub const SYNC_INTERVAL: Duration = Duration::from_millis(200);

/// How often the shim checks whether a flush is done that takes longer than that.
pub const FLUSH_LOOK: Duration = Duration::from_millis(20);

/// The stack of the thread that flushes: two system calls deep.
pub const FLUSH_STACK_BYTES: usize = 64 << 10;

/// Pause before a full disk or a full spool is retried.
pub const STALL_RETRY: Duration = Duration::from_millis(250);

/// How long pipes are drained after the agent's exit; a descendant that cannot be killed may hold them open.
pub const DRAIN_MAX: Duration = Duration::from_secs(2);

/// Reads of what is left in the pipes after that time: twice what they can hold.
pub const DRAIN_READS_MAX: u32 = 16;

/// Pause between two passes over a tree that is being killed: its members need a moment to die.
pub const KILL_PASS_INTERVAL: Duration = Duration::from_millis(5);

/// Pause between two passes once a tree resists (uninterruptible sleep): scanning /proc is not free.
pub const KILL_PASS_SLOW_INTERVAL: Duration = Duration::from_millis(250);

/// How long passes over a dying tree follow each other quickly.
pub const KILL_QUICK_MAX: Duration = Duration::from_secs(2);

/// How often the shim checks whether its directory still exists.
pub const HOME_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// How long the shim waits for any daemon: a laptop may be off for a long holiday, but not forever.
pub const LINGER_DEFAULT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Attempts to take a lock that is held: a daemon that checks the lock holds it for an instant.
pub const LOCK_ATTEMPTS_MAX: u32 = 10;

/// Pause between two attempts to take the lock.
pub const LOCK_RETRY: Duration = Duration::from_millis(10);

/// How much more likely an agent is killed than its shim when memory runs out, in thousandths of all memory.
pub const AGENT_DIES_FIRST: i32 = 300;

/// Ancestors of a process that are read. Real chains have about ten; a longer one was built to hide
/// something.
pub const ANCESTORS_MAX: usize = 256;

/// How often a chain of ancestors is read until two readings agree. Parents rarely exit during a read; a
/// chain that still changes after this is made to change.
pub const ANCESTRY_READS_MAX: usize = 8;
