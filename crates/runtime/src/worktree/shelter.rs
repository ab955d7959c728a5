//! A git folder of our own that borrows a repository's objects and nothing else. In it, files are checked out and
//! compared without the repository's configuration: attributes may ask for filters, but no filter is known here.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use domain::Error;

use super::git::{self, Repository};

pub(super) struct Shelter {
    folder: PathBuf,
}

impl Shelter {
    /// Makes one below `beside`; it goes when it is dropped.
    pub(super) async fn new(beside: &Path, repository: &Repository) -> Result<Self, Error> {
        let format = repository.object_format().await?;
        let folder = beside.join(format!(".git-{}", crate::ids::unique()));
        let shelter = Self { folder };
        shelter
            .fill(repository, &format)
            .map_err(|error| git::failed(&format!("{} cannot be made: {error}", shelter.folder.display())))?;
        Ok(shelter)
    }

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
        // What the user leaves out of every commit here is no change.
        copy_plain(&repository.common_dir.join("info/exclude"), &self.folder.join("info/exclude")).map(drop)
    }

    /// Writes the files of a commit into a working tree and its index.
    pub(super) async fn check_out(&self, tree: &Path, index: &Path, commit: &str) -> Result<(), Error> {
        let args = ["read-tree", "--reset", "-u", commit].map(OsStr::new);
        let done = git::try_run(tree, &args, &self.env(tree, index)).await?;
        if done.ok { Ok(()) } else { Err(git::complaint(&done)) }
    }

    /// Returns whether a working tree holds work that its commit does not: changed, new, or in a submodule.
    pub(super) async fn is_dirty(&self, tree: &Path, index: &Path, commit: &str) -> Result<bool, Error> {
        let spoilt =
            |error: std::io::Error| git::failed(&format!("cannot look at {}: {error}", tree.display()));
        std::fs::write(self.folder.join("HEAD"), format!("{commit}\n")).map_err(spoilt)?;
        // Comparing may write the index; the tree's own is not ours to touch.
        let copy = self.folder.join("index");
        if !copy_plain(index, &copy).map_err(spoilt)? {
            // Nothing was ever checked out, so everything that is there is somebody's.
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
        // A submodule has a repository of its own, which is not looked into; one that is there may hold work.
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

impl Drop for Shelter {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            tracing::warn!(%error, folder = %self.folder.display(), "cannot remove a folder of ours");
        }
    }
}

/// Copies a plain file; returns whether there was one. A pipe in its place must not make us wait.
fn copy_plain(from: &Path, to: &Path) -> std::io::Result<bool> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let opened = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(from);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other(format!("{} is no plain file", from.display())));
    }
    std::io::copy(&mut file, &mut std::fs::File::create(to)?).map(|_| true)
}
