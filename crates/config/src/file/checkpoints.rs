//! `[checkpoints]`: whether the daemon keeps the files before each turn that changes some, and for how long. Parses and
//! checks; the daemon uses the values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Checkpoints that the daemon makes by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Checkpoints {
    /// Make one before each turn that changes files.
    pub automatic: bool,
    /// The newest of each session that are kept.
    pub keep_count: u32,
    /// How long they are kept.
    pub keep_days: u32,
}

impl Default for Checkpoints {
    fn default() -> Self {
        // Git itself keeps what nothing refers to for two weeks.
        Self { automatic: true, keep_count: 50, keep_days: 14 }
    }
}

impl Checkpoints {
    /// Returns what is wrong with a value.
    pub(super) fn problem(&self) -> Option<&'static str> {
        match self {
            Self { keep_count: 0, .. } => {
                Some("checkpoints.keep_count: must be above 0; automatic = false makes none")
            }
            Self { keep_days: 0, .. } => {
                Some("checkpoints.keep_days: must be above 0; automatic = false makes none")
            }
            _ => None,
        }
    }
}
