//! All limits of reading on and of closing, each with its reason.

use std::time::Duration;

/// How much of a request that was answered unread is still read, and for how long: a small body that is on its way
/// arrives, and nobody gains by sending more.
pub const DRAIN_MAX_BYTES: usize = 64 * 1024;
pub const DRAIN_WAIT: Duration = Duration::from_secs(1);

/// How long an answer waits for the rest of the request that it leaves unread: a whole request is there by then, and who
/// refuses a stream that stays open answers at once, as far as people notice.
pub const DRAIN_BEFORE_ANSWER_WAIT: Duration = Duration::from_millis(100);

/// How long a client may take to close an HTTP/2 connection that the server has ended: it reads the last answer first. Shorter
/// than the second within which a daemon that ends closes all connections, and a part of it.
pub const LINGER_WAIT: Duration = Duration::from_millis(500);
