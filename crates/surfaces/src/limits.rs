//! Every bound of the surfaces, each with its reason.

/// Largest message a client may send. Prompts are bounded at 8 MiB by the rules; the rest is envelope.
pub const MESSAGE_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Messages a stream may have ready for its connection. Small, because the journal is the buffer: a slow client lags
/// there.
pub const STREAM_READY_MAX: usize = 64;

/// Events of a client's activity stream that are stored between two looks at the session.
pub const ACTIVITY_EVENTS_MAX: u64 = 1_000_000;

/// Parents told beside a list of sessions. They travel as headers, of which clients take about 16 KiB.
pub const PARENTS_TOLD_MAX: usize = 128;
