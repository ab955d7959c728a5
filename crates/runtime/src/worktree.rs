//! Working trees of git repositories: lists, creates, selects and removes them, with the sessions in them; compares
//! them, merges, rebases, discards and collects them. Git itself is run in `git`, where valid names are defined too.

mod checkpoint_bundle;
mod collect;
mod create;
mod diff;
mod discard;
mod edited_turn;
mod folder_recordings;
mod git;
mod merge;
mod merged;
pub(crate) mod push;
mod push_credential;
mod rebase;
mod remove;
mod session_tree;
mod setup;
mod shelter;
mod skipped;
mod tree;
mod turn_tree;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use domain::{Error, ErrorCode, SessionId, Timestamp};

use crate::campaign;
use crate::session::Snapshot;
use crate::supervisor::Supervisor;
pub use collect::{CollectedWorktree, KeptReason};
pub use create::{BranchChoice, CreatedWorktree, HookChoice, NewWorktree};
pub use diff::{
    DiffFile, DiffHunk, DiffLine, DiffLineKind, DiffScope, FileChange, FileChangeStatus, WorktreeDiff,
};
pub use discard::{DiscardScope, Discarded};
pub use edited_turn::EditedTurn;
use folder_recordings::FolderRecordings;
use git::{ListedTree, Repository};
use host::{clock, ids};
pub use merge::{MergeRequest, MergedTree};
pub use merged::{MergeCheck, MergeState};
pub use push::{PushCredential, PushRequest, PushedBranch};
pub use rebase::RebasedTree;
pub use remove::RemovedWorktree;
pub use session_tree::SessionTree;
pub(crate) use session_tree::folder_below;
pub use setup::SetupOutcome;
pub use skipped::{SkipReason, SkippedPath};
use storage::worktrees::{self, WorktreeOrigin, WorktreeRow};
use storage::{Durability, Store};
pub use tree::TreeName;
pub use turn_tree::RecordedFiles;
pub(crate) use turn_tree::record_turns;

/// State shared by the worktrees of a daemon.
pub(crate) struct WorktreeContext {
    /// Where worktrees without a given path are created, and where temporary git folders are kept.
    folder: PathBuf,
    /// Locks that allow one change of a repository at a time.
    repositories: Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>,
    /// The listener for turns that change files; set by the daemon after its start.
    edited_turns: std::sync::OnceLock<tokio::sync::mpsc::Sender<EditedTurn>>,
    recordings: FolderRecordings,
}

impl WorktreeContext {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            repositories: Mutex::default(),
            edited_turns: std::sync::OnceLock::new(),
            recordings: FolderRecordings::default(),
        }
    }
}

/// The worktrees of this daemon. Cheap to clone.
#[derive(Clone)]
pub struct Worktrees {
    supervisor: Supervisor,
}

/// The current state of a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worktree {
    pub id: String,
    pub name: String,
    pub path: PathBuf,
    /// `None` if no branch is checked out.
    pub branch: Option<String>,
    pub created_at: Timestamp,
    /// The newest session in it that has not ended.
    pub active_session: Option<SessionId>,
    pub session_count: u64,
    pub exists: bool,
    /// The branch it was made from, such as `main` or `origin/main`; empty if unknown.
    pub base: String,
    /// The daemon made it.
    pub made_here: bool,
    /// The repository's main working tree.
    pub is_main: bool,
}

impl Worktrees {
    pub(crate) fn new(supervisor: Supervisor) -> Self {
        Self { supervisor }
    }

    /// Returns the working trees of the repository a folder belongs to, the main one first. Trees that were
    /// deleted by hand are included until they are removed here or git prunes them.
    pub async fn list(&self, repo_path: &str) -> Result<Vec<Worktree>, Error> {
        let repository = self.repository(repo_path).await?;
        let trees = repository.trees().await?;
        self.listed(&repository, &trees).await
    }

    /// The same of trees that git has listed.
    async fn listed(&self, repository: &Repository, trees: &[ListedTree]) -> Result<Vec<Worktree>, Error> {
        // All rows must exist before one is inspected, because a session belongs to the innermost worktree.
        let mut rows = Vec::new();
        for tree in trees.iter().filter(|tree| !tree.bare) {
            if tree.path.to_str().is_none() {
                tracing::warn!(path = %tree.path.display(), "a worktree whose path is not valid UTF-8 is not listed");
                continue;
            }
            rows.push((self.known(repository, &tree.path, None).await?, tree));
        }
        let mut listed = Vec::new();
        for (row, tree) in rows {
            listed.push(self.inspect(row, Some(tree)).await?);
        }
        self.forget_others(repository, &listed).await?;
        Ok(listed)
    }

    /// Returns the path of a worktree, which may no longer exist.
    pub async fn path(&self, id: &str) -> Result<PathBuf, Error> {
        Ok(PathBuf::from(self.row(id).await?.path))
    }

    /// Makes a worktree the current one. Returns it and the previous one.
    pub async fn switch(&self, id: &str) -> Result<(Worktree, Option<String>), Error> {
        let row = self.row(id).await?;
        if !Path::new(&row.path).is_dir() {
            return Err(missing(&row));
        }
        let previous = self.current().await?.map(|row| row.id);
        let (wanted, now) = (id.to_owned(), clock::now());
        self.store()
            .write(Durability::Synced, move |connection| worktrees::choose(connection, &wanted, now))
            .await?;
        let tree = self.tree(&row).await?;
        Ok((self.inspect(row, tree.as_ref()).await?, previous))
    }

    /// Returns the folder of the current worktree, if it still exists.
    pub async fn current_folder(&self) -> Result<Option<PathBuf>, Error> {
        let current = self.current().await?;
        Ok(current.map(|row| PathBuf::from(row.path)).filter(|path| path.is_dir()))
    }

    /// Returns for each folder the id of the innermost known worktree that contains it; empty if none does.
    pub async fn holding(&self, folders: &[&Path]) -> Result<Vec<String>, Error> {
        let rows = self.store().read(worktrees::all).await?;
        let holds = |folder: &&Path| {
            let holding = rows.iter().filter(|row| folder.starts_with(&row.path));
            holding.max_by_key(|row| row.path.len()).map(|row| row.id.clone()).unwrap_or_default()
        };
        Ok(folders.iter().map(holds).collect())
    }

    fn store(&self) -> &Store {
        self.supervisor.store()
    }

    fn shared(&self) -> &WorktreeContext {
        self.supervisor.worktree_state()
    }

    async fn current(&self) -> Result<Option<WorktreeRow>, Error> {
        let rows = self.store().read(worktrees::all).await?;
        Ok(rows.into_iter().filter(|row| row.chosen_at.0 > 0).max_by_key(|row| row.chosen_at))
    }

    async fn row(&self, id: &str) -> Result<WorktreeRow, Error> {
        if id.is_empty() {
            return Err(Error::invalid("worktree_id", "is required"));
        }
        let wanted = id.to_owned();
        let found = self.store().read(move |connection| worktrees::find(connection, &wanted)).await?;
        found.ok_or_else(|| {
            Error::new(
                ErrorCode::WorktreeNotFound,
                format!("worktree_id: there is no worktree {id}; ListWorktrees shows those of a repository"),
            )
        })
    }

    /// Finds the repository of a folder that is valid as a root.
    async fn repository(&self, repo_path: &str) -> Result<Repository, Error> {
        if repo_path.is_empty() {
            return Err(Error::invalid("repo_path", "is required"));
        }
        let folder = campaign::resolve_root(Path::new(repo_path))
            .map_err(|error| Error::invalid("repo_path", error.message.trim_start_matches("path: ")))?;
        Repository::find(&folder).await
    }

    /// Waits for exclusive access to a repository.
    async fn alone(&self, repository: &Repository) -> tokio::sync::OwnedMutexGuard<()> {
        let lock = {
            let mut all = self.shared().repositories.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(all.entry(repository.common_dir.clone()).or_default())
        };
        lock.lock_owned().await
    }

    /// Returns the row of a worktree; adds one if git knows a worktree that the store does not.
    async fn known(
        &self,
        repository: &Repository,
        path: &Path,
        name: Option<&str>,
    ) -> Result<WorktreeRow, Error> {
        self.record(repository, path, name, WorktreeOrigin::default()).await
    }

    /// The same; a new row tells where the worktree comes from.
    async fn record(
        &self,
        repository: &Repository,
        path: &Path,
        name: Option<&str>,
        origin: WorktreeOrigin,
    ) -> Result<WorktreeRow, Error> {
        let Some(text) = path.to_str().map(str::to_owned) else {
            return Err(Error::invalid("repo_path", format_args!("{} is not valid UTF-8", path.display())));
        };
        let wanted = text.clone();
        let known = self.store().read(move |connection| worktrees::find_by_path(connection, &wanted)).await?;
        let common_dir = repository.common_dir.display().to_string();
        if let Some(known) = known.filter(|known| known.repository == common_dir && !origin.made_here) {
            return Ok(known);
        }
        let folder_name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let row = WorktreeRow {
            id: format!("wt_{}", ids::unique()),
            path: text,
            repository: common_dir,
            name: name.map_or_else(|| folder_name.unwrap_or_default(), str::to_owned),
            created_at: if origin.made_here { clock::now() } else { made_at(path) },
            chosen_at: Timestamp::default(),
            origin,
        };
        self.store().write(Durability::Synced, move |connection| worktrees::put(connection, &row)).await
    }

    /// Removes rows of a repository's worktrees that git no longer knows.
    async fn forget_others(&self, repository: &Repository, listed: &[Worktree]) -> Result<(), Error> {
        let common_dir = repository.common_dir.display().to_string();
        let rows = self.store().read(worktrees::all).await?;
        let gone: Vec<String> = rows
            .into_iter()
            .filter(|row| row.repository == common_dir && !listed.iter().any(|tree| tree.id == row.id))
            .map(|row| row.id)
            .collect();
        if gone.is_empty() {
            return Ok(());
        }
        self.store()
            .write(Durability::Synced, move |connection| {
                gone.iter().try_for_each(|id| worktrees::remove(connection, id))
            })
            .await
    }

    /// Returns what git says about a worktree; `None` if its repository no longer exists or no longer knows
    /// it.
    async fn tree(&self, row: &WorktreeRow) -> Result<Option<ListedTree>, Error> {
        let Some(repository) = self.repository_of(row).await else { return Ok(None) };
        Ok(repository.trees().await?.into_iter().find(|tree| tree.path == Path::new(&row.path)))
    }

    /// Finds the repository of a worktree: from the tree itself or, if that is deleted, from the repository's
    /// shared folder.
    async fn repository_of(&self, row: &WorktreeRow) -> Option<Repository> {
        let shared = Path::new(&row.repository);
        let places = [Some(Path::new(&row.path)), shared.parent()].into_iter().flatten();
        for place in places.filter(|place| place.is_dir()) {
            match Repository::find(place).await {
                Ok(found) if found.common_dir == shared => return Some(found),
                _ => {}
            }
        }
        None
    }

    /// Returns the sessions that work in a worktree itself, not in another one below it.
    async fn sessions_in(&self, row: &WorktreeRow) -> Result<Vec<Snapshot>, Error> {
        let below = self.supervisor.below(&row.path).await?;
        let folders: Vec<&Path> = below.iter().map(|session| session.spec.working_dir.as_path()).collect();
        let holding = self.holding(&folders).await?;
        Ok(below
            .into_iter()
            .zip(holding)
            .filter(|(_, id)| *id == row.id)
            .map(|(session, _)| session)
            .collect())
    }

    /// Combines a row, git's view of the tree and the sessions in it.
    async fn inspect(&self, row: WorktreeRow, tree: Option<&ListedTree>) -> Result<Worktree, Error> {
        let sessions = self.sessions_in(&row).await?;
        let active = sessions.iter().find(|session| !session.state.status.is_terminal());
        Ok(Worktree {
            exists: Path::new(&row.path).is_dir(),
            is_main: Path::new(&row.repository).parent() == Some(Path::new(&row.path)),
            base: short_name(&row.origin.base_ref).to_owned(),
            made_here: row.origin.made_here,
            path: PathBuf::from(row.path),
            branch: tree.and_then(|tree| tree.branch.clone()),
            active_session: active.map(|session| session.spec.id.clone()),
            session_count: sessions.len() as u64,
            id: row.id,
            name: row.name,
            created_at: row.created_at,
        })
    }
}

/// Returns when a tree that others made came to be: when its `.git` was made, or last changed if that is unknown.
fn made_at(path: &Path) -> Timestamp {
    let found = path.join(".git").symlink_metadata();
    let time = found.and_then(|found| found.created().or_else(|_| found.modified()));
    let since = time.ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    since.map_or_else(clock::now, |since| Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX)))
}

/// Returns a branch's name as people write it.
fn short_name(full: &str) -> &str {
    full.strip_prefix("refs/heads/").or_else(|| full.strip_prefix("refs/remotes/")).unwrap_or(full)
}

fn missing(row: &WorktreeRow) -> Error {
    Error::new(
        ErrorCode::WorktreeFailed,
        format!("worktree {} is gone: {} does not exist; remove it", row.id, row.path),
    )
}
