//! Every limit of the provider of ACP agents, each with its reason. Limits that several providers share are in `provider-common`.

use std::time::Duration;

pub(crate) use provider_common::limits::{
    ASKS_MAX, COMMAND_DESCRIPTION_MAX_CHARS, GARBAGE_MAX_LINES, MESSAGE_MAX_CHARS, MODEL_NAME_MAX_CHARS,
    MODELS_MAX, OPEN_CALLS_MAX, TITLE_MAX_CHARS, TODO_MAX_CHARS, TODOS_MAX, TOOL_OUTPUT_MAX_BYTES,
};

/// Text of an ACP agent's last message that is repeated at its turn's end, and how much of it is saved with
/// the codec state. That state is written as a whole with every piece of the message, so the second limit is
/// short; most messages fit.
pub(crate) const REPLY_TEXT_MAX_BYTES: usize = 1024 * 1024;
pub(crate) const SAVED_TEXT_MAX_BYTES: usize = 16 * 1024;

/// Names of models that an error lists; people do not read more.
pub(crate) const MODELS_SHOWN_MAX: usize = 20;

/// Actions that were approved with calls and are not done yet. An agent asks about a few files at a time;
/// what is beyond the limit is asked about when it comes.
pub(crate) const DEEDS_MAX: usize = 1_000;

/// Files of one call that rules see. More than the largest change a person would read.
pub(crate) const CALL_PATHS_MAX: usize = 1_000;

/// Client requests of one agent that may be in progress, and commands that run for it; as many ended ones are
/// kept until it releases them.
pub(crate) const ERRANDS_MAX: usize = 64;
pub(crate) const TERMINALS_MAX: usize = 32;

/// How long a command may run that an agent started through us; the maximum of the workbench.
pub(crate) const TERMINAL_WAIT: Duration = Duration::from_secs(300);

/// Longest name of a tool of the daemon's own server, as an agent reports it; models accept no longer ones.
pub(crate) const TOOL_NAME_MAX_CHARS: usize = 128;
