//! The command line of `obey grants …`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};

use super::values;

#[derive(Debug, Args)]
pub struct GrantsArgs {
    /// Absent: list.
    #[command(subcommand)]
    pub command: Option<GrantsCommand>,
}

#[derive(Debug, Subcommand)]
pub enum GrantsCommand {
    /// List the grants and rules: what is allowed, asked or denied, and who decided it
    #[command(visible_alias = "ls")]
    List(GrantListArgs),
    /// Add a grant or rule that allows, denies or always asks for something
    Add(Box<AddArgs>),
    /// Remove a grant or rule
    #[command(visible_alias = "rm")]
    Revoke {
        /// The id that `obey grants list` shows
        id: String,
    },
    /// Show what was asked repeatedly and always allowed, with a rule that would allow it
    Suggest,
}

#[derive(Debug, Default, Args)]
pub struct GrantListArgs {
    /// Only of this session: its id, the start of its id, or its name
    #[arg(long, value_name = "SESSION")]
    pub session: Option<String>,
    /// Also show the rules of this project [default: those of the sessions that are shown]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("action").required(true).args(["allow", "deny", "ask"])),
    group(ArgGroup::new("what").args(["command", "prefix", "file", "folder"])),
    group(ArgGroup::new("where").required(true).args(["session", "worktree", "project", "always"])),
)]
pub struct AddArgs {
    /// Allow it without asking
    #[arg(long)]
    pub allow: bool,
    /// Deny it; overrides everything that allows it
    #[arg(long)]
    pub deny: bool,
    /// Ask each time, even if something else allows it
    #[arg(long)]
    pub ask: bool,
    /// The tool: Bash, Write, mcp__github__*, * for all, or a pattern such as 'Bash(git *)' [default: Bash
    /// with --command and --prefix]
    #[arg(long, value_name = "TOOL", required_unless_present_any = ["command", "prefix"])]
    pub tool: Option<String>,
    /// Exactly this command
    #[arg(long, value_name = "TEXT")]
    pub command: Option<String>,
    /// Plain commands that begin with these words; no combined commands, redirections or substitutions
    #[arg(long, value_name = "WORDS")]
    pub prefix: Option<String>,
    /// This file
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,
    /// Files below this folder
    #[arg(long, value_name = "PATH")]
    pub folder: Option<PathBuf>,
    /// In this session: its id, the start of its id, or its name
    #[arg(long, value_name = "SESSION")]
    pub session: Option<String>,
    /// In sessions that work in this folder [default: the current one]
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".")]
    pub worktree: Option<PathBuf>,
    /// In sessions of the project with this root [default: the current folder]
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".")]
    pub project: Option<PathBuf>,
    /// In every session
    #[arg(long)]
    pub always: bool,
    /// Expires after this time, such as 1h
    #[arg(long, value_parser = values::duration, value_name = "DURATION")]
    pub expires: Option<Duration>,
    /// Can be used this many times
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), value_name = "N")]
    pub uses: Option<u32>,
    /// Also applies to the session's sub-agents (rules for a project or for all sessions always do)
    #[arg(long)]
    pub sub_agents: bool,
    /// The reason; agents see it with a denial
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
}
