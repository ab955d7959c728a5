//! Whether secrets are removed from what sessions journal: by the configuration, and by campaigns that say otherwise.

use super::Finding;
use client::connection::Client;
use client::resolve;
use config::file::Config;

const CHECK: &str = "secrets";

/// Says where secrets are kept in events, plainly: whoever reads a journal then reads them.
pub(super) async fn examine(config: &Config, client: Option<&Client>) -> Finding {
    let campaigns = match client {
        Some(client) => resolve::campaigns(client).await.unwrap_or_default(),
        None => Vec::new(),
    };
    let switched = |on: bool| -> Vec<&str> {
        let said = campaigns.iter().filter(|campaign| campaign.scrub == Some(on));
        said.map(|campaign| campaign.name.as_str()).collect()
    };
    let (kept, taken) = (switched(false), switched(true));
    if !config.scrub.events {
        let except = match taken.as_slice() {
            [] => String::new(),
            names => format!(", but for {}", names.join(", ")),
        };
        let message = format!("kept in the events of all sessions{except}: scrub.events is false");
        return Finding::warning(CHECK, message, "set scrub.events = true in the configuration");
    }
    if kept.is_empty() {
        return Finding::ok(CHECK, "removed from the events of all sessions");
    }
    let message = format!("kept in the events of sessions of {}", kept.join(", "));
    let repair = format!("obey campaign set {} --scrub on", kept[0]);
    Finding::warning(CHECK, message, repair)
}
