//! The words of `obey mcp …`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct McpArgs {
    /// The session whose tools are served; agents of the daemon start it so themselves
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
    /// Put obey into a client's own configuration, or take it out again
    Install(McpInstallArgs),
}

#[derive(Debug, Args)]
pub(crate) struct McpInstallArgs {
    /// The agent or editor
    #[arg(long, value_enum, value_name = "CLIENT")]
    pub(crate) client: McpClient,
    /// For all your projects, or for the one in the current folder
    #[arg(long, value_enum, default_value = "user", value_name = "SCOPE")]
    pub(crate) scope: McpScope,
    /// Take it out again
    #[arg(long, conflicts_with = "print")]
    pub(crate) uninstall: bool,
    /// Print what would be written, and change nothing
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
