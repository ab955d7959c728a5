//! Approvals: what is announced at the start is what asks, and silence means no.

use anyhow::Result;
use serde_json::json;
use wire::roz::v1 as pb;
use wire::roz::v1::session_response::Response as Body;

use super::talk::{Talk, call, environment_with, finished, physical, pure, start, text};
use crate::stage::{Agent, script, stage, usual_scenarios};

usual_scenarios!(
    what_is_announced_is_what_asks,
    a_denied_call_is_not_made,
    silence_means_no,
    an_agents_own_tools_ask_the_same_way,
    in_plan_mode_what_would_ask_is_blocked,
    an_autonomous_session_asks_nothing,
);

/// What the start said about each tool.
fn announced(talk: &Talk) -> Vec<(&str, &str)> {
    let rules = talk.started.permissions.iter();
    rules.map(|rule| (rule.tool_pattern.as_str(), rule.policy.as_str())).collect()
}

fn was_asked(heard: &[Body]) -> bool {
    heard
        .iter()
        .any(|body| matches!(body, Body::ActivityUpdate(update) if update.state == "waiting_approval"))
}

async fn what_is_announced_is_what_asks(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage, vec![physical("move_arm"), pure("read_pose")]).await?;
    let rules: Vec<(&str, &str, Option<&str>)> = talk
        .started
        .permissions
        .iter()
        .map(|rule| (rule.tool_pattern.as_str(), rule.policy.as_str(), rule.category.as_deref()))
        .collect();
    assert_eq!(
        rules,
        [("move_arm", "require_confirmation", Some("physical")), ("read_pose", "allow", Some("pure"))]
    );
    let steps = json!([call("read_pose", json!({})), call("move_arm", json!({"x": 1})), {"text": "moved"}]);
    talk.prompt("m-1", &script(agent, "move", &steps)).await?;
    let asked = talk.tool_request().await?;
    assert_eq!(asked.tool_name, "read_pose", "what is allowed does not ask");
    talk.result(&asked.tool_call_id, true, "0,0").await?;
    let waiting = talk.approval().await?;
    assert!(
        !talk
            .heard
            .iter()
            .any(|body| matches!(body, Body::ToolRequest(asked) if asked.tool_name == "move_arm")),
        "the tool was to run before it was approved"
    );
    talk.decide(&waiting, true).await?;
    let asked = talk.tool_request().await?;
    assert_eq!((asked.tool_name.as_str(), asked.tool_call_id.as_str()), ("move_arm", waiting.as_str()));
    talk.result(&asked.tool_call_id, true, "moved").await?;
    let (end, heard) = talk.turn().await?;
    assert_eq!(end.stop_reason, "end_turn");
    assert!(text(&heard).contains("moved"));
    let full = talk.heard.iter().any(|body| matches!(body, Body::PresenceHint(hint) if hint.level == "full"));
    assert!(full, "whoever must approve has to see it");
    stage.close().await
}

async fn a_denied_call_is_not_made(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage, vec![physical("move_arm")]).await?;
    let steps = json!([call("move_arm", json!({})), {"text": "fine"}]);
    talk.prompt("m-1", &script(agent, "move", &steps)).await?;
    let waiting = talk.approval().await?;
    talk.decide(&waiting, false).await?;
    // Again, and the other way: it is settled.
    talk.decide(&waiting, true).await?;
    let (end, heard) = talk.turn().await?;
    assert_eq!(end.stop_reason, "end_turn");
    assert!(!heard.iter().any(|body| matches!(body, Body::ToolRequest(_))), "{heard:#?}");
    let (ok, output) = finished(&stage, talk.session(), "move_arm").await?;
    assert!(!ok && output.contains("Permission denied by user for: move_arm"), "{output}");
    stage.close().await
}

async fn silence_means_no(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let environment_id = environment_with(&stage, "hasty", &["--answer-wait", "1s"]).await?;
    let tools = vec![physical("move_arm")];
    let mut talk = Talk::start(&stage, pb::StartSession { tools, ..start(&environment_id) }).await?;
    let steps = json!([call("move_arm", json!({})), {"text": "nobody there"}]);
    talk.prompt("m-1", &script(agent, "move", &steps)).await?;
    talk.approval().await?;
    assert_eq!(talk.turn().await?.0.stop_reason, "end_turn");
    let settled = stage.wait_for(talk.session(), "request_settled", |_| true).await?;
    assert_eq!((&settled["by"], &settled["decision"]), (&json!("timeout"), &json!("deny")));
    let (ok, output) = finished(&stage, talk.session(), "move_arm").await?;
    assert!(!ok && output.contains("nobody answered") && !output.contains("by user"), "{output}");
    stage.close().await
}

async fn an_agents_own_tools_ask_the_same_way(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage, Vec::new()).await?;
    let steps = json!([agent.asking("touch approved"), {"text": "touched"}]);
    talk.prompt("m-1", &script(agent, "touch", &steps)).await?;
    let waiting = talk.approval().await?;
    talk.decide(&waiting, true).await?;
    let (end, heard) = talk.turn().await?;
    assert_eq!((end.stop_reason.as_str(), text(&heard).as_str()), ("end_turn", "touched"));
    stage.close().await
}

async fn in_plan_mode_what_would_ask_is_blocked(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let environment_id = environment_with(&stage, "planning", &["--mode", "plan"]).await?;
    let tools = vec![physical("move_arm"), pure("read_pose")];
    let mut talk = Talk::start(&stage, pb::StartSession { tools, ..start(&environment_id) }).await?;
    assert_eq!(announced(&talk), [("move_arm", "block"), ("read_pose", "allow")]);
    let steps = json!([call("move_arm", json!({})), call("read_pose", json!({})), {"text": "looked"}]);
    talk.prompt("m-1", &script(agent, "plan", &steps)).await?;
    let asked = talk.tool_request().await?;
    assert_eq!(asked.tool_name, "read_pose");
    talk.result(&asked.tool_call_id, true, "0,0").await?;
    assert_eq!(talk.turn().await?.0.stop_reason, "end_turn");
    assert!(!was_asked(&talk.heard), "{:#?}", talk.heard);
    let (ok, output) = finished(&stage, talk.session(), "move_arm").await?;
    assert!(!ok && output.contains("plan mode") && !output.contains("by user"), "{output}");
    stage.close().await
}

async fn an_autonomous_session_asks_nothing(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let environment_id = environment_with(&stage, "free", &["--mode", "autonomous"]).await?;
    let tools = vec![physical("move_arm")];
    let mut talk = Talk::start(&stage, pb::StartSession { tools, ..start(&environment_id) }).await?;
    assert_eq!(announced(&talk), [("move_arm", "allow")]);
    talk.prompt("m-1", &script(agent, "move", &json!([call("move_arm", json!({})), {"text": "moved"}])))
        .await?;
    let asked = talk.tool_request().await?;
    talk.result(&asked.tool_call_id, true, "moved").await?;
    assert_eq!(talk.turn().await?.0.stop_reason, "end_turn");
    assert!(!was_asked(&talk.heard), "{:#?}", talk.heard);
    stage.close().await
}
