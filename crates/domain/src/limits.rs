//! Every bound of the rules, each with its reason. Bounds of running things live in `runtime`.

use std::time::Duration;

/// Longest prompt. Models stop far below; and whoever reads the journal with gRPC's default limit, 4 MiB a message, must
/// be able to read the prompt.
pub const PROMPT_MAX_BYTES: usize = 3_500 * 1024;

/// Longest text of one event; for the same reason, with room for what is around it and for its escapes in JSON.
pub const EVENT_TEXT_MAX_BYTES: usize = 1024 * 1024;

/// Longest name of a session.
pub const NAME_MAX_CHARS: usize = 200;

/// Entries of `provider_config` and `environment`, and the size of each value.
pub const CONFIG_ENTRIES_MAX: usize = 256;
pub const CONFIG_VALUE_MAX_BYTES: usize = 256 * 1024;

/// Requests that may wait at once in one session. An agent asks one at a time, or a handful in parallel; more is a
/// runaway, and the ones beyond are denied.
pub const REQUESTS_PENDING_MAX: usize = 256;

/// Settled requests a session remembers, so that a late answer learns who settled it. They are part of the state that
/// is written with every change; the journal has all of them.
pub const REQUESTS_SETTLED_KEPT: usize = 64;

/// Largest tool input remembered with a settled request; for the same reason.
pub const SETTLED_INPUT_MAX_BYTES: usize = 1024;

/// Session grants; each is checked on every request.
pub const GRANTS_MAX: usize = 1_000;

/// Letters of a command or a path in the sentence that says what a grant covers. People stop reading before that; the
/// grant itself holds all of it.
pub const GRANT_TEXT_MAX_CHARS: usize = 120;

/// Longest pattern of a grant or a rule. Patterns are written by people.
pub const PATTERN_MAX_BYTES: usize = 4 * 1024;

/// Letters of the last message that are kept for lists.
pub const PREVIEW_MAX_CHARS: usize = 120;

/// How long an agent may take from its start until it says that it is ready. Real agents need seconds on a loaded
/// machine; one that has said nothing for this long is broken.
pub const START_WAIT: Duration = Duration::from_secs(60);

/// How long a graceful stop lets the running turn go on before the session is ended all the same.
pub const GRACE_WAIT: Duration = Duration::from_secs(30);

/// Stop, step 1: the agent was asked to leave. Long enough for most clean exits (real agents: 0.1 to 1.6 s); the others
/// take SIGTERM as well.
pub const ASK_WAIT: Duration = Duration::from_millis(1_300);

/// Stop, step 2: SIGTERM was sent; the 2 s are a published promise. With step 1 and the kill that follows this stays
/// below the 5 s a stop may take.
pub const TERM_WAIT: Duration = Duration::from_secs(2);

/// How long an interrupted turn may take to end before the agent counts as stuck and is killed.
pub const INTERRUPT_WAIT: Duration = Duration::from_secs(10);

/// Longest raw line kept of output nobody understood.
pub const UNPARSED_MAX_BYTES: usize = 64 * 1024;

/// Last lines of standard error that are quoted when an agent dies.
pub const STDERR_TAIL_LINES: usize = 8;

/// Longest of them; the rest of the line is in the journal.
pub const STDERR_LINE_MAX_CHARS: usize = 500;

/// How long a client may take to run a tool that says nothing about it, and at most. The published default is two
/// minutes; what takes longer than a day is lost.
pub const TOOL_WAIT: Duration = Duration::from_secs(120);
pub const TOOL_WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// Tools that clients may offer to one session, all together. Models lose their way long before.
pub const TOOLS_MAX: usize = 512;

/// Least and most memory a session can be limited to. No agent starts with less; no machine has more.
pub const MEMORY_LIMIT_MIN: u64 = 16 << 20;
pub const MEMORY_LIMIT_MAX: u64 = 1 << 50;

/// Least and most processors, in thousandths. The kernel gives no less than a hundredth.
pub const CPU_MILLIS_MIN: u64 = 10;
pub const CPU_MILLIS_MAX: u64 = 1_024_000;

/// Least and most processes. The kernel numbers no more than this.
pub const PROCESSES_LIMIT_MIN: u64 = 1;
pub const PROCESSES_LIMIT_MAX: u64 = 4_194_304;
