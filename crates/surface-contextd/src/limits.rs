//! Every bound of this surface, each with its reason. Shared ones are in `surface::limits`.

/// Characters of a checkpoint's summary in a list.
pub const CHECKPOINT_SUMMARY_CHARS: usize = 300;

/// Characters of a conversation's end that a checkpoint's context holds: about 1,500 tokens, so that an answer stays
/// below contextd's 2,000.
pub const CHECKPOINT_CONVERSATION_CHARS: usize = 5_000;

/// Bytes of a conversation that a checkpoint keeps in all.
pub const CHECKPOINT_RECORD_BYTES: usize = 4 * 1024 * 1024;
