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

/// Bytes of the reason for which a worker is cancelled; people write a line.
pub const CANCEL_REASON_MAX_BYTES: usize = 4 * 1024;

/// Bytes of a worker's prompt and of its result in a list: some hundreds of the longest must fit into one message.
pub const SUBAGENT_TEXT_MAX_BYTES: usize = 2 * 1024;
/// What a list adds to an entry: the field's number and a length of at most four bytes.
pub const SUBAGENT_FRAME_BYTES: usize = 8;

/// Bytes of a worker's result in its last event; all of it is in the events before.
pub const SUBAGENT_RESULT_MAX_BYTES: usize = 64 * 1024;

/// Largest file of Claude Code's own settings that is read for its servers; it holds a line for every project.
pub const CLAUDE_CONFIG_MAX_BYTES: u64 = 16 * 1024 * 1024;
