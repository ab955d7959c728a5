//! What an agent gets of the page's API, whatever it sends from its own process tree: its own session, and no more.

use anyhow::{Context, Result, ensure};
use e2e::cli::Cli;

use super::Scenario;
use crate::boundary::{hostile_session, hostile_stage, run_as_agent};

#[tokio::test]
async fn an_agent_gets_no_key_and_no_more_with_one_that_it_found() -> Result<()> {
    let stage = hostile_stage().await?;
    let session = hostile_session(&stage, "autonomous").await?;
    let other = stage.create().await?;
    let at = *stage.daemon.listen().first().context("no TCP address")?;
    let cli = Cli::new(&stage.world);
    let printed = cli.json(&["web"]).await?;
    let code = printed["url"].as_str().and_then(|url| url.split("#k=").nth(1)).context("no code")?.to_owned();
    let post = |path: &str, body: &str, more: &str| {
        format!("curl -s -X POST {more} -H 'content-type: application/json' -d '{body}' http://{at}{path}")
    };
    // A code that it has seen is no good to it, and is not used up.
    let login = post("/obey.v1.PageService/Login", &format!(r#"{{"code":"{code}"}}"#), "");
    let told = run_as_agent(&stage, &session, &login).await?;
    ensure!(!told.contains("obey-page-") && told.contains("OBEY-1001"), "{told}");
    let output = stage.world.command("sh").args(["-c", &login]).output()?;
    let given: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let key = given["key"].as_str().with_context(|| given.to_string())?;
    // Neither is the key of a page.
    let more =
        format!("-H 'authorization: Bearer {key}' -H 'origin: http://{at}' -H 'sec-fetch-site: same-origin'");
    let prompt = format!(r#"{{"session_id":"{other}","text":"x"}}"#);
    for (path, body) in [
        ("/obey.v1.TurnService/Prompt", prompt.as_str()),
        ("/obey.v1.PageService/CreateCode", "{}"),
        ("/obey.local.v1.LocalDaemonService/ListSessions", "{}"),
        ("/api/live", r#"{"sessions":{},"overview":0}"#),
    ] {
        let told = run_as_agent(&stage, &session, &post(path, body, &more)).await?;
        ensure!(told.contains("OBEY-1002"), "{path}: {told}");
    }
    let own = post(
        "/obey.local.v1.LocalDaemonService/GetSession",
        &format!(r#"{{"session_id":"{session}"}}"#),
        &more,
    );
    let told = run_as_agent(&stage, &session, &own).await?;
    ensure!(told.contains(&session) && !told.contains("OBEY-1002"), "{told}");
    stage.close().await
}

#[tokio::test]
async fn a_browser_that_an_agent_starts_has_no_more_rights_than_the_agent() -> Result<()> {
    let stage = hostile_stage().await?;
    let session = hostile_session(&stage, "autonomous").await?;
    let other = stage.create().await?;
    let at = *stage.daemon.listen().first().context("no TCP address")?;
    let Some(scenario) = Scenario::new(&stage.world, &stage.daemon, at, "agent_browser.mjs")? else {
        return stage.close().await;
    };
    // The agent has seen a code, and the key of a page that a person uses.
    let cli = Cli::new(&stage.world);
    let mut codes = Vec::new();
    for _ in 0..2 {
        let printed = cli.json(&["web"]).await?;
        codes.push(
            printed["url"].as_str().and_then(|url| url.split("#k=").nth(1)).context("no code")?.to_owned(),
        );
    }
    let login = format!(
        "curl -s -X POST -H 'content-type: application/json' -d '{{\"code\":\"{}\"}}' http://{at}/obey.v1.PageService/Login",
        codes[1]
    );
    let output = stage.world.command("sh").args(["-c", &login]).output()?;
    let given: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let key = given["key"].as_str().with_context(|| given.to_string())?;
    let mut words: Vec<String> = scenario
        .environment
        .iter()
        .map(|(name, value)| format!("{name}='{}'", value.to_string_lossy()))
        .collect();
    words.push(format!("PAGE_CODE='{}' PAGE_KEY='{key}' PAGE_OTHER='{other}'", codes[0]));
    words.push(format!("'{}' '{}' 2>&1", scenario.node.display(), scenario.script.display()));
    let told = run_as_agent(&stage, &session, &words.join(" ")).await?;
    ensure!(told.lines().any(|line| line == "held"), "{told}");
    stage.close().await
}
