//! Every limit of `history`, each with its reason. The limits of the rules are in `domain::limits`.

use std::time::Duration;

/// How long the indexer of past events gathers sessions that have new ones: people search for what happened a while ago,
/// and a search waits for the rest anyway.
pub const INDEX_GATHER_WAIT: Duration = Duration::from_millis(500);

/// How long a search or a sum waits until the newest events are indexed. Longer only while the index is built anew, which
/// the answer then says.
pub const INDEX_CATCH_UP_WAIT: Duration = Duration::from_secs(2);

/// Bytes of an answer after which another passage begins with the next word.
pub const PASSAGE_LONG_BYTES: usize = 24 * 1024;

/// Bytes of one passage that are indexed: what is further behind in an output is found by its beginning.
pub const PASSAGE_MAX_BYTES: usize = 32 * 1024;

/// Hits of one search: by default and at most. People read a screenful.
pub const SEARCH_HITS_DEFAULT: usize = 50;
pub const SEARCH_HITS_MAX: usize = 500;

/// Longest text of a search.
pub const SEARCH_TEXT_MAX_BYTES: usize = 4 * 1024;
