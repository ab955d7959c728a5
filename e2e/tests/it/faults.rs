//! Things that break on purpose: the daemon dies while agents work. Agents must not notice, and clients must find
//! everything that happened.

use anyhow::{Context, Result};
use e2e::processes;
use serde_json::json;
use wire::obey::local::v1::{ActivityType, SessionStatus};

use crate::stage::{Agent, Stage, contents, fields, scenarios, script, stage};

scenarios!(an_agent_outlives_the_daemon_and_loses_no_byte, a_request_survives_the_daemon);

/// Ends the daemon as a crash would, starts it again, and connects anew.
async fn crash(stage: &mut Stage) -> Result<()> {
    stage.daemon.kill9().await?;
    stage.daemon.restart().await?;
    stage.clients = stage.daemon.clients().await?;
    Ok(())
}

async fn an_agent_outlives_the_daemon_and_loses_no_byte(agent: Agent) -> Result<()> {
    let mut stage = stage!(agent);
    let id = stage.create().await?;
    let gate = stage.world.path("gate");
    let steps = json!([[{"text": "before the crash, "}, {"wait_file": gate}, {"text": "after the crash 🐎", "chunks": 9}]]);
    let turn = stage.send(&id, &script(agent, "crash", &steps)).await?;
    stage.wait_for_text(&id, "before the crash").await?;
    let pid = stage.info(&id).await?.pid;
    stage.daemon.kill9().await?;
    drop(turn);
    assert!(processes::alive(pid), "the agent died with the daemon");
    // The agent goes on while nobody listens.
    stage.world.touch("gate")?;
    stage.daemon.restart().await?;
    stage.clients = stage.daemon.clients().await?;
    let ended = stage.wait_for(&id, "turn_ended", |_| true).await?;
    assert_eq!(ended["reason"], "completed", "{ended}");
    let journal = stage.journal(&id).await?;
    let numbers: Vec<u64> = journal.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=journal.len() as u64).collect::<Vec<_>>());
    let deltas = journal.iter().filter(|event| event.r#type == "text_delta");
    let text: String = deltas.filter_map(|event| Some(fields(event)["text"].as_str()?.to_owned())).collect();
    assert_eq!(text, "before the crash, after the crash 🐎");
    let info = stage.info(&id).await?;
    assert_eq!((info.status(), info.pid), (SessionStatus::Running, pid));
    let next = stage.turn(&id, &script(agent, "next", &json!([{"text": "all is well"}]))).await?;
    assert_eq!(contents(&next, ActivityType::Completion), "all is well");
    stage.close().await
}

async fn a_request_survives_the_daemon(agent: Agent) -> Result<()> {
    let mut stage = stage!(agent);
    let id = stage.create().await?;
    let step = agent.asking("touch made");
    let turn = stage.send(&id, &script(agent, "ask", &json!([step, {"text": "made it"}]))).await?;
    let request = stage.wait_for_request(&id).await?;
    crash(&mut stage).await?;
    drop(turn);
    let waiting = stage.requests(&id, false).await?;
    assert_eq!(waiting.iter().map(|waiting| &waiting.id).collect::<Vec<_>>(), [&request.id]);
    stage.cli().ok(&["session", "approve", &id]).await?;
    stage.wait_for(&id, "turn_ended", |_| true).await?;
    stage.wait_for_text(&id, "made it").await.context("the turn must go on")?;
    stage.close().await
}
