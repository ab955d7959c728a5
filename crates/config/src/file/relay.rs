//! The configuration of the relay that this machine has joined.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::invalid;
use crate::failure::Result;

/// The levels of `plain`.
const LEVELS: [&str; 3] = ["off", "read", "full"];

/// What comes through a relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Relay {
    /// What is served of calls that the relay can read: `off`, `read` or `full`.
    pub plain: String,
}

impl Default for Relay {
    fn default() -> Self {
        Self { plain: "off".to_owned() }
    }
}

impl Relay {
    pub(super) fn check(&self) -> Result<()> {
        if LEVELS.contains(&self.plain.as_str()) {
            return Ok(());
        }
        Err(invalid(format!("relay.plain: {:?} must be one of {}", self.plain, LEVELS.join(", "))))
    }
}
