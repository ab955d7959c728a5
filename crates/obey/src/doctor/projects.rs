//! The registered projects: whether their folders are still there. A session of one that is gone cannot start.

use std::path::Path;

use super::Finding;
use client::connection::Client;
use client::resolve;

/// Names the projects whose folders are gone; nothing where all are there.
pub(super) async fn examine(client: &Client) -> Vec<Finding> {
    let campaigns = resolve::campaigns(client).await.unwrap_or_default();
    let is_gone = |campaign: &&wire::obey::v1::Campaign| !Path::new(&campaign.path).is_dir();
    let gone = campaigns.iter().filter(is_gone).map(|campaign| {
        let message = format!("the folder of {} is gone: {}", campaign.name, campaign.path);
        let repair =
            format!("restore the folder, or forget the project: obey campaign remove {}", campaign.name);
        Finding::warning("projects", message, repair)
    });
    gone.collect()
}
