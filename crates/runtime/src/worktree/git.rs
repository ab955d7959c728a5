//! Repositories and their working trees, as git lists them. Only commands that run none of the repository's
//! programs are used here. Commands that would run filters (`status`, checking files out) go through
//! `HookIsolation`, which the repository's configuration does not affect.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use domain::Error;

pub(super) use crate::git::{complaint, failed, run, try_run};

/// A repository: what all its working trees share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repository {
    /// Contains branches, objects and configuration.
    pub(super) common_dir: PathBuf,
    /// Where commands are run: the folder that was asked about.
    pub(super) folder: PathBuf,
}

impl Repository {
    /// Finds the repository that a folder belongs to.
    pub(super) async fn find(folder: &Path) -> Result<Self, Error> {
        let asked = ["rev-parse", "--path-format=absolute", "--is-bare-repository", "--git-common-dir"];
        let done = try_run(folder, &asked.map(OsStr::new), &[]).await?;
        if !done.ok {
            let error = complaint(&done);
            if error.message.contains("cannot use bare repository") {
                return Err(bare(folder));
            }
            let what = format!("{} is no git repository: {}", folder.display(), error.message);
            return Err(Error::invalid("repo_path", what));
        }
        let mut lines = done.stdout.split(|byte| *byte == b'\n');
        if lines.next() == Some(b"true") {
            return Err(bare(folder));
        }
        let common_dir = PathBuf::from(OsStr::from_bytes(lines.next().unwrap_or_default()));
        // The path is later written to a file that is read line by line.
        if !common_dir.is_absolute() || common_dir.as_os_str().as_bytes().contains(&b'\n') {
            return Err(Error::invalid("repo_path", "leads to a repository whose path cannot be used"));
        }
        Ok(Self { common_dir, folder: folder.to_owned() })
    }

    /// Returns the working trees git knows, the main one first.
    pub(super) async fn trees(&self) -> Result<Vec<ListedTree>, Error> {
        let args = ["worktree", "list", "--porcelain", "-z"];
        let printed = run(&self.folder, &args.map(OsStr::new)).await?;
        Ok(read_trees(&printed))
    }

    /// Returns the commit a name resolves to.
    pub(super) async fn commit(&self, name: &str) -> Result<Option<String>, Error> {
        let wanted = format!("{name}^{{commit}}");
        let args = ["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted];
        let done = try_run(&self.folder, &args.map(OsStr::new), &[]).await?;
        let commit = String::from_utf8_lossy(&done.stdout).trim().to_owned();
        Ok((done.ok && !commit.is_empty()).then_some(commit))
    }

    /// Returns the name of the repository's hash function.
    pub(super) async fn object_format(&self) -> Result<String, Error> {
        let printed = run(&self.folder, &["rev-parse", "--show-object-format"].map(OsStr::new)).await?;
        Ok(String::from_utf8_lossy(&printed).trim().to_owned())
    }
}

fn bare(folder: &Path) -> Error {
    Error::invalid(
        "repo_path",
        format_args!("{} is a bare repository; name a folder in which it is checked out", folder.display()),
    )
}

/// A working tree as git lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListedTree {
    pub(super) path: PathBuf,
    pub(super) head: String,
    /// Without `refs/heads/`; `None` if no branch is checked out.
    pub(super) branch: Option<String>,
    pub(super) locked: bool,
    pub(super) bare: bool,
}

/// Parses the output of `git worktree list --porcelain -z`.
fn read_trees(printed: &[u8]) -> Vec<ListedTree> {
    let mut trees: Vec<ListedTree> = Vec::new();
    for line in printed.split(|byte| *byte == 0) {
        let (word, rest) = match line.iter().position(|byte| *byte == b' ') {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &b""[..]),
        };
        if word == b"worktree" {
            trees
                .push(ListedTree { path: OsString::from_vec(rest.to_vec()).into(), ..ListedTree::default() });
            continue;
        }
        let Some(tree) = trees.last_mut() else { continue };
        let text = String::from_utf8_lossy(rest).into_owned();
        match word {
            b"HEAD" => tree.head = text,
            b"branch" => tree.branch = text.strip_prefix("refs/heads/").map(str::to_owned),
            b"locked" => tree.locked = true,
            b"bare" => tree.bare = true,
            _ => {}
        }
    }
    trees
}
