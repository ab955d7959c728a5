//! What git's own files in a folder say: where the repository of a working tree is, which trees it has, and what is checked out. The one
//! place that reads them. Runs no git, writes nothing, and believes nothing that it reads: every file is regular and small, and a linked
//! working tree counts only if its repository knows it.

pub mod limits;

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use limits::{BRANCH_MAX_BYTES, POINTER_MAX_BYTES};

/// Where a working tree has its repository, or the file that says where.
pub const DOT_GIT: &str = ".git";

/// What `HEAD` says is checked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    Branch(String),
    /// The id of a commit, which belongs to no branch.
    Commit(String),
}

/// A linked working tree: the folder of its repository, and the part of it that is the tree's own. Both without links.
#[derive(Debug, PartialEq, Eq)]
pub struct LinkedTree {
    pub common: PathBuf,
    pub own: PathBuf,
}

impl LinkedTree {
    /// Follows the `.git` file of a tree. Anyone can write such a file: only a repository that knows the tree in turn is meant.
    pub fn of(tree: &Path) -> Option<Self> {
        let dot_git = tree.join(DOT_GIT);
        if !dot_git.symlink_metadata().ok()?.is_file() {
            return None;
        }
        let own = git_folder(tree)?.canonicalize().ok()?;
        let common = common_folder(&own)?.canonicalize().ok()?;
        let back = own.join(path_in(&own.join("gitdir"))?).canonicalize().ok()?;
        let is_known = back == dot_git.canonicalize().ok()? && own.starts_with(common.join("worktrees"));
        (is_known && common.join("HEAD").is_file()).then_some(Self { common, own })
    }
}

/// Returns the root of the working tree around a folder.
pub fn root_around(folder: &Path) -> Option<&Path> {
    folder.ancestors().find(|folder| folder.join(DOT_GIT).symlink_metadata().is_ok())
}

/// Returns the folder that has git's files for the working tree with this root: `.git` itself, or what the file there names.
pub fn git_folder(root: &Path) -> Option<PathBuf> {
    let dot_git = root.join(DOT_GIT);
    if dot_git.is_dir() {
        return Some(dot_git);
    }
    let named = read(&dot_git, POINTER_MAX_BYTES)?;
    Some(root.join(path_of(named.strip_prefix(b"gitdir: ")?)?))
}

/// Returns the folder that a repository's working trees share, if git's files for a tree name one.
pub fn common_folder(git_folder: &Path) -> Option<PathBuf> {
    Some(git_folder.join(path_in(&git_folder.join("commondir"))?))
}

/// Returns what is checked out in the working tree whose files of git are in this folder. A name that could not be a branch's is
/// not believed.
pub fn head(git_folder: &Path) -> Option<Head> {
    let text = String::from_utf8(read(&git_folder.join("HEAD"), POINTER_MAX_BYTES)?).ok()?;
    let text = text.trim_end();
    match text.strip_prefix("ref: refs/heads/") {
        Some(name) => {
            let is_name =
                !name.is_empty() && name.len() <= BRANCH_MAX_BYTES && !name.contains(char::is_control);
            is_name.then(|| Head::Branch(name.to_owned()))
        }
        None => {
            let is_id = matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_id.then(|| Head::Commit(text.to_owned()))
        }
    }
}

/// Reads the beginning of a regular file, without waiting for a pipe that stands in its place.
pub fn read(path: &Path, max_bytes: u64) -> Option<Vec<u8>> {
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    // It may have been exchanged since.
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(max_bytes).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Returns the path that a file has as its only line.
fn path_in(file: &Path) -> Option<PathBuf> {
    path_of(&read(file, POINTER_MAX_BYTES)?)
}

/// Only the end of the line is no part of the path, as git reads it.
fn path_of(line: &[u8]) -> Option<PathBuf> {
    let end = line.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r'))?;
    Some(OsString::from_vec(line[..=end].to_vec()).into())
}

#[cfg(test)]
mod tests;
