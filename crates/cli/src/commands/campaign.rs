//! `obey campaign …`: registered project folders.

use wire::obey::v1 as pb;

use crate::json;
use crate::json_types::{CampaignListJson, value};
use cli_args::campaign::{CampaignAddArgs, CampaignSettings};
use client::resolve;
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;
use terminal::output::TextStyle;
use terminal::table::{Table, named};

pub(super) async fn add(console: &mut Console, args: &CampaignAddArgs) -> Result<Exit> {
    // Resolved here, because the daemon has another working directory.
    let given = console.folder.join(&args.path);
    let path =
        given.canonicalize().map_err(|error| Failure::usage(format!("{}: {error}", args.path.display())))?;
    let client = console.connect().await?;
    let request = pb::AddCampaignRequest {
        path: path.to_string_lossy().into_owned(),
        name: args.name.clone().unwrap_or_default(),
        description: args.description.clone().unwrap_or_default(),
        id: String::new(),
        scrub: args.settings.scrub,
        mode: args.settings.mode_name(),
    };
    let campaign = client.campaigns().add_campaign(request).await?.into_inner();
    if console.out.json {
        console.out.json(&json::campaign(&campaign))?;
        return Ok(Exit::OK);
    }
    show(console, &campaign)?;
    Ok(Exit::OK)
}

pub(super) async fn set(console: &mut Console, typed: &str, settings: &CampaignSettings) -> Result<Exit> {
    if settings.scrub.is_none() && settings.mode.is_none() {
        return Err(Failure::usage("nothing is to be changed; give --mode or --scrub"));
    }
    let client = console.connect().await?;
    let request = pb::SetCampaignRequest {
        campaign: typed.to_owned(),
        scrub: settings.scrub,
        mode: settings.mode_name(),
    };
    let campaign = client.campaigns().set_campaign(request).await?.into_inner();
    if console.out.json {
        console.out.json(&json::campaign(&campaign))?;
        return Ok(Exit::OK);
    }
    show(console, &campaign)?;
    Ok(Exit::OK)
}

pub(super) async fn list(console: &mut Console) -> Result<Exit> {
    let client = console.connect().await?;
    let campaigns = resolve::campaigns(&client).await?;
    if console.out.json {
        let campaigns = campaigns.iter().map(json::campaign_typed).collect();
        console.out.json(&value(&CampaignListJson { campaigns }))?;
        return Ok(Exit::OK);
    }
    if campaigns.is_empty() {
        console.out.note(TextStyle::Dim, "No campaigns. Register a folder with: obey campaign add PATH")?;
        return Ok(Exit::OK);
    }
    print_table(console, &campaigns)?;
    Ok(Exit::OK)
}

/// Prints campaigns as a table.
pub(super) fn print_table(console: &mut Console, campaigns: &[pb::Campaign]) -> Result<()> {
    let mut table = Table::new(&["ID", "NAME", "SESSIONS", "FOLDER"]);
    for campaign in campaigns {
        table.row(vec![
            campaign.id.clone(),
            campaign.name.clone(),
            campaign.active_sessions.to_string(),
            campaign.path.clone(),
        ]);
    }
    super::session::print_table(console, &table)
}

pub(super) async fn remove(console: &mut Console, typed: &str) -> Result<Exit> {
    let client = console.connect().await?;
    let request = pb::RemoveCampaignRequest { campaign: typed.to_owned() };
    let campaign =
        client.campaigns().remove_campaign(request).await?.into_inner().campaign.unwrap_or_default();
    if console.out.json {
        console.out.json(&json::campaign(&campaign))?;
    } else {
        console.out.line(&format!("Removed: {} ({})", campaign.id, campaign.path))?;
    }
    Ok(Exit::OK)
}

fn show(console: &mut Console, campaign: &pb::Campaign) -> Result<()> {
    let pairs = [
        ("Campaign", campaign.id.clone()),
        ("Name", campaign.name.clone()),
        ("Folder", campaign.path.clone()),
        ("About", campaign.description.clone()),
        ("Mode", campaign.mode.clone()),
        ("Scrubbing", campaign.scrub.map(on_or_off).unwrap_or_default().to_owned()),
    ];
    for line in named(&pairs) {
        console.out.line(&line)?;
    }
    for warning in &campaign.warnings {
        console.out.note(TextStyle::Warn, warning)?;
    }
    Ok(())
}

fn on_or_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}
