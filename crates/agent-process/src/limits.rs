//! Every limit of the daemon's side of agent processes, each with its reason. Must not hold anything but
//! constants; the shim's own are in `shim::limits`.

use std::time::Duration;

/// Time from running the shim to its answer. Starting takes milliseconds; this allows for a machine under
/// load.
pub const SPAWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Size of the shim's one-line answer. Anything longer is not an answer.
pub const ANSWER_BYTES_MAX: u64 = 4096;

/// Time from connecting to a living shim to its welcome; one disk flush may come first.
pub const ATTACH_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause between two attempts to reach a shim whose lock is held but whose socket does not answer.
pub const CONNECT_RETRY: Duration = Duration::from_millis(20);

/// The longest pause between such attempts.
pub const CONNECT_RETRY_MAX: Duration = Duration::from_secs(1);

/// The last frames of a dropped link (an acknowledgement, a signal) are sent within this time or not at all.
pub const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

/// How often the spool is read without an announcement. A shim announces everything and keeps an announcement
/// until it is sent, so this only guards against our own mistakes. It is rare because every idle session pays
/// for it.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(300);

/// Pause of a reader after its spool could not be read, or when there is no sender of announcements left.
pub const READ_RETRY: Duration = Duration::from_secs(1);

/// Input accepted for one agent but not yet written to its stdin. A caller that gets "full" still has it on
/// disk.
pub const INPUT_QUEUED_BYTES_MAX: usize = 128 << 20;

/// Size of one input; with its header it is one frame.
pub const INPUT_BYTES_MAX: usize = shim::limits::FRAME_BYTES_MAX - 8;

/// Input sent but not confirmed. Kept below the amount at which the shim stops reading, so that signals
/// always get through.
pub const INPUT_IN_FLIGHT_BYTES_MAX: usize = 16 << 20;

/// Longest line of an agent's output that is kept whole. Tool results with images reach several MiB.
pub const LINE_MAX: usize = 32 << 20;

/// Bytes kept of a longer line: enough to tell what it was.
pub const OVERSIZE_HEAD_BYTES: usize = 64 << 10;
