//! Every limit of the provider of Codex, each with its reason. Limits that several providers share are in `provider-common`.

pub(crate) use provider_common::limits::{
    ASKS_MAX, BRIDGE_CALL_SECS, BRIDGE_START_SECS, CONVERSATION_EVENTS_MAX, CONVERSATIONS_LISTED_MAX,
    GARBAGE_MAX_LINES, MESSAGE_MAX_CHARS, MODEL_NAME_MAX_CHARS, MODELS_MAX, OPEN_CALLS_MAX, SERVER_TOOLS_MAX,
    SERVERS_MAX, TITLE_MAX_CHARS, TODO_MAX_CHARS, TODOS_MAX,
};

/// Sub-agents a codec keeps. Codex runs at most six at once; the oldest is dropped.
pub(crate) const WORKERS_MAX: usize = 32;

/// Files of one change that are named in its request; the call itself has them all.
pub(crate) const CHANGES_MAX: usize = 50;

/// Longest plan that is shown to a person as a whole.
pub(crate) const PLAN_MAX_CHARS: usize = 20_000;
