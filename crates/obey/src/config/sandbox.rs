//! What the configuration says about the sandbox of commands and agents.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The sandbox of commands, and of agents where they start in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Sandbox {
    /// Start agents inside the sandbox.
    pub(crate) agents: bool,
    /// What they reach there by network: `full`, `model` or `none`.
    pub(crate) network: String,
    /// Otherwise for single campaigns and providers: `name=full`, `model`, `none` or `off`.
    pub(crate) campaigns: Vec<String>,
    pub(crate) providers: Vec<String>,
    /// Endpoints, `host:port`, that agents with the network `model` reach beside their provider's own.
    pub(crate) model_hosts: Vec<String>,
    /// Refuse commands where no sandbox holds.
    pub(crate) required: bool,
    /// Folders outside the project that commands and agents in the sandbox may read, and that they may write.
    pub(crate) read_only: Vec<PathBuf>,
    pub(crate) writable: Vec<PathBuf>,
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
