//! Every bound of this surface, each with its reason. Shared ones are in `surface::limits`.

/// Largest message of a betcode client that is read at all. Above `ATTACHMENTS_MAX_BYTES`, so that a message with too
/// much in it is answered by name instead of breaking the stream.
pub const CONVERSE_MESSAGE_MAX_BYTES: usize = 32 * 1024 * 1024;

/// Longest text that a client's name or a key or value of its metadata may have.
pub const METADATA_MAX_BYTES: usize = 4 * 1024;
pub const METADATA_MAX: usize = 64;

/// Patterns in `allowed_tools`; each is checked on every permission.
pub const ALLOWED_TOOLS_MAX: usize = 200;

/// Sessions in one page of a list, where the client does not say and at most.
pub const PAGE_DEFAULT: u32 = 50;
pub const PAGE_MAX: u32 = 500;

/// How long a compaction may take: a model summarises the whole conversation.
pub const COMPACT_WAIT: std::time::Duration = std::time::Duration::from_secs(300);
