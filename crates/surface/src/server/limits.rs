//! All limits of the listeners and their connections, each with its reason.

use std::time::Duration;

/// Concurrent connections of one listener. An idle one costs a few tens of kilobytes; more clients wait in
/// the kernel's queue until one disconnects.
pub const CONNECTIONS_MAX: usize = 2_048;

/// The share of the process's file descriptors that the connections of one listener may use, as a divisor:
/// agents, the store and the other listeners need the rest.
pub const CONNECTIONS_FD_SHARE: u64 = 4;

/// Connections that one other user of this machine or one other machine may have open, and those of whom it cannot be told:
/// a client needs one or two, and what they can do is little.
pub const STRANGER_CONNECTIONS_MAX: usize = 32;

/// How many connections each of these users may open in a burst, and then per second.
pub const STRANGER_BURST: u32 = 64;
pub const STRANGER_RATE_PER_SEC: u32 = 16;

/// The share of a listener's connections that all other users may have together, as a divisor: the daemon's
/// own user comes first.
pub const STRANGERS_SHARE: usize = 4;

/// How many other users are counted separately. Beyond that, connections of further users are rejected: one
/// party that controls so many users must not fill the table.
pub const STRANGERS_TOLD_APART_MAX: usize = 256;

/// Header bytes of one request. gRPC metadata and browsers' headers stay below a few kilobytes.
pub const HEADERS_MAX_BYTES: u32 = 16 * 1024;

/// Concurrent requests on one HTTP/2 connection. A client that follows every session of a large team on one
/// connection needs one for each, plus some for its own calls. Beyond this limit its requests wait silently
/// until others end. Memory is limited per connection, not per request.
pub const STREAMS_MAX: u32 = 4_096;

/// How many bytes a client may send ahead on one HTTP/2 connection, and on one request of it. Limits the
/// memory that a flood can occupy; loopback and Unix sockets are fast without a larger window.
pub const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
pub const STREAM_WINDOW_BYTES: u32 = 512 * 1024;

/// Bytes of an answer that are buffered on one HTTP/2 stream for a client that does not read.
pub const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// Bytes read ahead and written at once on an HTTP/1 connection.
pub const HTTP1_BUFFER_BYTES: usize = 64 * 1024;

/// How long a client may take from connecting until its protocol is known, and then until its first headers
/// are complete.
pub const FIRST_BYTES_WAIT: Duration = Duration::from_secs(10);

/// How long a client may take to agree on TLS: several round trips around the world, and no longer a hold on its place.
pub const TLS_HANDSHAKE_WAIT: Duration = Duration::from_secs(10);

/// How long a connection from another machine may last on which no device has called: whoever has no proof keeps no
/// place.
pub const DEVICE_CALL_WAIT: Duration = Duration::from_secs(30);

/// How long the body of a request may rest. Nobody types one by hand.
pub const BODY_WAIT: Duration = Duration::from_secs(10);

/// How long the whole body of a request may take: 16 MB, the largest body accepted, at a slow 1 Mbit/s.
pub const BODY_TOTAL_WAIT: Duration = Duration::from_secs(130);

/// How often a silent HTTP/2 connection is pinged, and how long the answer may take: half-dead clients leave.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
pub const KEEPALIVE_WAIT: Duration = Duration::from_secs(10);

/// How long `accept` pauses when the system is out of file descriptors or memory; an immediate retry would
/// only waste CPU time.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long open streams may take to end once the daemon shuts down. After that they are cut (hyper#4170:
/// waiting for them can take forever).
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);

/// How long clients that were about to connect at shutdown are still accepted. Finding the socket's file and
/// connecting to it are microseconds apart.
pub const LATE_ACCEPT_WAIT: Duration = Duration::from_millis(50);

/// How long a client that connected just before shutdown has for its first call. Then its connection is
/// closed: the client must expect that, and reconnects.
pub const FIRST_CALL_GRACE: Duration = Duration::from_millis(500);

/// How often a daemon tries to take its lock, and the pause between tries. Together longer than a client
/// needs to probe the lock.
pub const LOCK_TRIES: u32 = 20;
pub const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// How many ports are tried when the default one is taken: one for each user of a shared machine who runs a
/// daemon.
pub const PORT_STEPS_MAX: u16 = 64;

/// How long a stream that says why it ends may take for that when the daemon shuts down. It takes a moment; a client that
/// does not read gets no more.
pub const LAST_WORDS_WAIT: Duration = Duration::from_millis(500);

/// Connections that may wait to be accepted.
pub const BACKLOG: i32 = 1_024;

/// The longest path of a Unix socket: `sun_path` without its terminating zero.
#[cfg(target_os = "linux")]
pub const SOCKET_PATH_MAX_BYTES: usize = 107;
#[cfg(not(target_os = "linux"))]
pub const SOCKET_PATH_MAX_BYTES: usize = 103;
