//! Every limit of the rules, each with its reason. The limits of the runtime are in `runtime`.

use std::time::Duration;

/// Longest prompt. Models accept far less, and a client that reads the journal with gRPC's default limit of 4
/// MiB per message must be able to read the prompt.
pub const PROMPT_MAX_BYTES: usize = 3_500 * 1024;

/// Longest text of one event; for the same reason, with room for the other fields and for JSON escapes.
pub const EVENT_TEXT_MAX_BYTES: usize = 1024 * 1024;

/// Longest name of a session.
pub const NAME_MAX_CHARS: usize = 200;

/// Entries of `provider_config` and `environment`, and the size of each value.
pub const CONFIG_ENTRIES_MAX: usize = 256;
pub const CONFIG_VALUE_MAX_BYTES: usize = 256 * 1024;

/// Pending requests of one session. An agent asks one at a time, or a handful in parallel; more means that it
/// is out of control, and requests beyond the limit are denied.
pub const REQUESTS_PENDING_MAX: usize = 256;

/// Settled requests kept in the state, so that a late answer learns who settled the request. They are part of
/// the state that is written with every change; the journal has all of them.
pub const REQUESTS_SETTLED_KEPT: usize = 64;

/// Largest tool input kept with a settled request; for the same reason.
pub const SETTLED_INPUT_MAX_BYTES: usize = 1024;

/// Session grants; each is checked for every request.
pub const GRANTS_MAX: usize = 1_000;

/// Characters of a command or a path in the sentence that describes a grant. People read no further; the
/// grant itself holds all of it.
pub const GRANT_TEXT_MAX_CHARS: usize = 120;

/// Longest pattern of a grant or a rule. Patterns are written by people.
pub const PATTERN_MAX_BYTES: usize = 4 * 1024;

/// Characters of the last message that are kept for lists.
pub const PREVIEW_MAX_CHARS: usize = 120;

/// How long an agent may take from its start until it is ready. Real agents need seconds on a loaded machine;
/// one that is silent for this long is broken.
pub const START_WAIT: Duration = Duration::from_secs(60);

/// How long a graceful stop lets the running turn continue before the session is ended anyway.
pub const GRACE_WAIT: Duration = Duration::from_secs(30);

/// Stop, step 1: the agent was asked to leave. Long enough for most clean exits (real agents: 0.1 to 1.6 s);
/// the others get SIGTERM as well.
pub const ASK_WAIT: Duration = Duration::from_millis(1_300);

/// Stop, step 2: SIGTERM was sent; the 2 s are documented. With step 1 and the kill that follows, this stays
/// below the 5 s a stop may take.
pub const TERM_WAIT: Duration = Duration::from_secs(2);

/// How long an interrupted turn may take to end before the agent counts as stuck and is killed.
pub const INTERRUPT_WAIT: Duration = Duration::from_secs(10);

/// Bytes kept of a line of output that could not be parsed.
pub const UNPARSED_MAX_BYTES: usize = 64 * 1024;

/// Last lines of standard error that are quoted when an agent dies.
pub const STDERR_TAIL_LINES: usize = 8;

/// Longest such line; the rest of it is in the journal.
pub const STDERR_LINE_MAX_CHARS: usize = 500;

/// How long a client may take to run a tool: the default for a tool without a timeout, and the maximum. The
/// published default is two minutes; a call that takes longer than a day is lost.
pub const TOOL_WAIT: Duration = Duration::from_secs(120);
pub const TOOL_WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// Tools that clients may offer to one session in total. Models fail with far fewer.
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
