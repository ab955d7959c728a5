//! Repositories and their working trees, as git lists them. Only commands that run none of the repository's
//! programs are used here. Commands that would run filters (`status`, checking files out) go through
//! `HookIsolation`, which the repository's configuration does not affect.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use domain::Error;

pub(super) use crate::git::{complaint, failed, identity, run, run_writing, try_run, try_run_writing};

/// A repository: what all its working trees share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repository {
    /// Contains branches, objects and configuration.
    pub(super) common_dir: PathBuf,
    /// Where commands are run: the folder that was asked about.
    pub(super) folder: PathBuf,
    /// The git folder of the working tree that the folder belongs to; it contains that tree's index.
    pub(super) git_dir: PathBuf,
    /// The name of the repository's hash function.
    pub(super) object_format: String,
    /// The root of that working tree; `None` in the repository's own files.
    pub(super) root: Option<PathBuf>,
}

impl Repository {
    /// Finds the repository that a folder belongs to.
    pub(super) async fn find(folder: &Path) -> Result<Self, Error> {
        let asked = [
            "rev-parse",
            "--path-format=absolute",
            "--is-bare-repository",
            "--git-common-dir",
            "--git-dir",
            "--show-object-format",
            // Fails without a working tree, after the others were printed.
            "--show-toplevel",
        ];
        let done = try_run(folder, &asked.map(OsStr::new), &[]).await?;
        if !done.ok && done.stdout.is_empty() {
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
        let mut next = || PathBuf::from(OsStr::from_bytes(lines.next().unwrap_or_default()));
        let (git_dir, format, root) = (next(), next(), next());
        Ok(Self {
            common_dir,
            folder: folder.to_owned(),
            git_dir,
            object_format: format.to_string_lossy().into_owned(),
            root: Some(root).filter(|root| root.is_absolute()),
        })
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

    /// Returns the branches that the repository has now.
    pub(super) async fn branches(&self) -> Result<Branches, Error> {
        let args = ["for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/", "refs/remotes/"];
        let printed = run(&self.folder, &args.map(OsStr::new)).await?;
        Ok(Branches::read(&printed))
    }

    /// Returns the tree that the folder belongs to; the main one in the repository's own files.
    pub(super) fn tree_of<'a>(&self, trees: &'a [ListedTree]) -> Option<&'a ListedTree> {
        let here = trees.iter().find(|tree| self.root.as_ref() == Some(&tree.path));
        here.or(trees.first())
    }

    /// Returns whether objects of this repository may be missing here until a remote is asked for them.
    pub(super) async fn is_partial(&self) -> Result<bool, Error> {
        let args = ["config", "--get-regexp", "^(extensions\\.partialclone|remote\\..*\\.promisor)$"];
        Ok(try_run(&self.folder, &args.map(OsStr::new), &[]).await?.ok)
    }

    /// Moves a branch, if it still is where it was. `None` as the old commit means that it must not exist.
    pub(super) async fn move_ref(&self, name: &str, new: &str, old: Option<&str>) -> Result<(), Error> {
        let zeros = "0".repeat(new.len());
        let args = ["update-ref", "-m", "obey", "--", name, new, old.unwrap_or(&zeros)];
        // Run from the shared folder: a command may fail in a folder that is removed meanwhile.
        let env = [("GIT_DIR", self.common_dir.as_os_str())];
        let done = try_run(&self.common_dir, &args.map(OsStr::new), &env).await?;
        if done.ok { Ok(()) } else { Err(complaint(&done)) }
    }
}

fn bare(folder: &Path) -> Error {
    Error::invalid(
        "repo_path",
        format_args!("{} is a bare repository; name a folder in which it is checked out", folder.display()),
    )
}

/// The branches of a repository and of its remotes, by their full names, each with its commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Branches {
    commits: BTreeMap<String, String>,
}

impl Branches {
    fn read(printed: &[u8]) -> Self {
        let text = String::from_utf8_lossy(printed);
        let named = text.lines().filter_map(|line| line.split_once(' '));
        Self { commits: named.map(|(commit, name)| (name.to_owned(), commit.to_owned())).collect() }
    }

    /// Returns the commit of a local branch.
    pub(super) fn local(&self, name: &str) -> Option<&str> {
        self.commits.get(&format!("refs/heads/{name}")).map(String::as_str)
    }

    /// Returns the branches of remotes that have this name, such as `origin/fix` for `fix`, with their commits.
    pub(super) fn of_remotes(&self, name: &str) -> Vec<(&str, &str)> {
        let remote = self.commits.iter().filter_map(|(full, commit)| {
            let short = full.strip_prefix("refs/remotes/")?;
            let (_, branch) = short.split_once('/')?;
            (branch == name).then_some((short, commit.as_str()))
        });
        remote.collect()
    }

    /// Returns the full name of the branch that a short or full name means, and its commit: a local branch before
    /// one of a remote.
    pub(super) fn find(&self, name: &str) -> Option<(String, &str)> {
        [format!("refs/heads/{name}"), format!("refs/remotes/{name}"), name.to_owned()]
            .into_iter()
            .find_map(|full| self.commits.get(&full).map(|commit| (full, commit.as_str())))
    }
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
