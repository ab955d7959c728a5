//! The command line of `obey diff`, `obey merge` and `obey import`.

use clap::Args;
use domain::ProviderKind;

use super::values;

#[derive(Debug, Args)]
pub struct DiffArgs {
    /// A session's id or name, or a worktree's id [default: the tree of the current folder]
    #[arg(value_name = "ID")]
    pub target: Option<String>,
    /// Show the lines of this file, as the list names it; repeat for more
    #[arg(long, value_name = "FILE")]
    pub file: Vec<String>,
    /// Show the lines of every file
    #[arg(long)]
    pub patch: bool,
    /// Only what is not committed, instead of everything since the tree's base
    #[arg(long, conflicts_with = "turn")]
    pub working: bool,
    /// Only what changed since the start of this turn, such as 3
    #[arg(long, value_name = "N")]
    pub turn: Option<String>,
}

#[derive(Debug, Args)]
pub struct MergeArgs {
    /// A session's id or name, or a worktree's id [default: the tree of the current folder]
    #[arg(value_name = "ID")]
    pub target: Option<String>,
    /// The branch to merge into [default: the one the tree was made from]
    #[arg(long, value_name = "BRANCH")]
    pub into: Option<String>,
    /// Commit what is not committed with this message first
    #[arg(long, value_name = "MESSAGE")]
    pub commit: Option<String>,
    /// Make one commit of all changes
    #[arg(long)]
    pub squash: bool,
    /// The message of the merge commit, or the description of the merge request
    #[arg(long, short, value_name = "MESSAGE")]
    pub message: Option<String>,
    /// Merge although the branch changes files by which other programs run code, such as .mcp.json or .envrc
    #[arg(long, conflicts_with = "request")]
    pub allow_protected: bool,
    /// Push the branch and open a merge request on the project's GitLab or GitHub instead of merging here
    #[arg(long, conflicts_with = "squash")]
    pub request: bool,
    /// The title of the merge request [default: that of the newest commit]
    #[arg(long, requires = "request", value_name = "TITLE")]
    pub title: Option<String>,
    /// Mark the merge request as a draft
    #[arg(long, requires = "request")]
    pub draft: bool,
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The agent's id of a conversation; without it, the conversations are listed
    #[arg(value_name = "ID")]
    pub conversation: Option<String>,
    /// Only of this provider: claude-code or codex
    #[arg(long, short, value_parser = values::provider)]
    pub provider: Option<ProviderKind>,
}
