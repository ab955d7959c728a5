//! Creates a worktree: all checks before anything exists, and everything undone if a step fails.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use domain::Error;
use host::project_file;
use storage::worktrees::WorktreeOrigin;

use super::git::{self, Branches, ListedTree, Repository};
use super::setup::{Setup, SetupOutcome};
use super::tree::{OpenTree, unrecorded};
use super::{Worktree, Worktrees};
use crate::git::names;

/// The fields of a worktree to create. An empty text means the default.
#[derive(Clone, Debug, Default)]
pub struct NewWorktree {
    pub repo_path: String,
    pub branch: String,
    pub name: String,
    /// Absolute; must not exist yet.
    pub path: String,
    pub branch_choice: BranchChoice,
    /// What a new branch starts from: a branch, one of a remote, a tag or a commit. Empty: what the folder has
    /// checked out.
    pub base: String,
    /// Names the branch if neither `branch` nor `name` does.
    pub prompt: String,
    pub hook: HookChoice,
}

/// Whether the project's set-up hook runs in a new worktree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HookChoice {
    /// If the user allowed it.
    #[default]
    IfAllowed,
    /// Not at all: the tree is for an agent that does not have the rights with which the hook runs, and that can change what the
    /// hook calls.
    Never,
}

/// Whether the branch of a new worktree exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BranchChoice {
    /// It must exist, here or on a remote.
    #[default]
    Existing,
    /// It must not exist.
    New,
    /// It is created if it does not exist.
    Either,
}

/// A worktree that was created, and the result of the project's set-up hook.
#[derive(Clone, Debug)]
pub struct CreatedWorktree {
    pub worktree: Worktree,
    pub setup: SetupOutcome,
}

/// Where the branch of a new worktree comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum BranchSource {
    Local,
    New,
    /// A branch of a remote, such as `origin/fix`, which the new branch tracks.
    Remote(String),
}

/// A worktree that passed all checks and can be created.
struct CheckedWorktree {
    repository: Repository,
    name: String,
    branch: String,
    source: BranchSource,
    path: PathBuf,
    commit: String,
    origin: WorktreeOrigin,
    /// The trees that were there before, the main one first.
    trees: Vec<ListedTree>,
}

/// A repository that nobody else in this daemon changes meanwhile, and what it has.
pub(super) struct LockedRepository {
    pub(super) repository: Repository,
    pub(super) trees: Vec<ListedTree>,
    branches: Branches,
    alone: tokio::sync::OwnedMutexGuard<()>,
}

impl Worktrees {
    /// Creates a worktree. Runs to its end, or to the end of its undo, even if the caller disconnects.
    pub async fn create(&self, new: NewWorktree) -> Result<Worktree, Error> {
        Ok(self.create_set_up(new).await?.worktree)
    }

    /// The same; also returns the result of the project's set-up hook.
    pub async fn create_set_up(&self, new: NewWorktree) -> Result<CreatedWorktree, Error> {
        let worktrees = self.clone();
        to_its_end(async move {
            let locked = worktrees.lock_repository(&new.repo_path).await?;
            worktrees.create_here(locked, new).await
        })
        .await
    }

    /// The same in a repository that is locked already.
    pub(super) async fn create_in(
        &self,
        locked: LockedRepository,
        new: NewWorktree,
    ) -> Result<Worktree, Error> {
        let worktrees = self.clone();
        Ok(to_its_end(async move { worktrees.create_here(locked, new).await }).await?.worktree)
    }

    /// Waits until nobody else changes the repository of a folder, and reads what it has.
    pub(super) async fn lock_repository(&self, repo_path: &str) -> Result<LockedRepository, Error> {
        let repository = self.repository(repo_path).await?;
        let alone = self.alone(&repository).await;
        let (trees, branches) = tokio::try_join!(repository.trees(), repository.branches())?;
        Ok(LockedRepository { repository, trees, branches, alone })
    }

    async fn create_here(
        &self,
        locked: LockedRepository,
        new: NewWorktree,
    ) -> Result<CreatedWorktree, Error> {
        let hook = new.hook;
        let plan = self.plan(&locked, new).await?;
        let worktree = match self.make(&plan).await {
            Ok(made) => made,
            Err(error) => {
                plan.undo().await;
                return Err(error);
            }
        };
        // A hook may take minutes; other trees are created meanwhile.
        drop(locked.alone);
        match self.set_up(&plan, hook).await {
            Ok(setup) => Ok(CreatedWorktree { worktree, setup }),
            Err(error) => {
                let _alone = self.alone(&plan.repository).await;
                plan.undo().await;
                let row = self.row(&worktree.id).await?;
                self.forget(&row).await?;
                Err(error)
            }
        }
    }

    /// Does in a new tree what the project wants done there.
    async fn set_up(&self, plan: &CheckedWorktree, hook: HookChoice) -> Result<SetupOutcome, Error> {
        let setup = Setup::read(&plan.path)?;
        // The main tree's ignored files may be copied.
        let main = plan.trees.first().filter(|main| !main.bare).map(|main| main.path.as_path());
        let main = main.unwrap_or(&plan.repository.folder);
        if let Some(setup) = &setup {
            setup.copy_files(main, &plan.path)?;
        }
        match hook {
            HookChoice::IfAllowed => {
                self.run_allowed_hook(setup.as_ref(), &plan.repository, &plan.path, main).await
            }
            HookChoice::Never => Ok(setup.map_or(SetupOutcome::NoHook, Setup::left_out)),
        }
    }

    /// Resolves and checks branch, name and path of a new worktree.
    async fn plan(&self, locked: &LockedRepository, new: NewWorktree) -> Result<CheckedWorktree, Error> {
        let LockedRepository { repository, trees, branches, .. } = locked;
        let branch = match (new.branch.as_str(), new.branch_choice) {
            ("", BranchChoice::Either) if new.name.is_empty() => {
                free_branch(branches, &names::slug(&new.prompt))?
            }
            ("", BranchChoice::New | BranchChoice::Either) => new.name.clone(),
            (branch, _) => branch.to_owned(),
        };
        names::check_branch(&branch)?;
        if !new.name.is_empty() {
            names::check_name(&new.name)?;
        }
        let (source, commit, base_ref) = find_branch(locked, &branch, &new).await?;
        if let Some(tree) = trees.iter().find(|tree| tree.branch.as_deref() == Some(&branch)) {
            return Err(git::failed(&format!("branch {branch} is checked out at {}", tree.path.display())));
        }
        let (name, path) = self.find_path(repository, trees, &branch, &new).await?;
        let origin = origin_of(repository, &source, &commit, base_ref).await?;
        let (repository, trees) = (repository.clone(), trees.clone());
        Ok(CheckedWorktree { repository, name, branch, source, path, commit, origin, trees })
    }

    /// Returns the name and the path of a new tree. A name that was derived is changed until it is free.
    async fn find_path(
        &self,
        repository: &Repository,
        trees: &[ListedTree],
        branch: &str,
        new: &NewWorktree,
    ) -> Result<(String, PathBuf), Error> {
        let derived = names::from_branch(branch);
        let is_derived = new.name.is_empty();
        let wanted = if is_derived { derived.as_str() } else { new.name.as_str() };
        if is_derived && new.path.is_empty() {
            for name in names::numbered(wanted) {
                let path = self.shared().folder.join(folder_of(repository)).join(&name);
                let is_known = trees.iter().any(|tree| tree.path == path);
                if !is_known && path.symlink_metadata().is_err() {
                    let path = self.place(repository, &name, "")?;
                    return Ok((name, path));
                }
            }
        }
        let path = self.place(repository, wanted, &new.path)?;
        if let Some(tree) = trees.iter().find(|tree| tree.path == path) {
            let id = self.known(repository, &tree.path, None).await?.id;
            return Err(git::failed(&format!(
                "{} was the worktree {id}, which somebody deleted; remove it first",
                path.display()
            )));
        }
        Ok((wanted.to_owned(), path))
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
        // Missing folders are made in the nearest one that exists, which must be the user's.
        let existing = parent.ancestors().find_map(|folder| folder.canonicalize().ok());
        if !existing.is_some_and(|folder| is_ours(&folder)) {
            return wrong("lies in a folder of another user, or in none");
        }
        if let Err(error) = std::fs::create_dir_all(parent) {
            return wrong(&format!("lies in a folder that cannot be made: {error}"));
        }
        let Ok(parent) = parent.canonicalize() else { return wrong("lies in a folder that does not exist") };
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
        match &plan.source {
            BranchSource::New | BranchSource::Remote(_) => {
                args.extend(["--no-track", "-b", branch, "--"].map(OsStr::new));
                args.extend([path.as_os_str(), OsStr::new(&plan.commit)]);
            }
            BranchSource::Local => args.extend([OsStr::new("--"), path.as_os_str(), OsStr::new(branch)]),
        }
        // An empty folder of ours is all that git needs to write in; its parent may be anybody's.
        std::fs::create_dir(path)
            .map_err(|error| git::failed(&format!("{} cannot be made: {error}", path.display())))?;
        git::run_writing(&repository.folder, &args, &[path]).await?;
        if let BranchSource::Remote(remote) = &plan.source {
            // By itself, because it is the step that waits for the lock of the configuration.
            let upstream = format!("--set-upstream-to={remote}");
            git::run(&repository.folder, &["branch", &upstream, "--", branch].map(OsStr::new)).await?;
        }
        // The files are checked out while the record is written to the disk.
        let checked_out = async {
            let tree = plan.made()?;
            self.isolation(&tree).await?.check_out(path, &tree.index(), &plan.commit).await
        };
        let record = self.record(repository, path, Some(&plan.name), plan.origin.clone());
        let (row, checked_out) = tokio::join!(record, checked_out);
        let row = row?;
        match checked_out {
            Ok(()) => self.inspect(row, Some(&plan.listed())).await,
            Err(error) => {
                self.forget(&row).await?;
                if repository.is_partial().await? {
                    return Err(git::failed(&format!(
                        "the repository is a partial clone, and files of {branch} are not here yet ({}); fetch them with \
                         `git -C {} backfill`, or `git fetch --refetch --no-filter`, and try again",
                        error.message,
                        repository.folder.display()
                    )));
                }
                Err(error)
            }
        }
    }
}

/// Runs work to its end even if the caller disconnects.
async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    tokio::spawn(work)
        .await
        .unwrap_or_else(|error| Err(git::failed("an internal error").with_detail(error.to_string())))
}

/// Returns the first of the numbered names that no branch has, here or on a remote.
fn free_branch(branches: &Branches, wanted: &str) -> Result<String, Error> {
    let is_free = |name: &String| branches.local(name).is_none() && branches.of_remotes(name).is_empty();
    names::numbered(wanted).find(is_free).ok_or_else(|| {
        Error::invalid("branch", format_args!("every name like {wanted} is taken; give another"))
    })
}

/// Finds the branch of a new worktree: where it comes from, its commit, and the full name of the branch a new one
/// starts from.
async fn find_branch(
    LockedRepository { repository, trees, branches, .. }: &LockedRepository,
    branch: &str,
    new: &NewWorktree,
) -> Result<(BranchSource, String, String), Error> {
    let here = repository.tree_of(trees);
    let main_branch = || {
        let branch = here.and_then(|tree| tree.branch.as_deref());
        branch.map(|branch| format!("refs/heads/{branch}")).unwrap_or_default()
    };
    match (branches.local(branch), new.branch_choice) {
        (Some(_), BranchChoice::New) => {
            return Err(Error::invalid(
                "branch",
                format_args!("{branch} exists already; leave out create_branch"),
            ));
        }
        (Some(commit), _) => return Ok((BranchSource::Local, commit.to_owned(), main_branch())),
        (None, BranchChoice::New) => {}
        (None, BranchChoice::Existing | BranchChoice::Either) => match *branches.of_remotes(branch) {
            [] if new.branch_choice == BranchChoice::Existing => {
                let what = format!("there is no branch {branch}, here or on a remote; use create_branch");
                return Err(Error::invalid("branch", what));
            }
            [] => {}
            [(remote, commit)] => {
                return Ok((BranchSource::Remote(remote.to_owned()), commit.to_owned(), main_branch()));
            }
            ref several => {
                let several: Vec<&str> = several.iter().map(|(remote, _)| *remote).collect();
                let what = format!("{branch} is on several remotes: {}; make it first", several.join(", "));
                return Err(Error::invalid("branch", what));
            }
        },
    }
    if new.base.is_empty() {
        let head = here.map(|tree| tree.head.as_str()).filter(|head| head.bytes().any(|byte| byte != b'0'));
        let commit = head.ok_or_else(|| {
            Error::invalid("repo_path", "the repository has no commit yet, so nothing can be checked out")
        })?;
        return Ok((BranchSource::New, commit.to_owned(), main_branch()));
    }
    if let Some((full, commit)) = branches.find(&new.base) {
        return Ok((BranchSource::New, commit.to_owned(), full));
    }
    let commit = match new.base.starts_with('-') {
        true => None,
        false => repository.commit(&new.base).await?,
    };
    let unknown = || Error::invalid("base", format_args!("{:?} is no branch, tag or commit here", new.base));
    Ok((BranchSource::New, commit.ok_or_else(unknown)?, String::new()))
}

/// Returns what is recorded about where a new tree comes from.
async fn origin_of(
    repository: &Repository,
    source: &BranchSource,
    commit: &str,
    base_ref: String,
) -> Result<WorktreeOrigin, Error> {
    let base_commit = match source {
        BranchSource::New => commit.to_owned(),
        // A branch that existed before has work of its own since it left its base.
        BranchSource::Local | BranchSource::Remote(_) if !base_ref.is_empty() => {
            let args = ["merge-base", "--end-of-options", &base_ref, commit].map(OsStr::new);
            let done = git::try_run(&repository.folder, &args, &[]).await?;
            String::from_utf8_lossy(&done.stdout).trim().to_owned()
        }
        BranchSource::Local | BranchSource::Remote(_) => String::new(),
    };
    Ok(WorktreeOrigin { base_ref, base_commit, made_here: true })
}

impl CheckedWorktree {
    /// Returns how git lists the tree that it has just made.
    fn listed(&self) -> ListedTree {
        ListedTree {
            path: self.path.clone(),
            head: self.commit.clone(),
            branch: Some(self.branch.clone()),
            ..ListedTree::default()
        }
    }

    /// Returns the tree that git has just made, without asking git about it, and before it has a record.
    fn made(&self) -> Result<OpenTree, Error> {
        let git_dir = project_file::off_async_threads(|| git_files::git_folder(&self.path));
        let git_dir = git_dir.ok_or_else(|| {
            git::failed(&format!("{} does not say where its git folder is", self.path.display()))
        })?;
        let (folder, root) = (self.path.clone(), Some(self.path.clone()));
        Ok(OpenTree {
            repository: Repository { folder, git_dir: git_dir.clone(), root, ..self.repository.clone() },
            path: self.path.clone(),
            git_dir,
            head: Some(self.commit.clone()),
            branch: Some(self.branch.clone()),
            trees: self.trees.iter().cloned().chain([self.listed()]).collect(),
            row: unrecorded(&self.path, &self.repository),
        })
    }

    /// Removes whatever was created.
    async fn undo(&self) {
        let folder = &self.repository.folder;
        let args = [OsStr::new("worktree"), OsStr::new("remove"), OsStr::new("--force"), OsStr::new("--")];
        let args: Vec<&OsStr> = args.into_iter().chain([self.path.as_os_str()]).collect();
        // Fails if nothing was created yet, which is fine.
        let _ = git::run_writing(folder, &args, &[&self.path]).await;
        if self.path.exists()
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "cannot remove a worktree that was not finished");
        }
        if self.source != BranchSource::Local {
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
