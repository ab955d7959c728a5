//! The prompt queue: durable, in order, editable, and paused after a turn that did not complete.

use anyhow::{Context, Result, ensure};
use tonic::Code;
use tonic::transport::Channel;
use wire::obey::v1 as own;
use wire::obey::v1::queue_service_client::QueueServiceClient;

use super::{gated, kill_and_restart, open_gate, prompts, session, wait_for_turns};
use crate::stage::{Agent, Stage, stage};
use e2e::clients::refused;

fn queue(stage: &Stage) -> QueueServiceClient<Channel> {
    QueueServiceClient::new(stage.clients.channel.clone())
}

async fn list(stage: &Stage, id: &str) -> Result<own::Queue> {
    let request = own::ListQueuedRequest { session_id: id.to_owned() };
    Ok(queue(stage).list(request).await?.into_inner())
}

async fn add(stage: &Stage, id: &str, text: &str) -> Result<own::AddQueuedResponse> {
    let request =
        own::AddQueuedRequest { session_id: id.to_owned(), text: text.to_owned(), ..Default::default() };
    Ok(queue(stage).add(request).await?.into_inner())
}

#[tokio::test]
async fn queued_prompts_are_sent_in_order_although_the_daemon_is_killed() -> Result<()> {
    let mut stage = stage!(Agent::Scripted);
    let id = session(&stage).await?;
    let gate = stage.world.project().join("gate");
    let first = gated("first", &gate);
    let running = own::PromptRequest { session_id: id.clone(), text: first.clone(), ..Default::default() };
    stage.clients.turns.prompt(running).await?;
    let second = own::PromptRequest {
        session_id: id.clone(),
        text: "second".into(),
        queue: true,
        ..Default::default()
    };
    let told = stage.clients.turns.prompt(second).await?.into_inner();
    assert_eq!((told.queued.as_str(), told.turn_id.as_str()), ("q_1", ""));
    add(&stage, &id, "third").await?;
    add(&stage, &id, "dropped").await?;
    add(&stage, &id, "fourth").await?;
    kill_and_restart(&mut stage).await?;
    let waiting: Vec<String> = list(&stage, &id).await?.entries.into_iter().map(|entry| entry.text).collect();
    assert_eq!(waiting, ["second", "third", "dropped", "fourth"]);

    let mut service = queue(&stage);
    let dropped = own::DropQueuedRequest { session_id: id.clone(), entry: "q_3".into() };
    service.drop(dropped).await?;
    let moved = own::MoveQueuedRequest { session_id: id.clone(), entry: "q_4".into(), position: 1 };
    service.r#move(moved).await?;
    let edited =
        own::EditQueuedRequest { session_id: id.clone(), entry: "q_2".into(), text: "third, changed".into() };
    service.edit(edited).await?;
    open_gate(&gate)?;
    wait_for_turns(&stage, &id, 2).await?;
    kill_and_restart(&mut stage).await?;
    wait_for_turns(&stage, &id, 4).await?;
    assert_eq!(prompts(&stage, &id).await?, [first.as_str(), "fourth", "second", "third, changed"]);
    ensure!(list(&stage, &id).await?.entries.is_empty());
    stage.close().await
}

#[tokio::test]
async fn a_failed_turn_pauses_the_queue_and_says_so() -> Result<()> {
    let mut stage = stage!(Agent::Scripted);
    let id = session(&stage).await?;
    let gate = stage.world.project().join("gate");
    let failing =
        format!("bad SCRIPT: {}", serde_json::json!([{"wait_file": gate}, {"error": "overloaded"}]));
    let request = own::PromptRequest { session_id: id.clone(), text: failing, ..Default::default() };
    stage.clients.turns.prompt(request).await?;
    add(&stage, &id, "later").await?;
    open_gate(&gate)?;
    let paused = stage.wait_for(&id, "queue_changed", |event| event["change"] == "paused").await?;
    assert_eq!(paused["reason"], "the turn before failed");
    kill_and_restart(&mut stage).await?;
    assert_eq!(list(&stage, &id).await?.paused, "the turn before failed");
    let shown = stage.cli().ok(&["queue", "list", &id]).await?;
    ensure!(shown.stdout.contains("q_1") && shown.stderr.contains("obey queue resume"), "{shown:?}");
    stage.cli().ok(&["queue", "resume", &id]).await?;
    wait_for_turns(&stage, &id, 2).await?;
    assert_eq!(prompts(&stage, &id).await?[1], "later");
    stage.close().await
}

#[tokio::test]
async fn the_command_line_queues_lists_edits_moves_and_drops() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let id = session(&stage).await?;
    let gate = stage.world.project().join("gate");
    let cli = stage.cli();
    cli.ok(&["session", "send", &id, "--no-wait", &gated("first", &gate)]).await?;
    let queued = cli.json(&["session", "send", &id, "--queue", "a"]).await?;
    assert_eq!(queued["queued"], "q_1");
    cli.ok(&["queue", "add", &id, "b"]).await?;
    cli.ok(&["queue", "add", &id, "c"]).await?;
    cli.ok(&["queue", "move", &id, "q_3", "1"]).await?;
    cli.ok(&["queue", "edit", &id, "q_2", "B"]).await?;
    cli.ok(&["queue", "drop", &id, "q_1"]).await?;
    let listed = cli.ok(&["queue", "list", &id, "--json"]).await?.json_lines()?;
    let listed: Vec<&str> = listed.iter().filter_map(|entry| entry["prompt"].as_str()).collect();
    assert_eq!(listed, ["c", "B"]);
    let unknown = cli.run(&["queue", "drop", &id, "q_9"]).await?;
    ensure!(unknown.code == Some(4) || unknown.code == Some(1), "{unknown:?}");
    ensure!(unknown.stderr.contains("OBEY-1040"), "{unknown:?}");
    open_gate(&gate)?;
    wait_for_turns(&stage, &id, 3).await?;
    assert_eq!(prompts(&stage, &id).await?[1..], ["c", "B"]);
    stage.close().await
}

#[tokio::test]
async fn bad_input_to_the_queue_names_the_field() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let id = session(&stage).await?;
    let mut service = queue(&stage);
    let empty = own::AddQueuedRequest { session_id: id.clone(), text: "  ".into(), ..Default::default() };
    let status = refused(service.add(empty).await, Code::InvalidArgument, "OBEY-1001")?;
    ensure!(status.message().contains("text"), "{status:?}");
    let odd = own::MoveQueuedRequest { session_id: id.clone(), entry: "first".into(), position: 1 };
    let status = refused(service.r#move(odd).await, Code::InvalidArgument, "OBEY-1001")?;
    ensure!(status.message().contains("entry"), "{status:?}");
    let nobody = own::ListQueuedRequest { session_id: "sess_none".into() };
    refused(service.list(nobody).await, Code::NotFound, "OBEY-2010")?;
    stage.stop(&id, false).await.context("stopping")?;
    let late = own::AddQueuedRequest { session_id: id.clone(), text: "late".into(), ..Default::default() };
    refused(service.add(late).await, Code::FailedPrecondition, "OBEY-2011")?;
    stage.close().await
}
