//! All limits of tunnels, each with its reason.

use std::time::Duration;

/// Bytes of a call's body that may be under way in each direction before any credit is given: a whole usual message, so that
/// a short call never waits for credit.
pub const INITIAL_CREDIT_BYTES: u64 = 64 * 1024;

/// How far a call's window grows while its reader keeps up: enough for a fast connection around the world.
pub const WINDOW_MAX_BYTES: u64 = 1024 * 1024;

/// How much all windows of a tunnel may grow together beyond their first size; bounds what one tunnel holds in memory.
pub const TUNNEL_GROWTH_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Bytes of one data frame. Calls take turns frame by frame, so this is how long one call holds up the others.
pub const FRAME_DATA_MAX_BYTES: usize = 16 * 1024;

/// Calls of one tunnel at a time. An idle one costs a few kilobytes.
pub const CALLS_MAX: usize = 1_024;

/// Credit that one call can have at most: more is a fault of the other end.
pub const CREDIT_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes that came of one call of an end that knows no credit and wait for their reader; then the call ends.
pub const BASIC_WAITING_MAX_BYTES: u64 = 1024 * 1024;

/// Bytes of one call that wait to be sent to such an end; then whoever sends them waits. Each frame counts for a little more
/// than its message, so that those without content are no way around it.
pub const BASIC_WAITING_BYTES: usize = 1024 * 1024;
pub const BASIC_FRAME_BYTES: usize = 64;

/// Bytes of all calls of a tunnel above which no more is taken of an end that knows no credit: some of the largest messages.
pub const BASIC_HELD_MAX_BYTES: usize = 128 * 1024 * 1024;

/// One message of such a call: as large as the largest that a surface takes.
pub const BASIC_MESSAGE_MAX_BYTES: usize = 32 * 1024 * 1024;

/// Header bytes of a call, as on the listeners.
pub const FIELDS_MAX_BYTES: usize = 16 * 1024;

/// Frames about the tunnel itself that wait to be sent. An end that does not read gets no more heartbeats.
pub const CONTROL_WAITING_MAX: usize = 4_096;

/// One frame as it travels: data, its envelope and headers.
pub const FRAME_MAX_BYTES: usize = 36 * 1024 * 1024;

/// Windows of the HTTP/2 connection below a tunnel: larger than what calls may have under way, so that credit decides.
pub const STREAM_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
pub const CONNECTION_WINDOW_BYTES: u32 = 8 * 1024 * 1024;

/// How often a silent connection is pinged, and how long the answer may take: a dead one is noticed within 25 s.
pub const PING_INTERVAL: Duration = Duration::from_secs(15);
pub const PING_WAIT: Duration = Duration::from_secs(10);

/// How long connecting and shaking hands with a relay may take.
pub const DIAL_WAIT: Duration = Duration::from_secs(10);

/// Bytes of one chunk of a sealed connection: a TLS record and a little more.
pub const PIPE_CHUNK_BYTES: usize = 16 * 1024;

/// Chunks of a sealed connection that wait to be sent.
pub const PIPE_CHUNKS_MAX: usize = 4;

/// Bytes of a code or line that people copy.
pub const TICKET_MAX_BYTES: usize = 4 * 1024;

/// Bytes of a message in which a device pairs: a certificate request and names.
pub const PAIRING_MESSAGE_MAX_BYTES: usize = 16 * 1024;

/// How long pairing may take.
pub const PAIRING_WAIT: Duration = Duration::from_secs(20);
