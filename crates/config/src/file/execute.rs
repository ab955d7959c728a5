//! The configuration of one-shot commands.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One-shot commands in a campaign (`obey exec`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Execute {
    pub allow: Vec<String>,
    pub timeout_secs: u64,
}

impl Default for Execute {
    fn default() -> Self {
        Self { allow: ["fest", "camp", "just", "git"].map(str::to_owned).to_vec(), timeout_secs: 300 }
    }
}
