//! Removes a worktree: first checks it for uncommitted work, then ends its sessions, then deletes it.

use std::ffi::OsStr;
use std::path::Path;

use domain::{Error, ErrorCode, Status, StopMode};

use super::git::{self, ListedTree, Repository};
use super::shelter::HookIsolation;
use super::{Worktrees, worktrees};
use storage::Durability;
use storage::worktrees::WorktreeRow;

/// The result of a removal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemovedWorktree {
    pub sessions_closed: u32,
}

impl Worktrees {
    /// Removes a worktree and ends its sessions. Uncommitted work needs `force`. Runs to its end even if the
    /// caller disconnects.
    pub async fn remove(&self, id: &str, force: bool) -> Result<RemovedWorktree, Error> {
        let (worktrees, id) = (self.clone(), id.to_owned());
        let removed = tokio::spawn(async move { worktrees.remove_here(&id, force).await });
        removed
            .await
            .unwrap_or_else(|error| Err(git::failed("an internal error").with_detail(error.to_string())))
    }

    async fn remove_here(&self, id: &str, force: bool) -> Result<RemovedWorktree, Error> {
        let row = self.row(id).await?;
        let Some(repository) = self.repository_of(&row).await else {
            // Neither tree nor repository exists any more; only our record is left.
            let closed = self.close_sessions(&row).await?;
            self.forget(&row).await?;
            return Ok(closed);
        };
        let _alone = self.alone(&repository).await;
        let trees = repository.trees().await?;
        let path = Path::new(&row.path);
        if trees.first().is_some_and(|main| main.path == path) {
            return Err(git::failed("this is the repository's main working tree, which cannot be removed"));
        }
        let Some(tree) = trees.into_iter().find(|tree| tree.path == path) else {
            let closed = self.close_sessions(&row).await?;
            self.forget(&row).await?;
            return Ok(closed);
        };
        if tree.locked {
            return Err(git::failed(&format!(
                "worktree {id} is locked; unlock it with `git worktree unlock`"
            )));
        }
        self.check_clean(&repository, &tree, force).await?;
        let closed = self.close_sessions(&row).await?;
        // An agent may have written until it ended.
        self.check_clean(&repository, &tree, force).await?;
        // Run from the shared folder: a command may fail in a folder that it removes.
        let place = repository.common_dir.clone();
        let args = ["worktree", "remove", "--force", "--"].map(OsStr::new);
        let args: Vec<&OsStr> = args.into_iter().chain([path.as_os_str()]).collect();
        let env = [("GIT_DIR", place.as_os_str())];
        // A folder is removed from the one that holds it.
        let parent = path.parent().unwrap_or(&place);
        let done = git::try_run_writing(&place, &args, &env, &[parent]).await?;
        if !done.ok {
            return Err(git::complaint(&done));
        }
        self.forget(&row).await?;
        Ok(closed)
    }

    /// Refuses a tree with uncommitted work, unless `force` is set.
    async fn check_clean(
        &self,
        repository: &Repository,
        tree: &ListedTree,
        force: bool,
    ) -> Result<(), Error> {
        if force || !tree.path.exists() {
            return Ok(());
        }
        let own = Repository::find(&tree.path).await?.git_dir;
        let shelter = HookIsolation::new(&self.shared().folder, repository)?;
        if shelter.is_dirty(&tree.path, &own.join("index"), &tree.head).await? {
            return Err(git::failed(&format!(
                "{} has changes that are not committed; commit them, or use force to lose them",
                tree.path.display()
            )));
        }
        Ok(())
    }

    /// Ends every session in a worktree that has not ended. Returns how many there were.
    async fn close_sessions(&self, row: &WorktreeRow) -> Result<RemovedWorktree, Error> {
        let mut closed = 0;
        for session in self.supervisor.below(&row.path).await? {
            let id = &session.spec.id;
            match session.state.status {
                Status::Stopped | Status::Failed => continue,
                Status::Created | Status::Starting | Status::Running | Status::Working | Status::Stopping => {
                }
            }
            match self.supervisor.stop(id, StopMode::Now).await {
                Ok(_) => closed += 1,
                Err(error) if error.code == ErrorCode::AlreadyStopped => {}
                Err(error) => return Err(error),
            }
        }
        Ok(RemovedWorktree { sessions_closed: closed })
    }

    pub(super) async fn forget(&self, row: &WorktreeRow) -> Result<(), Error> {
        let id = row.id.clone();
        self.store().write(Durability::Synced, move |connection| worktrees::remove(connection, &id)).await
    }
}
