//! Tools that a client runs: they reach every agent, go out in order, time out, and end with their client.

use anyhow::Result;
use e2e::deadline::within;
use serde_json::json;
use wire::roz::v1 as pb;
use wire::roz::v1::session_request::Request as Said;
use wire::roz::v1::session_response::Response as Body;

use super::talk::{Talk, call, environment_with, finished, is_bridged, physical, pure, start, text};
use crate::stage::{Agent, Stage, process_scenarios, script, stage};

process_scenarios!(
    a_client_runs_a_tool_for_the_agent,
    a_tool_that_fails_fails_the_call_only,
    a_tool_that_takes_too_long_is_given_up,
    a_client_that_leaves_fails_its_call_and_not_the_session,
    tools_are_exchanged_by_their_source,
    tools_of_a_turn_are_gone_after_it,
);

/// A session whose tools need no approval.
async fn autonomous(stage: &Stage, tools: Vec<pb::ToolSchema>) -> Result<Talk> {
    let environment_id = environment_with(stage, "free", &["--mode", "autonomous"]).await?;
    Talk::start(stage, pb::StartSession { tools, ..start(&environment_id) }).await
}

async fn a_client_runs_a_tool_for_the_agent(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let schema = pb::ToolSchema { timeout_ms: 45_000, ..pure("look_around") };
    let mut talk = Talk::new(&stage, vec![schema]).await?;
    let rule = &talk.started.permissions[0];
    assert_eq!((rule.tool_pattern.as_str(), rule.policy.as_str()), ("look_around", "allow"));
    let steps = json!([call("look_around", json!({"depth": 2, "where": ["a", "b"]})), {"text": "seen"}]);
    talk.prompt("m-1", &script(agent, "look", &steps)).await?;
    let asked = talk.tool_request().await?;
    assert_eq!((asked.tool_name.as_str(), asked.timeout_ms), ("look_around", 45_000));
    let fields = asked.parameters.clone().unwrap_or_default().fields;
    let depth = fields.get("depth").and_then(|value| value.kind.clone());
    assert_eq!(depth, Some(prost_types::value::Kind::NumberValue(2.0)));
    assert!(fields.contains_key("where"), "{fields:?}");
    talk.result(&asked.tool_call_id, true, "a red door").await?;
    // Said twice, or about nothing: no harm.
    talk.result(&asked.tool_call_id, true, "a blue door").await?;
    talk.result("toolu_unknown", true, "a green door").await?;
    let (end, heard) = talk.turn().await?;
    assert_eq!(end.stop_reason, "end_turn");
    assert!(text(&heard).contains("seen"), "{heard:#?}");
    assert_eq!(finished(&stage, talk.session(), "look_around").await?, (true, "a red door".into()));
    // One name for one call, wherever it is seen.
    let seen = stage.wait_for(talk.session(), "tool_started", |event| event["tool"] == "look_around").await?;
    assert_eq!(seen["call"], json!(asked.tool_call_id));
    if is_bridged(agent) {
        let requests = stage.world.model().requests_for("look");
        let sent: String = requests.iter().map(|request| request.body.to_string()).collect();
        assert!(sent.contains("a red door"), "the model was not told what the tool returned");
        // Codex lets its model search for tools; the others are sent all of them.
        let offered = if agent == Agent::Codex { "- obey" } else { "the tool look_around" };
        assert!(sent.contains(offered), "the model was not offered the tool");
    }
    stage.close().await
}

async fn a_tool_that_fails_fails_the_call_only(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage, vec![pure("look_around")]).await?;
    let steps = json!([call("look_around", json!({})), {"text": "never mind"}]);
    talk.prompt("m-1", &script(agent, "look", &steps)).await?;
    let asked = talk.tool_request().await?;
    let result = pb::ToolResult {
        tool_call_id: asked.tool_call_id,
        success: false,
        result: "it is dark".into(),
        exit_code: Some(7),
        truncated: true,
        duration_ms: Some(12),
    };
    talk.say(Said::ToolResult(result)).await?;
    assert_eq!(talk.turn().await?.0.stop_reason, "end_turn");
    let (ok, output) = finished(&stage, talk.session(), "look_around").await?;
    assert!(!ok && output.contains("it is dark") && output.contains("exit code 7"), "{output}");
    stage.close().await
}

async fn a_tool_that_takes_too_long_is_given_up(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage, vec![pb::ToolSchema { timeout_ms: 300, ..pure("look_around") }]).await?;
    let steps = json!([call("look_around", json!({})), {"text": "gave up"}]);
    talk.prompt("m-1", &script(agent, "look", &steps)).await?;
    let asked = talk.tool_request().await?;
    assert_eq!(talk.turn().await?.0.stop_reason, "end_turn");
    let (ok, output) = finished(&stage, talk.session(), "look_around").await?;
    assert!(!ok && output.contains("tool timeout after 300 ms"), "{output}");
    talk.result(&asked.tool_call_id, true, "too late").await?;
    assert_eq!(talk.error().await?.code, "no_active_turn");
    talk.prompt("m-2", &script(agent, "more", &json!([{"text": "fine"}]))).await?;
    assert_eq!(text(&talk.turn().await?.1), "fine");
    stage.close().await
}

async fn a_client_that_leaves_fails_its_call_and_not_the_session(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage, vec![pure("look_around")]).await?;
    let steps = json!([call("look_around", json!({})), {"text": "alone"}]);
    talk.prompt("m-1", &script(agent, "look", &steps)).await?;
    talk.tool_request().await?;
    let session = talk.session().to_owned();
    drop(talk);
    let (ok, output) = finished(&stage, &session, "look_around").await?;
    assert!(!ok && output.contains("left"), "{output}");
    let end = stage.wait_for(&session, "turn_ended", |_| true).await?;
    assert_eq!(end["reason"], "completed");
    // The session goes on for whoever comes next.
    stage.wait_for_status(&session, "RUNNING").await?;
    stage.turn(&session, &script(agent, "again", &json!([{"text": "still here"}]))).await?;
    stage.close().await
}

async fn tools_are_exchanged_by_their_source(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage, vec![pure("own"), pure("sim__old")]).await?;
    let register = |tools: Vec<pb::ToolSchema>| {
        Said::RegisterTools(pb::RegisterTools {
            source: Some("sim".into()),
            tools,
            system_context: Some("the simulator runs".into()),
        })
    };
    talk.say(register(vec![pure("sim__new")])).await?;
    let steps = json!([call("sim__new", json!({})), call("sim__old", json!({})), {"text": "done"}]);
    talk.prompt("m-1", &script(agent, "swap", &steps)).await?;
    let asked = talk.tool_request().await?;
    assert_eq!(asked.tool_name, "sim__new");
    talk.result(&asked.tool_call_id, true, "new").await?;
    let (_, heard) = talk.turn().await?;
    assert!(!heard.iter().any(|body| matches!(body, Body::ToolRequest(_))), "{heard:#?}");
    let started = stage.wait_for(talk.session(), "turn_started", |_| true).await?;
    assert!(started["attachments"].to_string().contains("system_context"), "{started}");
    talk.say(register(Vec::new())).await?;
    let steps = json!([call("own", json!({})), call("sim__new", json!({})), {"text": "done"}]);
    talk.prompt("m-2", &script(agent, "gone", &steps)).await?;
    let asked = talk.tool_request().await?;
    assert_eq!(asked.tool_name, "own");
    talk.result(&asked.tool_call_id, true, "own").await?;
    let (_, heard) = talk.turn().await?;
    assert!(!heard.iter().any(|body| matches!(body, Body::ToolRequest(_))), "{heard:#?}");
    stage.close().await
}

async fn tools_of_a_turn_are_gone_after_it(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage, vec![pure("always")]).await?;
    let message = pb::UserMessage {
        content: script(
            agent,
            "once",
            &json!([call("once", json!({})), call("always", json!({})), {"text": "done"}]),
        ),
        tools: vec![pure("once")],
        ..Default::default()
    };
    talk.say(Said::UserMessage(message)).await?;
    let asked = talk.tool_request().await?;
    assert_eq!(asked.tool_name, "once");
    talk.result(&asked.tool_call_id, true, "ok").await?;
    let (_, heard) = talk.turn().await?;
    assert!(!heard.iter().any(|body| matches!(body, Body::ToolRequest(_))), "{heard:#?}");
    let steps = json!([call("always", json!({})), {"text": "done"}]);
    talk.prompt("m-2", &script(agent, "then", &steps)).await?;
    let asked = talk.tool_request().await?;
    assert_eq!(asked.tool_name, "always");
    talk.result(&asked.tool_call_id, true, "ok").await?;
    talk.turn().await?;
    stage.close().await
}

/// Only a real agent calls several tools at once.
async fn pure_tools_run_side_by_side(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage, vec![pure("left"), pure("right")]).await?;
    let both = json!([[call("left", json!({})), call("right", json!({}))], {"text": "both"}]);
    talk.prompt("m-1", &script(agent, "look", &both)).await?;
    let (first, second) = (talk.tool_request().await?, talk.tool_request().await?);
    // Both wait; answered the other way round.
    talk.result(&second.tool_call_id, true, "second").await?;
    talk.result(&first.tool_call_id, true, "first").await?;
    assert!(text(&talk.turn().await?.1).contains("both"));
    stage.close().await
}

#[tokio::test]
async fn real_claude_pure_tools_run_side_by_side() -> Result<()> {
    pure_tools_run_side_by_side(Agent::Claude).await
}

#[tokio::test]
async fn real_codex_pure_tools_run_side_by_side() -> Result<()> {
    pure_tools_run_side_by_side(Agent::Codex).await
}

/// Two agents of one kind of call: the second waits for the first.
async fn physical_tools_run_one_at_a_time(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = autonomous(&stage, vec![physical("lift"), pure("see")]).await?;
    let steps = json!([[call("lift", json!({"n": 1})), call("lift", json!({"n": 2})), call("see", json!({}))], {"text": "lifted"}]);
    talk.prompt("m-1", &script(agent, "lift", &steps)).await?;
    let mut order = Vec::new();
    let mut lifting = None;
    while order.len() < 3 {
        let asked = talk.tool_request().await?;
        if asked.tool_name == "lift" {
            assert_eq!(lifting, None, "two lifts at once");
            lifting = Some(asked.tool_call_id.clone());
        }
        // What comes in between shows itself before the first lift is answered.
        talk.pong().await?;
        let stray = talk.heard.iter().filter(|body| matches!(body, Body::ToolRequest(_))).count();
        assert!(stray <= order.len() + 2, "{:#?}", talk.heard);
        talk.result(&asked.tool_call_id, true, "ok").await?;
        if asked.tool_name == "lift" {
            lifting = None;
        }
        order.push(asked.tool_name);
    }
    assert_eq!(order.iter().filter(|name| *name == "lift").count(), 2, "{order:?}");
    talk.turn().await?;
    stage.close().await
}

#[tokio::test]
async fn real_claude_physical_tools_run_one_at_a_time() -> Result<()> {
    within("the scenario", physical_tools_run_one_at_a_time(Agent::Claude)).await?
}
