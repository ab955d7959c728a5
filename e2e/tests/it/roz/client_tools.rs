//! Tools that a client runs: they reach every agent, go out in order, time out, and end with their client.

use anyhow::Result;
use serde_json::json;
use wire::roz::v1 as pb;
use wire::roz::v1::session_request::Request as Said;
use wire::roz::v1::session_response::Response as Body;

use super::talk::{Talk, call, deny, finished, physical, pure, searches_tools, text};
use crate::stage::{Agent, script, stage, usual_scenarios};

usual_scenarios!(
    a_client_runs_a_tool_for_the_agent,
    a_tool_that_fails_fails_the_call_only,
    a_tool_that_takes_too_long_is_given_up,
    a_client_that_leaves_fails_its_call_and_not_the_session,
    a_tool_that_the_rules_deny_is_not_run,
    a_tool_that_is_taken_away_cannot_be_called,
);

/// For the gateway of `make test-all`, which is too slow to be started for each.
pub(crate) const AT_A_GATEWAY: &[crate::stage::Scenario] = &[
    ("a_client_runs_a_tool_for_the_agent", |agent| Box::pin(a_client_runs_a_tool_for_the_agent(agent))),
    ("a_tool_that_fails_fails_the_call_only", |agent| Box::pin(a_tool_that_fails_fails_the_call_only(agent))),
    ("tools_are_exchanged_by_their_source", |agent| Box::pin(tools_are_exchanged_by_their_source(agent))),
];

/// `codex-acp` keeps the tools it began with.
mod changing {
    use super::{tools_are_exchanged_by_their_source, tools_of_a_turn_are_gone_after_it};
    crate::stage::all_but_acp!(tools_are_exchanged_by_their_source, tools_of_a_turn_are_gone_after_it);
}

async fn a_client_runs_a_tool_for_the_agent(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let schema = pb::ToolSchema { timeout_ms: 45_000, ..pure("look_around") };
    let mut talk = Talk::new(&stage, vec![schema]).await?;
    let rule = &talk.started.permissions[0];
    assert_eq!((rule.tool_pattern.as_str(), rule.policy.as_str()), ("look_around", "allow"));
    let steps = json!([call("look_around", json!({"depth": 2, "where": ["a", "b"]})), {"text": "seen"}]);
    talk.prompt("m-1", &stage.script(talk.session(), "look", &steps)).await?;
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
    if agent.is_real() {
        let requests = stage.world.model().requests_for("look");
        let sent: String = requests.iter().map(|request| request.body.to_string()).collect();
        assert!(sent.contains("a red door"), "the model was not told what the tool returned");
        // Codex lets its model search for tools; the others are sent all of them. Of an agent behind ACP, whose requests
        // differ, and behind a gateway, which shows none, it is known by the call alone.
        let offered = if searches_tools(agent) { "- obey" } else { "the tool look_around" };
        let is_known = matches!(agent, Agent::Acp | Agent::Openclaw) || sent.contains(offered);
        assert!(is_known, "the model was not offered the tool");
    }
    stage.close().await
}

async fn a_tool_that_fails_fails_the_call_only(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage, vec![pure("look_around")]).await?;
    let steps = json!([call("look_around", json!({})), {"text": "never mind"}]);
    talk.prompt("m-1", &stage.script(talk.session(), "look", &steps)).await?;
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
    talk.prompt("m-1", &stage.script(talk.session(), "swap", &steps)).await?;
    let asked = talk.tool_request().await?;
    assert_eq!(asked.tool_name, "sim__new");
    talk.result(&asked.tool_call_id, true, "new").await?;
    let (_, heard) = talk.turn().await?;
    assert!(!heard.iter().any(|body| matches!(body, Body::ToolRequest(_))), "{heard:#?}");
    let started = stage.wait_for(talk.session(), "turn_started", |_| true).await?;
    assert!(started["attachments"].to_string().contains("system_context"), "{started}");
    talk.say(register(Vec::new())).await?;
    let steps = json!([call("own", json!({})), call("sim__new", json!({})), {"text": "done"}]);
    talk.prompt("m-2", &stage.script(talk.session(), "gone", &steps)).await?;
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

async fn a_tool_that_the_rules_deny_is_not_run(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    deny(&stage, &["look_away"])?;
    let mut talk = Talk::new(&stage, vec![pure("look_away"), pure("look_around")]).await?;
    let said: Vec<(&str, &str)> = talk
        .started
        .permissions
        .iter()
        .map(|rule| (rule.tool_pattern.as_str(), rule.policy.as_str()))
        .collect();
    assert_eq!(said, [("look_away", "block"), ("look_around", "allow")]);
    let steps =
        json!([call("look_away", json!({})), call("look_around", json!({})), {"text": "only one of them"}]);
    talk.prompt("m-1", &script(agent, "look", &steps)).await?;
    let asked = talk.tool_request().await?;
    assert_eq!(asked.tool_name, "look_around");
    talk.result(&asked.tool_call_id, true, "a door").await?;
    assert_eq!(talk.turn().await?.0.stop_reason, "end_turn");
    assert!(!finished(&stage, talk.session(), "look_away").await?.0);
    assert!(
        !talk
            .heard
            .iter()
            .any(|body| matches!(body, Body::ActivityUpdate(update) if update.state == "waiting_approval")),
        "what is blocked does not ask: {:#?}",
        talk.heard
    );
    stage.close().await
}

/// A tool goes while its call waits for an approval: the approval comes too late, and the call fails.
async fn a_tool_that_is_taken_away_cannot_be_called(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage, vec![physical("lift")]).await?;
    talk.prompt("m-1", &script(agent, "lift", &json!([call("lift", json!({})), {"text": "gone"}]))).await?;
    let waiting = talk.approval().await?;
    talk.say(Said::RegisterTools(pb::RegisterTools::default())).await?;
    stage.wait_for(talk.session(), "tools_registered", |event| event["tools"] == json!([])).await?;
    talk.decide(&waiting, true).await?;
    let (end, heard) = talk.turn().await?;
    assert_eq!(end.stop_reason, "end_turn");
    assert!(!heard.iter().any(|body| matches!(body, Body::ToolRequest(_))), "{heard:#?}");
    let (ok, output) = finished(&stage, talk.session(), "lift").await?;
    assert!(!ok && output.contains("no client offers"), "{output}");
    stage.close().await
}
