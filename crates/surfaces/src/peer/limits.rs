//! Bounds of the search for a caller, each with its reason. Those of a walk through the process tree are the shim's.

/// How many look at every process of the machine at once for whose a TCP connection is: enough for a user who opens
/// several, and no more of the blocking threads than that.
pub const SOCKET_SEARCHES_MAX: usize = 4;

/// How many read the kernel's table of connections at once, where it cannot be asked for one. It grows with every
/// connection anybody makes, so a flood of them must not have more than one thread.
pub const TABLE_READERS_MAX: usize = 1;

/// Random bytes of a token.
pub const TOKEN_BYTES: usize = 32;

/// Bytes of a token file that are read: the token and a line end, and one more to see that there is no more.
pub const TOKEN_FILE_MAX_BYTES: u64 = TOKEN_BYTES as u64 * 2 + 2;
