//! Merges a tree's branch into the branch it was made from. Everything is done with objects until the last step, so a
//! conflict changes nothing: neither branch, nor index, nor file.

use std::ffi::OsStr;
use std::path::Path;

use domain::{Error, ErrorCode, Status};

use super::git;
use super::shelter::HookIsolation;
use super::tree::{OpenTree, TreeName};
use super::{Worktrees, short_name};
use crate::limits;

/// What to merge, and how.
#[derive(Clone, Debug, Default)]
pub struct MergeRequest {
    pub tree: TreeName,
    /// The branch to merge into; empty: the one the tree was made from.
    pub into: String,
    /// Commits what is not committed with this message first; empty: uncommitted changes are refused.
    pub commit_message: String,
    /// One commit with all changes, instead of the tree's own commits.
    pub squash: bool,
    /// The message of the merge commit; empty: as git words it.
    pub message: String,
    /// Merges although files change by which other programs run code, or that say what agents may do.
    pub allow_protected: bool,
}

/// The result of a merge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergedTree {
    /// The branch that was merged into.
    pub into: String,
    /// Its commit now.
    pub commit: String,
    /// The commit made of uncommitted changes; empty if there were none.
    pub committed: String,
    /// The branch had everything already.
    pub up_to_date: bool,
    pub fast_forward: bool,
}

/// The branch that is merged into.
struct Target {
    /// The full name.
    name: String,
    commit: String,
}

impl Worktrees {
    /// Merges a tree's branch into its base. Runs to its end even if the caller disconnects.
    pub async fn merge(&self, request: MergeRequest) -> Result<MergedTree, Error> {
        let worktrees = self.clone();
        let merged = tokio::spawn(async move { worktrees.merge_here(request).await });
        merged
            .await
            .unwrap_or_else(|error| Err(git::failed("an internal error").with_detail(error.to_string())))
    }

    async fn merge_here(&self, request: MergeRequest) -> Result<MergedTree, Error> {
        let tree = self.open_tree(&request.tree).await?;
        let _alone = self.alone(&tree.repository).await;
        // Opened again: it may have changed while this waited.
        let tree = self.open_folder(&tree.path).await?;
        let target = target(&tree, &request.into).await?;
        let isolation = self.isolation(&tree).await?;
        let head = tree.head()?.to_owned();
        let ours = self.commit_changes(&tree, &isolation, &head, &request.commit_message).await?;
        let mut merged = MergedTree {
            into: short_name(&target.name).to_owned(),
            committed: if ours == head { String::new() } else { ours.clone() },
            ..MergedTree::default()
        };
        let fast_forward = !request.squash && tree.is_ancestor(&target.commit, &ours).await?;
        merged.commit = if tree.is_ancestor(&ours, &target.commit).await? {
            merged.up_to_date = true;
            target.commit.clone()
        } else if fast_forward {
            merged.fast_forward = true;
            ours.clone()
        } else {
            merge_commit(&tree, &isolation, &target, &ours, &request).await?
        };
        if !merged.up_to_date {
            if !request.allow_protected {
                check_protected(&tree, &isolation, &target, &merged.commit).await?;
            }
            self.move_branch(&tree, &target, &merged.commit).await?;
        }
        if ours != head {
            self.move_own_branch(&tree, &isolation, &head, &ours).await?;
        }
        Ok(merged)
    }

    /// Returns the commit to merge: the tree's own, or a new one with what was not committed. The new one belongs to
    /// no branch yet.
    pub(super) async fn commit_changes(
        &self,
        tree: &OpenTree,
        isolation: &HookIsolation,
        head: &str,
        message: &str,
    ) -> Result<String, Error> {
        if !isolation.is_dirty(&tree.path, &tree.index(), head).await? {
            return Ok(head.to_owned());
        }
        if message.trim().is_empty() {
            return Err(git::failed(&format!(
                "{} has changes that are not committed; commit them there, or give a message to commit them with",
                tree.path.display()
            )));
        }
        self.check_quiet(tree).await?;
        let (files, untracked) = isolation.write_tree(&tree.path, &tree.git_dir).await?;
        untracked.check_whole(&tree.path)?;
        let none = isolation.no_index();
        let own = isolation.run_text(&tree.path, &none, &["rev-parse", &format!("{head}^{{tree}}")]).await?;
        if own == files {
            // Only a submodule has changes, which its own repository must commit.
            return Err(git::failed(&format!(
                "a submodule in {} may have changes that are not committed; commit them there",
                tree.path.display()
            )));
        }
        commit(tree, isolation, &files, &[head], message).await
    }

    /// Refuses to change a tree in which an agent works.
    pub(super) async fn check_quiet(&self, tree: &OpenTree) -> Result<(), Error> {
        let sessions = self.sessions_in(&tree.row).await?;
        match sessions.iter().find(|session| session.state.status == Status::Working) {
            Some(session) => Err(Error::new(
                ErrorCode::WrongState,
                format!(
                    "session {} works in {}; wait for its turn, or cancel it",
                    session.spec.id,
                    tree.path.display()
                ),
            )),
            None => Ok(()),
        }
    }

    /// Moves a branch to a new commit, and the files of the tree that has it checked out. Refuses, and changes
    /// nothing, if changes there are in the way.
    async fn move_branch(&self, tree: &OpenTree, target: &Target, new: &str) -> Result<(), Error> {
        let branch = short_name(&target.name);
        check_rebases(tree, &target.name)?;
        let holder = tree.trees.iter().find(|other| other.branch.as_deref() == Some(branch));
        let Some(holder) = holder.filter(|holder| holder.path.is_dir()) else {
            return tree.repository.move_ref(&target.name, new, Some(&target.commit)).await;
        };
        let holder = self.open_folder(&holder.path).await?;
        check_unfinished(&holder)?;
        let isolation = self.isolation(&holder).await?;
        let (path, index) = (&holder.path, holder.index());
        if let Some(why) = isolation.files_in_the_way(path, &index, &target.commit, new).await? {
            return Err(git::failed(&format!(
                "{branch} is checked out at {}, where changes that are not committed are in the way ({why}); commit or \
                 stash them there; nothing was changed",
                path.display()
            )));
        }
        tree.repository.move_ref(&target.name, new, Some(&target.commit)).await?;
        if let Err(error) = isolation.move_files(path, &index, &target.commit, new).await {
            tree.repository.move_ref(&target.name, &target.commit, Some(new)).await?;
            return Err(error);
        }
        Ok(())
    }

    /// Moves what a tree has checked out to a commit that has the same files as the tree.
    pub(super) async fn move_own_branch(
        &self,
        tree: &OpenTree,
        isolation: &HookIsolation,
        from: &str,
        to: &str,
    ) -> Result<(), Error> {
        move_head(tree, from, to).await?;
        isolation.reset_index(&tree.path, &tree.index(), to).await
    }
}

/// Moves a tree's branch, or its detached head, if it still is where it was.
pub(super) async fn move_head(tree: &OpenTree, from: &str, to: &str) -> Result<(), Error> {
    if let Some(branch) = &tree.branch {
        return tree.repository.move_ref(&format!("refs/heads/{branch}"), to, Some(from)).await;
    }
    let args = ["update-ref", "--no-deref", "-m", "obey", "HEAD", to, from].map(OsStr::new);
    git::run(&tree.path, &args).await.map(drop)
}

/// Returns the full name of the branch to merge into, which may not exist here.
pub(super) async fn target_name(tree: &OpenTree, into: &str) -> Result<String, Error> {
    let name = if into.is_empty() {
        let origin = &tree.row.origin.base_ref;
        let base = if origin.is_empty() {
            tree.base().await?.map(|(name, _)| name).unwrap_or_default()
        } else {
            origin.clone()
        };
        // A branch of a remote is merged into by the local one of that name.
        match base.strip_prefix("refs/remotes/").and_then(|rest| rest.split_once('/')) {
            Some((_, local)) => format!("refs/heads/{local}"),
            None => base,
        }
    } else {
        format!("refs/heads/{}", into.strip_prefix("refs/heads/").unwrap_or(into))
    };
    if name.is_empty() {
        return Err(Error::invalid(
            "into",
            format_args!("{} was not made from a branch; say which one to merge into", tree.path.display()),
        ));
    }
    if tree.branch.as_deref() == Some(short_name(&name)) {
        return Err(Error::invalid("into", format_args!("{} is the tree's own branch", short_name(&name))));
    }
    Ok(name)
}

/// Finds the branch to merge into.
async fn target(tree: &OpenTree, into: &str) -> Result<Target, Error> {
    let name = target_name(tree, into).await?;
    let commit = tree.repository.commit(&name).await?;
    let commit = commit.ok_or_else(|| {
        Error::invalid(
            "into",
            format_args!("there is no branch {}; say which one to merge into", short_name(&name)),
        )
    })?;
    Ok(Target { name, commit })
}

/// Refuses a merge that changes a protected name in the project's root. An agent in the sandbox cannot write such a file, but commit
/// one without writing it; merged, it would stand where programs look for it.
async fn check_protected(
    tree: &OpenTree,
    isolation: &HookIsolation,
    target: &Target,
    new: &str,
) -> Result<(), Error> {
    let mut args =
        vec!["diff-tree", "-r", "-z", "--name-only", "--no-renames", target.commit.as_str(), new, "--"];
    args.extend(sandbox::PROTECTED);
    let printed = isolation.run(&tree.path, &isolation.no_index(), &args).await?;
    let printed = String::from_utf8_lossy(&printed);
    let mut names = printed.split('\0').filter(|name| !name.is_empty());
    let named: Vec<&str> = names.by_ref().take(limits::PROTECTED_NAMED_MAX).collect();
    let Some(first) = named.first() else { return Ok(()) };
    let more = match names.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Err(git::failed(&format!(
        "merging into {} would change {}{more}, by which other programs run code or learn what agents may do; nothing was changed. \
         Look at it with `git -C {} show HEAD:{}`, then merge with --allow-protected",
        short_name(&target.name),
        named.join(", "),
        tree.path.display(),
        first,
    )))
}

/// Makes the commit that merges the tree's commit into the target.
async fn merge_commit(
    tree: &OpenTree,
    isolation: &HookIsolation,
    target: &Target,
    ours: &str,
    request: &MergeRequest,
) -> Result<String, Error> {
    let files = merge_trees(tree, isolation, &target.commit, ours, None).await?;
    let into = short_name(&target.name);
    let files = files.map_err(|conflicts| {
        let named: Vec<&str> = conflicts.iter().take(limits::CONFLICTS_NAMED_MAX).map(String::as_str).collect();
        Error::new(
            ErrorCode::MergeConflict,
            format!(
                "merging into {into} conflicts in {}; nothing was changed. In {} run `git merge {into}`, resolve the \
                 conflicts, commit, and merge again",
                named.join(", "),
                tree.path.display()
            ),
        )
    })?;
    let branch = tree.branch.clone().unwrap_or_else(|| ours.chars().take(12).collect());
    let message = match (request.message.is_empty(), request.squash) {
        (false, _) => request.message.clone(),
        (true, true) => format!("Squashed changes of {branch}"),
        (true, false) => format!("Merge branch '{branch}' into {into}"),
    };
    let parents: &[&str] = if request.squash { &[&target.commit] } else { &[&target.commit, ours] };
    commit(tree, isolation, &files, parents, &message).await
}

/// Merges two commits into a tree object; `Err` has the files that conflict.
pub(super) async fn merge_trees(
    tree: &OpenTree,
    isolation: &HookIsolation,
    one: &str,
    other: &str,
    merge_base: Option<&str>,
) -> Result<Result<String, Vec<String>>, Error> {
    let base = merge_base.map(|base| format!("--merge-base={base}"));
    let mut args = vec!["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z"];
    args.extend(base.as_deref());
    args.extend([one, other]);
    let done = isolation.try_run(&tree.path, &isolation.no_index(), &args).await?;
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let mut parts = text.split('\0').filter(|part| !part.is_empty()).map(str::to_owned);
    match (parts.next(), done.ok) {
        (Some(files), true) => Ok(Ok(files.trim().to_owned())),
        (Some(_), false) => Ok(Err(parts.collect())),
        (None, _) => Err(git::complaint(&done)),
    }
}

/// Makes a commit as the user.
pub(super) async fn commit(
    tree: &OpenTree,
    isolation: &HookIsolation,
    files: &str,
    parents: &[&str],
    message: &str,
) -> Result<String, Error> {
    let (name, email) = git::identity(&tree.path).await?;
    let env = [
        ("GIT_AUTHOR_NAME", OsStr::new(&name)),
        ("GIT_AUTHOR_EMAIL", OsStr::new(&email)),
        ("GIT_COMMITTER_NAME", OsStr::new(&name)),
        ("GIT_COMMITTER_EMAIL", OsStr::new(&email)),
    ];
    let mut args = vec!["commit-tree", files];
    parents.iter().for_each(|parent| args.extend(["-p", parent]));
    args.extend(["-m", message]);
    let done = isolation.try_run_as(&tree.path, &isolation.no_index(), &args, &env).await?;
    if !done.ok {
        return Err(git::complaint(&done));
    }
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

/// Refuses a tree in the middle of a merge, a rebase or the like.
pub(super) fn check_unfinished(tree: &OpenTree) -> Result<(), Error> {
    for (file, what) in [
        ("MERGE_HEAD", "merge"),
        ("CHERRY_PICK_HEAD", "cherry-pick"),
        ("REVERT_HEAD", "revert"),
        ("rebase-merge", "rebase"),
        ("rebase-apply", "rebase"),
    ] {
        if tree.git_dir.join(file).exists() {
            return Err(git::failed(&format!(
                "a {what} is not finished in {}; finish or abort it there",
                tree.path.display()
            )));
        }
    }
    Ok(())
}

/// Refuses a branch that is being rebased in some tree: git moves it when that ends.
fn check_rebases(tree: &OpenTree, branch: &str) -> Result<(), Error> {
    let common = &tree.repository.common_dir;
    let linked =
        common.join("worktrees").read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    for git_dir in linked.chain([common.clone()]) {
        for name in ["rebase-merge/head-name", "rebase-apply/head-name"] {
            let found = host::project_file::read_text(&git_dir, Path::new(name), 4096).ok().flatten();
            if found.is_some_and(|found| found.trim() == branch) {
                return Err(git::failed(&format!(
                    "{} is being rebased in another tree; finish or abort that first",
                    short_name(branch)
                )));
            }
        }
    }
    Ok(())
}
