//! `obey agents`: what is installed is listed with what it can, and tried.

use std::collections::HashMap;

use anyhow::{Context, Result};

use crate::stage::{Agent, served_scenarios, stage};

served_scenarios!(an_agent_is_listed_with_what_it_can_and_a_turn_with_it_is_tried);

async fn an_agent_is_listed_with_what_it_can_and_a_turn_with_it_is_tried(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let config: HashMap<&str, &str> = agent.config().iter().copied().collect();
    let name = config.get("agent").copied().unwrap_or(agent.name());
    let list = stage.cli().json(&["agents", "list"]).await?;
    let agents = list["agents"].as_array().context("no list")?;
    let found = agents.iter().find(|agent| agent["name"] == name).with_context(|| format!("{list}"))?;
    assert!(found["capabilities"].as_array().is_some_and(|can| !can.is_empty()), "{found}");
    // A gateway is joined without its program.
    if agent != Agent::Openclaw {
        assert!(found["state"] == "installed" || found["state"] == "built_in", "{found}");
        assert!(found["version"].as_str().is_some_and(|version| version.contains('.')), "{found}");
    }
    let tested = stage.cli().ok(&["agents", "test", name]).await?;
    assert!(tested.stdout.contains("You said: Reply with the single word: ready"), "{tested:?}");
    assert!(tested.stderr.contains(&format!("{name} works")), "{tested:?}");
    let listed = stage.cli().json(&["session", "list"]).await?;
    assert!(!listed.to_string().contains("sess_"), "a test leaves nothing behind: {listed}");
    stage.close().await
}

/// It is the one agent that asks about a single word.
#[tokio::test]
async fn an_agent_that_asks_during_its_test_is_denied_and_leaves_nothing() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let tested = stage.cli().ok(&["agents", "test", "scripted"]).await?;
    assert!(tested.stdout.contains("I was not allowed to look around."), "{tested:?}");
    assert!(tested.stderr.contains("scripted works"), "{tested:?}");
    let listed = stage.cli().json(&["session", "list"]).await?;
    assert!(!listed.to_string().contains("sess_"), "a test leaves nothing behind: {listed}");
    stage.close().await
}
