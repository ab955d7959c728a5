//! The configuration of secret scrubbing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Secrets in what agents say, run and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Scrub {
    /// Remove them from events before they are journalled.
    pub events: bool,
}

impl Default for Scrub {
    fn default() -> Self {
        Self { events: true }
    }
}
