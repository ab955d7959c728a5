//! Orchestrations: order, failures, results, plans that are refused, and a daemon that is killed in every step.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use e2e::clients::refused;
use e2e::deadline::within;
use serde_json::json;
use tonic::Code;
use wire::betcode::v1 as pb;
use wire::betcode::v1::orchestration_event::Event as Body;

use super::{listed, orchestrate, orchestrated, spawn, spawned, step, subagents, told, waits_for, watched};
use crate::stage::{Agent, stage};

#[tokio::test]
async fn steps_run_in_order_with_the_results_of_those_before() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let parent = stage.create().await?;
    let text = |text: &str| json!([{"text": text}]);
    let steps = vec![
        step("join", &["left", "right"], &text("joined")),
        step("left", &[], &text("from the left")),
        step("right", &[], &text("from the right")),
    ];
    let id = orchestrate(&stage, &parent, steps).await?;
    let events = orchestrated(&stage, &id).await?;
    let lines = told(&events);
    assert_eq!(lines[..2], ["start left", "start right"]);
    assert_eq!(lines[4..], ["start join", "done join", "completed 3/3"], "{lines:?}");
    let numbers: Vec<u64> = events.iter().map(|event| event.sequence).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    assert_eq!(orchestrated(&stage, &id).await?, events, "a late watcher sees the same");
    let Some(Body::StepStarted(join)) = events[4].event.clone() else { panic!("{events:#?}") };
    assert_eq!(join.name, "the join");
    let prompt = stage.wait_for(&join.subagent_id, "turn_started", |_| true).await?;
    let prompt = prompt["prompt"].as_str().context("no prompt")?;
    let both = ["<result step=\"left\">\nfrom the left\n", "<result step=\"right\">\nfrom the right\n"];
    assert!(both.iter().all(|result| prompt.contains(result)), "{prompt}");

    // A failed step blocks what depends on it, and nothing else; another is tried again.
    let flag = stage.world.path("tried").display().to_string();
    let broken = json!([{"error": "out of luck"}]);
    let mut steps = vec![
        step("bad", &[], &broken),
        step("after", &["bad"], &text("never")),
        step("later", &["after"], &text("never")),
        step("apart", &[], &text("still")),
        step("repair", &["bad"], &text("repaired")),
    ];
    steps[4].condition = "failed".into();
    steps[0].retries = 1;
    let id = orchestrate(&stage, &parent, steps).await?;
    let lines = told(&orchestrated(&stage, &id).await?);
    assert_eq!(lines.iter().filter(|line| *line == "start bad").count(), 2, "{lines:?}");
    assert!(lines.contains(&"fail bad blocks after,later".to_owned()), "{lines:?}");
    assert!(
        lines.contains(&"done apart".to_owned()) && lines.contains(&"done repair".to_owned()),
        "{lines:?}"
    );
    assert_eq!(lines.last().map(String::as_str), Some("failed 2+1"), "{lines:?} {flag}");
    refusals(&stage, &parent).await?;
    stage.close().await
}

async fn refusals(stage: &crate::stage::Stage, parent: &str) -> Result<()> {
    let plain = |id: &str, on: &[&str]| step(id, on, &json!([{"text": "x"}]));
    let request = |strategy: pb::OrchestrationStrategy, steps| pb::CreateOrchestrationRequest {
        parent_session_id: parent.into(),
        steps,
        strategy: strategy.into(),
    };
    use pb::OrchestrationStrategy::{Dag, Parallel, Unspecified};
    let many: Vec<_> = (0..1_001).map(|at| plain(&at.to_string(), &[])).collect();
    let elsewhere = pb::OrchestrationStep { provider: "nobody".into(), ..plain("a", &[]) };
    let cases = [
        (request(Dag, vec![]), Code::InvalidArgument, "steps: "),
        (request(Unspecified, vec![plain("a", &[])]), Code::InvalidArgument, "strategy: "),
        (request(Dag, vec![plain("a", &["b"]), plain("b", &["a"])]), Code::InvalidArgument, "a → b → a"),
        (request(Dag, vec![plain("a", &["x"])]), Code::InvalidArgument, "steps[0].depends_on: "),
        (
            request(Parallel, vec![plain("a", &[]), plain("b", &["a"])]),
            Code::InvalidArgument,
            "steps[1].depends_on: ",
        ),
        (request(Dag, vec![elsewhere]), Code::InvalidArgument, "steps[0].provider: "),
        (request(Parallel, many), Code::ResourceExhausted, "1001 steps"),
    ];
    let before = listed(stage, parent).await?.len();
    for (request, code, what) in cases {
        let status = subagents(stage).create_orchestration(request).await.err().context(what)?;
        assert!(status.code() == code && status.message().contains(what), "{what}: {status:?}");
    }
    assert_eq!(listed(stage, parent).await?.len(), before, "nothing started");
    let unknown = pb::WatchOrchestrationRequest { orchestration_id: "orch_none".into() };
    refused(subagents(stage).watch_orchestration(unknown).await, Code::NotFound, "OBEY-1016").map(drop)
}

#[tokio::test]
async fn an_orchestration_goes_on_after_kills_in_every_step() -> Result<()> {
    let mut stage = stage!(Agent::Scripted);
    let parent = stage.create().await?;
    let waiting = |name: &str| json!([waits_for(&stage, name), {"text": name}]);
    let steps = vec![
        step("one", &[], &waiting("one")),
        step("two", &["one"], &waiting("two")),
        step("three", &["two"], &waiting("three")),
        step("aside", &[], &waiting("three")),
    ];
    let id = orchestrate(&stage, &parent, steps).await?;
    for name in ["one", "two", "three"] {
        let worker = within("the step's worker", async {
            loop {
                let all = listed(&stage, &parent).await?;
                if let Some(info) = all.into_iter().find(|info| info.name == format!("the {name}")) {
                    return anyhow::Ok(info.id);
                }
                tokio::task::yield_now().await;
            }
        })
        .await??;
        stage.wait_for(&worker, "turn_started", |_| true).await?;
        stage.daemon.kill9().await?;
        // It may end while nobody looks.
        stage.world.touch(name)?;
        stage.daemon.restart().await?;
        stage.clients = stage.daemon.clients().await?;
    }
    let events = orchestrated(&stage, &id).await?;
    let lines = told(&events);
    let mut starts: BTreeMap<&str, usize> = BTreeMap::new();
    for line in lines.iter().filter_map(|line| line.strip_prefix("start ")) {
        *starts.entry(line).or_default() += 1;
    }
    assert_eq!(starts, BTreeMap::from([("one", 1), ("two", 1), ("three", 1), ("aside", 1)]), "{lines:?}");
    assert_eq!(lines.last().map(String::as_str), Some("completed 4/4"), "{lines:?}");
    assert_eq!(listed(&stage, &parent).await?.len(), 4, "no worker was started twice");
    stage.close().await
}

#[tokio::test]
async fn an_orchestration_ends_with_its_parent() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let parent = stage.create().await?;
    let steps = vec![
        step("stuck", &[], &json!([{"hang": true}])),
        step("next", &["stuck"], &json!([{"text": "never"}])),
    ];
    let id = orchestrate(&stage, &parent, steps).await?;
    let worker = spawned(&stage, spawn(&parent, &json!([{"hang": true}]))).await?;
    stage.wait_for(&worker, "turn_started", |_| true).await?;
    stage.stop(&parent, false).await?;
    let lines = told(&orchestrated(&stage, &id).await?);
    assert_eq!(lines.first().map(String::as_str), Some("start stuck"), "{lines:?}");
    assert!(lines.last().is_some_and(|line| line.starts_with("failed 0+")), "{lines:?}");
    assert_eq!(watched(&stage, &worker, 0).await?.last().map(super::kind), Some("cancelled"));
    let late = subagents(&stage).spawn_subagent(spawn(&parent, &json!([{"text": "x"}]))).await;
    refused(late, Code::FailedPrecondition, "OBEY-2011")?;
    stage.close().await
}
