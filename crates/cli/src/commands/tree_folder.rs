//! Which project and which working tree a folder belongs to. Must not register or create anything.

use std::path::{Path, PathBuf};

use client::connection::Client;
use git_files::DOT_GIT;
use wire::obey::v1 as pb;

/// Returns the innermost campaign around a folder.
pub(in crate::commands) fn innermost(campaigns: &[pb::Campaign], folder: &Path) -> Option<pb::Campaign> {
    let around = campaigns.iter().filter(|campaign| folder.starts_with(&campaign.path));
    around.max_by_key(|campaign| campaign.path.len()).cloned()
}

/// Returns the campaign and the id of the working tree that a folder outside every campaign lies in.
pub(in crate::commands) async fn own_tree(
    client: &Client,
    campaigns: &[pb::Campaign],
    folder: &Path,
) -> Option<(pb::Campaign, String)> {
    // The root of a linked working tree has a file there.
    if !root_of(folder).join(DOT_GIT).is_file() {
        return None;
    }
    // A folder that git does not know is no tree.
    let trees = super::worktree::listed(client, folder).await.ok()?;
    let main = trees.iter().find(|tree| tree.main)?;
    let campaign = innermost(campaigns, Path::new(&main.path))?;
    let tree = trees.iter().find(|tree| !tree.main && folder.starts_with(&tree.path))?;
    Some((campaign, tree.id.clone()))
}

/// Returns the root of the repository around a folder, else the folder itself.
pub(in crate::commands) fn root_of(folder: &Path) -> PathBuf {
    git_files::root_around(folder).unwrap_or(folder).to_owned()
}
