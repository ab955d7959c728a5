//! Bounds of the search for a caller, each with its reason.

/// Ancestors of a process that are looked at. Real chains have about ten; one that is longer is built to hide.
pub const ANCESTORS_MAX: usize = 1_024;

/// How often a walk through the process tree begins again because the tree changed under it.
pub const WALKS_MAX: usize = 5;

/// Random bytes of a token.
pub const TOKEN_BYTES: usize = 32;

/// Bytes of a token file that are read: the token and a line end, and one more to see that there is no more.
pub const TOKEN_FILE_MAX_BYTES: u64 = TOKEN_BYTES as u64 * 2 + 2;
