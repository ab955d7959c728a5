//! The words of `obey acp`.

use std::collections::HashMap;
use std::path::PathBuf;

use clap::Args;

use super::values;

#[derive(Debug, Default, Args)]
pub(crate) struct AcpArgs {
    /// The agent behind the editor [default: acp.provider of the configuration, codex]
    #[arg(long, value_parser = values::provider)]
    pub(crate) provider: Option<domain::ProviderKind>,
    /// An agent of the Agent Client Protocol, by name, such as goose; means --provider acp [default: acp.agent]
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Settings for the agent, such as '{"command":"my-agent --acp"}' with the provider acp
    #[arg(long, value_parser = values::config, value_name = "JSON")]
    pub(crate) config: Option<HashMap<String, String>>,
    /// Its model [default: the agent's own]
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// The mode sessions begin in [default: supervised]
    #[arg(long)]
    pub(crate) mode: Option<String>,
    /// Let agents go on when the editor closes
    #[arg(long)]
    pub(crate) keep: bool,
    /// Run everything in this process instead of the daemon
    #[arg(long)]
    pub(crate) standalone: bool,
    /// Feed a transcript instead of standard input, and check the answers
    #[arg(long, value_name = "FILE")]
    pub(crate) playback: Option<PathBuf>,
}
