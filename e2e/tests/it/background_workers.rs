//! Workers inside an agent that go on when its turn has ended: what they ask is asked, and what they do is recorded. With
//! the real Claude Code, whose sub-agents run in the background by default, and with the real Codex.

use anyhow::Result;
use e2e::deadline::poll;
use serde_json::{Value, json};
use wire::obey::local::v1 as pb;
use wire::obey::v1 as own;

use crate::stage::{Agent, Stage, contents, fields, script, stage};

/// A prompt whose sub-agent runs a command while the main agent is done at once.
pub(crate) fn delegating(command: &str) -> String {
    let inner = json!([{"tool": "Bash", "input": {"command": command}}, {"text": "sub done"}]);
    let input = json!({
        "description": "sub", "prompt": script(Agent::Claude, "inner", &inner),
        "subagent_type": "general-purpose", "run_in_background": true,
    });
    script(Agent::Claude, "outer", &json!([{"tool": "Task", "input": input}, {"text": "main done"}]))
}

async fn of_type(stage: &Stage, id: &str, kind: &str) -> Result<Vec<Value>> {
    let journal = stage.journal(id).await?;
    Ok(journal.iter().filter(|event| event.r#type == kind).map(fields).collect())
}

#[tokio::test]
async fn a_background_workers_request_outlives_turns_and_its_call_is_recorded() -> Result<()> {
    let stage = stage!(Agent::Claude);
    let id = stage.create().await?;
    let turn = stage.turn(&id, &delegating("echo sub > sub1.txt")).await?;
    assert!(contents(&turn, pb::ActivityType::Completion).contains("main done"), "{turn:#?}");
    let request = stage.wait_for_request(&id).await?;
    assert_eq!(request.tool_name, "Bash");
    // The agent may begin turns of its own; another prompt and its end leave the request as it is.
    let next = stage.turn(&id, &script(Agent::Claude, "next", &json!([{"text": "still here"}]))).await?;
    assert!(contents(&next, pb::ActivityType::Completion).contains("still here"), "{next:#?}");
    let waiting = stage.requests(&id, false).await?;
    assert_eq!(waiting.iter().map(|request| &request.id).collect::<Vec<_>>(), [&request.id]);
    assert!(!stage.world.project().join("sub1.txt").exists());

    stage.decide(&id, &request.id, own::Decision::AllowOnce).await?;
    stage.wait_for(&id, "worker_finished", |event| event["ok"] == true).await?;
    poll("the file", || stage.world.project().join("sub1.txt").exists().then_some(())).await?;
    let calls = of_type(&stage, &id, "tool_started").await?;
    let call = calls.iter().find(|call| call["tool"] == "Bash").expect("the worker's call is recorded");
    assert!(call["parent"].is_string(), "{call}");
    stage.wait_for(&id, "tool_finished", |end| end["call"] == call["call"] && end["ok"] == true).await?;
    assert_eq!(of_type(&stage, &id, "unparsed").await?, [] as [Value; 0]);
    stage.close().await
}

#[tokio::test]
async fn a_workers_request_can_be_answered_by_the_next_daemon() -> Result<()> {
    let mut stage = stage!(Agent::Claude);
    let id = stage.create().await?;
    stage.turn(&id, &delegating("echo sub > sub2.txt")).await?;
    let request = stage.wait_for_request(&id).await?;
    stage.daemon.kill9().await?;
    stage.daemon.restart().await?;
    stage.clients = stage.daemon.clients().await?;
    assert_eq!(stage.wait_for_request(&id).await?.id, request.id);
    stage.decide(&id, &request.id, own::Decision::AllowOnce).await?;
    poll("the file", || stage.world.project().join("sub2.txt").exists().then_some(())).await?;
    stage.close().await
}

/// A sub-agent of Codex works on when the turn that started it has ended: it asks, and its call is recorded.
#[tokio::test]
async fn a_sub_agent_of_codex_asks_and_works_between_turns() -> Result<()> {
    let stage = stage!(Agent::Codex);
    let config = stage.world.path("home/.codex/config.toml");
    let text = std::fs::read_to_string(&config)?;
    std::fs::write(&config, text.replace("[features]", "[features]\nmulti_agent_v2 = true"))?;
    let mut new = stage.new_session();
    let asking = [("sandbox", "danger-full-access"), ("approval_policy", "untrusted")];
    new.provider_config.extend(asking.map(|(key, value)| (key.to_owned(), value.to_owned())));
    let id = stage.create_as(new).await?.id;
    let inner = json!([{"tool": "Bash", "input": {"command": "touch sub3.txt"}}, {"text": "sub done"}]);
    let input =
        json!({"message": script(Agent::Codex, "inner", &inner), "task_name": "look", "fork_turns": "none"});
    let steps = json!([{"tool": "spawn_agent", "input": input}, {"text": "main done"}]);
    let turn = stage.turn(&id, &script(Agent::Codex, "outer", &steps)).await?;
    assert!(contents(&turn, pb::ActivityType::Completion).contains("main done"), "{turn:#?}");
    let request = stage.wait_for_request(&id).await?;
    let next = stage.turn(&id, &script(Agent::Codex, "next", &json!([{"text": "still here"}]))).await?;
    assert!(contents(&next, pb::ActivityType::Completion).contains("still here"), "{next:#?}");
    let waiting = stage.requests(&id, false).await?;
    assert_eq!(waiting.iter().map(|request| &request.id).collect::<Vec<_>>(), [&request.id]);
    assert!(!stage.world.project().join("sub3.txt").exists());
    stage.decide(&id, &request.id, own::Decision::AllowOnce).await?;
    poll("the file", || stage.world.project().join("sub3.txt").exists().then_some(())).await?;
    stage.wait_for(&id, "worker_finished", |event| event["ok"] == true).await?;
    let calls = of_type(&stage, &id, "tool_started").await?;
    let own: Vec<&Value> =
        calls.iter().filter(|call| call["input"].to_string().contains("sub3.txt")).collect();
    let [call] = own.as_slice() else { panic!("it is recorded once: {calls:?}") };
    assert!(call["parent"].is_string(), "{call}");
    let ends = of_type(&stage, &id, "tool_finished").await?;
    let ends: Vec<&Value> = ends.iter().filter(|end| end["call"] == call["call"]).collect();
    let [end] = ends.as_slice() else { panic!("it ends once: {ends:?}") };
    assert!(end["ok"] == true && end["output"] == "", "it is not said to go on in the background: {end}");
    assert_eq!(of_type(&stage, &id, "unparsed").await?, [] as [Value; 0]);
    stage.close().await
}
