//! The command line of `obey worktree …`. A worktree is named by its id, its name or its folder.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum WorktreeCommand {
    /// List the working trees of a repository, with the sessions in them
    #[command(visible_alias = "ls")]
    List(WorktreeListArgs),
    /// Create a working tree with its own branch
    Create(WorktreeCreateArgs),
    /// Make a tree's commits again on top of the branch it was made from
    Rebase(WorktreeRebaseArgs),
    /// Discard what is not committed in a tree; it is kept under refs/obey/discarded
    Discard(WorktreeDiscardArgs),
    /// Allow the set-up hook of a tree's project (.obey/worktree.toml), and run it there
    AllowSetup(WorktreeAllowSetupArgs),
    /// Stop the sessions of a working tree and remove it; its branch stays
    #[command(visible_alias = "rm")]
    Remove(RemoveArgs),
    /// Remove the trees that hold nothing: merged or empty, without changes and living sessions
    Gc(WorktreeGcArgs),
}

#[derive(Debug, Args)]
pub struct WorktreeListArgs {
    /// Any folder of the repository [default: the current one]
    #[arg(value_name = "PATH")]
    pub repo: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct WorktreeCreateArgs {
    /// Its name; without --branch, also the name of its branch
    #[arg(required_unless_present = "branch")]
    pub name: Option<String>,
    /// Any folder of the repository [default: the current one]
    #[arg(long, value_name = "PATH")]
    pub repo: Option<PathBuf>,
    /// The branch: one that exists, one of a remote, or a new one
    #[arg(long, short)]
    pub branch: Option<String>,
    /// Create the branch; fail if it exists
    #[arg(long)]
    pub create_branch: bool,
    /// What a new branch starts from: a branch, one of a remote, a tag, a commit [default: what is checked out]
    #[arg(long, value_name = "BRANCH|COMMIT")]
    pub base: Option<String>,
    /// Where to create it: a folder that does not exist yet [default: below the daemon's data folder]
    #[arg(long, value_name = "DIR")]
    pub path: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct WorktreeArg {
    /// Id, name or folder
    #[arg(value_name = "WORKTREE")]
    pub worktree: String,
    /// Any folder of the repository in which the name is looked up [default: the current one]
    #[arg(long, value_name = "PATH")]
    pub repo: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct WorktreeRebaseArgs {
    #[command(flatten)]
    pub worktree: WorktreeArg,
    /// Another branch or commit than the one it was made from
    #[arg(long, value_name = "BRANCH|COMMIT")]
    pub onto: Option<String>,
}

#[derive(Debug, Args)]
pub struct WorktreeDiscardArgs {
    #[command(flatten)]
    pub worktree: WorktreeArg,
    /// Only this file, relative to the tree; repeat for more
    #[arg(long, value_name = "FILE")]
    pub file: Vec<String>,
    /// Also the commits since the branch it was made from
    #[arg(long, conflicts_with = "file")]
    pub to_base: bool,
}

#[derive(Debug, Args)]
pub struct WorktreeAllowSetupArgs {
    #[command(flatten)]
    pub worktree: WorktreeArg,
    /// The hash that was shown, to allow it without being asked
    #[arg(long)]
    pub hash: Option<String>,
}

#[derive(Debug, Args)]
pub struct RemoveArgs {
    #[command(flatten)]
    pub worktree: WorktreeArg,
    /// Remove it even if that loses uncommitted changes
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct WorktreeGcArgs {
    /// Any folder of the repository [default: the current one]
    #[arg(value_name = "PATH")]
    pub repo: Option<PathBuf>,
    /// Only say which trees would be removed
    #[arg(long)]
    pub dry_run: bool,
}
