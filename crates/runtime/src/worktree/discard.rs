//! Discards the work in a tree: what is not committed, or everything since its base. What is discarded is kept as a
//! commit under `refs/obey/discarded/`, so that it can be brought back.

use std::path::{Component, Path};

use domain::Error;

use super::merge::{check_unfinished, commit, move_head};
use super::tree::TreeName;
use super::{Worktrees, git};

/// What is discarded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DiscardScope {
    /// Changes that are not committed, and new files.
    #[default]
    Uncommitted,
    /// These files, back to the last commit.
    Paths(Vec<String>),
    /// Everything since the tree left its base, commits included.
    ToBase,
}

/// The result of discarding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discarded {
    /// The reference that keeps what was discarded; empty if there was nothing.
    pub kept_as: String,
    pub kept_commit: String,
    /// What the tree has checked out now.
    pub commit: String,
}

impl Worktrees {
    /// Discards work. Runs to its end even if the caller disconnects.
    pub async fn discard(&self, name: &TreeName, scope: DiscardScope) -> Result<Discarded, Error> {
        let (worktrees, name) = (self.clone(), name.clone());
        let discarded = tokio::spawn(async move { worktrees.discard_here(&name, scope).await });
        discarded
            .await
            .unwrap_or_else(|error| Err(git::failed("an internal error").with_detail(error.to_string())))
    }

    async fn discard_here(&self, name: &TreeName, scope: DiscardScope) -> Result<Discarded, Error> {
        if let DiscardScope::Paths(paths) = &scope {
            let is_inside = |path: &String| {
                !path.is_empty()
                    && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
            };
            if let Some(path) = paths.iter().find(|path| !is_inside(path)) {
                return Err(Error::invalid("paths", format_args!("{path:?} must be a path inside the tree")));
            }
        }
        let tree = self.open_tree(name).await?;
        let _alone = self.alone(&tree.repository).await;
        let tree = self.open_folder(&tree.path).await?;
        let head = tree.head()?.to_owned();
        self.check_quiet(&tree).await?;
        check_unfinished(&tree)?;
        let target = match &scope {
            DiscardScope::ToBase => {
                let base = tree.base().await?.map(|(_, commit)| commit);
                let base =
                    base.ok_or_else(|| Error::invalid("scope", "it is unknown what the tree was made from"))?;
                let start = tree.merge_base(&base, &head).await?;
                start
                    .ok_or_else(|| Error::invalid("scope", "the tree has nothing in common with its base"))?
            }
            DiscardScope::Uncommitted | DiscardScope::Paths(_) => head.clone(),
        };
        let isolation = self.isolation(&tree).await?;
        // What is skipped stays where it is.
        let (files, _) = isolation.write_tree(&tree.path, &tree.git_dir).await?;
        let none = isolation.no_index();
        let before =
            isolation.run_text(&tree.path, &none, &["rev-parse", &format!("{head}^{{tree}}")]).await?;
        if before == files && target == head {
            return Ok(Discarded { commit: head, ..Discarded::default() });
        }
        let kept = commit(&tree, &isolation, &files, &[&head], "Discarded changes, kept by obey").await?;
        let kept_as = format!("refs/obey/discarded/{}", host::ids::unique());
        tree.repository.move_ref(&kept_as, &kept, None).await?;
        let index = tree.index();
        match scope {
            DiscardScope::Paths(paths) => {
                for path in paths {
                    restore(&isolation, &tree.path, &index, &head, &kept, &path).await?;
                }
            }
            DiscardScope::Uncommitted | DiscardScope::ToBase => {
                // From the kept commit to the target: files that only the kept one has are removed, and nothing is in
                // the way because all of it is kept.
                isolation.reset_index(&tree.path, &index, &kept).await?;
                isolation.move_files(&tree.path, &index, &kept, &target).await?;
                if target != head {
                    move_head(&tree, &head, &target).await?;
                }
            }
        }
        Ok(Discarded { kept_as, kept_commit: kept, commit: target })
    }
}

/// Brings one file back to a commit: with its content there, or away if it is not in it.
async fn restore(
    isolation: &super::shelter::HookIsolation,
    tree: &Path,
    index: &Path,
    head: &str,
    kept: &str,
    path: &str,
) -> Result<(), Error> {
    let is_in_head = isolation.try_run(tree, index, &["cat-file", "-e", &format!("{head}:{path}")]).await?.ok;
    if is_in_head {
        return isolation.run(tree, index, &["checkout", head, "--", path]).await.map(drop);
    }
    if isolation.try_run(tree, index, &["cat-file", "-e", &format!("{kept}:{path}")]).await?.ok {
        isolation.run(tree, index, &["update-index", "--force-remove", "--", path]).await?;
        let file = tree.join(path);
        return std::fs::remove_file(&file)
            .map_err(|error| git::failed(&format!("{} cannot be removed: {error}", file.display())));
    }
    Err(Error::invalid("paths", format_args!("{path:?} has not changed")))
}
