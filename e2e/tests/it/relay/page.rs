//! The page over several machines, in a real browser: one list, answers where the session is, and a machine that goes and comes.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::cli::Cli;
use e2e::daemon::Daemon;
use e2e::deadline::within;
use e2e::http;

use super::hairpin::asking;
use super::scene::{Machine, RelayScene, word};
use crate::page;

#[tokio::test]
async fn the_page_lists_all_machines_and_answers_where_the_session_is() -> Result<()> {
    let relay = RelayScene::start().await?;
    let mut here = relay.machine("here", "off").await?;
    let away = relay.machine("away", "off").await?;
    let session = asking(&here).await?;
    let device = here.device("laptop", "operator").await?;
    let line = word(&away.cli().json(&["device", "add", "--role", "viewer"]).await?, "line")?;
    Cli::new(&device).json(&["device", "join", &line, "--name", "laptop"]).await?;
    drop(away);
    let mut daemon = Daemon::start_with(&device, &["--listen", "127.0.0.1:0"]).await?;
    let address = *daemon.listen().first().context("no TCP address")?;
    let project = device.project().display().to_string();
    Cli::new(&device).ok(&["campaign", "add", &project, "--name", "project"]).await?;
    refused_without_a_key(address, &here.id).await?;
    device.set_env("PAGE_SESSION", &session);
    device.set_env("PAGE_MACHINE", &here.id);
    let (kill, back) = (device.path("tmp/kill"), device.path("tmp/back"));
    let driving = page::drive(&device, &daemon, address, "machines.mjs");
    tokio::select! {
        driven = driving => { driven?; }
        outcome = go_and_come_back(&mut here, kill, back) => outcome?,
    }
    // What the page did is in the audit of both machines, by whom.
    let there = here.cli().ok(&["audit", "tail", "-n", "0", "--json"]).await?.stdout;
    ensure!(there.contains("AnswerPermission") && there.contains("laptop"), "{there}");
    let own = Cli::new(&device).ok(&["audit", "tail", "-n", "0", "--json"]).await?.stdout;
    ensure!(own.contains("obey.v1.RequestService/AnswerPermission on"), "{own}");
    ensure!(!own.contains("ListRequests on"), "what only reads is not in the audit: {own}");
    daemon.terminate().await?;
    Ok(())
}

/// Kills the daemon of a machine, and starts it again, when the scenario says so.
async fn go_and_come_back(machine: &mut Machine, kill: PathBuf, back: PathBuf) -> Result<()> {
    appeared(kill).await?;
    machine.daemon.kill9().await?;
    appeared(back).await?;
    machine.daemon.restart().await?;
    std::future::pending().await
}

async fn appeared(file: PathBuf) -> Result<()> {
    let appearing = async {
        while !file.exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within("a word of the scenario", appearing).await
}

/// Nobody gets through to another machine without the key of a page, not even to look.
async fn refused_without_a_key(address: std::net::SocketAddr, machine: &str) -> Result<()> {
    let body = "{}";
    for path in [
        format!("/api/machines/{machine}/obey.v1.OverviewService/List"),
        format!("/api/machines/{machine}/obey.v1.TurnService/Prompt"),
    ] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let answer = within("an answer", http::exchange(address, head)).await??;
        ensure!(
            answer.status == 403 && answer.json()?["error"].to_string().contains("obey web"),
            "{answer:?}"
        );
    }
    let body = "{\"machines\":{}}";
    let head = format!(
        "POST /api/live HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let answer = within("an answer", http::exchange(address, head)).await??;
    ensure!(answer.status == 403, "{answer:?}");
    Ok(())
}
