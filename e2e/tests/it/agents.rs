//! `obey agents`: what is installed, and whether a turn with it works.

use anyhow::{Context, Result};
use wire::obey::local::v1::ListSessionsRequest;

use crate::stage::{Agent, Stage, stage};

async fn works(stage: Stage, name: &str) -> Result<()> {
    let tested = stage.cli().ok(&["agents", "test", name]).await?;
    assert!(tested.stdout.contains("You said: Reply with the single word: ready"), "{tested:?}");
    assert!(tested.stderr.contains(&format!("{name} works")), "{tested:?}");
    let listed =
        stage.clients.local.clone().list_sessions(ListSessionsRequest::default()).await?.into_inner();
    assert!(listed.sessions.is_empty(), "a test leaves nothing behind: {listed:?}");
    stage.close().await
}

#[tokio::test]
async fn real_acp_is_listed_and_tested() -> Result<()> {
    let stage = stage!(Agent::Acp);
    let list = stage.cli().json(&["agents", "list"]).await?;
    let agents = list["agents"].as_array().context("no list")?;
    let named =
        |name: &str| agents.iter().find(|agent| agent["name"] == name).with_context(|| format!("{list}"));
    let found = named("codex-acp")?;
    assert_eq!((&found["state"], &found["version"]), (&"installed".into(), &"0.16.0".into()), "{found}");
    let missing = named("goose")?;
    assert_eq!(missing["state"], "missing", "{missing}");
    assert!(missing["remedy"].as_str().is_some_and(|remedy| remedy.contains("npm install")), "{missing}");
    assert_eq!(named("openai-api")?["state"], "built_in");
    works(stage, "codex-acp").await
}

#[tokio::test]
async fn the_agent_inside_the_daemon_is_tested() -> Result<()> {
    works(stage!(Agent::Openai), "openai-api").await
}

#[tokio::test]
async fn a_test_that_fails_says_why() -> Result<()> {
    let stage = Stage::open(Agent::Scripted).await?.context("the scripted agent is part of the daemon")?;
    let unknown = stage.cli().run(&["agents", "test", "gose"]).await?;
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.stderr.contains("did you mean goose?"), "{unknown:?}");
    let missing = stage.cli().run(&["agents", "test", "goose"]).await?;
    assert!(missing.code != Some(0) && missing.stderr.contains("OBEY-2004"), "{missing:?}");
    stage.close().await
}
