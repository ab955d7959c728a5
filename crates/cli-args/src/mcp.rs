//! The command line of `obey mcp …`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct McpArgs {
    /// Serve the tools of this session; agents of the daemon use this themselves
    #[arg(long, value_name = "ID", conflicts_with = "project")]
    pub session: Option<String>,
    /// The project to work in [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    #[command(subcommand)]
    pub command: Option<McpCommand>,
}

#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// Add obey to a client's own configuration, or remove it
    Install(McpInstallArgs),
}

#[derive(Debug, Args)]
pub struct McpInstallArgs {
    /// The agent or editor
    #[arg(long, value_enum, value_name = "CLIENT")]
    pub client: McpClient,
    /// user: for all your projects; project: for the one in the current folder
    #[arg(long, value_enum, default_value = "user", value_name = "SCOPE")]
    pub scope: McpScope,
    /// Remove it again
    #[arg(long, conflicts_with = "print")]
    pub uninstall: bool,
    /// Print what would be written; change nothing
    #[arg(long)]
    pub print: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum McpClient {
    Claude,
    ClaudeDesktop,
    Codex,
    Cursor,
    Gemini,
    Opencode,
    Vscode,
    Windsurf,
    Zed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum McpScope {
    User,
    Project,
}
