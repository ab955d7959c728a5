//! Every bound of the scrubber, each with its reason.

/// Bytes of input the scrubber takes in at once. Larger pushes are cut up, so that memory does not follow the input.
pub const SCRUB_SLICE_MAX: usize = 32 * 1024;

/// Longest stretch one rule searches at once. Dense keywords make stretches grow together; this keeps what must be
/// held back small.
pub const SCRUB_PIECE_MAX: u64 = 16 * 1024;

/// What a rule sees before and behind a keyword when its expression has no longest match of its own.
pub const SCRUB_WINDOW_BEFORE: usize = 256;
pub const SCRUB_WINDOW_AFTER: usize = 1024;

/// Longest match an expression is given room for. Longer tokens are followed byte by byte to their end.
pub const SCRUB_MATCH_MAX: usize = 4096;

/// What an allow-list with `regexTarget = "line"` sees of a line on either side of a match.
pub const SCRUB_LINE_MAX: usize = 1024;

/// Where the end of a private key is looked for. RSA with 16,384 bits takes 13 KB.
pub const SCRUB_PEM_MAX: usize = 32 * 1024;

/// Findings of one text that are listed one by one; all are counted.
pub const SCRUB_FINDINGS_MAX: usize = 1000;

/// Shorter values are not taken for known secrets: blotting out "true" or "dev" everywhere helps nobody.
pub const KNOWN_SECRET_MIN: usize = 8;

/// Longest known secret and largest number of them; what an environment can reasonably hold.
pub const KNOWN_SECRET_MAX: usize = 64 * 1024;
pub const KNOWN_SECRETS_MAX: usize = 512;

/// Bytes of a known secret the keyword gate knows; the rest is compared.
pub const KNOWN_ANCHOR: usize = 6;

/// Line breaks that may interrupt a known secret (`base64` breaks its lines), for every so many of its bytes.
pub const KNOWN_BREAK_EVERY: usize = 32;

/// Largest rule file a user may bring, and largest automaton one of its expressions may need.
pub const RULE_FILE_MAX: usize = 1024 * 1024;
pub const RULE_AUTOMATON_MAX: usize = 8 * 1024 * 1024;

/// Memory one expression's lazily built automaton may take before it starts again.
pub const RULE_CACHE_MAX: usize = 512 * 1024;

/// How much of a text that was shown is still known when it goes on: what rules look at before a secret, with some room.
pub const LIVE_CONTEXT: usize = 1024;

/// What of a text may wait because it looks like a secret; longer than any key in armour of common size.
pub const LIVE_HELD_MAX: usize = 16 * 1024;

/// How much of a secret is shown whose first bytes say nothing, such as a token that is known by its middle: shorter words are
/// not waited for, letters and digits of this length are.
pub const LIVE_TOKEN_MIN: usize = 16;

/// What is kept of a text that ends inside a keyword and nothing else: longer than any keyword.
pub const LIVE_WORD: usize = 48;
