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

/// Two agents besides the parent's: the other steps wait for their places, and one of them is cancelled meanwhile.
#[tokio::test]
async fn steps_wait_for_the_daemons_places_and_can_be_cancelled_meanwhile() -> Result<()> {
    let opened = Stage::open_with(Agent::Scripted, |world| {
        world.set_env("OBEY_SESSIONS_MAX_ACTIVE", "3");
        Ok(())
    });
    let Some(stage) = opened.await? else { return Ok(()) };
    let parent = stage.create().await?;
    let waiting = json!([super::waits_for(&stage, "go"), {"text": "went"}]);
    let steps: Vec<_> = (0..8).map(|at| step(&format!("s{at}"), &[], &waiting)).collect();
    let id = detached(&stage, &parent, &json!({"strategy": "parallel", "steps": steps})).await?;
    let pending = within("two that run and six that wait", async {
        loop {
            let all = listed(&stage, &parent).await?;
            let is = |status| move |worker: &&wire::betcode::v1::SubagentInfo| worker.status() == status;
            if all.iter().filter(is(Status::Running)).count() == 2
                && let [first, .., last] = all.iter().filter(is(Status::Pending)).collect::<Vec<_>>()[..]
                && all.len() == 8
            {
                return anyhow::Ok([first.id.clone(), last.id.clone()]);
            }
        }
    })
    .await??;
    for worker in &pending {
        let cancelled = stage.cli().json(&["worker", "cancel", worker]).await?;
        assert_eq!(cancelled["status"], "cancelled", "{cancelled:#}");
    }
    stage.world.touch("go")?;
    let end = super::commands::ended(&stage, &id).await?;
    let of = |state: &str| {
        end["steps"].as_array().into_iter().flatten().filter(|step| step["state"] == state).count()
    };
    assert_eq!((of("succeeded"), of("cancelled")), (6, 2), "{end:#}");
    stage.close().await
}

/// Each step but the first depends on one before it: chains side by side.
#[tokio::test]
#[ignore = "large: make test-all"]
async fn a_plan_of_a_thousand_steps_runs_to_its_end_though_the_daemon_is_killed() -> Result<()> {
    let mut stage = stage!(Agent::Scripted);
    let parent = stage.create().await?;
    let steps: Vec<_> = (0..1_000_usize)
        .map(|at| {
            let before = at.checked_sub(40).map(|before| format!("s{before}"));
            let on: Vec<&str> = before.iter().map(String::as_str).collect();
            step(&format!("s{at}"), &on, &json!([{"text": "x"}]))
        })
        .collect();
    let id = detached(&stage, &parent, &json!({"strategy": "dag", "steps": steps})).await?;
    within("some steps", async {
        loop {
            let plan = stage.cli().json(&["plan", "show", &id]).await?;
            let done = plan["steps"].as_array().into_iter().flatten();
            if done.filter(|step| step["state"] == "succeeded").count() > 20 {
                return anyhow::Ok(());
            }
        }
    })
    .await??;
    stage.daemon.kill9().await?;
    stage.daemon.restart().await?;
    stage.clients = stage.daemon.clients().await?;
    let end = tokio::time::timeout(Duration::from_secs(300), ended_sometime(&stage, &id)).await??;
    assert_eq!(end["state"], "completed", "{:#}", end["steps"][0]);
    let steps = end["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
    assert!(steps.iter().all(|step| step["attempts"] == 1), "a step ran twice");
    assert_eq!((steps.len(), listed(&stage, &parent).await?.len()), (1_000, 1_000));
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
