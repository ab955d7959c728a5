//! What is refused changes nothing: neither the rules' refusal of a command, nor the disk's.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::clients::refused;
use e2e::faults::disk::SmallDisk;
use serde_json::json;
use tonic::{Code, Response};
use wire::obey::local::v1::ActivityType;

use super::{assert_numbered, crash, said};
use crate::stage::{Agent, Stage, contents, scenarios, script, stage};

scenarios!(refused_prompts_do_not_disturb_a_turn, a_prompt_the_disk_refused_leaves_no_trace);

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
