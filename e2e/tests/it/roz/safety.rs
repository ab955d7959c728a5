//! The emergency stop: ends what runs, outlives the daemon, and keeps everything from starting until it is cleared.

use anyhow::{Context, Result};
use e2e::clients::{collect, refused};
use serde_json::json;
use tonic::Code;
use tonic::transport::Channel;
use wire::roz::v1 as pb;
use wire::roz::v1::safety_service_client::SafetyServiceClient;
use wire::roz::v1::session_request::Request as Said;
use wire::roz::v1::task_service_client::TaskServiceClient;

use super::talk::{Talk, environment, start};
use crate::stage::{Agent, Stage, script, stage};

fn safety(stage: &Stage) -> SafetyServiceClient<Channel> {
    SafetyServiceClient::new(stage.clients.channel.clone())
}

fn tasks(stage: &Stage) -> TaskServiceClient<Channel> {
    TaskServiceClient::new(stage.clients.channel.clone())
}

async fn is_stopped(stage: &Stage, environment_id: &str) -> Result<bool> {
    let request = pb::GetSafetyStatusRequest { environment_id: environment_id.into() };
    let status = safety(stage).get_safety_status(request).await?.into_inner();
    assert_eq!(status.level, if status.estop_active { "emergency_stop" } else { "normal" });
    assert!(status.active_guards.contains(&"permissions:supervised".to_owned()), "{status:?}");
    Ok(status.estop_active)
}

#[tokio::test]
async fn an_emergency_stop_ends_what_runs_and_nothing_starts_until_it_is_cleared() -> Result<()> {
    let agent = Agent::Scripted;
    let mut stage = stage!(agent);
    let environment = environment(&stage).await?;
    assert!(!is_stopped(&stage, &environment).await?);
    let task = |steps| pb::CreateTaskRequest {
        prompt: script(agent, "work", &steps),
        environment_id: environment.clone(),
        ..Default::default()
    };
    let done = tasks(&stage).create_task(task(json!([{"text": "done"}]))).await?.into_inner().id;
    let watch = |id: &str| pb::StreamTaskStatusRequest { task_id: id.into() };
    collect(tasks(&stage).stream_task_status(watch(&done)).await?.into_inner()).await?;
    let stuck = tasks(&stage).create_task(task(json!([{"hang": true}]))).await?.into_inner().id;
    // One that is being started when the stop comes is ended as well.
    let talk = Talk::start(&stage, start(&environment)).await?;
    talk.prompt("m-1", &script(agent, "talk", &json!([{"hang": true}]))).await?;
    let late = tasks(&stage).create_task(task(json!([{"hang": true}]))).await?.into_inner().id;
    let stop = pb::TriggerEstopRequest { environment_id: environment.clone(), reason: "smoke".into() };
    safety(&stage).trigger_estop(stop.clone()).await?;
    for id in [&stuck, &late] {
        let all = collect(tasks(&stage).stream_task_status(watch(id)).await?.into_inner()).await?;
        let last = all.last().context("no status")?;
        assert_eq!((last.status.as_str(), last.detail.as_deref()), ("safety_stop", Some("smoke")), "{all:?}");
    }
    let found = tasks(&stage).get_task(pb::GetTaskRequest { id: done }).await?.into_inner();
    assert_eq!(found.status, "succeeded", "what had ended stays as it was");
    let sessions = stage.cli().json(&["session", "list"]).await?;
    assert_eq!(sessions["sessions"], json!([]), "{sessions:#}");

    stage.daemon.kill9().await?;
    stage.daemon.restart().await?;
    stage.clients = stage.daemon.clients().await?;
    assert!(is_stopped(&stage, &environment).await?, "the next daemon keeps it");
    let refusal = tasks(&stage).create_task(task(json!([{"text": "x"}]))).await;
    let refusal = refused(refusal, Code::FailedPrecondition, "OBEY-2011")?;
    assert!(refusal.message().contains("smoke"), "{refusal:?}");
    let mut talk = Talk::raw(&stage.clients, vec![Said::Start(start(&environment))]).await?;
    let error = talk.error().await?;
    assert!(error.message.contains("emergency stop"), "{error:?}");

    let clear = pb::ClearEstopRequest { environment_id: environment.clone(), reason: "aired".into() };
    safety(&stage).clear_estop(clear).await?;
    assert!(!is_stopped(&stage, &environment).await?);
    let again = tasks(&stage).create_task(task(json!([{"text": "again"}]))).await?.into_inner().id;
    let all = collect(tasks(&stage).stream_task_status(watch(&again)).await?.into_inner()).await?;
    assert_eq!(all.last().map(|update| update.status.as_str()), Some("succeeded"));
    let unknown = pb::TriggerEstopRequest { environment_id: "lab".into(), ..stop.clone() };
    refused(safety(&stage).trigger_estop(unknown).await, Code::InvalidArgument, "environment_id")?;
    let long = pb::TriggerEstopRequest { reason: "x".repeat(5_000), ..stop };
    refused(safety(&stage).trigger_estop(long).await, Code::InvalidArgument, "reason")?;
    stage.close().await
}
