//! Every limit of `settings`, each with its reason. The limits of the rules are in `domain::limits`.

/// Largest settings file. People write them, but a repository might contain anything.
pub const SETTINGS_FILE_MAX_BYTES: u64 = 256 * 1024;

/// Permission rules from one source; each is evaluated for every permission.
pub const RULES_MAX: usize = 1_000;

/// Longest configurable wait for the answer to a permission: a year.
pub const ANSWER_WAIT_MAX_SECS: u32 = 365 * 24 * 3600;
