//! Workers whose parent ends while they are being started, and steps that never end by themselves.

use std::time::Duration;

use anyhow::Result;
use e2e::deadline::within;
use serde_json::json;
use tonic::Code;
use wire::betcode::v1::SubagentStatus as Status;

use super::commands::{detached, ended_sometime, step};
use super::{listed, spawn, subagents};
use crate::stage::{Agent, Stage, stage};

/// Each is refused or ends: none is left behind without a parent.
#[tokio::test]
async fn a_parent_that_is_stopped_in_a_spawn_leaves_no_worker() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let parent = stage.create().await?;
    let spawns: Vec<_> = (0..12)
        .map(|_| {
            let (mut client, request) = (subagents(&stage), spawn(&parent, &json!([{"hang": true}])));
            tokio::spawn(async move { client.spawn_subagent(request).await })
        })
        .collect();
    stage.stop(&parent, false).await?;
    let mut started = Vec::new();
    for spawned in spawns {
        match spawned.await? {
            Ok(answer) => started.push(answer.into_inner().subagent_id),
            Err(status) => assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}"),
        }
    }
    within("the ends of all workers", async {
        loop {
            let all = listed(&stage, &parent).await?;
            assert_eq!(all.len(), started.len(), "what was refused left a worker: {all:#?}");
            if all.iter().all(|worker| worker.status() == Status::Cancelled) {
                return anyhow::Ok(());
            }
        }
    })
    .await??;
    let sessions = stage.cli().json(&["session", "list"]).await?;
    assert_eq!(sessions["sessions"], json!([]), "{sessions:#}");
    stage.close().await
}

/// A minute is the least that can be configured.
#[tokio::test]
#[ignore = "large: make test-all"]
async fn a_step_that_never_ends_is_ended_after_its_time_and_blocks_what_depends_on_it() -> Result<()> {
    let opened = Stage::open_with(Agent::Scripted, |world| {
        world.set_env("OBEY_WORKERS_TIMEOUT_MINUTES", "1");
        Ok(())
    });
    let Some(stage) = opened.await? else { return Ok(()) };
    let parent = stage.create().await?;
    let steps = json!([
        step("stuck", &[], &json!([{"hang": true}])),
        step("next", &["stuck"], &json!([{"text": "x"}]))
    ]);
    let id = detached(&stage, &parent, &json!({"strategy": "dag", "steps": steps})).await?;
    let end = tokio::time::timeout(Duration::from_secs(180), ended_sometime(&stage, &id)).await??;
    assert_eq!((&end["state"], &end["steps"][0]["state"]), (&json!("failed"), &json!("failed")), "{end:#}");
    assert_eq!(end["steps"][1]["state"], "blocked", "{end:#}");
    assert!(end["steps"][0]["text"].as_str().is_some_and(|text| text.contains("time")), "{end:#}");
    stage.close().await
}
