//! Every limit of the provider of agents on model APIs, each with its reason. Limits that several providers share are in `provider-common`.

use std::time::Duration;

pub(crate) use provider_common::limits::{
    CONNECT_WAIT, INBOX_MAX, MESSAGE_MAX_CHARS, MODEL_NAME_MAX_CHARS, MODELS_WAIT, RETRY_BASE_WAIT,
    RETRY_MAX_WAIT, SERVER_TOOLS_MAX, TITLE_MAX_CHARS, TODO_DESCRIPTION_MAX_CHARS, TODO_MAX_CHARS, TODOS_MAX,
    TOOL_OUTPUT_MAX_BYTES,
};

/// How often a server that has died is restarted in a session. One that dies more often is broken.
pub(crate) const MCP_RESTARTS_MAX: u32 = 3;

/// Largest message of a server; a longer one is dropped and its call times out.
pub(crate) const MCP_LINE_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Tools of all servers that are offered to a model: the API accepts 128, and some are ours.
pub(crate) const MCP_TOOLS_MAX: usize = 100;

/// Largest description of a tool's input; it is part of every request to the model.
pub(crate) const MCP_SCHEMA_MAX_BYTES: usize = 32 * 1024;

/// Retries of a request to a model: the default, and the maximum a session may set.
pub(crate) const RETRIES: u32 = 4;
pub(crate) const RETRIES_MAX: u32 = 20;

/// Longest wait an endpoint may ask for. Beyond that the failure is reported instead.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(120);

/// How long an endpoint may be silent in the middle of a reply. Models that think are silent for minutes.
pub(crate) const REPLY_SILENCE_WAIT: Duration = Duration::from_secs(600);

/// Largest event of a stream. The last one repeats the whole reply.
pub(crate) const SSE_EVENT_MAX_BYTES: usize = 32 * 1024 * 1024;

/// Largest response that is not a stream: a list of models, an error.
pub(crate) const ANSWER_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Smallest context window in which a conversation with instructions and tools fits at all, and the default
/// for unknown models.
pub(crate) const WINDOW_MIN_TOKENS: u64 = 8_000;
pub(crate) const WINDOW_TOKENS: u64 = 128_000;

/// How often a conversation is shortened if even the request for its summary is too long: first the outputs
/// of calls, then half of the rest each time. Five halvings are enough for a window that is 32 times too
/// small.
pub(crate) const SHORTER_MAX: u32 = 6;

/// Output of one call in a shortened conversation. Enough to see the result of the call.
pub(crate) const SHORTER_OUTPUT_MAX_BYTES: usize = 1024;

/// Replies of a model within one turn. A turn that needs more runs in circles.
pub(crate) const TURN_STEPS_MAX: u32 = 500;

/// Calls a model may make in one reply.
pub(crate) const REPLY_CALLS_MAX: usize = 64;
