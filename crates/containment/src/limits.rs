//! Every limit of `containment`, each with its reason. The limits of the rules are in `domain::limits`.

use std::time::Duration;

/// Time a program has to make the state that agents in the sandbox begin with. It takes a third of a second.
pub const PREPARE_WAIT: Duration = Duration::from_secs(30);

/// Longest answer of such a program that is read.
pub const PREPARE_ANSWER_MAX_BYTES: usize = 64 * 1024;
