//! Rebases a tree's branch: its own commits are made again on top of its base. Everything is done with objects until
//! the last step, so a conflict changes nothing.

use std::ffi::OsStr;

use domain::{Error, ErrorCode};

use super::merge::{check_unfinished, merge_trees, move_head};
use super::shelter::HookIsolation;
use super::tree::{OpenTree, TreeName};
use super::{Worktrees, git, short_name};
use crate::limits;

/// The result of a rebase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RebasedTree {
    /// The branch or commit it stands on now.
    pub onto: String,
    /// The tree's commit now.
    pub commit: String,
    /// Commits that were made again.
    pub commits: u64,
    /// It stood there already.
    pub up_to_date: bool,
}

impl Worktrees {
    /// Rebases a tree onto its base, or onto another branch or commit. Runs to its end even if the caller disconnects.
    pub async fn rebase(&self, name: &TreeName, onto: &str) -> Result<RebasedTree, Error> {
        let (worktrees, name, onto) = (self.clone(), name.clone(), onto.to_owned());
        let rebased = tokio::spawn(async move { worktrees.rebase_here(&name, &onto).await });
        rebased
            .await
            .unwrap_or_else(|error| Err(git::failed("an internal error").with_detail(error.to_string())))
    }

    async fn rebase_here(&self, name: &TreeName, onto: &str) -> Result<RebasedTree, Error> {
        let tree = self.open_tree(name).await?;
        let _alone = self.alone(&tree.repository).await;
        let tree = self.open_folder(&tree.path).await?;
        let head = tree.head()?.to_owned();
        let (words, onto) = new_base(&tree, onto).await?;
        if tree.is_ancestor(&onto, &head).await? {
            return Ok(RebasedTree { onto: words, commit: head, up_to_date: true, ..RebasedTree::default() });
        }
        self.check_quiet(&tree).await?;
        check_unfinished(&tree)?;
        let isolation = self.isolation(&tree).await?;
        if isolation.is_dirty(&tree.path, &tree.index(), &head).await? {
            return Err(git::failed(&format!(
                "{} has changes that are not committed; commit or discard them first",
                tree.path.display()
            )));
        }
        let commits = commits_to_replay(&tree, &isolation, &onto, &head).await?;
        let mut new = onto;
        for commit in &commits {
            new = replay(&tree, &isolation, &new, commit, &words).await?;
        }
        if let Some(why) = isolation.files_in_the_way(&tree.path, &tree.index(), &head, &new).await? {
            return Err(git::failed(&format!("files in {} are in the way ({why})", tree.path.display())));
        }
        move_head(&tree, &head, &new).await?;
        if let Err(error) = isolation.move_files(&tree.path, &tree.index(), &head, &new).await {
            move_head(&tree, &new, &head).await?;
            return Err(error);
        }
        Ok(RebasedTree { onto: words, commit: new, commits: commits.len() as u64, up_to_date: false })
    }
}

/// Returns the new base of a tree: its name and its commit.
async fn new_base(tree: &OpenTree, onto: &str) -> Result<(String, String), Error> {
    if onto.is_empty() {
        let base = tree.base().await?.filter(|(name, _)| !name.is_empty());
        let base = base.map(|(name, commit)| (short_name(&name).to_owned(), commit));
        return base.ok_or_else(|| {
            Error::invalid("onto", "the branch this tree was made from is unknown or gone; name another")
        });
    }
    if let Some((name, commit)) = tree.repository.branches().await?.find(onto) {
        return Ok((short_name(&name).to_owned(), commit.to_owned()));
    }
    let commit = if onto.starts_with('-') { None } else { tree.repository.commit(onto).await? };
    let unknown = || Error::invalid("onto", format_args!("{onto:?} is no branch, tag or commit here"));
    Ok((onto.to_owned(), commit.ok_or_else(unknown)?))
}

/// Returns the tree's own commits, the oldest first. Merges are left out, and what the base has already.
async fn commits_to_replay(
    tree: &OpenTree,
    isolation: &HookIsolation,
    onto: &str,
    head: &str,
) -> Result<Vec<String>, Error> {
    let range = format!("{onto}...{head}");
    let args =
        ["rev-list", "--reverse", "--topo-order", "--no-merges", "--right-only", "--cherry-pick", &range];
    let printed = isolation.run_text(&tree.path, &isolation.no_index(), &args).await?;
    let commits: Vec<String> = printed.lines().map(str::to_owned).collect();
    if commits.len() > limits::REBASE_COMMITS_MAX {
        return Err(git::failed(&format!(
            "{} commits are more than can be rebased here ({}); use git rebase in {}",
            commits.len(),
            limits::REBASE_COMMITS_MAX,
            tree.path.display()
        )));
    }
    Ok(commits)
}

/// Makes a commit again on top of another; returns that other one if nothing is left of it.
async fn replay(
    tree: &OpenTree,
    isolation: &HookIsolation,
    onto: &str,
    commit: &str,
    words: &str,
) -> Result<String, Error> {
    let none = isolation.no_index();
    let parent = format!("{commit}^");
    let parent =
        isolation.run_text(&tree.path, &none, &["rev-parse", "--verify", &parent]).await.map_err(|_| {
            git::failed(
                "the branch has a commit without a parent, which cannot be rebased here; use git rebase",
            )
        })?;
    let merged = merge_trees(tree, isolation, onto, commit, Some(&parent)).await?;
    let files = merged.map_err(|conflicts| {
        let short: String = commit.chars().take(12).collect();
        let named: Vec<&str> = conflicts.iter().take(limits::CONFLICTS_NAMED_MAX).map(String::as_str).collect();
        Error::new(
            ErrorCode::MergeConflict,
            format!(
                "commit {short} conflicts with {words} in {}; nothing was changed. Run `git rebase {words}` in {} and \
                 resolve the conflicts there",
                named.join(", "),
                tree.path.display()
            ),
        )
    })?;
    let before = isolation.run_text(&tree.path, &none, &["rev-parse", &format!("{onto}^{{tree}}")]).await?;
    if before == files {
        return Ok(onto.to_owned());
    }
    let format = "--format=%an%x00%ae%x00%ad%x00%B";
    let shown = isolation.run(&tree.path, &none, &["log", "-1", "--date=raw", format, commit]).await?;
    let shown = String::from_utf8_lossy(&shown).into_owned();
    let mut parts = shown.splitn(4, '\0');
    let mut next = || parts.next().unwrap_or_default().to_owned();
    let (author, author_email, date, message) = (next(), next(), next(), next());
    let (name, email) = git::identity(&tree.path).await?;
    let env = [
        ("GIT_AUTHOR_NAME", OsStr::new(&author)),
        ("GIT_AUTHOR_EMAIL", OsStr::new(&author_email)),
        ("GIT_AUTHOR_DATE", OsStr::new(&date)),
        ("GIT_COMMITTER_NAME", OsStr::new(&name)),
        ("GIT_COMMITTER_EMAIL", OsStr::new(&email)),
    ];
    let args = ["commit-tree", &files, "-p", onto, "-m", message.trim_end()];
    let done = isolation.try_run_as(&tree.path, &none, &args, &env).await?;
    if !done.ok {
        return Err(git::complaint(&done));
    }
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}
