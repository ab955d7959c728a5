//! Every bound of the shim and of the formats it shares with the daemon, each with its reason.
//! Must not hold anything but constants.

use std::time::Duration;

/// The version both sides announce; formats only ever grow, so a higher one is still understood.
pub const PROTOCOL: u8 = 1;

/// A segment is deleted whole, so this is the grain in which consumed output is given back to the disk.
pub const SEGMENT_BYTES_MAX: u64 = 16 << 20;

/// A single read of the agent's output, and so the usual largest record. Four times a default pipe.
pub const READ_BYTES_MAX: usize = 256 << 10;

/// A record longer than this was not written by any shim: the length field is damaged.
pub const RECORD_BYTES_MAX: usize = 1 << 20;

/// How much a reader takes in one batch: long enough to amortise the call, short enough to stay responsive.
pub const BATCH_BYTES_MAX: usize = 1 << 20;

/// How many records a batch may have, so that a flood of tiny records cannot grow the descriptor list.
pub const BATCH_RECORDS_MAX: usize = 4096;

/// The default cap of unconsumed output on disk; beyond it the agent waits in its own write call.
pub const SPOOL_BYTES_DEFAULT: u64 = 1 << 30;

/// Segments are at most this fraction of the cap, so that deleting consumed ones always gets below it.
pub const SEGMENTS_PER_SPOOL_MIN: u64 = 4;

/// Nothing smaller can hold a segment with one full record.
pub const SPOOL_BYTES_MIN: u64 = 4 << 20;

/// Held back on disk so that the exit record fits on a full file system.
pub const RESERVE_BYTES: u64 = 64 << 10;

/// Of the freed reserve, how much a stalled record may take; the rest stays for the exit record.
pub const RESERVE_RECORD_BYTES_MAX: usize = 32 << 10;

/// The agent's stdout pipe, as large as one read. More gains nothing measurable, and costs: one user's pipes may
/// hold 64 MiB together, beyond which the kernel gives every new pipe of that user two pages. At 1 MiB each that
/// would be 57 agents.
pub const STDOUT_PIPE_BYTES: i32 = READ_BYTES_MAX as i32;

/// A control frame: a prompt with attached images fits, a damaged length does not.
pub const FRAME_BYTES_MAX: usize = 64 << 20;

/// Input waiting for the agent to read it; beyond it the shim stops reading its control socket.
pub const INPUT_QUEUED_BYTES_MAX: usize = 64 << 20;

/// Answers waiting for a daemon that does not read; beyond it the shim stops reading from that daemon.
pub const CONTROL_OUT_BYTES_MAX: usize = 64 << 10;

/// Connections at once: one daemon, its successor, and a few that have not said who they are.
pub const CONNECTIONS_MAX: usize = 8;

/// A connection that has not said HELLO by then is closed, so that silent ones cannot use up the places.
pub const GREETING_TIMEOUT: Duration = Duration::from_secs(10);

/// Output older than this is on stable storage (streamed output may lose at most 200 ms to a power cut).
pub const SYNC_INTERVAL: Duration = Duration::from_millis(200);

/// While a flush takes longer than that, how often the shim looks whether it is over.
pub const FLUSH_LOOK: Duration = Duration::from_millis(20);

/// The stack of the thread that flushes: two system calls deep.
pub const FLUSH_STACK_BYTES: usize = 64 << 10;

/// How often a full disk or a full spool is tried again.
pub const STALL_RETRY: Duration = Duration::from_millis(250);

/// After the agent's exit, how long its pipes are drained; a descendant that cannot die may hold them open.
pub const DRAIN_MAX: Duration = Duration::from_secs(2);

/// Reads of what is left in the pipes when that time is up: twice what they can hold.
pub const DRAIN_READS_MAX: u32 = 16;

/// Between two passes over a tree that is being killed: its members need a moment to die.
pub const KILL_PASS_INTERVAL: Duration = Duration::from_millis(5);

/// Between two passes once a tree resists (uninterruptible sleep): scanning /proc is not free.
pub const KILL_PASS_SLOW_INTERVAL: Duration = Duration::from_millis(250);

/// Until then passes over a dying tree follow each other quickly.
pub const KILL_QUICK_MAX: Duration = Duration::from_secs(2);

/// How often the shim looks whether its directory is still there.
pub const HOME_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// How long the shim waits for any daemon: a long holiday of a laptop, not for ever.
pub const LINGER_DEFAULT: Duration = Duration::from_secs(7 * 24 * 3600);

/// A lock found held is tried again this often: a daemon looking whether it is held holds it for an instant.
pub const LOCK_ATTEMPTS_MAX: u32 = 10;

/// Between two attempts at the lock.
pub const LOCK_RETRY: Duration = Duration::from_millis(10);

/// By how much an agent is likelier to be ended than its shim when memory runs out, in thousandths of all memory.
pub const AGENT_DIES_FIRST: i32 = 300;

/// Ancestors of a process that are looked at. Real chains have about ten; one that is longer is built to hide.
pub const ANCESTORS_MAX: usize = 256;

/// How often a chain of ancestors is read until two readings agree. Parents that end while it is read are rare; a
/// chain that still changes after this is made to.
pub const ANCESTRY_READS_MAX: usize = 8;
