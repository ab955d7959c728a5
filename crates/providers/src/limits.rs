//! Every bound of the providers, each with its reason. Bounds of the rules live in `domain`.

use std::time::Duration;

/// Longest one-line title of a call. Long enough for a command a person wants to recognise.
pub(crate) const TITLE_MAX_CHARS: usize = 120;

/// Longest description of an agent's command that is kept; some agents write pages.
pub(crate) const COMMAND_DESCRIPTION_MAX_CHARS: usize = 200;

/// Longest message of a notice or an error taken from an agent.
pub(crate) const MESSAGE_MAX_CHARS: usize = 2_000;

/// Calls a codec remembers as open. Agents run a handful at a time; a call beyond is closed with its turn.
pub(crate) const OPEN_CALLS_MAX: usize = 256;

/// API messages remembered, so that a whole message is not told after its parts were. Ten sub-agents at once stay
/// well below.
pub(crate) const MESSAGES_MAX: usize = 16;

/// Prompts and steering messages that may wait for their end. The agent itself names at most 64 in one result.
pub(crate) const OUTSTANDING_MAX: usize = 64;

/// Entries of an agent's list of things to do, and the length of each.
pub(crate) const TODOS_MAX: usize = 100;
pub(crate) const TODO_MAX_CHARS: usize = 300;

/// Folders of conversations looked through for one to resume. A person has some hundred projects.
pub(crate) const PROJECT_FOLDERS_MAX: usize = 20_000;

/// Longest single program argument Linux takes (`MAX_ARG_STRLEN`), less the option's own name.
pub(crate) const ARGUMENT_MAX_BYTES: usize = 128 * 1024 - 256;

/// Text of a scripted turn that is repeated at its end.
pub(crate) const SCRIPTED_TEXT_MAX_BYTES: usize = 1024 * 1024;

/// Text of an ACP agent's last message that is repeated at its turn's end, and of that what is saved with its codec, which
/// is written whole with every piece of the message: what most of them are long, and little to write.
pub(crate) const REPLY_TEXT_MAX_BYTES: usize = 1024 * 1024;
pub(crate) const SAVED_TEXT_MAX_BYTES: usize = 16 * 1024;

/// Things the scripted agent was told and has not taken up; the daemon tells it one at a time.
pub(crate) const SCRIPTED_INBOX_MAX: usize = 256;

/// How often the scripted agent looks for a file it waits for.
pub(crate) const SCRIPTED_POLL: Duration = Duration::from_millis(20);

/// How long a child that the scripted agent leaves behind lives, so that a failed test leaves nothing for long.
pub(crate) const SCRIPTED_CHILD_LIFE: Duration = Duration::from_secs(600);

/// Largest script step in bytes of output (`long_line`) and lines (`flood`); more is a typing mistake.
pub(crate) const SCRIPTED_LINE_MAX_BYTES: u64 = 2 * 1024 * 1024 * 1024;
pub(crate) const SCRIPTED_FLOOD_MAX_LINES: u64 = 100_000_000;

/// Longest name of a model, and names of models a codec remembers; Codex lists about a dozen.
pub(crate) const MODEL_NAME_MAX_CHARS: usize = 128;
pub(crate) const MODELS_MAX: usize = 200;

/// Names of models that an error lists; a person does not read more.
pub(crate) const MODELS_SHOWN_MAX: usize = 20;

/// Requests of an agent a codec remembers until they are answered; the rules let no more wait.
pub(crate) const ASKS_MAX: usize = 256;

/// Sub-agents a codec remembers. Codex runs at most six at once; the oldest is forgotten.
pub(crate) const WORKERS_MAX: usize = 32;

/// Deeds that were allowed with calls and are not done yet. An agent asks about some files at a time; what is beyond is
/// asked about when it comes.
pub(crate) const DEEDS_MAX: usize = 1_000;

/// Files of one call that rules get to see. Beyond the largest change a person would look at.
pub(crate) const CALL_PATHS_MAX: usize = 1_000;

/// Files of one change that are named where it is asked about; the call itself has them all.
pub(crate) const CHANGES_MAX: usize = 50;

/// Longest plan that is put before a person as a whole.
pub(crate) const PLAN_MAX_CHARS: usize = 20_000;

/// Lines of nonsense at the start after which a program counts as another than the one it is taken for. A wrapper
/// may say a few words of its own first.
pub(crate) const GARBAGE_MAX_LINES: u32 = 20;

/// Shortest value that is taken for a secret and hidden where it is told; what is shorter is part of many words.
pub(crate) const SECRET_MIN_BYTES: usize = 4;

/// Servers of tools that are listed, and tools of each: they are part of a session's state, which is written often.
pub(crate) const SERVERS_MAX: usize = 32;
pub(crate) const SERVER_TOOLS_MAX: usize = 128;
/// What Codex is told about the daemon's own MCP server: how long it may take to start on a loaded machine, and a call
/// to return. The rules bound a call themselves; the agent must not give up before they do.
pub(crate) const BRIDGE_START_SECS: u64 = 60;
pub(crate) const BRIDGE_CALL_SECS: u64 = 8 * 24 * 3600;

/// How long a server of tools may take to start, and a call of one of its tools, unless its settings say otherwise,
/// and the most they may say. Packages are fetched at the first start; an agent must be ready within a minute.
pub(crate) const MCP_START_WAIT: Duration = Duration::from_secs(20);
pub(crate) const MCP_START_WAIT_MAX: Duration = Duration::from_secs(50);
pub(crate) const MCP_CALL_WAIT: Duration = Duration::from_secs(300);
pub(crate) const MCP_CALL_WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// Times a server that has died is started again in a session. One that dies more often is broken.
pub(crate) const MCP_RESTARTS_MAX: u32 = 3;

/// Largest message of a server; what is longer is dropped and its call runs out of time.
pub(crate) const MCP_LINE_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Tools of all servers that a model is offered: the API takes 128, and some are ours.
pub(crate) const MCP_TOOLS_MAX: usize = 100;

/// Largest description of a tool's input; every request to the model carries it.
pub(crate) const MCP_SCHEMA_MAX_BYTES: usize = 32 * 1024;

/// Times a request to a model is tried again unless the session says otherwise, and the most it may say.
pub(crate) const RETRIES: u32 = 4;
pub(crate) const RETRIES_MAX: u32 = 20;

/// First and longest wait before a request is tried again. Overloads pass within seconds or not at all.
pub(crate) const RETRY_BASE_WAIT: Duration = Duration::from_millis(500);
pub(crate) const RETRY_MAX_WAIT: Duration = Duration::from_secs(20);

/// Longest wait an endpoint may ask for. A person is better told than left waiting beyond that.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(120);

/// How long a connection to an endpoint may take, and how long a list of models may.
pub(crate) const CONNECT_WAIT: Duration = Duration::from_secs(10);
pub(crate) const MODELS_WAIT: Duration = Duration::from_secs(20);

/// How long an endpoint may say nothing in the middle of a reply. Models that think say nothing for minutes.
pub(crate) const REPLY_SILENCE_WAIT: Duration = Duration::from_secs(600);

/// Largest event of a stream. A whole reply is repeated in the last one.
pub(crate) const SSE_EVENT_MAX_BYTES: usize = 32 * 1024 * 1024;

/// Largest answer that is not a stream: a list of models, an error.
pub(crate) const ANSWER_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Smallest window a conversation with instructions and tools fits in at all, and the one of models nobody knows.
pub(crate) const WINDOW_MIN_TOKENS: u64 = 8_000;
pub(crate) const WINDOW_TOKENS: u64 = 128_000;

/// Output of one call that a model is given; the middle of longer ones is left out. About eight thousand tokens.
pub(crate) const TOOL_OUTPUT_MAX_BYTES: usize = 32 * 1024;

/// Times a conversation is made shorter, when even the request for its summary is too long: the outputs of calls first,
/// then half of what is left each time. Five halves bring a window that is 32 times too small within reach.
pub(crate) const SHORTER_MAX: u32 = 6;

/// Output of one call in a conversation that is made shorter. Enough to see what became of the call.
pub(crate) const SHORTER_OUTPUT_MAX_BYTES: usize = 1024;

/// Replies of a model within one turn. A turn that needs more runs in circles.
pub(crate) const TURN_STEPS_MAX: u32 = 500;

/// Calls a model may make in one reply.
pub(crate) const REPLY_CALLS_MAX: usize = 64;

/// Things an agent inside the daemon was told and has not taken up. It looks up within microseconds.
pub(crate) const INBOX_MAX: usize = 256;

/// Errands of one agent that may be under way, and commands that run for it; as many that have ended are kept until it lets
/// go of them.
pub(crate) const ERRANDS_MAX: usize = 64;
pub(crate) const TERMINALS_MAX: usize = 32;

/// How long a command may run that an agent began through us; the most the workbench allows.
pub(crate) const TERMINAL_WAIT: Duration = Duration::from_secs(300);

/// How long an OpenClaw gateway may take to start: up to a minute on a loaded machine. Below the wait for an agent.
pub(crate) const GATEWAY_START_WAIT: Duration = Duration::from_secs(55);

/// Longest name of a server of tools that a gateway leaves as it is; it cuts what is longer.
pub(crate) const GATEWAY_SERVER_NAME_MAX_CHARS: usize = 30;

/// How long a change of a gateway's configuration may take; it takes one to two seconds on a busy machine, and an agent
/// must be ready within a minute.
pub(crate) const GATEWAY_WRITE_WAIT: Duration = Duration::from_secs(20);

/// Pause between two changes of a gateway's configuration: it takes 30 a minute from one machine.
pub(crate) const GATEWAY_WRITE_GAP: Duration = Duration::from_millis(2_100);

/// How long the end of a session waits until its gateway has ended what it was doing.
pub(crate) const GATEWAY_FAREWELL_WAIT: Duration = Duration::from_secs(1);

/// How long the end of a session waits until its servers are gone from its gateway; they go all the same later. Less than
/// a stop may take.
pub(crate) const GATEWAY_LEAVE_WAIT: Duration = Duration::from_millis(2_500);

/// How long the end of a run waits for what it used, which a gateway says beside it. Some models say nothing of it.
pub(crate) const GATEWAY_USAGE_WAIT: Duration = Duration::from_secs(2);

/// How long a gateway may take to say what became of a run, and the pause before it is asked again. Runs take minutes;
/// what ends meanwhile is reported by itself.
pub(crate) const GATEWAY_RUN_WAIT: Duration = Duration::from_secs(1);
pub(crate) const GATEWAY_RUN_GAP: Duration = Duration::from_secs(10);

/// How many messages of a conversation are looked at for one with which its gateway took up a turn, some seconds ago; and
/// for that of a prompt, whose run may have made many calls while nobody listened.
pub(crate) const GATEWAY_HISTORY_LOOK: usize = 20;
pub(crate) const GATEWAY_RUN_LOOK: usize = 500;

/// Messages, and runs to be ended, that are kept until their gateway has heard of them; a person says no more meanwhile.
pub(crate) const GATEWAY_UNHEARD_MAX: usize = 32;

/// How often a gateway says something where it does not say how often; after how many of these without a word the
/// connection counts as lost (its own programs wait for two, which a busy machine can miss); and what comes of that at least
/// and at most, whatever the gateway says.
pub(crate) const GATEWAY_TICK: Duration = Duration::from_secs(30);
pub(crate) const GATEWAY_SILENT_TICKS: u32 = 3;
pub(crate) const GATEWAY_SILENCE_MIN: Duration = Duration::from_secs(1);
pub(crate) const GATEWAY_SILENCE_MAX: Duration = Duration::from_secs(600);

/// How long a turn outlives the connection to its gateway.
pub(crate) const GATEWAY_BACK_WAIT: Duration = Duration::from_secs(120);

/// Longest name of a tool of the daemon's own server, as an agent reports it; models take no longer ones.
pub(crate) const TOOL_NAME_MAX_CHARS: usize = 128;
