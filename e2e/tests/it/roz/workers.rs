//! Workers that agents have: how many, and of which kind. One of another kind than its parent is named by provider and
//! model, and refused by name where there is none.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wire::obey::v1 as own;
use wire::obey::v1::bridge_service_client::BridgeServiceClient;

use super::talk::{Talk, call, environment_with, start};
use crate::stage::{Agent, Stage, fields, script, stage};

/// A stage with Claude as its agent and an endpoint of the OpenAI API beside it.
async fn open() -> Result<Option<Stage>> {
    Stage::open_with(Agent::Claude, |world| {
        world.set_env("OPENAI_BASE_URL", world.model().openai_base_url());
        world.set_env("OPENAI_API_KEY", "dummy");
        Ok(())
    })
    .await
}

async fn sessions(stage: &Stage) -> Result<Vec<Value>> {
    let listed = stage.cli().json(&["session", "list", "--all"]).await?;
    Ok(listed["sessions"].as_array().context("no list")?.clone())
}

/// What each call of a tool came to, in order.
async fn outcomes(stage: &Stage, session: &str, tool: &str) -> Result<Vec<(bool, String)>> {
    let journal = stage.journal(session).await?;
    let ended = journal.iter().filter(|event| event.r#type == "tool_finished").map(fields);
    let ended = ended.filter(|event| event["tool"] == tool);
    Ok(ended
        .map(|event| (event["ok"] == true, event["output"].as_str().unwrap_or_default().to_owned()))
        .collect())
}

#[tokio::test]
async fn real_claude_a_worker_may_be_another_agent() -> Result<()> {
    let Some(stage) = open().await? else { return Ok(()) };
    let environment = environment_with(&stage, "free", &["--mode", "autonomous"]).await?;
    let mut talk = Talk::start(&stage, start(&environment)).await?;
    let worker = script(Agent::Openai, "worker", &json!([{"text": "worked over there"}]));
    let steps = json!([
        call("spawn_worker", json!({"prompt": worker, "name": "api", "provider": "openai-api", "model": "gpt-5.5"})),
        call("watch_team", json!({"wait": true, "timeout_secs": 25})),
        {"text": "led"},
    ]);
    talk.prompt("m-1", &script(Agent::Claude, "lead", &steps)).await?;
    assert_eq!(talk.turn().await?.0.stop_reason, "end_turn");
    let watched = outcomes(&stage, talk.session(), "watch_team").await?;
    assert!(watched[0].0 && watched[0].1.contains("worked over there"), "{watched:?}");
    let all = sessions(&stage).await?;
    let worker = all.iter().find(|session| session["agent_name"] == "api").context("no worker")?;
    let id = worker["id"].as_str().context("no id")?;
    let created = stage.wait_for(id, "session_created", |_| true).await?;
    let shown = (&created["provider"], &created["model"], &created["mode"]);
    assert_eq!(shown, (&json!("openai-api"), &json!("gpt-5.5"), &json!("autonomous")));
    let sent = stage.world.model().requests_for("worker");
    assert_eq!(sent[0].body["model"], "gpt-5.5", "the worker asked another model");
    stage.close().await
}

/// An agent inside the daemon has workers like any other, and asks about them like any other.
#[tokio::test]
async fn an_agent_inside_the_daemon_has_workers() -> Result<()> {
    let stage = stage!(Agent::Openai);
    let id = stage.create().await?;
    let worker = script(Agent::Scripted, "worker", &json!([{"text": "worked over there"}]));
    let steps = json!([
        {"tool": "spawn_worker", "input": {"prompt": worker, "name": "helping", "provider": "scripted"}},
        {"tool": "watch_team", "input": {"wait": true, "timeout_secs": 25}},
        {"text": "led"},
    ]);
    let turn = stage.send(&id, &script(Agent::Openai, "lead", &steps)).await?;
    let request = stage.wait_for_request(&id).await?;
    stage.cli().ok(&["session", "approve", &id]).await?;
    e2e::clients::collect(turn).await?;
    assert!(format!("{request:?}").contains("spawn_worker"), "{request:?}");
    let watched = outcomes(&stage, &id, "watch_team").await?;
    assert!(watched[0].0 && watched[0].1.contains("worked over there"), "{watched:?}");
    let all = sessions(&stage).await?;
    assert!(all.iter().any(|session| session["agent_name"] == "helping"), "{all:#?}");
    stage.close().await
}

/// Nobody is asked about a worker that cannot be: the session is a supervised one and no approval is awaited.
#[tokio::test]
async fn real_claude_a_worker_that_cannot_be_is_refused_by_name() -> Result<()> {
    let Some(stage) = open().await? else { return Ok(()) };
    let environment = environment_with(&stage, "lab", &[]).await?;
    let mut talk = Talk::start(&stage, start(&environment)).await?;
    let spawn = |provider: &str| call("spawn_worker", json!({"prompt": "work", "provider": provider}));
    let steps = json!([spawn("skynet"), spawn("codex"), spawn("codex/x"), {"text": "alone"}]);
    talk.prompt("m-1", &script(Agent::Claude, "lead", &steps)).await?;
    assert_eq!(talk.turn().await?.0.stop_reason, "end_turn");
    let refused = outcomes(&stage, talk.session(), "spawn_worker").await?;
    let expected = [
        ["OBEY-2002", "provider: \"skynet\" is no provider; use one of claude-code, "],
        ["OBEY-2030", "provider: codex cannot be run here: "],
        ["OBEY-2002", "provider: \"codex/x\" is no provider"],
    ];
    assert_eq!(refused.len(), expected.len(), "{refused:?}");
    for ((ok, output), words) in refused.iter().zip(expected) {
        assert!(!ok && words.iter().all(|word| output.contains(word)), "{output} lacks {words:?}");
    }
    assert_eq!(sessions(&stage).await?.len(), 1);
    stage.close().await
}

/// Calls `spawn_worker` as an agent's MCP server would.
async fn spawn(
    stage: &Stage,
    session: &str,
    number: usize,
    arguments: Value,
) -> Result<own::CallToolResponse> {
    let request = own::CallToolRequest {
        session_id: session.into(),
        tool: "spawn_worker".into(),
        arguments_json: arguments.to_string(),
        id: format!("call-{number}"),
        agent_call_id: format!("call-{number}"),
        ..Default::default()
    };
    let mut bridge = BridgeServiceClient::new(stage.clients.channel.clone());
    Ok(bridge.call_tool(request).await?.into_inner())
}

#[tokio::test]
async fn an_agent_has_eight_workers_at_work_and_another_when_one_has_ended() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let environment = environment_with(&stage, "free", &["--mode", "autonomous"]).await?;
    let talk = Talk::start(&stage, start(&environment)).await?;
    let busy = script(Agent::Scripted, "work", &json!([{"hang": true}]));
    let mut workers = Vec::new();
    for number in 0..8 {
        let spawned = spawn(&stage, talk.session(), number, json!({"prompt": busy})).await?;
        assert!(spawned.ok, "{}", spawned.output);
        let id: Value = serde_json::from_str(&spawned.output)?;
        workers.push(id["worker_id"].as_str().context("no id")?.to_owned());
    }
    let refused = spawn(&stage, talk.session(), 8, json!({"prompt": busy})).await?;
    assert!(!refused.ok && refused.output.contains("8 workers are at work already"), "{}", refused.output);
    stage.stop(&workers[0], false).await?;
    let spawned = spawn(&stage, talk.session(), 9, json!({"prompt": busy, "provider": "scripted"})).await?;
    assert!(spawned.ok, "{}", spawned.output);
    let wrong = spawn(&stage, talk.session(), 10, json!({"prompt": " "})).await?;
    assert!(!wrong.ok && wrong.output.contains("prompt: is required"), "{}", wrong.output);
    assert_eq!(sessions(&stage).await?.len(), 10);
    stage.close().await
}
