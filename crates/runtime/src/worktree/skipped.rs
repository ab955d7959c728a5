//! What lies in a working tree and git cannot compare or store: repositories of their own, files that may not be read, names
//! that git refuses. Finds them, so that one of them does not hide the rest, and says what to do about each.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use domain::Error;

use super::git;
use super::shelter::HookIsolation;
use crate::limits;

/// Why a path is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkipReason {
    /// A repository of its own: its files belong to it.
    NestedRepository,
    /// A file or folder that this user may not read.
    Unreadable,
    /// Git takes no file of this name.
    RefusedName,
}

/// A path that is neither compared nor stored. A folder stands for everything in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SkippedPath {
    /// Below the tree.
    pub path: String,
    pub reason: SkipReason,
}

impl SkippedPath {
    fn new(path: &[u8], reason: SkipReason) -> Self {
        Self { path: String::from_utf8_lossy(path).trim_end_matches('/').to_owned(), reason }
    }

    /// Returns what to do about it, in words.
    pub fn remedy(&self) -> String {
        let path = &self.path;
        match self.reason {
            SkipReason::NestedRepository => format!(
                "{path} is a repository of its own: look at it with `git -C {path} status`, then remove {path}/.git to take its \
                 files in, or name it in .gitignore to leave it out"
            ),
            SkipReason::Unreadable => format!("{path} cannot be read: `chmod -R u+rX {path}`, or remove it"),
            SkipReason::RefusedName => format!("git takes no file named as {path}: rename or remove it"),
        }
    }
}

/// The files of a tree that are neither tracked nor ignored, and what was skipped.
#[derive(Debug, Default)]
pub(super) struct Untracked {
    pub(super) files: Vec<Vec<u8>>,
    pub(super) skipped: BTreeSet<SkippedPath>,
}

impl Untracked {
    /// Refuses a tree of which a part would be left out.
    pub(super) fn check_whole(&self, tree: &Path) -> Result<(), Error> {
        let named: Vec<String> =
            self.skipped.iter().take(limits::SKIPPED_NAMED_MAX).map(SkippedPath::remedy).collect();
        if named.is_empty() {
            return Ok(());
        }
        let more = match self.skipped.len().saturating_sub(named.len()) {
            0 => String::new(),
            more => format!("; and {more} more, which `obey diff` lists"),
        };
        let all = named.join("; ");
        Err(git::failed(&format!("not everything in {} can be committed: {all}{more}", tree.display())))
    }
}

impl HookIsolation {
    /// Finds the untracked files of a tree. Tracked files in folders that cannot be opened count as unchanged in the
    /// index, which must be a copy: git would take them for deleted.
    pub(super) async fn untracked(&self, tree: &Path, index: &Path) -> Result<Untracked, Error> {
        let done = self.try_run(tree, index, &["ls-files", "--others", "--exclude-standard", "-z"]).await?;
        if !done.ok {
            return Err(git::complaint(&done));
        }
        let mut found = Untracked::default();
        for folder in unopened(&done.stderr) {
            found.skipped.insert(SkippedPath::new(&folder, SkipReason::Unreadable));
            self.hide_below(tree, index, &folder).await?;
        }
        for path in paths(&done.stdout) {
            if let Some(name) = refused_part(path) {
                found.skipped.insert(SkippedPath::new(name, SkipReason::RefusedName));
            } else if path.ends_with(b"/") {
                found.skipped.insert(SkippedPath::new(path, SkipReason::NestedRepository));
            } else if is_unreadable(tree, path) {
                found.skipped.insert(SkippedPath::new(path, SkipReason::Unreadable));
            } else {
                found.files.push(path.to_vec());
            }
        }
        Ok(found)
    }

    /// Finds tracked files that changed and cannot be read, and lets them count as unchanged in an index, which must be
    /// a copy. Git gives up at the first of them.
    pub(super) async fn hide_unreadable(
        &self,
        tree: &Path,
        index: &Path,
        found: &mut Untracked,
    ) -> Result<bool, Error> {
        let printed = self.run(tree, index, &["diff-files", "--name-only", "-z"]).await?;
        let hidden: Vec<Vec<u8>> =
            paths(&printed).filter(|path| is_unreadable(tree, path)).map(<[u8]>::to_vec).collect();
        found.skipped.extend(hidden.iter().map(|path| SkippedPath::new(path, SkipReason::Unreadable)));
        self.hide(tree, index, &hidden).await?;
        Ok(!hidden.is_empty())
    }

    async fn hide_below(&self, tree: &Path, index: &Path, folder: &[u8]) -> Result<(), Error> {
        let args = ["ls-files", "--cached", "-z", "--"].map(OsStr::new);
        let args = [&args[..], &[OsStr::from_bytes(folder)]].concat();
        let done = self.try_run_on(tree, index, &args, &[]).await?;
        let tracked: Vec<Vec<u8>> = paths(&done.stdout).map(<[u8]>::to_vec).collect();
        self.hide(tree, index, &tracked).await
    }

    /// Lets tracked files count as unchanged.
    async fn hide(&self, tree: &Path, index: &Path, files: &[Vec<u8>]) -> Result<(), Error> {
        for part in files.chunks(limits::GIT_ARGUMENTS_MAX) {
            let mut args = ["update-index", "--assume-unchanged", "--"].map(OsStr::new).to_vec();
            args.extend(part.iter().map(|path| OsStr::from_bytes(path)));
            let done = self.try_run_on(tree, index, &args, &[]).await?;
            if !done.ok {
                return Err(git::complaint(&done));
            }
        }
        Ok(())
    }
}

fn paths(printed: &[u8]) -> impl Iterator<Item = &[u8]> {
    printed.split(|byte| *byte == 0).filter(|path| !path.is_empty())
}

/// Returns the folders of which git says that it cannot open them.
fn unopened(stderr: &[u8]) -> Vec<Vec<u8>> {
    const WORDS: &[u8] = b"warning: could not open directory '";
    let lines = stderr.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(WORDS));
    let named = lines.filter_map(|rest| {
        let end = rest.windows(3).rposition(|end| end == b"': ")?;
        rest.get(..end).map(<[u8]>::to_vec)
    });
    named.collect()
}

/// Returns a path up to the part that git refuses in any index: `.git` in any spelling that some file system takes for it.
fn refused_part(path: &[u8]) -> Option<&[u8]> {
    let mut end = 0;
    for part in path.split(|byte| *byte == b'/') {
        end += part.len();
        let lower = part.to_ascii_lowercase();
        let rest = lower.strip_prefix(b".git").or_else(|| lower.strip_prefix(b"git~1"));
        let ends = |rest: &[u8]| {
            let name = rest.split(|byte| matches!(byte, b'\\' | b':')).next().unwrap_or_default();
            name.iter().all(|byte| matches!(byte, b' ' | b'.'))
        };
        if rest.is_some_and(ends) {
            return path.get(..end);
        }
        end += 1;
    }
    None
}

/// Returns whether a file is there and this user may not read it. A link is not followed.
fn is_unreadable(tree: &Path, path: &[u8]) -> bool {
    let path = tree.join(OsStr::from_bytes(path));
    match path.symlink_metadata() {
        Ok(found) if found.is_file() => {
            rustix::fs::access(&path, rustix::fs::Access::READ_OK) == Err(rustix::io::Errno::ACCESS)
        }
        Ok(_) => false,
        Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_git_refuses_are_known_in_every_spelling() {
        let part =
            |path: &str| refused_part(path.as_bytes()).map(|part| String::from_utf8_lossy(part).into_owned());
        assert_eq!(part(".GIT/config").as_deref(), Some(".GIT"));
        assert_eq!(part("a/.Git/hooks/x").as_deref(), Some("a/.Git"));
        for name in [".git ", ".git.", "GIT~1", ".git::$INDEX_ALLOCATION", ".git\\config"] {
            assert_eq!(part(&format!("x/{name}/y")), Some(format!("x/{name}")), "{name}");
        }
        for name in [".gitignore", ".github/a", "git", "git~10", "a.git/b"] {
            assert_eq!(part(name), None, "{name}");
        }
    }

    #[test]
    fn folders_that_git_could_not_open_are_read_from_its_words() {
        let said = b"warning: could not open directory 'a b/it's/': Permission denied\nother\n";
        assert_eq!(unopened(said), [b"a b/it's/".to_vec()]);
    }
}
