//! What a client of `betcode.v1` alone relies on: a status that tells what the agent does, replays that ask nobody again,
//! changes of mode and model, a stream that says why it ends, and keys that make messages take effect once.

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;
use wire::betcode::v1 as pb;
use wire::betcode::v1::AgentStatus::{ExecutingTool, Idle, Thinking, WaitingForUser};
use wire::betcode::v1::agent_event::Event as Body;
use wire::betcode::v1::agent_request::Request as Said;
use wire::obey::v1 as own;

use super::talk::{Talk, again, agents, new_start, stored};
use crate::stage::{Agent, script, stage};

const SCRIPTED: Agent = Agent::Scripted;

/// The only model of the scripted agent.
const MODEL: &str = "scripted-1";

/// The statuses among the events, each once in a row.
fn statuses(events: &[pb::AgentEvent]) -> Vec<pb::AgentStatus> {
    let status = |event: &pb::AgentEvent| match &event.event {
        Some(Body::StatusChange(change)) => Some(change.status()),
        _ => None,
    };
    let mut found: Vec<pb::AgentStatus> = events.iter().filter_map(status).collect();
    found.dedup();
    found
}

#[tokio::test]
async fn the_status_tells_what_the_agent_does_and_a_replay_asks_nobody() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut start = new_start(&stage);
    start.metadata.insert("ticket".into(), "42".into());
    let mut talk = Talk::start(&stage.clients, start).await?;
    let ticket = HashMap::from([("ticket".to_owned(), "42".to_owned())]);
    ensure!(talk.info.metadata == ticket, "{:?}", talk.info);
    let steps = json!([
        {"tool": "Bash", "input": {"command": "ls"}, "ask": true, "result": "x"},
        {"usage": {"input_tokens": 100, "output_tokens": 20, "cache_write_tokens": 13}}, {"text": "done"},
    ]);
    talk.prompt(&script(SCRIPTED, "ask", &steps)).await?;
    let request = talk.permission().await?;
    ensure!(request.settled.is_empty(), "{request:?}");
    talk.until(
        "the status",
        |body| matches!(body, Body::StatusChange(change) if change.status() == WaitingForUser),
    )
    .await?;
    talk.decide(&request.request_id, pb::PermissionDecision::AllowOnce).await?;
    talk.turn().await?;
    talk.until("rest", |body| matches!(body, Body::StatusChange(change) if change.status() == Idle)).await?;
    let seen = statuses(&talk.heard);
    let asked = seen.iter().position(|status| *status == WaitingForUser).context("it waits")?;
    ensure!(seen[..asked].contains(&Thinking), "{seen:?}");
    ensure!(seen[asked + 1..].contains(&ExecutingTool) || seen[asked + 1..].contains(&Thinking), "{seen:?}");
    ensure!(seen.last() == Some(&Idle), "{seen:?}");
    // Reports add up to the sum.
    let input: u32 = talk
        .heard
        .iter()
        .filter_map(|event| match &event.event {
            Some(Body::Usage(usage)) => Some(usage.input_tokens),
            _ => None,
        })
        .sum();
    let listed = agents(&stage.clients).list_sessions(pb::ListSessionsRequest::default()).await?.into_inner();
    ensure!(listed.sessions[0].total_input_tokens == input, "{input}: {listed:?}");
    // Whoever comes later is not asked what is settled.
    let mut later = Talk::start(&stage.clients, again(talk.session(), 0)).await?;
    ensure!(later.info.metadata == ticket, "{:?}", later.info);
    let request = later.permission().await?;
    ensure!(request.settled.starts_with("allowed once by "), "{request:?}");
    ensure!(request.description.contains("[settled: allowed once"), "{request:?}");
    let replayed = super::talk::replayed(&stage.clients, talk.session(), 0).await?;
    let marked = replayed.iter().find_map(|event| match &event.event {
        Some(Body::PermissionRequest(request)) => Some(request),
        _ => None,
    });
    ensure!(marked == Some(&request), "{marked:?}");
    // What is stored stays as it was heard.
    let stored = stored(&stage.clients, talk.session(), 0).await?;
    ensure!(stored.starts_with(&super::talk::numbered(&talk.heard)), "{stored:#?}");
    stage.close().await
}

#[tokio::test]
async fn what_an_agent_says_of_its_to_dos_reaches_clients() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut talk = Talk::new(&stage).await?;
    let entry = json!({"text": "test", "description": "every rule", "active_form": "Testing",
        "status": "in_progress", "priority": "high"});
    let steps = json!([{"todo": ["write", entry]}, {"text": "planned"}]);
    talk.prompt(&script(SCRIPTED, "plan", &steps)).await?;
    let items = talk.turn().await?.into_iter().find_map(|event| match event.event {
        Some(Body::TodoUpdate(update)) => Some(update.items),
        _ => None,
    });
    let items = items.context("no to-do list")?;
    let of = |item: &pb::TodoItem| (item.subject.clone(), item.description.clone(), item.active_form.clone());
    assert_eq!(of(&items[0]), ("write".into(), String::new(), String::new()));
    assert_eq!(of(&items[1]), ("test".into(), "every rule".into(), "Testing".into()));
    // The same entry in `obey.v1`: as JSON and as a message.
    let journal = stage.journal(talk.session()).await?;
    let event = journal.iter().find(|event| event.r#type == "todos_changed").context("no event")?;
    assert_eq!(crate::stage::fields(event)["todos"][1]["priority"], "high");
    let Some(own::event::Kind::TodosChanged(changed)) = &event.kind else { anyhow::bail!("{event:?}") };
    assert_eq!(changed.todos[0].priority, None);
    assert_eq!(changed.todos[1].priority(), own::event::TodoPriority::High);
    assert_eq!(changed.todos[1].active_form, "Testing");
    talk.hush();
    stage.close().await
}

#[tokio::test]
async fn mode_and_model_change_over_the_wire_and_a_stream_says_why_it_ends() -> Result<()> {
    let mut stage = stage!(SCRIPTED);
    let planned = pb::StartConversation { plan_mode: true, ..new_start(&stage) };
    let mut plans = Talk::start(&stage.clients, planned).await?;
    let is_plan =
        |active: bool| move |body: &Body| matches!(body, Body::PlanMode(change) if change.active == active);
    plans.until("the plan mode of the start", is_plan(true)).await?;
    let mut calls = agents(&stage.clients);
    let mode =
        |mode: &str| pb::SetSessionModeRequest { session_id: plans.session().into(), mode: mode.into() };
    let (leave, wrong) = (mode("supervised"), mode("yolo"));
    ensure!(calls.set_session_mode(leave).await?.into_inner().mode == "supervised");
    plans.until("the end of plan mode", is_plan(false)).await?;
    let refused = calls.set_session_mode(wrong).await.err().context("yolo is no mode")?;
    ensure!(refused.message().contains("mode:") && refused.message().contains("acceptEdits"), "{refused:?}");
    let model = pb::SetSessionModelRequest { session_id: plans.session().into(), model: MODEL.into() };
    ensure!(calls.set_session_model(model.clone()).await?.into_inner().model == MODEL);
    plans.until("the model", |body| matches!(body, Body::SessionInfo(info) if info.model == MODEL)).await?;
    for wrong in ["", "no-such-model"] {
        let wrong = pb::SetSessionModelRequest { model: wrong.into(), ..model.clone() };
        ensure!(
            calls.set_session_model(wrong).await.is_err_and(|status| status.message().contains("model:"))
        );
    }
    // A start on a session that is there changes what it names.
    let other = pb::StartConversation { plan_mode: true, ..again(plans.session(), 0) };
    let _other = Talk::start(&stage.clients, other).await?;
    plans.until("plan mode again", is_plan(true)).await?;
    // The agent starts in the mode and says so, too.
    plans.prompt(&script(SCRIPTED, "plan", &json!([{"plan_mode": true}, {"text": "planned"}]))).await?;
    plans.turn().await?;
    let told = plans.heard.iter().filter_map(|event| match &event.event {
        Some(Body::PlanMode(change)) => Some(change.active),
        _ => None,
    });
    ensure!(told.eq([true, false, true]), "each change is told once: {:#?}", plans.heard);
    stage.daemon.terminate().await?;
    let last = plans.error().await?;
    ensure!(last.is_fatal && last.message.contains("the daemon ends"), "{last:?}");
    ensure!(plans.next().await?.is_none(), "the stream ends without an error of the transport");
    stage.daemon.restart().await?;
    stage.clients = stage.daemon.clients().await?;
    stage.close().await
}

/// Opens a stream with a key and sends one message; returns the session.
async fn keyed(stage: &crate::stage::Stage, key: &str, text: &str) -> Result<String> {
    let (said, stream) = mpsc::channel(4);
    let message = pb::UserMessage { content: text.into(), ..Default::default() };
    for request in [Said::Start(new_start(stage)), Said::Message(message)] {
        said.send(pb::AgentRequest { request: Some(request) }).await?;
    }
    drop(said);
    let mut request = Request::new(ReceiverStream::new(stream));
    request.metadata_mut().insert("x-obey-client-key", key.parse()?);
    let mut events = agents(&stage.clients).converse(request).await?.into_inner();
    let mut session = String::new();
    while let Some(event) = events.next().await {
        if let Some(Body::SessionInfo(info)) = event?.event {
            session = info.session_id;
        }
    }
    Ok(session)
}

#[tokio::test]
async fn a_stream_with_a_key_starts_and_sends_once() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let text = script(SCRIPTED, "once", &json!([{"text": "hello"}]));
    let first = keyed(&stage, "b-1", &text).await?;
    let second = keyed(&stage, "b-1", &text).await?;
    ensure!(!first.is_empty() && first == second, "{first} {second}");
    let prompts = super::talk::prompts(&stored(&stage.clients, &first, 0).await?);
    ensure!(prompts.len() == 1, "{prompts:?}");
    ensure!(keyed(&stage, "b-2", &text).await? != first);
    stage.close().await
}
