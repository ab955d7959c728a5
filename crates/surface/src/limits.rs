//! Every bound of the surfaces, each with its reason.

/// Largest message a client may send. Prompts are bounded far below by the rules, which name the limit.
pub const MESSAGE_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Messages a stream may have ready for its connection. Small, because the journal is the buffer: a slow client lags
/// there.
pub const STREAM_READY_MAX: usize = 64;

/// Files sent along with one prompt, all together. They become part of the journal, and agents take no more.
pub const ATTACHMENTS_MAX_BYTES: usize = 10 * 1024 * 1024;
pub const ATTACHMENTS_MAX: usize = 64;

/// Nesting of a protobuf `Struct`: no tool's input goes deeper, and JSON readers stop at 128.
pub const STRUCT_DEPTH_MAX: usize = 64;

/// The same for structs we send: protobuf readers stop at 100 nested messages, of which each level takes three.
pub const STRUCT_SENT_DEPTH_MAX: usize = 24;

/// Length to which a struct that is larger than clients take is cut, as JSON. Far below their limit: protobuf writes a
/// small number in five times the bytes.
pub const STRUCT_CUT_BYTES: usize = 512 * 1024;

/// How long the agent of a conversation stays without work before it is stopped; the next prompt brings it back.
pub const IDLE_WAIT: std::time::Duration = std::time::Duration::from_secs(30 * 60);

/// Largest body of a REST request: the largest content with room for its escapes.
pub const REST_BODY_MAX_BYTES: usize = 8 * 1024 * 1024;
/// Largest message a client takes unless it says otherwise: gRPC's own default in every language.
pub const CLIENT_MESSAGE_BYTES: usize = 4 * 1024 * 1024;

/// What an event's message holds beside its JSON: number, time, type, session.
pub const EVENT_FRAME_BYTES: usize = 1024;

/// Longest text of an activity; below `CLIENT_MESSAGE_BYTES`, and the journal has the whole.
pub const ACTIVITY_TEXT_MAX_BYTES: usize = 3 * 1024 * 1024;

/// How long the call of an agent may take to be seen in what the agent itself reports, so that both go by one name.
pub const CALL_SEEN_WAIT: std::time::Duration = std::time::Duration::from_secs(1);

/// Refusals of one caller that the audit tells one by one in a window; what is beyond is counted. A program that tries
/// thousands must not fill the disk.
pub const AUDIT_REFUSALS_MAX: u32 = 50;

/// The window of `AUDIT_REFUSALS_MAX`.
pub const AUDIT_REFUSALS_WINDOW: std::time::Duration = std::time::Duration::from_secs(10);

/// Callers whose refusals are counted at the same time; the oldest are forgotten.
pub const AUDIT_CALLERS_MAX: usize = 256;

/// How much of a request is looked at for the session it names.
pub const AUDIT_BODY_MAX_BYTES: usize = 64 * 1024;

/// Longest name of a session that a row keeps.
pub const AUDIT_SESSION_MAX_BYTES: usize = 256;

/// How much of a campaign's name a row of the audit shows: it is the caller's text.
pub const AUDIT_CAMPAIGN_MAX_LETTERS: usize = 200;

/// Largest answer of a JSON call. A page holds it whole; what is larger is read in parts or as a stream.
pub const JSON_ANSWER_MAX_BYTES: usize = 16 * 1024 * 1024;

/// How much of an unknown member's name an error repeats: it is the caller's text.
pub const JSON_NAME_MAX_LETTERS: usize = 64;
