//! The configuration of the sandbox for commands and agents.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The sandbox of commands, and of agents if they start in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Sandbox {
    /// Start agents inside the sandbox.
    pub agents: bool,
    /// Their network access there: `full`, `model` or `none`.
    pub network: String,
    /// Exceptions for single campaigns and providers: `name=full`, `model`, `none` or `off`.
    pub campaigns: Vec<String>,
    pub providers: Vec<String>,
    /// Endpoints, `host:port`, that agents with the network `model` reach besides their provider's own.
    pub model_hosts: Vec<String>,
    /// Reject commands if no sandbox is available.
    pub required: bool,
    /// Folders outside the project that commands and agents in the sandbox may read, and those they may
    /// write.
    pub read_only: Vec<PathBuf>,
    pub writable: Vec<PathBuf>,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self {
            agents: false,
            network: "full".to_owned(),
            campaigns: Vec::new(),
            providers: Vec::new(),
            model_hosts: Vec::new(),
            required: true,
            read_only: Vec::new(),
            writable: Vec::new(),
        }
    }
}
