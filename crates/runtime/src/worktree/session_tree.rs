//! The working tree of a new session: an existing one or one made for it. Takes the wish out of the session's
//! settings; the session itself belongs to the supervisor.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use domain::Error;

use super::create::{BranchChoice, HookChoice, LockedRepository, NewWorktree};
use super::git::ListedTree;
use super::{Worktree, Worktrees};

/// Keys of `provider_config` that are common to all providers; they never reach the provider itself.
const TREE_KEY: &str = "worktree";
const BRANCH_KEY: &str = "worktree_branch";
const BASE_KEY: &str = "worktree_base";
const PROMPT_KEY: &str = "worktree_prompt";

/// The working tree a new session wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionTree {
    /// The id or name of an existing tree, else the name of a new one. Empty: a new one, named by the prompt.
    pub name: String,
    /// The branch of a new tree; empty: as the tree is named.
    pub branch: String,
    /// What a new branch starts from; empty: what the campaign has checked out.
    pub base: String,
    /// What names a new tree if the session is created without a prompt.
    pub prompt: String,
}

/// The folders of a session in a working tree.
pub(crate) struct TreeFolder {
    /// What takes the place of the campaign's root.
    pub(crate) root: PathBuf,
    /// The tree, if it was made for this session.
    pub(crate) made: Option<Worktree>,
}

impl SessionTree {
    /// Takes the wish out of a session's settings.
    pub(crate) fn take(config: &mut BTreeMap<String, String>) -> Result<Option<Self>, Error> {
        let name = config.remove(TREE_KEY);
        let (branch, base) = (config.remove(BRANCH_KEY), config.remove(BASE_KEY));
        let prompt = config.remove(PROMPT_KEY).unwrap_or_default();
        match name {
            Some(name) => Ok(Some(Self {
                name,
                branch: branch.unwrap_or_default(),
                base: base.unwrap_or_default(),
                prompt,
            })),
            None if branch.is_some() || base.is_some() => Err(Error::invalid(
                "provider_config.worktree",
                "is required with worktree_branch and worktree_base; empty: a new tree, named by the prompt",
            )),
            None => Ok(None),
        }
    }
}

impl Worktrees {
    /// Finds or makes the tree of a session whose campaign has this root.
    pub(crate) async fn for_session(
        &self,
        root: &Path,
        wanted: &SessionTree,
        prompt: &str,
        hook: HookChoice,
    ) -> Result<TreeFolder, Error> {
        let repo_path = root.display().to_string();
        let locked = self.lock_repository(&repo_path).await.map_err(in_config)?;
        // Without the sessions in each tree: a repository may have hundreds.
        let paths: Vec<PathBuf> =
            locked.trees.iter().filter(|tree| !tree.bare).map(|tree| tree.path.clone()).collect();
        if let Some(path) = self.path_of_named(&locked, &wanted.name).await.map_err(in_config)? {
            if !wanted.branch.is_empty() || !wanted.base.is_empty() {
                return Err(Error::invalid(
                    "provider_config.worktree",
                    format_args!(
                        "{} exists already; leave out worktree_branch and worktree_base",
                        wanted.name
                    ),
                ));
            }
            return Ok(TreeFolder { root: same_folder(&paths, root, &path), made: None });
        }
        if wanted.name.starts_with("wt_") {
            return Err(in_config(self.row(&wanted.name).await.err().unwrap_or_else(|| {
                Error::invalid("worktree", "belongs to another repository than the campaign")
            })));
        }
        let new = NewWorktree {
            repo_path,
            name: wanted.name.clone(),
            branch: wanted.branch.clone(),
            base: wanted.base.clone(),
            prompt: if prompt.is_empty() { wanted.prompt.clone() } else { prompt.to_owned() },
            branch_choice: BranchChoice::Either,
            hook,
            ..NewWorktree::default()
        };
        let made = self.create_in(locked, new).await.map_err(in_config)?;
        Ok(TreeFolder { root: same_folder(&paths, root, &made.path), made: Some(made) })
    }

    /// Returns the folder of the repository's tree that has this id or name, which must exist; `None` if there is no such tree or
    /// the name is empty.
    async fn path_of_named(&self, locked: &LockedRepository, wanted: &str) -> Result<Option<PathBuf>, Error> {
        if wanted.is_empty() {
            return Ok(None);
        }
        let common_dir = locked.repository.common_dir.display().to_string();
        let rows = self.store().read(storage::worktrees::all).await?;
        let is_wanted = |tree: &&ListedTree| {
            let Some(path) = tree.path.to_str().filter(|_| !tree.bare) else { return false };
            match rows.iter().find(|row| row.path == path && row.repository == common_dir) {
                Some(row) => row.id == wanted || row.name == wanted,
                // One that git knows and nobody has recorded goes by its folder.
                None => tree.path.file_name().is_some_and(|name| name.to_string_lossy() == wanted),
            }
        };
        let Some(tree) = locked.trees.iter().find(is_wanted) else { return Ok(None) };
        let row = self.known(&locked.repository, &tree.path, None).await?;
        self.folder(&row.id).await.map(Some)
    }

    /// Removes a tree that was made for a session which could not be created. Its branch goes with it.
    pub(crate) async fn undo_for_session(&self, made: &Worktree) {
        let removed = async {
            let tree = self.open_folder(&made.path).await?;
            let (branch, head) = (tree.branch.clone(), tree.head()?.to_owned());
            self.remove(&made.id, false).await?;
            // Only a branch that has nothing but its base; one that existed before stays.
            if let Some(branch) = branch.filter(|_| head == tree.row.origin.base_commit) {
                let name = format!("refs/heads/{branch}");
                let args = ["update-ref", "-d", &name, &head].map(std::ffi::OsStr::new);
                let env = [("GIT_DIR", tree.repository.common_dir.as_os_str())];
                super::git::try_run(&tree.repository.common_dir, &args, &env).await?;
            }
            Ok::<_, Error>(())
        };
        if let Err(error) = removed.await {
            tracing::warn!(%error, worktree = made.id, "a worktree of a session that was not created stays");
        }
    }

    /// Returns the root of the repository's main tree for a folder that lies in a known worktree.
    pub(crate) async fn main_of(&self, folder: &Path) -> Result<Option<PathBuf>, Error> {
        let rows = self.store().read(storage::worktrees::all).await?;
        let holding =
            rows.iter().filter(|row| folder.starts_with(&row.path)).max_by_key(|row| row.path.len());
        let main = holding.and_then(|row| Path::new(&row.repository).parent());
        Ok(main.map(Path::to_owned).filter(|main| main.is_dir() && !folder.starts_with(main)))
    }
}

/// Returns the folder in one tree that a folder is in another: a campaign may be a part of its repository.
fn same_folder(trees: &[PathBuf], folder: &Path, tree: &Path) -> PathBuf {
    let holding = trees.iter().filter(|tree| folder.starts_with(tree));
    let holding = holding.max_by_key(|tree| tree.as_os_str().len());
    let below = holding.and_then(|holding| folder.strip_prefix(holding).ok());
    let wanted = below.map_or_else(|| tree.to_owned(), |below| folder_below(tree, below));
    // A folder without tracked files is in no other tree.
    if wanted.is_dir() { wanted } else { tree.to_owned() }
}

/// Joins a folder and a path below it. An empty path gives the folder itself; `Path::join` would add a slash.
pub(crate) fn folder_below(folder: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() { folder.to_owned() } else { folder.join(below) }
}

/// Names the field of the session instead of that of the worktree.
fn in_config(mut error: Error) -> Error {
    if error.code == domain::ErrorCode::InvalidArgument {
        let renamed = [
            ("branch: ", "provider_config.worktree_branch: "),
            ("name: ", "provider_config.worktree: "),
            ("base: ", "provider_config.worktree_base: "),
            ("worktree: ", "provider_config.worktree: "),
            ("repo_path: ", "provider_config.worktree: "),
        ];
        for (from, to) in renamed {
            if let Some(rest) = error.message.strip_prefix(from) {
                error.message = format!("{to}{rest}");
                break;
            }
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_itself_gets_no_trailing_slash() {
        assert_eq!(folder_below(Path::new("/tree"), Path::new("")).as_os_str(), "/tree");
        assert_eq!(folder_below(Path::new("/tree"), Path::new("web")).as_os_str(), "/tree/web");
    }
}
