//! Every bound of the workbench, each with its reason.

use std::time::Duration;

/// Largest file of rules (secrets, policies) of a project that is read, and largest automaton one expression of a policy may
/// need.
pub const RULE_FILE_MAX: usize = scrub::limits::RULE_FILE_MAX;
pub const RULE_AUTOMATON_MAX: usize = 8 * 1024 * 1024;

/// Largest file that is read. Larger ones are better looked at with a command that picks what matters.
pub const READ_FILE_MAX: u64 = 64 << 20;

/// Largest content written at once.
pub const WRITE_MAX: usize = 10 << 20;

/// How long stored output can be fetched; an agent looks at it within its turn or not at all.
pub const REF_TTL: Duration = Duration::from_secs(60 * 60);

/// Largest stored output, all of one session's, and all together.
pub const REF_CONTENT_MAX: u64 = 64 << 20;
pub const REF_SESSION_MAX: u64 = 256 << 20;
pub const REF_TOTAL_MAX: u64 = 2 << 30;

/// Output up to this size stays in memory.
pub const REF_MEMORY_MAX: usize = 64 * 1024;

/// The end of output that is too long: where errors and totals stand.
pub const REF_TAIL: usize = 64 * 1024;

/// Output returned at once; one message of gRPC holds 16 MB by contextd's configuration.
pub const REF_READ_MAX: usize = 15 << 20;

/// Characters of a preview, as contextd's schema says.
pub const PREVIEW_CHARS: usize = 500;

/// Longest command, as contextd's schema says.
pub const COMMAND_MAX: usize = 4096;

/// Longest command that can be run at all, for callers without that schema: agents write whole files with one. Linux takes
/// 128 KiB as one argument of a program, its end included.
pub const EXEC_COMMAND_MAX: usize = 128 * 1024 - 1;

/// Default and longest time for a command, as contextd's schema says.
pub const EXEC_WAIT: Duration = Duration::from_secs(30);
pub const EXEC_WAIT_MAX: Duration = Duration::from_secs(300);

/// Commands that run at a time; each may take several processors.
pub const EXECS_MAX: usize = 32;

/// Pieces of output on their way to the scrubber; more wait in the command's pipes.
pub const CHUNKS_WAITING_MAX: usize = 4;

/// Characters of a command shown in a summary; of longer ones the first word is shown.
pub const SUMMARY_COMMAND_CHARS: usize = 60;

/// Entries of one folder that are listed; more is a folder nobody reads.
pub const LIST_ENTRIES_MAX: usize = 10_000;

/// Entries looked at by one search, and how deep it goes: a large repository has some hundred thousand.
pub const WALK_ENTRIES_MAX: usize = 500_000;
pub const WALK_DEPTH_MAX: usize = 64;

/// Lines one search finds, the longest part of each that is shown, and the largest file that is searched.
pub const SEARCH_LINES_MAX: usize = 500;
pub const SEARCH_LINE_CHARS: usize = 300;
pub const SEARCH_FILE_MAX: u64 = 4 << 20;

/// Longest regular expression, and the memory its automaton may take.
pub const PATTERN_MAX_BYTES: usize = 4096;
pub const PATTERN_AUTOMATON_MAX: usize = 4 << 20;

/// Characters of a request that its audit row keeps.
pub const AUDIT_INPUT_CHARS: usize = 1000;

/// Numbers in a vector. Enough for the words of a memory to keep out of each other's way, few enough that 100,000
/// memories fit in 40 MB.
pub const VECTOR_DIMENSIONS: usize = 384;

/// Parts of a memory, as contextd's schema says.
pub const TITLE_CHARS: usize = 100;
pub const DESCRIPTION_CHARS: usize = 500;
pub const CONTENT_CHARS: usize = 5000;
pub const TAGS_MAX: usize = 20;
pub const TAG_CHARS: usize = 50;

/// Memories, checkpoints and the like that one answer holds, and when nobody says how many.
pub const SEARCH_DEFAULT: usize = 10;
pub const SEARCH_MAX: usize = 100;
pub const REMEDIATIONS_DEFAULT: usize = 5;

/// Memories that are looked at closely: the most similar ones by vector, and as many by words.
pub const CANDIDATES_MAX: usize = 200;

/// How long an endpoint that makes vectors may take to be reached, and to answer.
pub const EMBED_CONNECT_WAIT: Duration = Duration::from_secs(5);
pub const EMBED_WAIT: Duration = Duration::from_secs(30);

/// Longest answer of such an endpoint, and most numbers of a vector: four times what the largest known models make.
pub const EMBED_ANSWER_MAX: usize = 64 << 20;
pub const EMBED_WIDTH_MAX: usize = 16_384;

/// Memories that get their vectors anew at a time when the maker has changed; what an endpoint takes in one request.
pub const EMBED_BATCH: usize = 32;

/// How long a Qdrant server may take to be reached and to answer. A search goes on without it afterwards, so that this is
/// also what a search can lose by an outage, once.
pub const QDRANT_CONNECT_WAIT: Duration = Duration::from_secs(1);
pub const QDRANT_WAIT: Duration = Duration::from_secs(3);

/// How long a Qdrant server that could not be used is left alone, and how often one that can is counted after: somebody may
/// have emptied it.
pub const QDRANT_RETRY_WAIT: Duration = Duration::from_secs(2);
pub const QDRANT_CHECK_WAIT: Duration = Duration::from_secs(60);

/// Points sent at a time: with vectors of some thousand numbers below the 32 MB that Qdrant takes in one message.
pub const QDRANT_BATCH: usize = 256;

/// Points whose fingerprints are asked for at a time.
pub const QDRANT_PAGE: u32 = 2_000;

/// Memories not sent yet that a search compares itself; with more it looks at all.
pub const QDRANT_UNSENT_MAX: usize = 1_000;

/// Longest name of a collection as it is configured: a file's name, less what is added to it.
pub const QDRANT_NAME_MAX: usize = 200;

/// Largest weights and largest text file of a model folder: some times what a model has that can be run without a graphics
/// card.
pub const MODEL_FILE_MAX: u64 = 2 << 30;
pub const MODEL_TEXT_FILE_MAX: u64 = 32 << 20;

/// Memories whose vectors one thread looks at; a second one is worth its start only for more.
pub const SCAN_ALONE_MAX: usize = 20_000;

/// Entries in lists of which memory holds a word, kept for the next search: 8 bytes each.
pub const POSTINGS_KEPT_MAX: usize = 1_000_000;

/// Memories that may hold the words of a full-text search together. Words that are everywhere say little and cost much.
pub const POSTINGS_MAX: u64 = 20_000;

/// Characters of a description in a list, as contextd's schema says.
pub const DESCRIPTION_PREVIEW_CHARS: usize = 100;

/// Memories that a new session is told, and the tokens they may cost together, as contextd's requirements say.
pub const INJECTED_MEMORIES_MAX: usize = 3;
pub const INJECTED_TOKENS_MAX: u64 = 500;

/// Memories made of one session; the first errors and their cures say more than the hundredth.
pub const DISTILLED_MAX: usize = 10;

/// How long a session stays open without use, and at all, unless the configuration says otherwise.
pub const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);
pub const SESSION_LIFE: Duration = Duration::from_secs(4 * 60 * 60);

/// Sessions that are open at a time; each holds a folder open.
pub const SESSIONS_MAX: usize = 10_000;

/// Calls that a checkpoint's context tells; all of them are in the full record, up to the second number.
pub const CHECKPOINT_CALLS: usize = 40;
pub const CHECKPOINT_CALLS_MAX: usize = 5_000;

/// Largest policy file, and deepest nesting of commands in commands that is looked into.
pub const POLICY_FILE_MAX: usize = 256 * 1024;
pub const POLICY_DEPTH_MAX: usize = 8;
