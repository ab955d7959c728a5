//! What changed in a working tree: its files with counts, and the hunks of one file. Compares the files as they are,
//! untracked ones included, with a commit or with the files at the start of a turn. Changes nothing.

mod parse;

use std::path::{Component, Path};

use domain::Error;
pub use parse::{DiffHunk, DiffLine, DiffLineKind, FileChange, FileChangeStatus};

use super::git;
use super::shelter::HookIsolation;
use super::skipped::{SkippedPath, Untracked};
use super::tree::{OpenTree, TreeName};
use super::{Worktrees, short_name};
use crate::limits;

/// The tree without files, by hash function. Git knows it without having it.
const EMPTY_TREE_SHA1: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
const EMPTY_TREE_SHA256: &str = "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321";

/// Arguments of every comparison: no program of the repository, no colours, renames found.
const DIFF: [&str; 7] = [
    "diff",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--ignore-submodules=dirty",
    "--find-renames",
    "--no-relative",
];

/// What the files are compared with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DiffScope {
    /// The commit at which the tree left its base: everything done in the tree, committed or not.
    #[default]
    Base,
    /// The last commit: what is not committed.
    WorkingTree,
    /// The files at the start of this turn of the session.
    Turn(u64),
}

/// The files that changed in a working tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorktreeDiff {
    /// The root of the tree.
    pub folder: String,
    pub branch: String,
    /// What the files are compared with, in words: a branch or a commit.
    pub against: String,
    /// At most `limits::DIFF_FILES_MAX` of them.
    pub files: Vec<FileChange>,
    pub files_total: u64,
    pub added_total: u64,
    pub removed_total: u64,
    /// What lies in the tree and is not compared; at most `limits::DIFF_SKIPPED_MAX` of it.
    pub skipped: Vec<SkippedPath>,
    pub skipped_total: u64,
}

/// The changes of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffFile {
    pub change: FileChange,
    pub hunks: Vec<DiffHunk>,
    /// There is more than `hunks` shows.
    pub truncated: bool,
}

/// A commit or tree to compare with.
struct Against {
    object: String,
    words: String,
}

impl Worktrees {
    /// Returns the files that changed in a working tree.
    pub async fn diff(&self, name: &TreeName, scope: &DiffScope) -> Result<WorktreeDiff, Error> {
        let tree = self.open_tree(name).await?;
        let isolation = self.isolation(&tree).await?;
        let against = self.against(&tree, name, scope).await?;
        let mut comparison = Comparison::new(&tree, &isolation).await?;
        let mut diff = WorktreeDiff {
            folder: tree.path.display().to_string(),
            branch: tree.branch.clone().unwrap_or_default(),
            against: against.words,
            ..WorktreeDiff::default()
        };
        for file in comparison.files(&against.object, None).await? {
            diff.files_total += 1;
            diff.added_total += file.added;
            diff.removed_total += file.removed;
            if diff.files.len() < limits::DIFF_FILES_MAX {
                diff.files.push(file);
            }
        }
        let skipped = comparison.untracked.skipped;
        diff.skipped_total = skipped.len() as u64;
        diff.skipped = skipped.into_iter().take(limits::DIFF_SKIPPED_MAX).collect();
        Ok(diff)
    }

    /// Returns the changes of one file, with lines of context around each.
    pub async fn diff_file(
        &self,
        name: &TreeName,
        scope: &DiffScope,
        path: &str,
        context: u32,
    ) -> Result<DiffFile, Error> {
        let is_inside =
            !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        if !is_inside {
            return Err(Error::invalid("path", "must be a path inside the tree, as Diff lists it"));
        }
        let tree = self.open_tree(name).await?;
        let isolation = self.isolation(&tree).await?;
        let against = self.against(&tree, name, scope).await?;
        let mut comparison = Comparison::new(&tree, &isolation).await?;
        let find = |files: Vec<FileChange>| files.into_iter().find(|file| file.path == path);
        let alone = find(comparison.files(&against.object, Some(path)).await?);
        // A file that is new by itself may be a renamed one beside all others.
        let change = match alone {
            Some(change) if change.status != FileChangeStatus::Added => Some(change),
            Some(_) => find(comparison.files(&against.object, None).await?),
            None => None,
        };
        let change = change.ok_or_else(|| {
            Error::invalid("path", format_args!("{path:?} has not changed against {}", against.words))
        })?;
        let (hunks, truncated) = comparison.hunks(&against.object, &change, context).await?;
        Ok(DiffFile { change, hunks, truncated })
    }

    /// Returns what a scope compares with.
    async fn against(&self, tree: &OpenTree, name: &TreeName, scope: &DiffScope) -> Result<Against, Error> {
        let Some(head) = &tree.head else {
            let is_sha256 = tree.repository.object_format == "sha256";
            let empty = if is_sha256 { EMPTY_TREE_SHA256 } else { EMPTY_TREE_SHA1 };
            return Ok(Against { object: empty.to_owned(), words: "nothing, there is no commit".to_owned() });
        };
        let short = |commit: &str| commit.chars().take(12).collect::<String>();
        match scope {
            DiffScope::WorkingTree => Ok(Against { object: head.clone(), words: short(head) }),
            DiffScope::Turn(turn) => {
                let session = name.session.as_ref().ok_or_else(|| {
                    Error::invalid("session_id", "is required for the changes since a turn")
                })?;
                let object = self.turn_tree(session, *turn).await?;
                Ok(Against { object, words: format!("the start of turn {turn}") })
            }
            DiffScope::Base => {
                let Some((base_ref, base)) = tree.base().await? else {
                    return Ok(Against { object: head.clone(), words: short(head) });
                };
                // Without a common commit there is nothing to compare with but the base itself.
                let object = tree.merge_base(&base, head).await?.unwrap_or_else(|| base.clone());
                let words = if base_ref.is_empty() { short(&base) } else { short_name(&base_ref).to_owned() };
                Ok(Against { object, words })
            }
        }
    }
}

/// A tree's files, ready to be compared: an index that knows the untracked ones by name.
struct Comparison<'a> {
    tree: &'a OpenTree,
    isolation: &'a HookIsolation,
    index: std::path::PathBuf,
    untracked: Untracked,
}

impl<'a> Comparison<'a> {
    async fn new(tree: &'a OpenTree, isolation: &'a HookIsolation) -> Result<Self, Error> {
        let index = isolation.index_copy(&tree.git_dir)?;
        let mut untracked = isolation.untracked(&tree.path, &index).await?;
        untracked.files.sort_unstable();
        isolation.add(&tree.path, &index, &untracked.files, true).await?;
        Ok(Self { tree, isolation, index, untracked })
    }

    /// Returns the files that differ from a commit or tree.
    async fn files(&mut self, object: &str, path: Option<&str>) -> Result<Vec<FileChange>, Error> {
        let mut args = DIFF.to_vec();
        args.extend(["--raw", "--numstat", "--abbrev=40", "-z", object, "--"]);
        args.extend(path);
        let (tree, isolation) = (&self.tree.path, self.isolation);
        let mut done = isolation.try_run(tree, &self.index, &args).await?;
        if !done.ok && isolation.hide_unreadable(tree, &self.index, &mut self.untracked).await? {
            done = isolation.try_run(tree, &self.index, &args).await?;
        }
        if !done.ok {
            return Err(git::complaint(&done));
        }
        let printed = done.stdout;
        if printed.len() >= limits::GIT_OUTPUT_MAX_BYTES {
            return Err(git::failed("too many files changed to list them; ignore those that are generated"));
        }
        let mut files = parse::files(&printed);
        for file in &mut files {
            file.untracked = self
                .untracked
                .files
                .binary_search_by(|path| path.as_slice().cmp(file.path.as_bytes()))
                .is_ok();
        }
        Ok(files)
    }

    /// Returns the hunks of one file, and whether there are more.
    async fn hunks(
        &self,
        object: &str,
        change: &FileChange,
        context: u32,
    ) -> Result<(Vec<DiffHunk>, bool), Error> {
        if change.binary {
            return Ok((Vec::new(), false));
        }
        let context = format!("--unified={}", context.min(limits::DIFF_CONTEXT_MAX));
        let mut args = DIFF.to_vec();
        args.extend(["--patch", &context, object, "--", &change.path]);
        if !change.old_path.is_empty() {
            args.push(&change.old_path);
        }
        let printed = self.isolation.run(&self.tree.path, &self.index, &args).await?;
        Ok(parse::hunks(&printed))
    }
}
