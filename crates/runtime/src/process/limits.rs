//! Every bound of the daemon's side of agent processes, each with its reason.
//! Must not hold anything but constants; the shim's own are in `shim::limits`.

use std::time::Duration;

/// From running the shim to its answer. Starting takes milliseconds; this allows for a machine under load.
pub const SPAWN_TIMEOUT: Duration = Duration::from_secs(10);

/// The shim's one-line answer. Longer is not an answer.
pub const ANSWER_BYTES_MAX: u64 = 4096;

/// From connecting to a living shim to its welcome: one disk flush may stand before us.
pub const ATTACH_TIMEOUT: Duration = Duration::from_secs(5);

/// Between two attempts to reach a shim whose lock is held but whose socket does not answer.
pub const CONNECT_RETRY: Duration = Duration::from_millis(20);

/// The longest pause between such attempts when it goes on for long.
pub const CONNECT_RETRY_MAX: Duration = Duration::from_secs(1);

/// A dropped link's last words (an acknowledgement, a signal) are sent within this time or not at all.
pub const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

/// A shim announces everything and keeps an announcement until it is sent, so looking without one is only a net below
/// mistakes of ours. Rare, because every waiting session pays for it.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(300);

/// How long a reader rests after its spool could not be read, or when nobody announces anything any more.
pub const READ_RETRY: Duration = Duration::from_secs(1);

/// Input accepted for one agent but not yet in its stdin. A caller that is told "full" still has it on disk.
pub const INPUT_QUEUED_BYTES_MAX: usize = 128 << 20;

/// One input; with its header it is one frame.
pub const INPUT_BYTES_MAX: usize = shim::limits::FRAME_BYTES_MAX - 8;

/// Input sent but not confirmed. Kept below what makes the shim stop reading, so that signals always get through.
pub const INPUT_IN_FLIGHT_BYTES_MAX: usize = 16 << 20;

/// A line of an agent's output that is kept whole. Tool results with images reach several MiB.
pub const LINE_MAX: usize = 32 << 20;

/// What is kept of a longer line: enough to tell what it was.
pub const OVERSIZE_HEAD_BYTES: usize = 64 << 10;
