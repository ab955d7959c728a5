//! What the configuration says about what agents may use.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What sessions may use of the machine, each of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Of sessions that say nothing else; unset: no limit.
    pub memory: Option<Amount>,
    pub cpus: Option<Amount>,
    pub processes: Option<Amount>,
    /// Otherwise for single campaigns, whose sessions may not have more, and for single providers:
    /// `name=memory:4G cpus:2 processes:500`.
    pub campaigns: Vec<String>,
    pub providers: Vec<String>,
    /// Memory that must be available for a new agent to be started.
    pub reserve: Amount,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: None,
            cpus: None,
            processes: None,
            campaigns: Vec::new(),
            providers: Vec::new(),
            reserve: Amount::Text("256M".to_owned()),
        }
    }
}

/// A number, or a text with a unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Amount {
    Whole(i64),
    Decimal(f64),
    Text(String),
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => number.fmt(f),
            Self::Decimal(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}
