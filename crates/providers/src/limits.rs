//! Every limit of the providers, each with its reason. The limits of the rules are in `domain`.

use std::time::Duration;

/// Longest one-line title of a call. Long enough to recognise a command.
pub(crate) const TITLE_MAX_CHARS: usize = 120;

/// Longest description of an agent's command that is kept; some agents write pages.
pub(crate) const COMMAND_DESCRIPTION_MAX_CHARS: usize = 200;

/// Longest message of a notice or an error taken from an agent.
pub(crate) const MESSAGE_MAX_CHARS: usize = 2_000;

/// Open calls a codec keeps. Agents run a handful at a time; a call beyond the limit is closed with its turn.
pub(crate) const OPEN_CALLS_MAX: usize = 256;

/// API messages a codec keeps, so that a whole message is not reported after its parts. Ten parallel
/// sub-agents stay well below.
pub(crate) const MESSAGES_MAX: usize = 16;

/// Prompts and steering messages that may wait for their end. The agent itself names at most 64 in one
/// result.
pub(crate) const OUTSTANDING_MAX: usize = 64;

/// Entries of an agent's to-do list, and the length of each.
pub(crate) const TODOS_MAX: usize = 100;
pub(crate) const TODO_MAX_CHARS: usize = 300;

/// Folders that are searched for a conversation to resume. A person has some hundred projects.
pub(crate) const PROJECT_FOLDERS_MAX: usize = 20_000;

/// Longest single program argument on Linux (`MAX_ARG_STRLEN`), minus the option's own name.
pub(crate) const ARGUMENT_MAX_BYTES: usize = 128 * 1024 - 256;

/// Text of a scripted turn that is repeated at its end.
pub(crate) const SCRIPTED_TEXT_MAX_BYTES: usize = 1024 * 1024;

/// Text of an ACP agent's last message that is repeated at its turn's end, and how much of it is saved with
/// the codec state. That state is written as a whole with every piece of the message, so the second limit is
/// short; most messages fit.
pub(crate) const REPLY_TEXT_MAX_BYTES: usize = 1024 * 1024;
pub(crate) const SAVED_TEXT_MAX_BYTES: usize = 16 * 1024;

/// Pending inputs of the scripted agent; the daemon sends one at a time.
pub(crate) const SCRIPTED_INBOX_MAX: usize = 256;

/// How often the scripted agent checks for a file it waits for.
pub(crate) const SCRIPTED_POLL: Duration = Duration::from_millis(20);

/// How long a child that the scripted agent leaves behind lives, so that a failed test leaves nothing for
/// long.
pub(crate) const SCRIPTED_CHILD_LIFE: Duration = Duration::from_secs(600);

/// Largest script step in bytes of output (`long_line`) and lines (`flood`); more is a typing mistake.
pub(crate) const SCRIPTED_LINE_MAX_BYTES: u64 = 2 * 1024 * 1024 * 1024;
pub(crate) const SCRIPTED_FLOOD_MAX_LINES: u64 = 100_000_000;

/// Longest name of a model, and names of models a codec keeps; Codex lists about a dozen.
pub(crate) const MODEL_NAME_MAX_CHARS: usize = 128;
pub(crate) const MODELS_MAX: usize = 200;

/// Names of models that an error lists; people do not read more.
pub(crate) const MODELS_SHOWN_MAX: usize = 20;

/// Pending requests of an agent that a codec keeps; the rules allow no more.
pub(crate) const ASKS_MAX: usize = 256;

/// Sub-agents a codec keeps. Codex runs at most six at once; the oldest is dropped.
pub(crate) const WORKERS_MAX: usize = 32;

/// Actions that were approved with calls and are not done yet. An agent asks about a few files at a time;
/// what is beyond the limit is asked about when it comes.
pub(crate) const DEEDS_MAX: usize = 1_000;

/// Files of one call that rules see. More than the largest change a person would read.
pub(crate) const CALL_PATHS_MAX: usize = 1_000;

/// Files of one change that are named in its request; the call itself has them all.
pub(crate) const CHANGES_MAX: usize = 50;

/// Longest plan that is shown to a person as a whole.
pub(crate) const PLAN_MAX_CHARS: usize = 20_000;

/// Unparsable lines at the start after which a program is considered to be a different one. A wrapper may
/// print a few lines first.
pub(crate) const GARBAGE_MAX_LINES: u32 = 20;

/// Shortest value that is treated as a secret and hidden in messages; shorter ones are part of many words.
pub(crate) const SECRET_MIN_BYTES: usize = 4;

/// MCP servers that are listed, and tools of each: they are part of a session's state, which is written
/// often.
pub(crate) const SERVERS_MAX: usize = 32;
pub(crate) const SERVER_TOOLS_MAX: usize = 128;
/// Timeouts for Codex with the daemon's own MCP server: for its start on a loaded machine, and for a call.
/// The rules bound a call themselves; the agent must not give up before they do.
pub(crate) const BRIDGE_START_SECS: u64 = 60;
pub(crate) const BRIDGE_CALL_SECS: u64 = 8 * 24 * 3600;

/// Timeouts of an MCP server for its start and for a call of its tools: defaults, and the maximum of its
/// settings. Packages are downloaded at the first start; an agent must be ready within a minute.
pub(crate) const MCP_START_WAIT: Duration = Duration::from_secs(20);
pub(crate) const MCP_START_WAIT_MAX: Duration = Duration::from_secs(50);
pub(crate) const MCP_CALL_WAIT: Duration = Duration::from_secs(300);
pub(crate) const MCP_CALL_WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

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

/// First and longest wait before a retry. Overloads pass within seconds or not at all.
pub(crate) const RETRY_BASE_WAIT: Duration = Duration::from_millis(500);
pub(crate) const RETRY_MAX_WAIT: Duration = Duration::from_secs(20);

/// Longest wait an endpoint may ask for. Beyond that the failure is reported instead.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(120);

/// Timeouts for connecting to an endpoint, and for its list of models.
pub(crate) const CONNECT_WAIT: Duration = Duration::from_secs(10);
pub(crate) const MODELS_WAIT: Duration = Duration::from_secs(20);

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

/// Output of one call that is sent to a model; the middle of longer output is left out. About eight thousand
/// tokens.
pub(crate) const TOOL_OUTPUT_MAX_BYTES: usize = 32 * 1024;

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

/// Pending inputs of an agent inside the daemon. It handles them within microseconds.
pub(crate) const INBOX_MAX: usize = 256;

/// Client requests of one agent that may be in progress, and commands that run for it; as many ended ones are
/// kept until it releases them.
pub(crate) const ERRANDS_MAX: usize = 64;
pub(crate) const TERMINALS_MAX: usize = 32;

/// How long a command may run that an agent started through us; the maximum of the workbench.
pub(crate) const TERMINAL_WAIT: Duration = Duration::from_secs(300);

/// How long an OpenClaw gateway may take to start: up to a minute on a loaded machine. Less than the wait for
/// an agent.
pub(crate) const GATEWAY_START_WAIT: Duration = Duration::from_secs(55);

/// Longest name of an MCP server that a gateway keeps unchanged; it shortens longer ones.
pub(crate) const GATEWAY_SERVER_NAME_MAX_CHARS: usize = 30;

/// Timeout for a change of a gateway's configuration. It takes one to two seconds on a busy machine, and an
/// agent must be ready within a minute.
pub(crate) const GATEWAY_WRITE_WAIT: Duration = Duration::from_secs(20);

/// Pause between two changes of a gateway's configuration: it accepts 30 a minute from one machine.
pub(crate) const GATEWAY_WRITE_GAP: Duration = Duration::from_millis(2_100);

/// How long the end of a session waits until its gateway has ended its work.
pub(crate) const GATEWAY_FAREWELL_WAIT: Duration = Duration::from_secs(1);

/// How long the end of a session waits until its servers are removed from its gateway; otherwise they are
/// removed later. Less than a stop may take.
pub(crate) const GATEWAY_LEAVE_WAIT: Duration = Duration::from_millis(2_500);

/// How long the end of a run waits for its usage, which a gateway sends separately. Some models report none.
pub(crate) const GATEWAY_USAGE_WAIT: Duration = Duration::from_secs(2);

/// How long a gateway may take to report the state of a run, and the pause before it is asked again. Runs
/// take minutes; one that ends meanwhile reports itself.
pub(crate) const GATEWAY_RUN_WAIT: Duration = Duration::from_secs(1);
pub(crate) const GATEWAY_RUN_GAP: Duration = Duration::from_secs(10);

/// How many messages of a conversation are searched: for the one with which its gateway resumed a turn some
/// seconds ago; and for that of a prompt, whose run may have made many calls while the connection was lost.
pub(crate) const GATEWAY_HISTORY_LOOK: usize = 20;
pub(crate) const GATEWAY_RUN_LOOK: usize = 500;

/// Messages, and runs to be aborted, that are kept until their gateway has confirmed them; a person sends no
/// more meanwhile.
pub(crate) const GATEWAY_UNHEARD_MAX: usize = 32;

/// Default interval of a gateway's messages if it does not announce one; after how many silent intervals the
/// connection counts as lost (its own programs wait for two, which a busy machine can miss); and the minimum
/// and maximum of the result, whatever the gateway announces.
pub(crate) const GATEWAY_TICK: Duration = Duration::from_secs(30);
pub(crate) const GATEWAY_SILENT_TICKS: u32 = 3;
pub(crate) const GATEWAY_SILENCE_MIN: Duration = Duration::from_secs(1);
pub(crate) const GATEWAY_SILENCE_MAX: Duration = Duration::from_secs(600);

/// How long a turn outlives the connection to its gateway.
pub(crate) const GATEWAY_BACK_WAIT: Duration = Duration::from_secs(120);

/// Longest name of a tool of the daemon's own server, as an agent reports it; models accept no longer ones.
pub(crate) const TOOL_NAME_MAX_CHARS: usize = 128;
