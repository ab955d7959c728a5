//! Removes worktrees that are not needed any more: those the daemon made, without uncommitted changes and without a live session,
//! whose work is in their base or that have none. In doubt, a worktree is kept.

use std::path::Path;

use domain::Error;
use storage::worktrees::WorktreeRow;

use super::git::ListedTree;
use super::merged::MergeState;
use super::{Worktree, Worktrees};

/// Why a worktree is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptReason {
    NotMadeHere,
    SessionAlive,
    Locked,
    Uncommitted,
    NotMerged,
    /// It cannot be looked at.
    Unknown(String),
}

impl KeptReason {
    /// Returns the reason in words.
    pub fn words(&self) -> String {
        match self {
            Self::NotMadeHere => "obey did not make it".to_owned(),
            Self::SessionAlive => "a session works in it".to_owned(),
            Self::Locked => "it is locked".to_owned(),
            Self::Uncommitted => "it has changes that are not committed".to_owned(),
            Self::NotMerged => "its commits are not in its base".to_owned(),
            Self::Unknown(why) => why.clone(),
        }
    }
}

/// A worktree that was looked at.
#[derive(Clone, Debug)]
pub struct CollectedWorktree {
    pub worktree: Worktree,
    /// `None`: it was removed, or would be.
    pub kept: Option<KeptReason>,
    /// Its branch was deleted too, because the base has all its commits.
    pub branch_deleted: bool,
}

impl Worktrees {
    /// Removes the worktrees of a repository that nobody needs. With `dry_run` only tells which.
    pub async fn collect(&self, repo_path: &str, dry_run: bool) -> Result<Vec<CollectedWorktree>, Error> {
        let mut collected = Vec::new();
        for worktree in self.list(repo_path).await? {
            if worktree.is_main {
                continue;
            }
            let (kept, state) = self.reason_to_keep(&worktree).await;
            let mut one = CollectedWorktree { worktree, kept, branch_deleted: false };
            if one.kept.is_none() && !dry_run {
                match self.collect_one(&one.worktree, state).await {
                    Ok(branch_deleted) => one.branch_deleted = branch_deleted,
                    Err(error) => one.kept = Some(KeptReason::Unknown(error.message)),
                }
            }
            collected.push(one);
        }
        Ok(collected)
    }

    /// Returns why a worktree must stay, and how much of it is merged.
    async fn reason_to_keep(&self, worktree: &Worktree) -> (Option<KeptReason>, MergeState) {
        match self.look_for_reason(worktree).await {
            Ok(found) => found,
            Err(error) => (Some(KeptReason::Unknown(error.message)), MergeState::NotMerged),
        }
    }

    async fn look_for_reason(&self, worktree: &Worktree) -> Result<(Option<KeptReason>, MergeState), Error> {
        let keep = |reason| Ok((Some(reason), MergeState::NotMerged));
        if !worktree.made_here {
            return keep(KeptReason::NotMadeHere);
        }
        // Sessions in folders below count too, whatever tree they belong to.
        let below = self.supervisor.below(&worktree.path.display().to_string()).await?;
        if below.iter().any(|session| !session.state.status.is_terminal()) {
            return keep(KeptReason::SessionAlive);
        }
        if !worktree.exists {
            return keep(KeptReason::Unknown("its folder is gone; remove it".to_owned()));
        }
        let tree = self.open_folder(&worktree.path).await?;
        let listed: Option<&ListedTree> = tree.trees.iter().find(|listed| listed.path == tree.path);
        if listed.is_none_or(|listed| listed.locked) {
            return keep(KeptReason::Locked);
        }
        let check = self.check_merged(&tree).await?;
        if check.dirty {
            return keep(KeptReason::Uncommitted);
        }
        if check.state == MergeState::NotMerged {
            return keep(KeptReason::NotMerged);
        }
        // Without a branch the commits of a squashed tree would be lost with it.
        if check.state == MergeState::Squashed && tree.branch.is_none() {
            return keep(KeptReason::NotMerged);
        }
        Ok((None, check.state))
    }

    /// Removes a tree, and its branch if every commit of it is in the base. Returns whether the branch is gone.
    async fn collect_one(&self, worktree: &Worktree, state: MergeState) -> Result<bool, Error> {
        let row: WorktreeRow = self.row(&worktree.id).await?;
        let tree = self.open_folder(Path::new(&row.path)).await?;
        let head = tree.head()?.to_owned();
        let is_in_base = match tree.base().await? {
            Some((base_ref, base)) if !base_ref.is_empty() => tree.is_ancestor(&head, &base).await?,
            _ => false,
        };
        self.remove(&worktree.id, false).await?;
        let (Some(branch), true, MergeState::Empty | MergeState::Merged) = (&tree.branch, is_in_base, state)
        else {
            return Ok(false);
        };
        let name = format!("refs/heads/{branch}");
        // Only if it still points at the commit that was looked at.
        let args = ["update-ref", "-d", &name, &head].map(std::ffi::OsStr::new);
        let env = [("GIT_DIR", tree.repository.common_dir.as_os_str())];
        Ok(super::git::try_run(&tree.repository.common_dir, &args, &env).await?.ok)
    }
}
