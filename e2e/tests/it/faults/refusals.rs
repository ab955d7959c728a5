//! What is refused changes nothing: neither the rules' refusal of a command, nor the disk's.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::clients::refused;
use e2e::faults::crew::signal_daemon;
use e2e::faults::disk::SmallDisk;
use e2e::faults::output::spooled;
use rustix::process::Signal;
use serde_json::json;
use tonic::{Code, Response};
use wire::obey::local::v1::ActivityType;

use super::{assert_numbered, crash, said};
use crate::stage::{Agent, Stage, contents, process_scenarios, script, stage};

process_scenarios!(refused_prompts_do_not_disturb_a_turn, a_prompt_the_disk_refused_leaves_no_trace);

async fn refused_prompts_do_not_disturb_a_turn(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    let text: String = (0..60).map(|at| format!("piece {at:03} of a long answer\n")).collect();
    let steps = json!([[{"thinking": "well"}, {"text": text, "chunks": 60, "gap_ms": 15}]]);
    drop(stage.send(&id, &script(agent, "long", &steps)).await?);
    let mut refusals = 0;
    let ended = tokio::select! {
        ended = stage.wait_for(&id, "turn_ended", |_| true) => ended?,
        failed = pester(&stage, &id, &mut refusals) => return failed,
    };
    assert_eq!(ended["reason"], "completed", "{ended}");
    ensure!(refusals > 20, "only {refusals} prompts were refused");
    let journal = stage.journal(&id).await?;
    let end = journal.iter().position(|event| event.r#type == "turn_ended").context("no end")?;
    assert_eq!(said(&journal[..end]), text);
    assert_numbered(&journal);
    stage.close().await
}

/// Sends one prompt after the other to a session that is busy.
async fn pester(stage: &Stage, id: &str, refusals: &mut usize) -> Result<()> {
    loop {
        if let Err(status) = stage.send(id, "no SCRIPT: [{\"text\":\"no\"}]").await {
            ensure!(status.code() == Code::FailedPrecondition, "{status:?}");
            *refusals += 1;
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

async fn a_prompt_the_disk_refused_leaves_no_trace(agent: Agent) -> Result<()> {
    let mut stage = stage!(agent);
    stage.daemon.terminate().await?;
    let Some(disk) = SmallDisk::mount(&stage.world.path("data"), 24)? else { return Ok(()) };
    super::revive(&mut stage).await?;
    add_campaign(&stage).await?;
    let id = stage.create().await?;
    let one = stage.turn(&id, &script(agent, "one", &json!([{"text": "first"}]))).await?;
    assert_eq!(contents(&one, ActivityType::Completion), "first");
    disk.fill(0)?;
    let before = stage.journal(&id).await?.len();
    // Some pages may be free inside of files; sooner or later nothing more fits.
    let long = "x".repeat(200_000);
    let prompt = script(agent, &long, &json!([{"text": "never"}]));
    for _ in 0..2 {
        refused(stage.send(&id, &prompt).await.map(Response::new), Code::Unavailable, "OBEY-1010")?;
    }
    assert_eq!(stage.journal(&id).await?.len(), before, "what was refused is in the journal");
    disk.free()?;
    let two = stage.turn(&id, &script(agent, "two", &json!([{"text": "second"}]))).await?;
    assert_eq!(contents(&two, ActivityType::Completion), "second");
    crash(&mut stage).await?;
    let three = stage.turn(&id, &script(agent, "three", &json!([{"text": "third"}]))).await?;
    assert_eq!(contents(&three, ActivityType::Completion), "third");
    let journal = stage.journal(&id).await?;
    assert_numbered(&journal);
    assert_eq!(said(&journal), "firstsecondthird");
    stage.close().await
}

/// The stage's campaign, for a daemon that began with an empty disk.
async fn add_campaign(stage: &Stage) -> Result<()> {
    let request = wire::obey::v1::AddCampaignRequest {
        path: stage.world.project().display().to_string(),
        name: crate::stage::CAMPAIGN.into(),
        ..Default::default()
    };
    stage.clients.campaigns.clone().add_campaign(request).await?;
    Ok(())
}

#[tokio::test]
async fn a_session_that_waits_for_the_disk_refuses_instead_of_keeping_callers_waiting() -> Result<()> {
    let mut stage = stage!(Agent::Scripted);
    stage.daemon.terminate().await?;
    let Some(disk) = SmallDisk::mount(&stage.world.path("data"), 24)? else { return Ok(()) };
    super::revive(&mut stage).await?;
    add_campaign(&stage).await?;
    let id = stage.create().await?;
    let gate = stage.world.path("gate");
    let text = "z".repeat(100_000);
    let steps = json!([{"text": "begin "}, {"wait_file": gate}, {"text": text, "chunks": 50}]);
    drop(stage.send(&id, &script(Agent::Scripted, "waits", &steps)).await?);
    stage.wait_for_text(&id, "begin").await?;
    // What the agent says finds room, what the daemon makes of it does not.
    signal_daemon(&stage.daemon, Signal::STOP);
    stage.world.touch("gate")?;
    let dir = super::agents_dir(&stage).join(format!("{id}.1"));
    e2e::deadline::poll("the output on disk", || (spooled(&dir) > text.len() as u64).then_some(())).await?;
    disk.fill(0)?;
    signal_daemon(&stage.daemon, Signal::CONT);
    e2e::deadline::poll("a session that waits for the disk", || {
        stage.daemon.log().contains("cannot write; trying again").then_some(())
    })
    .await?;
    let patience = Duration::from_secs(10);
    let more = wire::obey::v1::PromptRequest {
        session_id: id.clone(),
        text: "more".into(),
        steer: true,
        ..Default::default()
    };
    let mut turns = stage.clients.turns.clone();
    let refusal = e2e::deadline::within_time("a refusal", patience, turns.prompt(more)).await?;
    refused(refusal, Code::Unavailable, "OBEY-1010")?;
    let refusal = e2e::deadline::within_time("a refusal", patience, stage.stop(&id, false)).await?;
    refused(refusal.map(Response::new), Code::Unavailable, "OBEY-1010")?;
    // Looking is possible all the time.
    assert_eq!(stage.info(&id).await?.status(), wire::obey::local::v1::SessionStatus::Working);
    disk.free()?;
    stage.wait_for(&id, "turn_ended", |_| true).await?;
    assert_eq!(said(&stage.journal(&id).await?), format!("begin {text}"));
    stage.close().await
}
