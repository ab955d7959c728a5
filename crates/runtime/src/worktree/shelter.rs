//! A temporary git folder that borrows a repository's objects and nothing else. Files are checked out and
//! compared through it without the repository's configuration: attributes may ask for filters, but no filter
//! is defined here.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use domain::Error;

use super::git::{self, Repository};
use crate::limits;
use host::project_file;

/// A temporary git folder without the repository's hooks, filters and configuration.
pub(super) struct HookIsolation {
    folder: PathBuf,
}

impl HookIsolation {
    /// Creates one below `beside`; it is removed when dropped.
    pub(super) async fn new(beside: &Path, repository: &Repository) -> Result<Self, Error> {
        let format = repository.object_format().await?;
        let folder = beside.join(format!(".git-{}", host::ids::unique()));
        let shelter = Self { folder };
        shelter
            .fill(repository, &format)
            .map_err(|error| git::failed(&format!("{} cannot be made: {error}", shelter.folder.display())))?;
        Ok(shelter)
    }

    /// Writes a minimal git folder whose objects are the repository's, by `objects/info/alternates`.
    fn fill(&self, repository: &Repository, format: &str) -> std::io::Result<()> {
        std::fs::create_dir_all(self.folder.join("objects/info"))?;
        std::fs::create_dir_all(self.folder.join("info"))?;
        std::fs::create_dir(self.folder.join("refs"))?;
        let (version, extension) = match format {
            "sha1" | "" => (0, String::new()),
            other => (1, format!("[extensions]\n\tobjectFormat = {other}\n")),
        };
        let config = format!("[core]\n\trepositoryformatversion = {version}\n\tbare = false\n{extension}");
        std::fs::write(self.folder.join("config"), config)?;
        std::fs::write(self.folder.join("HEAD"), "ref: refs/heads/none\n")?;
        let mut objects = repository.common_dir.join("objects").into_os_string().into_encoded_bytes();
        objects.push(b'\n');
        std::fs::write(self.folder.join("objects/info/alternates"), objects)?;
        // Files the user excludes from every commit do not count as changes.
        let exclude = self.folder.join("info/exclude");
        copy_regular(&repository.common_dir, "info/exclude", &exclude, limits::GIT_EXCLUDE_MAX_BYTES)
            .map(drop)
    }

    /// Writes the files of a commit into a working tree and its index.
    pub(super) async fn check_out(&self, tree: &Path, index: &Path, commit: &str) -> Result<(), Error> {
        let args = ["read-tree", "--reset", "-u", commit].map(OsStr::new);
        let done = git::try_run(tree, &args, &self.env(tree, index)).await?;
        if done.ok { Ok(()) } else { Err(git::complaint(&done)) }
    }

    /// Returns whether a working tree contains work that its commit does not: changed, new, or in a
    /// submodule.
    pub(super) async fn is_dirty(&self, tree: &Path, index: &Path, commit: &str) -> Result<bool, Error> {
        let spoilt =
            |error: std::io::Error| git::failed(&format!("cannot look at {}: {error}", tree.display()));
        std::fs::write(self.folder.join("HEAD"), format!("{commit}\n")).map_err(spoilt)?;
        // Comparing may write the index, so a copy is used.
        let copy = self.folder.join("index");
        let own = index.parent().unwrap_or(tree);
        if !copy_regular(own, "index", &copy, limits::GIT_INDEX_MAX_BYTES).map_err(spoilt)? {
            // Nothing was ever checked out, so every file there counts as work.
            return Ok(true);
        }
        let env = self.env(tree, &copy);
        let status = ["status", "--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=all"];
        let done = git::try_run(tree, &status.map(OsStr::new), &env).await?;
        if !done.ok {
            return Err(git::complaint(&done));
        }
        if !done.stdout.is_empty() {
            return Ok(true);
        }
        let listed = git::try_run(tree, &["ls-files", "--stage", "-z"].map(OsStr::new), &env).await?;
        // A submodule's own repository is not inspected; one that is checked out may contain work.
        let submodules = listed.stdout.split(|byte| *byte == 0).filter(|line| line.starts_with(b"160000 "));
        let there = |line: &[u8]| {
            let path = line.iter().position(|byte| *byte == b'\t').map(|at| &line[at + 1..]);
            let path = tree.join(OsStr::from_bytes(path.unwrap_or_default()));
            path.read_dir().is_ok_and(|mut entries| entries.next().is_some())
        };
        Ok(submodules.into_iter().any(there))
    }

    fn env<'a>(&'a self, tree: &'a Path, index: &'a Path) -> [(&'static str, &'a OsStr); 3] {
        [
            ("GIT_DIR", self.folder.as_os_str()),
            ("GIT_WORK_TREE", tree.as_os_str()),
            ("GIT_INDEX_FILE", index.as_os_str()),
        ]
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
