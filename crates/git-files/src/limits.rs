//! Limits of what is read of a repository, with their reasons.

/// Longest name of a branch: git makes a file of it, whose name ends at 255 bytes, with a lock beside it.
pub const BRANCH_MAX_BYTES: usize = 244;

/// Largest file that says where a repository is, or what is checked out; it holds one path, and the longest has 4 KiB.
pub const POINTER_MAX_BYTES: u64 = 8 * 1024;
