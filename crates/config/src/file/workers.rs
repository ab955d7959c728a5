//! What the configuration says about workers: sessions that work for another session.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many workers there may be, and for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WorkerSettings {
    /// Workers of one session at a time; more wait.
    pub at_once: u32,
    /// How long one may take; 0: as long as it wants.
    pub timeout_minutes: u32,
    /// Workers that the agent of a session may have at a time if its creator says nothing; 0: none.
    pub for_agents: u32,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self { at_once: 100, timeout_minutes: 30, for_agents: 0 }
    }
}

impl WorkerSettings {
    /// Returns what is wrong with a value.
    pub(super) fn problem(&self) -> Option<&'static str> {
        match self {
            Self { at_once: 0, .. } => Some("workers.at_once: must be above 0"),
            Self { for_agents: 101.., .. } => Some("workers.for_agents: must be at most 100"),
            _ => None,
        }
    }
}
