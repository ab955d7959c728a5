//! A daemon that others wrote, and a relay that others wrote, from the published frames alone; and a client that asks the
//! relay what it serves.

use std::path::Path;

use anyhow::{Context, Result};
use e2e::tools;

use super::scene::{RelayScene, published, python, word};

#[tokio::test]
async fn a_daemon_that_knows_only_the_published_frames_is_reached() -> Result<()> {
    let relay = RelayScene::start().await?;
    let folder = relay.world.path("stranger").display().to_string();
    let issued = relay.cli().json(&["relay", "issue", "box", "--out", &folder]).await?;
    let arguments = [
        relay.address.to_string(),
        relay.ca.clone(),
        relay.token.clone(),
        word(&issued, "machine_id")?,
        folder,
        published(),
    ];
    python(&relay.world, "tunnel_stranger.py", &arguments).await?;
    Ok(())
}

/// Puts a relay that others wrote in the place of ours, whose authority our daemon knows.
async fn behind_a_relay_of_others(mode: &str, proto: String) -> Result<()> {
    let mut relay = RelayScene::start().await?;
    let machine = relay.machine("box", "full").await?;
    relay.kill().await?;
    let folder = Path::new(&relay.ca).parent().context("no folder")?.display().to_string();
    let project = machine.world.project().display().to_string();
    let arguments = [mode.to_owned(), relay.address.to_string(), folder, machine.id.clone(), proto, project];
    python(&relay.world, "relay_stranger.py", &arguments).await?;
    Ok(())
}

#[tokio::test]
async fn our_daemon_serves_a_relay_that_knows_only_the_published_frames() -> Result<()> {
    behind_a_relay_of_others("published", published()).await
}

#[tokio::test]
async fn a_call_that_was_delivered_before_is_not_executed_again() -> Result<()> {
    behind_a_relay_of_others("delivering", tools::repository().join("proto").display().to_string()).await
}

#[tokio::test]
async fn an_unknown_symbol_does_not_end_a_reflection_stream_of_the_relay() -> Result<()> {
    let relay = RelayScene::start().await?;
    let service = "betcode.v1.TunnelService".to_owned();
    python(&relay.world, "reflection.py", &[relay.address.to_string(), relay.ca.clone(), service]).await?;
    Ok(())
}
