//! Every bound of this surface, each with its reason. Shared ones are in `surface::limits`.

/// Longest line of an ACP client. Prompts are bounded at 8 MiB by the rules and files at 10 MiB, and base64 and JSON
/// make both longer; what is longer still is passed over without being kept.
pub const ACP_LINE_MAX_BYTES: usize = 32 * 1024 * 1024;

/// Longest id of a request that is found in a line that is too long. Ids are numbers or UUIDs.
pub const ACP_ID_MAX_BYTES: usize = 256;

/// How long requests that a client sent before it closed its input may still take: creating a session waits for the disk,
/// and the rest of `ACP_STOP_WAIT` is left for ending agents.
pub const ACP_LAST_ANSWERS_WAIT: std::time::Duration = std::time::Duration::from_secs(2);

/// Rounds of one question of which several options may be chosen, each round choosing one: twice as many as options are
/// usually offered.
pub const ACP_CHOICE_ROUNDS_MAX: usize = 64;

/// Pieces of output that wait for an ACP client. Small, because the journal is the buffer.
pub const ACP_FRAMES_READY_MAX: usize = 16;

/// Pieces of input that wait to be read as lines.
pub const ACP_INPUT_READY_MAX: usize = 16;

/// Bytes read from a client at once.
pub const ACP_READ_BYTES: usize = 64 * 1024;

/// Output that is sent as one piece: larger ones save switches between tasks, smaller ones memory.
pub const ACP_FRAME_BYTES: usize = 64 * 1024;

/// Sessions one ACP client may have open, where nothing else is configured; the publication's own default.
pub const ACP_SESSIONS_MAX: usize = 100;

/// Requests of one ACP client that are worked on at once; beyond that its input waits.
pub const ACP_REQUESTS_MAX: usize = 256;

/// What a client may say to one session ahead of what was done; one more is refused.
pub const ACP_SAID_AHEAD_MAX: usize = 64;

/// Requests of ours that one client may leave unanswered: every session may ask a handful.
pub const ACP_ERRANDS_MAX: usize = 4_096;

/// MCP servers a client may pass on; agents start every one of them.
pub const ACP_SERVERS_MAX: usize = 64;

/// Files and changes of one call that are shown.
pub const ACP_PLACES_MAX: usize = 256;

/// Calls whose output is followed at once; those beyond show their end only.
pub const ACP_CALLS_OPEN_MAX: usize = 1_024;

/// A call's output as an editor is shown it; the whole of it is in the journal.
pub const ACP_OUTPUT_MAX_BYTES: usize = 64 * 1024;

/// A running call's output that is shown while it grows, and how much of it makes another update.
pub const ACP_PROGRESS_MAX_BYTES: usize = 64 * 1024;
pub const ACP_PROGRESS_STEP_BYTES: usize = 4 * 1024;

/// Pieces of a replayed text that become one message.
pub const ACP_REPLAY_CHUNK_BYTES: usize = 16 * 1024;

/// Sessions in one answer to `session/list`.
pub const ACP_LIST_PAGE: usize = 50;

/// How long the end of a connection may take: the publication's 5 s.
pub const ACP_STOP_WAIT: std::time::Duration = std::time::Duration::from_secs(5);

/// Reports of a connection that wait to be written; a few for every request that is worked on at once.
pub const ACP_EVIDENCE_READY_MAX: usize = 1_024;

/// How often silence and the notify file are looked at, where nothing else is configured; the publication's 100 ms.
pub const ACP_POLLING_INTERVAL: std::time::Duration = std::time::Duration::from_millis(100);

/// How long a FIFO may say nothing before it is opened anew; the publication's 30 s.
pub const ACP_FIFO_WAIT: std::time::Duration = std::time::Duration::from_secs(30);

/// Longest line of a notify source; its events repeat prompt and answer.
pub const ACP_NOTIFY_LINE_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Bytes of a notify file that are read at once.
pub const ACP_NOTIFY_READ_BYTES: usize = 64 * 1024;

/// How long an agent that was kept stays without work; the next prompt brings it back.
pub const ACP_IDLE_WAIT: std::time::Duration = std::time::Duration::from_secs(30 * 60);

/// How long a terminal of the editor may run a command for an agent.
pub const ACP_TERMINAL_WAIT: std::time::Duration = std::time::Duration::from_secs(10 * 60);
