//! Every bound of the surfaces, each with its reason.

/// Largest message a client may send. Prompts are bounded at 8 MiB by the rules; the rest is envelope.
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

/// Largest message of a roz client that is read at all; above what a message may hold, as for betcode.
pub const STREAM_MESSAGE_MAX_BYTES: usize = 32 * 1024 * 1024;

/// Messages of a roz client that wait while its session starts.
pub const STARTING_MESSAGES_MAX: usize = 64;

/// How often a roz client hears that a turn still goes on.
pub const KEEPALIVE_EVERY: std::time::Duration = std::time::Duration::from_secs(15);

/// How long a permission of a roz session waits before it is denied, where its environment does not say.
pub const APPROVAL_WAIT: std::time::Duration = std::time::Duration::from_secs(300);

/// Longest result of a client's tool. It goes to the model and into the journal.
pub const TOOL_RESULT_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Longest name of a client's tool: agents put the server's name before it, and models take 128 letters.
pub const TOOL_NAME_MAX_CHARS: usize = 100;

/// Longest id that a client may give to a message.
pub const MESSAGE_ID_MAX_CHARS: usize = 200;

/// Longest detail of an activity.
pub const ACTIVITY_DETAIL_MAX_CHARS: usize = 512;

/// The part of a client's context budget, in percent, from which a conversation is compacted between turns.
pub const COMPACT_AT_PERCENT: u64 = 85;

/// How long the call of an agent may take to be seen in what the agent itself reports, so that both go by one name.
pub const CALL_SEEN_WAIT: std::time::Duration = std::time::Duration::from_secs(1);

/// How long `watch_team` waits for workers to end, where the agent does not say and at most.
pub const TEAM_WAIT_SECS: u64 = 60;
pub const TEAM_WAIT_MAX_SECS: u64 = 3_600;

/// Events of a team that are ready for its watcher.
pub const TEAM_READY_MAX: usize = 64;
