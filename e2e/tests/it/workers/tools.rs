//! Tools by which agents lead workers: only where the session allows it, as deep and as many as it allows, and never with
//! more than the agent itself may do.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wire::obey::v1 as own;
use wire::obey::v1::bridge_service_client::BridgeServiceClient;

use super::{listed, scripted};
use crate::stage::{Agent, Stage, fields, script, stage};

/// A session whose agent may have so many workers.
async fn leading(stage: &Stage, workers: &str, mode: &str) -> Result<String> {
    let mut new = stage.new_session();
    new.provider_config.insert("workers".into(), workers.into());
    new.provider_config.insert("permission_mode".into(), mode.into());
    Ok(stage.create_as(new).await?.id)
}

async fn outcomes(stage: &Stage, session: &str) -> Result<Vec<(String, bool, String)>> {
    let journal = stage.journal(session).await?;
    let ended = journal.iter().filter(|event| event.r#type == "tool_finished").map(fields);
    let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
    Ok(ended.map(|event| (text(&event, "tool"), event["ok"] == true, text(&event, "output"))).collect())
}

#[tokio::test]
async fn workers_of_workers_end_at_a_depth_and_tools_are_withheld_where_none_are_allowed() -> Result<()> {
    let stage = stage!(Agent::Openai);
    let start = |prompt: String| json!({"tool": "worker_start", "input": {"prompt": prompt}});
    let waits = || json!({"tool": "worker_wait", "input": {"timeout_secs": 60}});
    let third = script(Agent::Openai, "third", &json!([start("too deep".into()), {"text": "deep"}]));
    let second = script(Agent::Openai, "second", &json!([start(third), waits(), {"text": "middle"}]));
    let first = script(
        Agent::Openai,
        "first",
        &json!([start(second), waits(), {"tool": "worker_list", "input": {}}, {"text": "led"}]),
    );
    let id = leading(&stage, "1", "autonomous").await?;
    stage.turn(&id, &first).await?;
    let calls = outcomes(&stage, &id).await?;
    assert!(calls.iter().all(|(_, ok, _)| *ok), "{calls:?}");
    assert!(calls[1].2.contains("\"completed\"") && calls[1].2.contains("middle"), "{calls:?}");
    let child = listed(&stage, &id).await?.pop().context("no worker")?;
    let grandchild = listed(&stage, &child.id).await?.pop().context("no worker of the worker")?;
    let deepest = outcomes(&stage, &grandchild.id).await?;
    assert!(!deepest[0].1 && deepest[0].2.contains("levels deep"), "{deepest:?}");

    // Without a word of its creator an agent has none of these tools.
    let plain = stage.create().await?;
    stage
        .turn(&plain, &script(Agent::Openai, "plain", &json!([start("x".into()), {"text": "alone"}])))
        .await?;
    assert!(listed(&stage, &plain).await?.is_empty());
    let sent = stage.world.model().requests_for("plain");
    let offered = sent.first().context("nothing was sent")?.body["tools"].to_string();
    assert!(offered.contains("spawn_worker") && !offered.contains("worker_start"), "{offered}");
    stage.close().await
}

#[tokio::test]
async fn real_claude_leads_workers_with_no_more_than_it_has() -> Result<()> {
    let stage = stage!(Agent::Claude);
    let id = leading(&stage, "2", "supervised").await?;
    let ask =
        json!([{"tool": "Bash", "input": {"command": "ls"}, "ask": true, "result": "x"}, {"text": "worked"}]);
    let call = |tool: &str, input: Value| json!({"tool": format!("mcp__obey__{tool}"), "input": input});
    let input = json!({"prompt": scripted(&ask), "provider": "scripted", "name": "helping", "allowed_tools": ["Bash"]});
    let steps = json!([call("worker_start", input), call("worker_wait", json!({"timeout_secs": 60})), {"text": "led"}]);
    let turn = stage.send(&id, &script(Agent::Claude, "lead", &steps)).await?;
    let worker = stage.wait_for(&id, "worker_started", |_| true).await?["worker"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    // The agent has no grant for Bash, so it cannot give one: a person is asked.
    let request = stage.wait_for_request(&worker).await?;
    assert_eq!(request.tool_name, "Bash");
    stage.decide(&worker, &request.id, own::Decision::AllowOnce).await?;
    e2e::clients::collect(turn).await?;
    let calls = outcomes(&stage, &id).await?;
    assert!(
        calls
            .iter()
            .any(|(tool, ok, output)| tool.contains("worker_wait") && *ok && output.contains("worked")),
        "{calls:?}"
    );
    // Another session's worker is none of its business.
    let stranger = leading(&stage, "1", "supervised").await?;
    let mut bridge = BridgeServiceClient::new(stage.clients.channel.clone());
    let request = own::CallToolRequest {
        session_id: stranger,
        tool: "worker_cancel".into(),
        arguments_json: json!({"worker_id": worker}).to_string(),
        id: "one".into(),
        agent_call_id: "one".into(),
        ..Default::default()
    };
    let answer = bridge.call_tool(request).await?.into_inner();
    assert!(!answer.ok && answer.output.contains("there is no worker"), "{answer:?}");
    stage.close().await
}
