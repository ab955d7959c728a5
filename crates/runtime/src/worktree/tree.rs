//! One working tree, opened to compare or change it: its repository, its files, what it has checked out and what it
//! was made from. Finds it by id, by session or by folder. Changes nothing.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use domain::{Error, SessionId, Timestamp};
use storage::worktrees::{WorktreeOrigin, WorktreeRow};

use super::git::{self, ListedTree, Repository};
use super::shelter::HookIsolation;
use super::{Worktrees, missing};

/// How a caller names a working tree. The first that is not empty counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeName {
    /// An id such as `wt_…`.
    pub id: String,
    /// The tree in which this session works.
    pub session: Option<SessionId>,
    /// Any folder of the tree.
    pub folder: String,
}

/// An open working tree.
pub(super) struct OpenTree {
    pub(super) repository: Repository,
    /// Its root.
    pub(super) path: PathBuf,
    /// Contains its index.
    pub(super) git_dir: PathBuf,
    /// What it has checked out; `None` if the repository has no commit.
    pub(super) head: Option<String>,
    /// Without `refs/heads/`; `None` if no branch is checked out.
    pub(super) branch: Option<String>,
    /// All trees of the repository, the main one first.
    pub(super) trees: Vec<ListedTree>,
    pub(super) row: WorktreeRow,
}

/// Returns the row of a tree that nobody has recorded.
pub(super) fn unrecorded(path: &Path, repository: &Repository) -> WorktreeRow {
    WorktreeRow {
        id: String::new(),
        path: path.display().to_string(),
        repository: repository.common_dir.display().to_string(),
        name: String::new(),
        created_at: Timestamp(0),
        chosen_at: Timestamp(0),
        origin: WorktreeOrigin::default(),
    }
}

impl Worktrees {
    /// Opens the tree that a caller names.
    pub(super) async fn open_tree(&self, name: &TreeName) -> Result<OpenTree, Error> {
        let folder = match name {
            TreeName { id, .. } if !id.is_empty() => self.folder(id).await?,
            TreeName { session: Some(session), .. } => {
                self.supervisor.snapshot(session).await?.spec.working_dir.clone()
            }
            TreeName { folder, .. } if !folder.is_empty() => PathBuf::from(folder),
            TreeName { .. } => {
                return Err(Error::invalid("worktree_id", "is required, or session_id, or folder"));
            }
        };
        if !folder.is_absolute() || !folder.is_dir() {
            return Err(git::failed(&format!("{} is no folder on this machine", folder.display())));
        }
        self.open_folder(&folder).await
    }

    /// Opens the tree that a folder belongs to.
    pub(super) async fn open_folder(&self, folder: &Path) -> Result<OpenTree, Error> {
        let mut tree = Self::look_at_folder(folder).await?;
        tree.row = self.known(&tree.repository, &tree.path, None).await?;
        Ok(tree)
    }

    /// The same, without making the tree one of ours: its row is that of a tree nobody has recorded.
    pub(super) async fn look_at_folder(folder: &Path) -> Result<OpenTree, Error> {
        let mut tree = Self::look_at_files(folder).await?;
        tree.trees = tree.repository.trees().await?;
        let listed = tree.trees.iter().find(|listed| listed.path == tree.path).cloned().unwrap_or_default();
        tree.head = Some(listed.head).filter(|head| head.bytes().any(|byte| byte != b'0'));
        tree.branch = listed.branch;
        Ok(tree)
    }

    /// The same for work on its files alone, at one run of git less: what is checked out and the other trees are not read.
    pub(super) async fn look_at_files(folder: &Path) -> Result<OpenTree, Error> {
        let repository = Repository::find(folder).await?;
        let Some(path) = repository.root.clone() else {
            return Err(git::failed(&format!("{} has no files checked out", folder.display())));
        };
        Ok(OpenTree {
            head: None,
            branch: None,
            git_dir: repository.git_dir.clone(),
            trees: Vec::new(),
            row: unrecorded(&path, &repository),
            repository,
            path,
        })
    }

    pub(super) async fn isolation(&self, tree: &OpenTree) -> Result<HookIsolation, Error> {
        let isolation = HookIsolation::new(&self.shared().folder, &tree.repository)?;
        isolation.take_sparse_patterns_of(tree).await?;
        Ok(isolation)
    }
}

impl OpenTree {
    pub(super) fn index(&self) -> PathBuf {
        self.git_dir.join("index")
    }

    pub(super) fn is_main(&self) -> bool {
        self.trees.first().is_some_and(|main| main.path == self.path)
    }

    /// Returns the commit that is checked out, which must exist.
    pub(super) fn head(&self) -> Result<&str, Error> {
        self.head
            .as_deref()
            .ok_or_else(|| git::failed(&format!("{} has no commit yet; make one first", self.path.display())))
    }

    /// Returns the branch the tree was made from and that branch's commit now. The branch is empty if it is unknown
    /// or was deleted; `None` if nothing is known.
    pub(super) async fn base(&self) -> Result<Option<(String, String)>, Error> {
        let origin = &self.row.origin;
        if !origin.base_ref.is_empty()
            && let Some(commit) = self.repository.commit(&origin.base_ref).await?
        {
            return Ok(Some((origin.base_ref.clone(), commit)));
        }
        if !origin.base_commit.is_empty() {
            return Ok(Some((String::new(), origin.base_commit.clone())));
        }
        // A tree that somebody else made: its base is what the main tree has checked out.
        let main = self.trees.first().filter(|main| !self.is_main() && main.branch.is_some());
        let Some(branch) = main.and_then(|main| main.branch.as_deref()) else { return Ok(None) };
        let name = format!("refs/heads/{branch}");
        Ok(self.repository.commit(&name).await?.map(|commit| (name, commit)))
    }

    /// Returns the newest commit that two commits have in common.
    pub(super) async fn merge_base(&self, one: &str, other: &str) -> Result<Option<String>, Error> {
        let args = ["merge-base", "--end-of-options", one, other].map(OsStr::new);
        let done = git::try_run(&self.repository.folder, &args, &[]).await?;
        let commit = String::from_utf8_lossy(&done.stdout).trim().to_owned();
        Ok((done.ok && !commit.is_empty()).then_some(commit))
    }

    pub(super) async fn is_ancestor(&self, older: &str, newer: &str) -> Result<bool, Error> {
        let args = ["merge-base", "--is-ancestor", older, newer].map(OsStr::new);
        Ok(git::try_run(&self.repository.folder, &args, &[]).await?.ok)
    }
}

impl HookIsolation {
    /// Takes over which files a sparse tree has checked out.
    async fn take_sparse_patterns_of(&self, tree: &OpenTree) -> Result<(), Error> {
        if !tree.git_dir.join("info/sparse-checkout").exists() {
            return Ok(());
        }
        let is_set = async |key: &str| {
            let args = ["config", "--type=bool", "--get", key].map(OsStr::new);
            git::try_run(&tree.path, &args, &[]).await.map(|done| done.stdout.starts_with(b"true"))
        };
        if is_set("core.sparseCheckout").await? {
            self.take_sparse_patterns(&tree.git_dir, is_set("core.sparseCheckoutCone").await?)?;
        }
        Ok(())
    }
}

impl Worktrees {
    /// Returns the folder of a worktree, which must exist.
    pub async fn folder(&self, id: &str) -> Result<PathBuf, Error> {
        let row = self.row(id).await?;
        let path = PathBuf::from(&row.path);
        if path.is_dir() { Ok(path) } else { Err(missing(&row)) }
    }
}
