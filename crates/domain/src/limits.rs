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

/// Variables that a client may send of its environment. Clients send some ten; a whole environment has below a hundred.
pub const CALLER_VARIABLES_MAX: usize = 256;

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

/// Prompts that wait in one session's queue. A person plans no more; more comes from a program out of control.
pub const QUEUE_ENTRIES_MAX: usize = 100;

/// Bytes of all prompts that wait, with attachments. They are part of the state that is written with every change.
pub const QUEUE_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Size of all attachments of a prompt, as base64. Together with the prompt they must fit into one event, which clients
/// read with gRPC's default limit of 4 MiB per message.
pub const ATTACHMENTS_MAX_BYTES: usize = 3_000 * 1024;

/// Attachments of one prompt. Models take some twenty images.
pub const ATTACHMENTS_MAX: usize = 32;

/// How long a session waits for a rate limit whose end is not known: at first, doubled each time up to the second. A
/// limit per minute is over by then; one per hour or week needs longer.
pub const RATE_LIMIT_WAIT: Duration = Duration::from_secs(60);
pub const RATE_LIMIT_WAIT_DOUBLED_MAX: Duration = Duration::from_secs(3600);

/// Least and most time a session waits for a rate limit whose end is known. Less would hammer the model; the longest
/// limits of providers count weeks.
pub const RATE_LIMIT_WAIT_MIN: Duration = Duration::from_secs(1);
pub const RATE_LIMIT_WAIT_MAX: Duration = Duration::from_secs(31 * 24 * 3600);

/// How often a session that waits for a rate limit looks at the clock. The end is a time of day, and timers do not count while
/// the machine sleeps.
pub const RATE_LIMIT_LOOK_WAIT: Duration = Duration::from_secs(20);

/// Longest history that an agent is told in a fork. Models take several times as much.
pub const FORK_HISTORY_MAX_BYTES: usize = 128 * 1024;

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

/// A working agent that reports nothing for this long is shown as quiet. Models think for a minute; a person who looks
/// at the list wants to know sooner than they would give up.
pub const QUIET_WAIT: Duration = Duration::from_secs(120);

/// A process that is gone for this long without a report of its end has died unnoticed. The report takes milliseconds;
/// a busy machine may need seconds.
pub const LOST_PROCESS_WAIT: Duration = Duration::from_secs(10);

/// CPU time below which an agent that was silent for `QUIET_WAIT` did nothing in that time. An idle event loop needs
/// less, work needs more.
pub const IDLE_CPU_MAX_MS: u64 = 500;

/// Characters of the last line of an agent that are kept for lists, and of a reason in an overview. A wide terminal
/// shows no more.
pub const LAST_LINE_MAX_CHARS: usize = 200;
pub const REASON_MAX_CHARS: usize = 200;

/// Calls of sub-agents in progress at once. Agents run some ten at a time; more is an agent that never says how its calls end.
pub const BACKGROUND_CALLS_MAX: usize = 1_000;

/// Workers of a session that are known at once, for the same reason.
pub const WORKERS_MAX: usize = 1_000;

/// Prompts that a worker is given in all: by default and at most. Its parent tells it more only if something is out of control.
pub const WORKER_TURNS_DEFAULT: u32 = 50;
pub const WORKER_TURNS_MAX: u32 = 200;

/// Tools that a worker is allowed by name; people and agents name some ten.
pub const WORKER_TOOLS_MAX: usize = 256;

/// How long calls of a worker are approved automatically, how many in all, and how many within a minute: whoever allowed them
/// looks again after that.
pub const AUTO_APPROVE_WAIT: Duration = Duration::from_secs(3600);
pub const AUTO_APPROVE_CALLS_MAX: u32 = 1_000;
pub const AUTO_APPROVE_MINUTE: Duration = Duration::from_secs(60);
pub const AUTO_APPROVE_PER_MINUTE: usize = 60;
pub const AUTO_APPROVE_SHELL_PER_MINUTE: usize = 20;
pub const AUTO_APPROVE_WRITES_PER_MINUTE: usize = 30;

/// Steps of one orchestration, and the bytes of all their texts: its first event must be one that clients can read.
pub const ORCHESTRATION_STEPS_MAX: usize = 1_000;
pub const ORCHESTRATION_MAX_BYTES: usize = 1024 * 1024;

/// How often a failed step is tried again at most. What fails that often fails for a reason.
pub const STEP_RETRIES_MAX: u32 = 10;

/// Bytes of a step's result that the steps which depend on it are told.
pub const STEP_RESULT_MAX_BYTES: usize = 8 * 1024;

/// Characters of a session's title that are taken from its first prompt. Editors show one line of a narrow list.
pub const TITLE_MAX_CHARS: usize = 80;
