//! Creates a worktree: all checks before anything exists, and everything undone if a step fails.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use domain::Error;

use super::git::{self, Repository};
use super::shelter::HookIsolation;
use super::{Worktree, Worktrees, names};

/// The fields of a worktree to create. An empty text means the default.
#[derive(Clone, Debug, Default)]
pub struct NewWorktree {
    pub repo_path: String,
    pub branch: String,
    pub name: String,
    /// Absolute; must not exist yet.
    pub path: String,
    /// Create the branch; otherwise it must exist.
    pub create_branch: bool,
}

/// A worktree that passed all checks and can be created.
struct CheckedWorktree {
    repository: Repository,
    name: String,
    branch: String,
    create_branch: bool,
    path: PathBuf,
    commit: String,
}

impl Worktrees {
    /// Creates a worktree. Runs to its end, or to the end of its undo, even if the caller disconnects.
    pub async fn create(&self, new: NewWorktree) -> Result<Worktree, Error> {
        let worktrees = self.clone();
        let made = tokio::spawn(async move { worktrees.create_here(new).await });
        made.await
            .unwrap_or_else(|error| Err(git::failed("an internal error").with_detail(error.to_string())))
    }

    async fn create_here(&self, new: NewWorktree) -> Result<Worktree, Error> {
        let repository = self.repository(&new.repo_path).await?;
        let _alone = self.alone(&repository).await;
        let plan = self.plan(repository, new).await?;
        match self.make(&plan).await {
            Ok(made) => Ok(made),
            Err(error) => {
                plan.undo().await;
                Err(error)
            }
        }
    }

    /// Resolves and checks branch, name and path of a new worktree.
    async fn plan(&self, repository: Repository, new: NewWorktree) -> Result<CheckedWorktree, Error> {
        let branch = match (new.branch.as_str(), new.create_branch) {
            ("", true) => new.name.clone(),
            (branch, _) => branch.to_owned(),
        };
        names::check_branch(&branch)?;
        let name = if new.name.is_empty() { names::from_branch(&branch) } else { new.name };
        names::check_name(&name)?;
        let known = repository.commit(&format!("refs/heads/{branch}")).await?;
        let commit = match (known, new.create_branch) {
            (Some(commit), false) => commit,
            (None, true) => repository.commit("HEAD").await?.ok_or_else(|| {
                Error::invalid("repo_path", "the repository has no commit yet, so nothing can be checked out")
            })?,
            (Some(_), true) => {
                return Err(Error::invalid(
                    "branch",
                    format_args!("{branch} exists already; leave out create_branch"),
                ));
            }
            (None, false) => {
                return Err(Error::invalid(
                    "branch",
                    format_args!("there is no branch {branch}; use create_branch"),
                ));
            }
        };
        let trees = repository.trees().await?;
        if let Some(tree) = trees.iter().find(|tree| tree.branch.as_deref() == Some(&branch)) {
            return Err(git::failed(&format!("branch {branch} is checked out at {}", tree.path.display())));
        }
        let path = self.place(&repository, &name, &new.path)?;
        if let Some(tree) = trees.iter().find(|tree| tree.path == path) {
            let id = self.known(&repository, &tree.path, None).await?.id;
            return Err(git::failed(&format!(
                "{} was the worktree {id}, which somebody deleted; remove it first",
                path.display()
            )));
        }
        Ok(CheckedWorktree { repository, name, branch, create_branch: new.create_branch, path, commit })
    }

    /// Returns the path of a new worktree: a folder that does not exist, inside one that is owned by this
    /// user.
    fn place(&self, repository: &Repository, name: &str, wanted: &str) -> Result<PathBuf, Error> {
        let path = if wanted.is_empty() {
            let folder = self.shared().folder.join(folder_of(repository));
            std::fs::create_dir_all(&folder)
                .map_err(|error| git::failed(&format!("{} cannot be made: {error}", folder.display())))?;
            folder.join(name)
        } else {
            PathBuf::from(wanted)
        };
        let wrong = |what: &str| Err(Error::invalid("path", format_args!("{} {what}", path.display())));
        if !path.is_absolute() || path.components().any(|part| part == std::path::Component::ParentDir) {
            return wrong("must be absolute, without ..");
        }
        let (Some(parent), Some(last)) = (path.parent(), path.file_name()) else {
            return wrong("is no place for a folder");
        };
        let Ok(parent) = parent.canonicalize() else { return wrong("lies in a folder that does not exist") };
        if !is_ours(&parent) {
            return wrong("lies in a folder of another user");
        }
        let path = parent.join(last);
        if path.starts_with(&repository.common_dir) {
            return wrong("lies inside the repository's own files");
        }
        if path.symlink_metadata().is_ok() {
            return wrong("exists already");
        }
        Ok(path)
    }

    /// Adds the worktree without a checkout, then checks its files out without the repository's filters.
    async fn make(&self, plan: &CheckedWorktree) -> Result<Worktree, Error> {
        let CheckedWorktree { repository, path, branch, .. } = plan;
        let mut args: Vec<&OsStr> = ["worktree", "add", "--no-checkout"].map(OsStr::new).to_vec();
        // After `--` nothing is parsed as an option, whatever its name.
        if plan.create_branch {
            args.extend(["--no-track", "-b", branch, "--"].map(OsStr::new));
            args.extend([path.as_os_str(), OsStr::new(&plan.commit)]);
        } else {
            args.extend([OsStr::new("--"), path.as_os_str(), OsStr::new(branch)]);
        }
        git::run(&repository.folder, &args).await?;
        let printed =
            git::run(path, &["rev-parse", "--path-format=absolute", "--git-dir"].map(OsStr::new)).await?;
        let own = PathBuf::from(String::from_utf8_lossy(&printed).trim_end_matches('\n'));
        let shelter = HookIsolation::new(&self.shared().folder, repository).await?;
        shelter.check_out(path, &own.join("index"), &plan.commit).await?;
        let row = self.known(repository, path, Some(&plan.name)).await?;
        let trees = repository.trees().await?;
        self.inspect(row, trees.iter().find(|tree| tree.path == *path)).await
    }
}

impl CheckedWorktree {
    /// Removes whatever was created.
    async fn undo(&self) {
        let folder = &self.repository.folder;
        let args = [OsStr::new("worktree"), OsStr::new("remove"), OsStr::new("--force"), OsStr::new("--")];
        let args: Vec<&OsStr> = args.into_iter().chain([self.path.as_os_str()]).collect();
        // Fails if nothing was created yet, which is fine.
        let _ = git::run(folder, &args).await;
        if self.path.exists()
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "cannot remove a worktree that was not finished");
        }
        if self.create_branch {
            let name = format!("refs/heads/{}", self.branch);
            // Only if it still points at our commit: a branch that has moved contains new work.
            let args = ["update-ref", "-d", &name, &self.commit];
            let _ = git::run(folder, &args.map(OsStr::new)).await;
        }
    }
}

/// Returns the name of the folder for a repository's worktrees: the repository's name and a hash that makes
/// it unique.
fn folder_of(repository: &Repository) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    repository.common_dir.hash(&mut hasher);
    let main = repository.common_dir.parent().and_then(Path::file_name);
    let name = main.map(|name| names::from_branch(&name.to_string_lossy())).unwrap_or_default();
    format!("{name}-{:08x}", hasher.finish() as u32)
}

fn is_ours(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    folder.metadata().is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == host::own_uid())
}
