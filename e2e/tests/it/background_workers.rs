//! Workers inside an agent that go on when its turn has ended: what they ask is asked, and what they do is recorded. With
//! the real Claude Code, whose sub-agents run in the background by default, and with the real Codex.

use anyhow::{Context, Result};
use e2e::deadline::{poll, within};
use serde_json::{Value, json};
use wire::betcode::v1 as betcode;
use wire::betcode::v1::agent_event::Event as BetcodeBody;
use wire::obey::local::v1 as pb;
use wire::obey::v1 as own;

use crate::betcode::talk::Talk;
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
    used_by_worker(&stage, &id, &call["parent"]).await?;
    assert_eq!(of_type(&stage, &id, "unparsed").await?, [] as [Value; 0]);
    stage.close().await
}

/// What a worker used is told as its own, and what the agent itself used is not.
async fn used_by_worker(stage: &Stage, id: &str, parent: &Value) -> Result<()> {
    let used = of_type(stage, id, "usage_reported").await?;
    let (of_worker, own): (Vec<&Value>, Vec<&Value>) =
        used.iter().partition(|used| &used["parent"] == parent);
    assert!(of_worker.iter().any(|used| used["input_tokens"].as_u64() > Some(0)), "{used:?}");
    assert!(!own.is_empty() && own.iter().all(|used| used["parent"].is_null()), "{used:?}");
    Ok(())
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
    let end = stage.wait_for(&id, "worker_finished", |event| event["ok"] == true).await?;
    assert_eq!(end["summary"], "sub done");
    let calls = of_type(&stage, &id, "tool_started").await?;
    let own: Vec<&Value> =
        calls.iter().filter(|call| call["input"].to_string().contains("sub3.txt")).collect();
    let [call] = own.as_slice() else { panic!("it is recorded once: {calls:?}") };
    assert!(call["parent"].is_string(), "{call}");
    let ends = of_type(&stage, &id, "tool_finished").await?;
    let ends: Vec<&Value> = ends.iter().filter(|end| end["call"] == call["call"]).collect();
    let [end] = ends.as_slice() else { panic!("it ends once: {ends:?}") };
    assert!(end["ok"] == true && end["output"] == "", "it is not said to go on in the background: {end}");
    used_by_worker(&stage, &id, &call["parent"]).await?;
    assert_eq!(of_type(&stage, &id, "unparsed").await?, [] as [Value; 0]);
    stage.close().await
}

/// The session is neither done nor idle while its worker waits for an answer, and says why.
#[tokio::test]
async fn a_session_whose_worker_waits_between_turns_needs_somebody() -> Result<()> {
    let stage = stage!(Agent::Claude);
    let id = stage.create().await?;
    stage.turn(&id, &delegating("echo sub > sub5.txt")).await?;
    let request = stage.wait_for_request(&id).await?;
    let shown = async |state: &str| -> Result<Value> {
        within("the state of the session", async {
            loop {
                let all = stage.cli().ok(&["ps", "--json"]).await?.json_lines()?;
                if let Some(row) =
                    all.into_iter().find(|row| row["session_id"] == id.as_str() && row["state"] == state)
                {
                    return anyhow::Ok(row);
                }
            }
        })
        .await?
    };
    let waits = shown("needs_you").await?;
    assert!(waits["reason"].as_str().is_some_and(|reason| reason.contains("sub5.txt")), "{waits}");
    stage.decide(&id, &request.id, own::Decision::AllowOnce).await?;
    stage.wait_for(&id, "worker_finished", |event| event["ok"] == true).await?;
    shown("done").await?;
    stage.close().await
}

#[tokio::test]
async fn a_betcode_client_is_asked_and_told_of_a_worker_between_turns() -> Result<()> {
    let stage = stage!(Agent::Claude);
    let mut talk = Talk::new(&stage).await?;
    talk.prompt(&delegating("echo sub > sub6.txt")).await?;
    talk.turn().await?;
    let asked = |event: &betcode::AgentEvent| match &event.event {
        Some(BetcodeBody::PermissionRequest(request)) => Some(request.clone()),
        _ => None,
    };
    let request = match talk.heard.iter().find_map(asked) {
        Some(request) => request,
        None => talk.permission().await?,
    };
    assert_eq!(request.tool_name, "Bash");
    talk.decide(&request.request_id, betcode::PermissionDecision::AllowOnce).await?;
    let started = |event: &betcode::AgentEvent| match &event.event {
        Some(BetcodeBody::ToolCallStart(call)) if call.tool_name == "Bash" => {
            Some((call.tool_id.clone(), event.parent_tool_use_id.clone()))
        }
        _ => None,
    };
    let (call, parent) = talk.heard.iter().find_map(started).context("the call was not told")?;
    assert!(!parent.is_empty(), "the call says whose it is");
    let ended = |body: &BetcodeBody| matches!(body, BetcodeBody::ToolCallResult(end) if end.tool_id == call);
    let end = talk.until("the end of the call", ended).await?;
    assert_eq!(end.parent_tool_use_id, parent);
    let is_end = |body: &BetcodeBody| matches!(body, BetcodeBody::StatusChange(change) if change.message.starts_with("worker finished"));
    assert_eq!(talk.until("the end of the worker", is_end).await?.parent_tool_use_id, parent);
    poll("the file", || stage.world.project().join("sub6.txt").exists().then_some(())).await?;
    stage.close().await
}

#[tokio::test]
async fn an_editor_is_asked_and_told_of_a_worker_between_turns() -> Result<()> {
    let stage = stage!(Agent::Claude);
    let mut editor = crate::acp::editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    assert_eq!(editor.turn(&session, &delegating("echo sub > sub7.txt")).await?, "end_turn");
    let is_asked =
        |message: &Value| message["method"] == "session/request_permission" && message.get("id").is_some();
    let request = match editor.seen.iter().find(|message| is_asked(message)).cloned() {
        Some(request) => request,
        None => editor.wait("a permission", is_asked).await?,
    };
    let call = request["params"]["toolCall"]["toolCallId"].clone();
    assert!(call.is_string(), "{request}");
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": "allow-once"}});
    editor.reply(&request, outcome).await?;
    editor
        .wait("the end of the call", |message| {
            let update = &message["params"]["update"];
            update["toolCallId"] == call && update["status"] == "completed"
        })
        .await
        .with_context(|| format!("{:#?}", editor.seen))?;
    let told = editor.updates_of(&session, "tool_call");
    assert!(told.iter().any(|update| update["toolCallId"] == call), "{told:#?}");
    poll("the file", || stage.world.project().join("sub7.txt").exists().then_some(())).await?;
    editor.close().await?;
    stage.close().await
}
