//! Every limit of the provider of Claude Code, each with its reason. Limits that several providers share are in `provider-common`.

pub(crate) use provider_common::limits::{
    COMMAND_DESCRIPTION_MAX_CHARS, CONVERSATION_EVENTS_MAX, CONVERSATIONS_LISTED_MAX, GARBAGE_MAX_LINES,
    MESSAGE_MAX_CHARS, OPEN_CALLS_MAX, SERVER_TOOLS_MAX, SERVERS_MAX, TITLE_MAX_CHARS,
    TODO_DESCRIPTION_MAX_CHARS, TODO_MAX_CHARS, TODOS_MAX,
};

/// API messages a codec keeps, so that a whole message is not reported after its parts. Ten parallel
/// sub-agents stay well below.
pub(crate) const MESSAGES_MAX: usize = 16;

/// Prompts and steering messages that may wait for their end. The agent itself names at most 64 in one
/// result.
pub(crate) const OUTSTANDING_MAX: usize = 64;

/// Folders that are searched for a conversation to resume. A person has some hundred projects.
pub(crate) const PROJECT_FOLDERS_MAX: usize = 20_000;

/// Characters of a folder's name that stands for a project's path: a file system takes 255 bytes.
pub(crate) const PROJECT_NAME_MAX_CHARS: usize = 200;

/// Characters of a tool's name and of a call's id that the model's interface takes.
pub(crate) const CALL_NAME_MAX_CHARS: usize = 64;
