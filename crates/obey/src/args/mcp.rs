//! The command line of `obey mcp …`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct McpArgs {
    /// Serve the tools of this session; agents of the daemon use this themselves
    #[arg(long, value_name = "ID", conflicts_with = "project")]
    pub(crate) session: Option<String>,
    /// The project to work in [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Option<McpCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Add obey to a client's own configuration, or remove it
    Install(McpInstallArgs),
}

#[derive(Debug, Args)]
pub(crate) struct McpInstallArgs {
    /// The agent or editor
    #[arg(long, value_enum, value_name = "CLIENT")]
    pub(crate) client: McpClient,
    /// user: for all your projects; project: for the one in the current folder
    #[arg(long, value_enum, default_value = "user", value_name = "SCOPE")]
    pub(crate) scope: McpScope,
    /// Remove it again
    #[arg(long, conflicts_with = "print")]
    pub(crate) uninstall: bool,
    /// Print what would be written; change nothing
    #[arg(long)]
    pub(crate) print: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpClient {
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
pub(crate) enum McpScope {
    User,
    Project,
}
