//! The command line of `obey acp`.

use std::collections::HashMap;
use std::path::PathBuf;

use clap::Args;

use super::values;

#[derive(Debug, Default, Args)]
pub struct AcpArgs {
    /// The provider that the editor uses [default: acp.provider of the configuration, which is codex]
    #[arg(long, value_parser = values::provider)]
    pub provider: Option<domain::ProviderKind>,
    /// An agent of the Agent Client Protocol, by name, such as goose; implies --provider acp
    /// [default: acp.agent]
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Settings for the provider, such as '{"command":"my-agent --acp"}' with --provider acp
    #[arg(long, value_parser = values::config, value_name = "JSON")]
    pub config: Option<HashMap<String, String>>,
    /// The model [default: acp.model, else the agent's own]
    #[arg(long)]
    pub model: Option<String>,
    /// The mode in which sessions start [default: acp.mode, else the campaign's, else sessions.default_mode]
    #[arg(long)]
    pub mode: Option<String>,
    /// Keep agents running when the editor closes
    #[arg(long)]
    pub keep: bool,
    /// Run everything in this process instead of the daemon
    #[arg(long)]
    pub standalone: bool,
    /// Read a transcript instead of standard input, and check the answers against it
    #[arg(long, value_name = "FILE")]
    pub playback: Option<PathBuf>,
}
