//! Says whether a tree's work is in its base: by its commits, by equal commits, or squashed into one. Changes nothing.

use std::ffi::OsStr;

use domain::Error;

use super::merge::merge_trees;
use super::shelter::HookIsolation;
use super::tree::{OpenTree, TreeName};
use super::{Worktrees, short_name};

/// How much of a tree's work its base has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MergeState {
    /// Some of it is in the tree only.
    #[default]
    NotMerged,
    /// The tree has no commit of its own.
    Empty,
    /// Its commits are in the base.
    Merged,
    /// Its changes are in the base, as other commits.
    Squashed,
}

/// The answer to whether a tree is merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeCheck {
    pub state: MergeState,
    /// The branch that was looked at.
    pub base: String,
    /// Commits that only the tree has.
    pub commits_ahead: u64,
    /// Commits that only the base has.
    pub commits_behind: u64,
    /// Files are changed or new, and not committed.
    pub dirty: bool,
}

impl Worktrees {
    /// Returns whether a tree's commits are in its base.
    pub async fn is_merged(&self, name: &TreeName) -> Result<MergeCheck, Error> {
        let tree = self.open_tree(name).await?;
        self.check_merged(&tree).await
    }

    pub(super) async fn check_merged(&self, tree: &OpenTree) -> Result<MergeCheck, Error> {
        let isolation = self.isolation(tree).await?;
        let head = tree.head()?.to_owned();
        let dirty = isolation.is_dirty(&tree.path, &tree.index(), &head).await?;
        let Some((base_ref, base)) = tree.base().await? else {
            return Ok(MergeCheck { dirty, ..MergeCheck::default() });
        };
        let none = isolation.no_index();
        let range = format!("{head}...{base}");
        let counts =
            isolation.run_text(&tree.path, &none, &["rev-list", "--left-right", "--count", &range]).await?;
        let mut counts = counts.split_whitespace().map(|count| count.parse().unwrap_or(u64::MAX));
        let check = MergeCheck {
            base: short_name(&base_ref).to_owned(),
            commits_ahead: counts.next().unwrap_or(u64::MAX),
            commits_behind: counts.next().unwrap_or(0),
            dirty,
            state: MergeState::NotMerged,
        };
        if check.commits_ahead == 0 {
            // The commit it was made from tells a branch without work from one that was merged.
            let made_from = &tree.row.origin.base_commit;
            let is_empty = if made_from.is_empty() { head == base } else { head == *made_from };
            return Ok(MergeCheck {
                state: if is_empty { MergeState::Empty } else { MergeState::Merged },
                ..check
            });
        }
        // Without a branch there is nothing a squashed commit could be in.
        let is_squashed = !base_ref.is_empty() && is_squashed(tree, &isolation, &base, &head).await?;
        Ok(MergeCheck {
            state: if is_squashed { MergeState::Squashed } else { MergeState::NotMerged },
            ..check
        })
    }
}

/// Returns whether the base has all changes of a branch: merging it would change nothing, every commit has an equal one
/// there, or one commit there has all changes at once.
async fn is_squashed(
    tree: &OpenTree,
    isolation: &HookIsolation,
    base: &str,
    head: &str,
) -> Result<bool, Error> {
    let none = isolation.no_index();
    let base_files =
        isolation.run_text(&tree.path, &none, &["rev-parse", &format!("{base}^{{tree}}")]).await?;
    if merge_trees(tree, isolation, base, head, None).await?.is_ok_and(|files| files == base_files) {
        return Ok(true);
    }
    let all_equal = |printed: &str| !printed.is_empty() && printed.lines().all(|line| line.starts_with('-'));
    if all_equal(&isolation.run_text(&tree.path, &none, &["cherry", base, head]).await?) {
        return Ok(true);
    }
    let Some(start) = tree.merge_base(base, head).await? else { return Ok(false) };
    // The same text every time, so that asking twice makes one object.
    let fixed = OsStr::new("obey");
    let date = OsStr::new("1000000000 +0000");
    let env = [
        ("GIT_AUTHOR_NAME", fixed),
        ("GIT_AUTHOR_EMAIL", fixed),
        ("GIT_AUTHOR_DATE", date),
        ("GIT_COMMITTER_NAME", fixed),
        ("GIT_COMMITTER_EMAIL", fixed),
        ("GIT_COMMITTER_DATE", date),
    ];
    let files = format!("{head}^{{tree}}");
    let args = ["commit-tree", &files, "-p", &start, "-m", "squashed"];
    let done = isolation.try_run_as(&tree.path, &none, &args, &env).await?;
    let squashed = String::from_utf8_lossy(&done.stdout).trim().to_owned();
    if !done.ok || squashed.is_empty() {
        return Ok(false);
    }
    Ok(all_equal(&isolation.run_text(&tree.path, &none, &["cherry", base, &squashed]).await?))
}
