//! Every limit of the workbench, each with its reason.

use std::time::Duration;

/// Largest rule file (secrets, policies) of a project, and largest automaton of one policy expression.
pub const RULE_FILE_MAX: usize = scrub::limits::RULE_FILE_MAX;
pub const RULE_AUTOMATON_MAX: usize = 8 * 1024 * 1024;

/// Largest file that is read. Larger ones are better inspected with a command.
pub const READ_FILE_MAX: u64 = 64 << 20;

/// Largest content of one write.
pub const WRITE_MAX: usize = 10 << 20;

/// How long stored output can be fetched; an agent needs it within its turn or not at all.
pub const REF_TTL: Duration = Duration::from_secs(60 * 60);

/// Largest stored output: of one call, of one session, and in total.
pub const REF_CONTENT_MAX: u64 = 64 << 20;
pub const REF_SESSION_MAX: u64 = 256 << 20;
pub const REF_TOTAL_MAX: u64 = 2 << 30;

/// Output up to this size stays in memory.
pub const REF_MEMORY_MAX: usize = 64 * 1024;

/// How much of the end of oversized output is kept: errors and totals are there.
pub const REF_TAIL: usize = 64 * 1024;

/// Output returned by one call; contextd configures gRPC messages of 16 MB.
pub const REF_READ_MAX: usize = 15 << 20;

/// Longest text whose tokens are all counted: a tenth of a second. Of a longer one parts are, of this size.
pub const TOKENS_COUNTED_MAX_BYTES: usize = 1 << 20;
pub const TOKENS_PART_BYTES: usize = 16 * 1024;

/// Longest piece of a text that is merged as a whole: the time grows with its square, and words are shorter.
pub const TOKEN_PIECE_MAX_BYTES: usize = 256;

/// Characters of a preview, from contextd's schema.
pub const PREVIEW_CHARS: usize = 500;

/// Longest command, from contextd's schema.
pub const COMMAND_MAX: usize = 4096;

/// Longest command that can run at all, for callers without that schema: agents write whole files with one.
/// Linux limits one argument of a program to 128 KiB, including its terminator.
pub const EXEC_COMMAND_MAX: usize = 128 * 1024 - 1;

/// Default and maximum timeout of a command, from contextd's schema.
pub const EXEC_WAIT: Duration = Duration::from_secs(30);
pub const EXEC_WAIT_MAX: Duration = Duration::from_secs(300);

/// Concurrent commands; each may use several processors.
pub const EXECS_MAX: usize = 32;

/// Chunks of output that wait for the scrubber; more wait in the command's pipes.
pub const CHUNKS_WAITING_MAX: usize = 4;

/// Characters of a command shown in a summary; of longer ones the first word is shown.
pub const SUMMARY_COMMAND_CHARS: usize = 60;

/// Entries of one folder that are listed; larger listings are not useful.
pub const LIST_ENTRIES_MAX: usize = 10_000;

/// Entries visited by one search, and its depth: a large repository has a few hundred thousand.
pub const WALK_ENTRIES_MAX: usize = 500_000;
pub const WALK_DEPTH_MAX: usize = 64;

/// Lines found by one search, the length of each that is shown, and the largest file that is searched.
pub const SEARCH_LINES_MAX: usize = 500;
pub const SEARCH_LINE_CHARS: usize = 300;
pub const SEARCH_FILE_MAX: u64 = 4 << 20;

/// Longest regular expression, and the memory of its automaton.
pub const PATTERN_MAX_BYTES: usize = 4096;
pub const PATTERN_AUTOMATON_MAX: usize = 4 << 20;

/// Characters of a request that its audit row stores.
pub const AUDIT_INPUT_CHARS: usize = 1000;

/// Dimensions of a vector. Enough to keep the words of a memory apart, few enough that 100,000 memories fit
/// in 40 MB.
pub const VECTOR_DIMENSIONS: usize = 384;

/// Maximum lengths of a memory's parts, from contextd's schema.
pub const TITLE_CHARS: usize = 100;
pub const DESCRIPTION_CHARS: usize = 500;
pub const CONTENT_CHARS: usize = 5000;
pub const TAGS_MAX: usize = 20;
pub const TAG_CHARS: usize = 50;

/// Default and maximum number of memories, checkpoints and the like in one answer.
pub const SEARCH_DEFAULT: usize = 10;
pub const SEARCH_MAX: usize = 100;
pub const REMEDIATIONS_DEFAULT: usize = 5;

/// Memories that are ranked: the most similar ones by vector, and as many by words.
pub const CANDIDATES_MAX: usize = 200;

/// Connect timeout and response timeout of an embedding endpoint.
pub const EMBED_CONNECT_WAIT: Duration = Duration::from_secs(5);
pub const EMBED_WAIT: Duration = Duration::from_secs(30);

/// Longest response of such an endpoint, and most dimensions of a vector: four times those of the largest
/// known models.
pub const EMBED_ANSWER_MAX: usize = 64 << 20;
pub const EMBED_WIDTH_MAX: usize = 16_384;

/// Memories embedded again at a time after a change of the embedder; what an endpoint accepts in one request.
pub const EMBED_BATCH: usize = 32;

/// Connect timeout and response timeout of a Qdrant server. A search then continues without it, so this is
/// also the most that one search loses in an outage.
pub const QDRANT_CONNECT_WAIT: Duration = Duration::from_secs(1);
pub const QDRANT_WAIT: Duration = Duration::from_secs(3);

/// How long an unavailable Qdrant server is not retried, and how often an available one is checked: it may
/// have been emptied.
pub const QDRANT_RETRY_WAIT: Duration = Duration::from_secs(2);
pub const QDRANT_CHECK_WAIT: Duration = Duration::from_secs(60);

/// Points sent at a time: with vectors of a few thousand dimensions below the 32 MB that Qdrant accepts in
/// one message.
pub const QDRANT_BATCH: usize = 256;

/// Points whose fingerprints are fetched at a time.
pub const QDRANT_PAGE: u32 = 2_000;

/// Unsent memories that a search compares itself; with more it compares all.
pub const QDRANT_UNSENT_MAX: usize = 1_000;

/// Longest configured collection name: the length of a file name, less what is appended.
pub const QDRANT_NAME_MAX: usize = 200;

/// Largest weights and largest text file of a model folder: several times those of a model that runs without
/// a GPU.
pub const MODEL_FILE_MAX: u64 = 2 << 30;
pub const MODEL_TEXT_FILE_MAX: u64 = 32 << 20;

/// How long the server of a model may be silent while a file is fetched.
pub const MODEL_CHUNK_WAIT: Duration = Duration::from_secs(60);

/// Vectors that one thread scans; a second thread pays off only for more.
pub const SCAN_ALONE_MAX: usize = 20_000;

/// Entries of cached posting lists: 8 bytes each.
pub const POSTINGS_KEPT_MAX: usize = 1_000_000;

/// Total matches of the words in a full-text search. Words that occur everywhere are expensive and say
/// little.
pub const POSTINGS_MAX: u64 = 20_000;

/// Characters of a description in a list, from contextd's schema.
pub const DESCRIPTION_PREVIEW_CHARS: usize = 100;

/// Memories injected into a new session, and their total tokens, from contextd's requirements.
pub const INJECTED_MEMORIES_MAX: usize = 3;
pub const INJECTED_TOKENS_MAX: u64 = 500;

/// Memories distilled from one session; the first errors and their solutions say more than the hundredth.
pub const DISTILLED_MAX: usize = 10;

/// Default idle timeout and maximum lifetime of a session.
pub const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);
pub const SESSION_LIFE: Duration = Duration::from_secs(4 * 60 * 60);

/// Open sessions; each holds a folder open.
pub const SESSIONS_MAX: usize = 10_000;

/// How long git may take to save the tree of a checkpoint; a large project takes some seconds.
pub const CHECKPOINT_TREE_WAIT: Duration = Duration::from_secs(120);

/// Calls in a checkpoint's context, and in its full record.
pub const CHECKPOINT_CALLS: usize = 40;
pub const CHECKPOINT_CALLS_MAX: usize = 5_000;

/// Largest policy file, and deepest nesting of commands within commands that is parsed.
pub const POLICY_FILE_MAX: usize = 256 * 1024;
pub const POLICY_DEPTH_MAX: usize = 8;
