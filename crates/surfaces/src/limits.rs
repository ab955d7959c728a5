//! Every bound of the surfaces, each with its reason.

/// Largest message a client may send. Prompts are bounded far below by the rules, which name the limit.
pub const MESSAGE_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Messages a stream may have ready for its connection. Small, because the journal is the buffer: a slow client lags
/// there.
pub const STREAM_READY_MAX: usize = 64;

/// Events of a client's activity stream that are stored between two looks at the session.
pub const ACTIVITY_EVENTS_MAX: u64 = 1_000_000;

/// Largest message of a betcode client that is read at all. Above `ATTACHMENTS_MAX_BYTES`, so that a message with too
/// much in it is answered by name instead of breaking the stream.
pub const CONVERSE_MESSAGE_MAX_BYTES: usize = 32 * 1024 * 1024;

/// Files sent along with one prompt, all together. They become part of the journal, and agents take no more.
pub const ATTACHMENTS_MAX_BYTES: usize = 10 * 1024 * 1024;
pub const ATTACHMENTS_MAX: usize = 64;

/// Nesting of a protobuf `Struct`: no tool's input goes deeper, and JSON readers stop at 128.
pub const STRUCT_DEPTH_MAX: usize = 64;

/// The same for structs we send: protobuf readers stop at 100 nested messages, of which each level takes three.
pub const STRUCT_SENT_DEPTH_MAX: usize = 24;

/// Length to which a struct that is larger than clients take is cut, as JSON. Far below their limit: protobuf writes a
/// small number in five times the bytes.
pub const STRUCT_CUT_BYTES: usize = 512 * 1024;

/// Longest text that a client's name or a key or value of its metadata may have.
pub const METADATA_MAX_BYTES: usize = 4 * 1024;
pub const METADATA_MAX: usize = 64;

/// Patterns in `allowed_tools`; each is checked on every permission.
pub const ALLOWED_TOOLS_MAX: usize = 200;

/// Sessions in one page of a list, where the client does not say and at most.
pub const PAGE_DEFAULT: u32 = 50;
pub const PAGE_MAX: u32 = 500;

/// How long a compaction may take: a model summarises the whole conversation.
pub const COMPACT_WAIT: std::time::Duration = std::time::Duration::from_secs(300);

/// How long the agent of a conversation stays without work before it is stopped; the next prompt brings it back.
pub const IDLE_WAIT: std::time::Duration = std::time::Duration::from_secs(30 * 60);

/// Parents told beside a list of sessions. They travel as headers, of which clients take about 16 KiB.
pub const PARENTS_TOLD_MAX: usize = 128;

/// Characters of a checkpoint's summary in a list.
pub const CHECKPOINT_SUMMARY_CHARS: usize = 300;

/// Characters of a conversation's end that a checkpoint's context holds: about 1,500 tokens, so that an answer stays
/// below contextd's 2,000.
pub const CHECKPOINT_CONVERSATION_CHARS: usize = 5_000;

/// Bytes of a conversation that a checkpoint keeps in all.
pub const CHECKPOINT_RECORD_BYTES: usize = 4 * 1024 * 1024;

/// Largest body of a REST request: the largest content with room for its escapes.
pub const REST_BODY_MAX_BYTES: usize = 8 * 1024 * 1024;
/// Largest message a client takes unless it says otherwise: gRPC's own default in every language.
pub const CLIENT_MESSAGE_BYTES: usize = 4 * 1024 * 1024;

/// What an event's message holds beside its JSON: number, time, type, session.
pub const EVENT_FRAME_BYTES: usize = 1024;

/// Longest text of an activity; below `CLIENT_MESSAGE_BYTES`, and the journal has the whole.
pub const ACTIVITY_TEXT_MAX_BYTES: usize = 3 * 1024 * 1024;

/// Longest line of an ACP client. Prompts are bounded at 8 MiB by the rules and files at 10 MiB, and base64 and JSON
/// make both longer; what is longer still is passed over without being kept.
pub const ACP_LINE_MAX_BYTES: usize = 32 * 1024 * 1024;

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

/// Largest message of a roz client that is read at all; above what a message may hold, as for betcode.
pub const STREAM_MESSAGE_MAX_BYTES: usize = 32 * 1024 * 1024;

/// Messages of a roz client that wait while its session starts.
pub const STARTING_MESSAGES_MAX: usize = 64;

/// How often a roz client hears that a turn still goes on.
pub const KEEPALIVE_EVERY: std::time::Duration = std::time::Duration::from_secs(15);

/// How long a permission of a roz session waits before it is denied, where its environment does not say.
pub const APPROVAL_WAIT: std::time::Duration = std::time::Duration::from_secs(300);

/// Longest result of a client's tool. It goes to the model and into the journal.
pub const TOOL_RESULT_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Longest name of a client's tool: agents put the server's name before it, and models take 128 letters.
pub const TOOL_NAME_MAX_CHARS: usize = 100;

/// Longest id that a client may give to a message.
pub const MESSAGE_ID_MAX_CHARS: usize = 200;

/// Longest detail of an activity.
pub const ACTIVITY_DETAIL_MAX_CHARS: usize = 512;

/// The part of a client's context budget, in percent, from which a conversation is compacted between turns.
pub const COMPACT_AT_PERCENT: u64 = 85;

/// How long the call of an agent may take to be seen in what the agent itself reports, so that both go by one name.
pub const CALL_SEEN_WAIT: std::time::Duration = std::time::Duration::from_secs(1);

/// How long `watch_team` waits for workers to end, where the agent does not say and at most.
pub const TEAM_WAIT_SECS: u64 = 60;
pub const TEAM_WAIT_MAX_SECS: u64 = 3_600;

/// Events of a team that are ready for its watcher.
pub const TEAM_READY_MAX: usize = 64;

/// Tools that a client offers with one message, all together. They are part of every request to a model, so that real
/// ones are far smaller.
pub const TOOLS_MAX_BYTES: usize = 2 * 1024 * 1024;

/// Longest reason that a client gives for cancelling its session; people read it.
pub const REASON_MAX_BYTES: usize = 4 * 1024;

/// Refusals of one caller that the audit tells one by one in a window; what is beyond is counted. A program that tries
/// thousands must not fill the disk.
pub const AUDIT_REFUSALS_MAX: u32 = 50;

/// The window of `AUDIT_REFUSALS_MAX`.
pub const AUDIT_REFUSALS_WINDOW: std::time::Duration = std::time::Duration::from_secs(10);

/// Callers whose refusals are counted at the same time; the oldest are forgotten.
pub const AUDIT_CALLERS_MAX: usize = 256;

/// How much of a request is looked at for the session it names.
pub const AUDIT_BODY_MAX_BYTES: usize = 64 * 1024;

/// Longest name of a session that a row keeps.
pub const AUDIT_SESSION_MAX_BYTES: usize = 256;

/// How much of a campaign's name a row of the audit shows: it is the caller's text.
pub const AUDIT_CAMPAIGN_MAX_LETTERS: usize = 200;
