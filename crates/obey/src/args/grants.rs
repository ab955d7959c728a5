//! The command line of `obey grants …`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};

use super::values;

#[derive(Debug, Subcommand)]
pub(crate) enum GrantsCommand {
    /// Show what is allowed, asked or denied without anybody being asked, and who said so
    #[command(visible_alias = "ls")]
    List(GrantListArgs),
    /// Allow, deny or always ask for something, before an agent asks
    Add(Box<AddArgs>),
    /// Take a grant back
    #[command(visible_alias = "rm")]
    Revoke {
        /// As `obey grants list` shows it
        id: String,
    },
    /// Show what was asked again and again and always allowed, with the rule that would have answered it
    Suggest,
}

#[derive(Debug, Args)]
pub(crate) struct GrantListArgs {
    /// Only of this session: its id, the start of it, or its name
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,
    /// The rules of this project too [default: those of the sessions that are shown]
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("action").required(true).args(["allow", "deny", "ask"])),
    group(ArgGroup::new("what").args(["command", "prefix", "file", "folder"])),
    group(ArgGroup::new("where").required(true).args(["session", "worktree", "project", "always"])),
)]
pub(crate) struct AddArgs {
    /// Let it happen without asking
    #[arg(long)]
    pub(crate) allow: bool,
    /// Refuse it; wins over everything that allows
    #[arg(long)]
    pub(crate) deny: bool,
    /// Ask a person each time, whatever allows it
    #[arg(long)]
    pub(crate) ask: bool,
    /// The tool: Bash, Write, mcp__github__*, * for all, or a pattern such as 'Bash(git *)' [default: Bash with --command
    /// and --prefix]
    #[arg(long, value_name = "TOOL", required_unless_present_any = ["command", "prefix"])]
    pub(crate) tool: Option<String>,
    /// This command, to the letter
    #[arg(long, value_name = "TEXT")]
    pub(crate) command: Option<String>,
    /// Plain commands that begin with these words; never several commands at once, redirections or substitutions
    #[arg(long, value_name = "WORDS")]
    pub(crate) prefix: Option<String>,
    /// This file
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Option<PathBuf>,
    /// Files below this folder
    #[arg(long, value_name = "PATH")]
    pub(crate) folder: Option<PathBuf>,
    /// In this session: its id, the start of it, or its name
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,
    /// In sessions that work in this folder [default: where you are]
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".")]
    pub(crate) worktree: Option<PathBuf>,
    /// In sessions of the project with this root [default: where you are]
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".")]
    pub(crate) project: Option<PathBuf>,
    /// In every session
    #[arg(long)]
    pub(crate) always: bool,
    /// It ends after this long, such as 1h
    #[arg(long, value_parser = values::duration, value_name = "DURATION")]
    pub(crate) expires: Option<Duration>,
    /// It may be used so often
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), value_name = "N")]
    pub(crate) uses: Option<u32>,
    /// It holds for the session's sub-agents too (rules of projects and everywhere always do)
    #[arg(long)]
    pub(crate) sub_agents: bool,
    /// Why; told to agents with a denial
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) reason: String,
}
