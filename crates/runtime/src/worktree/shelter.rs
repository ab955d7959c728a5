//! A temporary git folder that borrows a repository's objects and nothing else. Files are checked out, compared,
//! staged and merged through it without the repository's configuration: attributes may ask for filters and
//! drivers, but none is defined here.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use domain::Error;

use super::git::{self, Repository};
use super::skipped::Untracked;
use crate::limits;
use crate::process::short_command::ShortCommandOutput;
use host::project_file;

/// A temporary git folder without the repository's hooks, filters and configuration.
pub(super) struct HookIsolation {
    folder: PathBuf,
    /// The repository's objects; new ones are written there too, so that they outlive this folder.
    objects: PathBuf,
}

impl HookIsolation {
    /// Creates one below `beside`; it is removed when dropped.
    pub(super) fn new(beside: &Path, repository: &Repository) -> Result<Self, Error> {
        let folder = beside.join(format!(".git-{}", host::ids::unique()));
        let shelter = Self { folder, objects: repository.common_dir.join("objects") };
        shelter
            .fill(repository, &repository.object_format)
            .map_err(|error| git::failed(&format!("{} cannot be made: {error}", shelter.folder.display())))?;
        Ok(shelter)
    }

    /// Writes a minimal git folder; its objects are the repository's, by `GIT_OBJECT_DIRECTORY`.
    fn fill(&self, repository: &Repository, format: &str) -> std::io::Result<()> {
        std::fs::create_dir_all(self.folder.join("objects"))?;
        std::fs::create_dir_all(self.folder.join("info"))?;
        std::fs::create_dir(self.folder.join("refs"))?;
        let (version, extension) = match format {
            "sha1" | "" => (0, String::new()),
            other => (1, format!("[extensions]\n\tobjectFormat = {other}\n")),
        };
        let config = format!("[core]\n\trepositoryformatversion = {version}\n\tbare = false\n{extension}");
        std::fs::write(self.folder.join("config"), config)?;
        std::fs::write(self.folder.join("HEAD"), "ref: refs/heads/none\n")?;
        // Files the user excludes from every commit do not count as changes. A shallow repository says where its
        // history ends.
        for (name, most) in
            [("info/exclude", limits::GIT_EXCLUDE_MAX_BYTES), ("shallow", limits::GIT_EXCLUDE_MAX_BYTES)]
        {
            copy_regular(&repository.common_dir, name, &self.folder.join(name), most)?;
        }
        Ok(())
    }

    /// Takes over which files of a sparse tree are checked out, if its git folder says so.
    pub(super) fn take_sparse_patterns(&self, git_dir: &Path, cone: bool) -> Result<(), Error> {
        use std::io::Write as _;
        let patterns = self.folder.join("info/sparse-checkout");
        let most = limits::GIT_EXCLUDE_MAX_BYTES;
        let copied = copy_regular(git_dir, "info/sparse-checkout", &patterns, most).and_then(|is_there| {
            if !is_there {
                return Ok(());
            }
            let mut config = std::fs::OpenOptions::new().append(true).open(self.folder.join("config"))?;
            write!(config, "[core]\n\tsparseCheckout = true\n\tsparseCheckoutCone = {cone}\n")
        });
        copied.map_err(|error| git::failed(&format!("cannot read which files are checked out: {error}")))
    }

    /// Writes the files of a commit into a working tree and its index.
    pub(super) async fn check_out(&self, tree: &Path, index: &Path, commit: &str) -> Result<(), Error> {
        self.run(tree, index, &["read-tree", "--reset", "-u", commit]).await.map(drop)
    }

    /// Changes the files and the index of a working tree from one commit to another. Refuses, and changes
    /// nothing, if uncommitted changes are in the way; others stay as they are.
    pub(super) async fn move_files(
        &self,
        tree: &Path,
        index: &Path,
        from: &str,
        to: &str,
    ) -> Result<(), Error> {
        self.refresh(tree, index).await?;
        self.run(tree, index, &["read-tree", "-m", "-u", from, to]).await.map(drop)
    }

    /// Returns why `move_files` would be refused; `None` if it would not.
    pub(super) async fn files_in_the_way(
        &self,
        tree: &Path,
        index: &Path,
        from: &str,
        to: &str,
    ) -> Result<Option<String>, Error> {
        self.refresh(tree, index).await?;
        let done = self.try_run(tree, index, &["read-tree", "-n", "-m", "-u", from, to]).await?;
        Ok((!done.ok).then(|| git::complaint(&done).message))
    }

    /// Makes an index match a commit without touching any file.
    pub(super) async fn reset_index(&self, tree: &Path, index: &Path, commit: &str) -> Result<(), Error> {
        self.run(tree, index, &["read-tree", "--reset", commit]).await?;
        self.refresh(tree, index).await
    }

    /// Compares the index with the files, so that files that were only touched count as unchanged.
    async fn refresh(&self, tree: &Path, index: &Path) -> Result<(), Error> {
        // Fails if a file is changed, which is no error here.
        self.try_run(tree, index, &["update-index", "-q", "--refresh"]).await.map(drop)
    }

    /// Returns a copy of a tree's index. Comparing and staging may write an index, and the tree's own must stay.
    pub(super) fn index_copy(&self, git_dir: &Path) -> Result<PathBuf, Error> {
        let copy = self.folder.join(format!("index-{}", host::ids::unique()));
        let copied =
            copy_regular(git_dir, "index", &copy, limits::GIT_INDEX_MAX_BYTES).and_then(|is_there| {
                if is_there {
                    // Git takes a file that is as new as the index for possibly changed. A newer copy would not.
                    let written = std::fs::symlink_metadata(git_dir.join("index"))?.modified()?;
                    std::fs::File::options().write(true).open(&copy)?.set_modified(written)?;
                }
                Ok(())
            });
        copied.map_err(|error| git::failed(&format!("cannot read the index: {error}")))?;
        Ok(copy)
    }

    /// Adds untracked files to an index: with their content, or only as names.
    pub(super) async fn add(
        &self,
        tree: &Path,
        index: &Path,
        paths: &[Vec<u8>],
        names_only: bool,
    ) -> Result<(), Error> {
        if paths.is_empty() {
            return Ok(());
        }
        let list = self.folder.join("paths");
        std::fs::write(&list, paths.join(&0))
            .map_err(|error| git::failed(&format!("{} cannot be written: {error}", list.display())))?;
        let from = format!("--pathspec-from-file={}", list.display());
        let mut args = vec!["add", "--pathspec-file-nul", &from];
        if names_only {
            args.push("--intent-to-add");
        }
        self.run(tree, index, &args).await.map(drop)
    }

    /// Stores all files of a working tree, tracked and untracked, as a tree object; returns its id, and what was
    /// skipped. The tree and its index stay as they are.
    pub(super) async fn write_tree(&self, tree: &Path, git_dir: &Path) -> Result<(String, Untracked), Error> {
        let index = self.index_copy(git_dir)?;
        let mut untracked = self.untracked(tree, &index).await?;
        self.add_tracked(tree, &index, &mut untracked).await?;
        self.add(tree, &index, &untracked.files, false).await?;
        Ok((self.run_text(tree, &index, &["write-tree"]).await?, untracked))
    }

    /// Takes the changes of tracked files into an index; those that cannot be read count as unchanged.
    pub(super) async fn add_tracked(
        &self,
        tree: &Path,
        index: &Path,
        found: &mut Untracked,
    ) -> Result<(), Error> {
        let args = ["add", "--update", "--", "."];
        let done = self.try_run(tree, index, &args).await?;
        match done.ok || !self.hide_unreadable(tree, index, found).await? {
            true if done.ok => Ok(()),
            true => Err(git::complaint(&done)),
            false => self.run(tree, index, &args).await.map(drop),
        }
    }

    /// Returns whether a working tree contains work that its commit does not: changed, new, or in a
    /// submodule.
    pub(super) async fn is_dirty(&self, tree: &Path, index: &Path, commit: &str) -> Result<bool, Error> {
        let spoilt =
            |error: std::io::Error| git::failed(&format!("cannot look at {}: {error}", tree.display()));
        std::fs::write(self.folder.join("HEAD"), format!("{commit}\n")).map_err(spoilt)?;
        let copy = self.index_copy(index.parent().unwrap_or(tree))?;
        if !copy.exists() {
            // Nothing was ever checked out, so every file there counts as work.
            return Ok(true);
        }
        let status = ["status", "--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=all"];
        if !self.run(tree, &copy, &status).await?.is_empty() {
            return Ok(true);
        }
        let listed = self.run(tree, &copy, &["ls-files", "--stage", "-z"]).await?;
        // A submodule's own repository is not inspected; one that is checked out may contain work.
        let submodules = listed.split(|byte| *byte == 0).filter(|line| line.starts_with(b"160000 "));
        let there = |line: &[u8]| {
            let path = line.iter().position(|byte| *byte == b'\t').map(|at| &line[at + 1..]);
            let path = tree.join(OsStr::from_bytes(path.unwrap_or_default()));
            path.read_dir().is_ok_and(|mut entries| entries.next().is_some())
        };
        Ok(submodules.into_iter().any(there))
    }

    /// Runs git on a tree and an index; fails only if it could not be run.
    pub(super) async fn try_run(
        &self,
        tree: &Path,
        index: &Path,
        args: &[&str],
    ) -> Result<ShortCommandOutput, Error> {
        self.try_run_as(tree, index, args, &[]).await
    }

    /// The same with more variables.
    pub(super) async fn try_run_as(
        &self,
        tree: &Path,
        index: &Path,
        args: &[&str],
        more_env: &[(&'static str, &OsStr)],
    ) -> Result<ShortCommandOutput, Error> {
        let args: Vec<&OsStr> = args.iter().map(OsStr::new).collect();
        self.try_run_on(tree, index, &args, more_env).await
    }

    /// The same with paths of any bytes as arguments.
    pub(super) async fn try_run_on(
        &self,
        tree: &Path,
        index: &Path,
        args: &[&OsStr],
        more_env: &[(&'static str, &OsStr)],
    ) -> Result<ShortCommandOutput, Error> {
        let mut env: Vec<(&str, &OsStr)> = vec![
            ("GIT_DIR", self.folder.as_os_str()),
            ("GIT_WORK_TREE", tree.as_os_str()),
            ("GIT_INDEX_FILE", index.as_os_str()),
            ("GIT_OBJECT_DIRECTORY", self.objects.as_os_str()),
            ("GIT_LITERAL_PATHSPECS", OsStr::new("1")),
        ];
        env.extend_from_slice(more_env);
        git::try_run(tree, args, &env).await
    }

    /// Runs git on a tree and an index and returns what it prints.
    pub(super) async fn run(&self, tree: &Path, index: &Path, args: &[&str]) -> Result<Vec<u8>, Error> {
        let done = self.try_run(tree, index, args).await?;
        if done.ok { Ok(done.stdout) } else { Err(git::complaint(&done)) }
    }

    /// The same for commands that print one line.
    pub(super) async fn run_text(&self, tree: &Path, index: &Path, args: &[&str]) -> Result<String, Error> {
        let printed = self.run(tree, index, args).await?;
        Ok(String::from_utf8_lossy(&printed).trim().to_owned())
    }

    /// Makes a reference of this folder; the repository gets none.
    pub(super) fn set_ref(&self, name: &str, commit: &str) -> Result<(), Error> {
        let path = self.folder.join(name);
        let written = std::fs::create_dir_all(path.parent().unwrap_or(&self.folder))
            .and_then(|()| std::fs::write(&path, format!("{commit}\n")));
        written.map_err(|error| git::failed(&format!("{} cannot be written: {error}", path.display())))
    }

    /// Returns an index that does not exist, for commands that need none.
    pub(super) fn no_index(&self) -> PathBuf {
        self.file("none")
    }

    /// Returns the path of a file of this folder, which commands may write.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for HookIsolation {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            tracing::warn!(%error, folder = %self.folder.display(), "cannot remove a folder of ours");
        }
    }
}

/// Copies a regular file of a git folder. Returns whether there was one.
fn copy_regular(folder: &Path, below: &str, to: &Path, max_bytes: u64) -> std::io::Result<bool> {
    let from = folder.join(below);
    let said = |error| std::io::Error::other(format!("{} {error}", from.display()));
    match project_file::read(folder, Path::new(below), max_bytes).map_err(said)? {
        Some(bytes) => std::fs::write(to, bytes).map(|()| true),
        None => Ok(false),
    }
}
