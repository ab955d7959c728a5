//! Several tools called at once, which only a model does: those that look run side by side, the others one at a time.

use anyhow::Result;
use serde_json::json;
use wire::roz::v1 as pb;
use wire::roz::v1::session_response::Response as Body;

use super::talk::{Talk, call, environment_with, physical, pure, start, text};
use crate::stage::{Agent, Stage, scenarios_of, script, stage};

macro_rules! of_models {
    ($($name:ident),* $(,)?) => {
        scenarios_of!(real_claude, Claude, $($name),*);
        scenarios_of!(real_codex, Codex, $($name),*);
        scenarios_of!(openai, Openai, $($name),*);
        scenarios_of!(openai_chat, OpenaiChat, $($name),*);
        scenarios_of!(real_acp, Acp, $($name),*);
    };
}
of_models!(pure_tools_run_side_by_side, physical_tools_run_one_at_a_time);
scenarios_of!(inside_the_daemon, Openai, a_physical_tool_waits_while_others_look);

/// A session whose tools need no approval.
async fn autonomous(stage: &Stage, tools: Vec<pb::ToolSchema>) -> Result<Talk> {
    let environment_id = environment_with(stage, "free", &["--mode", "autonomous"]).await?;
    Talk::start(stage, pb::StartSession { tools, ..start(&environment_id) }).await
}

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

/// Two agents of one kind of call: the second waits for the first.
async fn physical_tools_run_one_at_a_time(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = autonomous(&stage, vec![physical("lift"), pure("see")]).await?;
    let steps = json!([[call("lift", json!({"n": 1})), call("lift", json!({"n": 2})), call("see", json!({}))], {"text": "lifted"}]);
    talk.prompt("m-1", &script(agent, "lift", &steps)).await?;
    let mut order: Vec<pb::ToolRequest> = Vec::new();
    while order.len() < 3 {
        if waiting(&talk, &order).is_empty() {
            talk.tool_request().await?;
        }
        // What else goes out shows itself before anything is answered.
        talk.pong().await?;
        let asked = waiting(&talk, &order);
        assert!(asked.iter().filter(|asked| asked.tool_name == "lift").count() < 2, "two lifts: {asked:#?}");
        talk.result(&asked[0].tool_call_id, true, "ok").await?;
        order.push(asked[0].clone());
    }
    let order: Vec<&String> = order.iter().map(|asked| &asked.tool_name).collect();
    assert_eq!(order.iter().filter(|name| **name == "lift").count(), 2, "{order:?}");
    talk.turn().await?;
    stage.close().await
}

/// The requests that were heard and not answered.
fn waiting(talk: &Talk, answered: &[pb::ToolRequest]) -> Vec<pb::ToolRequest> {
    let request = |body: &Body| match body {
        Body::ToolRequest(request) => Some(request.clone()),
        _ => None,
    };
    let all = talk.heard.iter().filter_map(request);
    all.filter(|asked| !answered.iter().any(|other| other.tool_call_id == asked.tool_call_id)).collect()
}

fn requests(talk: &Talk) -> usize {
    talk.heard.iter().filter(|body| matches!(body, Body::ToolRequest(_))).count()
}

/// Programs begin a call that changes something only when the one before has ended; the agent inside the daemon begins
/// all at once, so that the order is ours alone.
async fn a_physical_tool_waits_while_others_look(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let schema = pb::ToolSchema { timeout_ms: 2_000, ..physical("lift") };
    let mut talk = autonomous(&stage, vec![schema, pure("see")]).await?;
    let steps = json!([
        [call("lift", json!({"n": 1})), call("lift", json!({"n": 2})), call("see", json!({}))],
        {"text": "lifted"},
    ]);
    talk.prompt("m-1", &script(agent, "lift", &steps)).await?;
    let mut both = [talk.tool_request().await?, talk.tool_request().await?];
    both.sort_by_key(|asked| asked.tool_name.clone());
    let [first, second] = both;
    assert_eq!((first.tool_name.as_str(), second.tool_name.as_str()), ("lift", "see"));
    talk.result(&second.tool_call_id, true, "a door").await?;
    talk.pong().await?;
    assert_eq!(requests(&talk), 2, "two lifts at once: {:#?}", talk.heard);
    // Nobody answers the first: it is given up, and the clock of the second begins only then.
    let third = talk.tool_request().await?;
    assert_eq!((third.tool_name.as_str(), requests(&talk)), ("lift", 3));
    talk.result(&first.tool_call_id, true, "too late").await?;
    talk.result(&third.tool_call_id, true, "lifted").await?;
    assert_eq!(text(&talk.turn().await?.1), "lifted");
    let ended: Vec<(bool, String)> = stage
        .journal(talk.session())
        .await?
        .iter()
        .filter(|event| event.r#type == "tool_finished")
        .map(crate::stage::fields)
        .map(|event| (event["ok"] == true, event["output"].as_str().unwrap_or_default().to_owned()))
        .collect();
    assert!(ended.contains(&(false, "tool timeout after 2000 ms".to_owned())), "{ended:?}");
    assert!(ended.contains(&(true, "lifted".to_owned())), "{ended:?}");
    stage.close().await
}
