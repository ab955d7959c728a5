//! The limits that several providers share, each with its reason. What one provider alone uses is in its own
//! `limits.rs`; the limits of the rules are in `domain`.

use std::time::Duration;

/// Longest one-line title of a call. Long enough to recognise a command.
pub const TITLE_MAX_CHARS: usize = 120;

/// Longest description of an agent's command that is kept; some agents write pages.
pub const COMMAND_DESCRIPTION_MAX_CHARS: usize = 200;

/// Longest message of a notice or an error taken from an agent.
pub const MESSAGE_MAX_CHARS: usize = 2_000;

/// Open calls a codec keeps. Agents run a handful at a time; a call beyond the limit is closed with its turn.
pub const OPEN_CALLS_MAX: usize = 256;

/// Entries of an agent's to-do list, and the length of each.
pub const TODOS_MAX: usize = 100;
pub const TODO_MAX_CHARS: usize = 300;

/// Conversations that are listed of one agent, the newest first; people look for one of the last days.
pub const CONVERSATIONS_LISTED_MAX: usize = 500;

/// Files and folders that are looked at for them.
pub const CONVERSATION_ENTRIES_MAX: usize = 100_000;

/// Bytes of one conversation that are read, and of one line: agents write whole files and pictures into a line.
pub const CONVERSATION_MAX_BYTES: u64 = 256 * 1024 * 1024;
pub const CONVERSATION_LINE_MAX_BYTES: u64 = 8 * 1024 * 1024;

/// Entries of one conversation that are imported; months of work stay below.
pub const CONVERSATION_EVENTS_MAX: usize = 50_000;

/// Longest single program argument on Linux (`MAX_ARG_STRLEN`), minus the option's own name.
pub const ARGUMENT_MAX_BYTES: usize = 128 * 1024 - 256;

/// Longest name of a model, and names of models a codec keeps; Codex lists about a dozen.
pub const MODEL_NAME_MAX_CHARS: usize = 128;
pub const MODELS_MAX: usize = 200;

/// Pending requests of an agent that a codec keeps; the rules allow no more.
pub const ASKS_MAX: usize = 256;

/// Unparsable lines at the start after which a program is considered to be a different one. A wrapper may
/// print a few lines first.
pub const GARBAGE_MAX_LINES: u32 = 20;

/// Shortest value that is treated as a secret and hidden in messages; shorter ones are part of many words.
pub const SECRET_MIN_BYTES: usize = 4;

/// MCP servers that are listed, and tools of each: they are part of a session's state, which is written
/// often.
pub const SERVERS_MAX: usize = 32;
pub const SERVER_TOOLS_MAX: usize = 128;

/// Timeouts for Codex with the daemon's own MCP server: for its start on a loaded machine, and for a call.
/// The rules bound a call themselves; the agent must not give up before they do.
pub const BRIDGE_START_SECS: u64 = 60;
pub const BRIDGE_CALL_SECS: u64 = 8 * 24 * 3600;

/// Timeouts of an MCP server for its start and for a call of its tools: defaults, and the maximum of its
/// settings. Packages are downloaded at the first start; an agent must be ready within a minute.
pub const MCP_START_WAIT: Duration = Duration::from_secs(20);
pub const MCP_START_WAIT_MAX: Duration = Duration::from_secs(50);
pub const MCP_CALL_WAIT: Duration = Duration::from_secs(300);
pub const MCP_CALL_WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// First and longest wait before a retry. Overloads pass within seconds or not at all.
pub const RETRY_BASE_WAIT: Duration = Duration::from_millis(500);
pub const RETRY_MAX_WAIT: Duration = Duration::from_secs(20);

/// Timeouts for connecting to an endpoint, and for its list of models.
pub const CONNECT_WAIT: Duration = Duration::from_secs(10);
pub const MODELS_WAIT: Duration = Duration::from_secs(20);

/// Output of one call that is sent to a model; the middle of longer output is left out. About eight thousand
/// tokens.
pub const TOOL_OUTPUT_MAX_BYTES: usize = 32 * 1024;

/// Pending inputs of an agent inside the daemon. It handles them within microseconds.
pub const INBOX_MAX: usize = 256;

/// Characters of the description of a to-do entry. A paragraph; the whole list is written with every change.
pub const TODO_DESCRIPTION_MAX_CHARS: usize = 600;
