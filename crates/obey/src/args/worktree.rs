//! The command line of `obey worktree …`. A worktree is named by its id, its name or its folder.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum WorktreeCommand {
    /// List the working trees of a repository, with the sessions in them
    #[command(visible_alias = "ls")]
    List(WorktreeListArgs),
    /// Create a working tree with its own branch
    Create(WorktreeCreateArgs),
    /// Select the working tree for betcode.v1 conversations that name no folder
    Switch(WorktreeArg),
    /// Stop the sessions of a working tree and remove it; its branch stays
    #[command(visible_alias = "rm")]
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct WorktreeListArgs {
    /// Any folder of the repository [default: the current one]
    #[arg(value_name = "PATH")]
    pub(crate) repo: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct WorktreeCreateArgs {
    /// Its name; without --branch and --create-branch, also the name of a new branch
    #[arg(required_unless_present = "branch")]
    pub(crate) name: Option<String>,
    /// Any folder of the repository [default: the current one]
    #[arg(long, value_name = "PATH")]
    pub(crate) repo: Option<PathBuf>,
    /// The branch to check out; it must exist unless --create-branch is given
    #[arg(long, short)]
    pub(crate) branch: Option<String>,
    /// Create the branch, from what the repository has checked out
    #[arg(long)]
    pub(crate) create_branch: bool,
    /// Where to create it: a folder that does not exist yet [default: below the daemon's data folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct WorktreeArg {
    /// Id, name or folder
    #[arg(value_name = "WORKTREE")]
    pub(crate) worktree: String,
    /// Any folder of the repository in which the name is looked up [default: the current one]
    #[arg(long, value_name = "PATH")]
    pub(crate) repo: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    #[command(flatten)]
    pub(crate) worktree: WorktreeArg,
    /// Remove it even if that loses uncommitted changes
    #[arg(long)]
    pub(crate) force: bool,
}
