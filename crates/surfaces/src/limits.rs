//! Every bound of the surfaces, each with its reason.

/// Largest message a client may send. Prompts are bounded far below by the rules, which name the limit.
pub const MESSAGE_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Messages a stream may have ready for its connection. Small, because the journal is the buffer: a slow client lags
/// there.
pub const STREAM_READY_MAX: usize = 64;

/// Events of a client's activity stream that are stored between two looks at the session.
pub const ACTIVITY_EVENTS_MAX: u64 = 1_000_000;

/// Largest message of a betcode client that is read at all. Above `ATTACHMENTS_MAX_BYTES`, so that a message with too
/// much in it is answered by name instead of breaking the stream.
pub const CONVERSE_MESSAGE_MAX_BYTES: usize = 32 * 1024 * 1024;

/// Files sent along with one prompt, all together. They become part of the journal, and agents take no more.
pub const ATTACHMENTS_MAX_BYTES: usize = 10 * 1024 * 1024;
pub const ATTACHMENTS_MAX: usize = 64;

/// Nesting of a protobuf `Struct`: no tool's input goes deeper, and JSON readers stop at 128.
pub const STRUCT_DEPTH_MAX: usize = 64;

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

/// How long the agent of a conversation stays without work before it is stopped; the next prompt brings it back.
pub const IDLE_WAIT: std::time::Duration = std::time::Duration::from_secs(30 * 60);

/// Parents told beside a list of sessions. They travel as headers, of which clients take about 16 KiB.
pub const PARENTS_TOLD_MAX: usize = 128;

/// Largest message a client takes unless it says otherwise: gRPC's own default in every language.
pub const CLIENT_MESSAGE_BYTES: usize = 4 * 1024 * 1024;

/// What an event's message holds beside its JSON: number, time, type, session.
pub const EVENT_FRAME_BYTES: usize = 1024;

/// Longest text of an activity; below `CLIENT_MESSAGE_BYTES`, and the journal has the whole.
pub const ACTIVITY_TEXT_MAX_BYTES: usize = 3 * 1024 * 1024;
