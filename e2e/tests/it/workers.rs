//! Workers of sessions: spawned, watched, told, cancelled; orchestrations of them; and daemons that die meanwhile.

mod commands;
mod ending;
mod orchestrations;
mod plans;
mod python;
mod spawning;
mod tools;

use anyhow::{Context, Result};
use e2e::deadline::within;
use serde_json::{Value, json};
use tokio_stream::StreamExt;
use tonic::transport::Channel;
use wire::betcode::v1 as pb;
use wire::betcode::v1::orchestration_event::Event as OrchestrationBody;
use wire::betcode::v1::subagent_event::Event as WorkerBody;
use wire::betcode::v1::subagent_service_client::SubagentServiceClient;

use crate::stage::{Agent, Stage, script};

fn subagents(stage: &Stage) -> SubagentServiceClient<Channel> {
    SubagentServiceClient::new(stage.clients.channel.clone())
}

fn scripted(steps: &Value) -> String {
    script(Agent::Scripted, "worker", steps)
}

/// A worker of a session with a script.
fn spawn(parent: &str, steps: &Value) -> pb::SpawnSubagentRequest {
    pb::SpawnSubagentRequest {
        parent_session_id: parent.into(),
        prompt: scripted(steps),
        provider: "scripted".into(),
        ..Default::default()
    }
}

async fn spawned(stage: &Stage, request: pb::SpawnSubagentRequest) -> Result<String> {
    Ok(subagents(stage).spawn_subagent(request).await?.into_inner().subagent_id)
}

/// Everything a worker did after a number, to its end.
async fn watched(stage: &Stage, id: &str, from_sequence: u64) -> Result<Vec<pb::SubagentEvent>> {
    let request = pb::WatchSubagentRequest { subagent_id: id.into(), from_sequence };
    let stream = subagents(stage).watch_subagent(request).await?.into_inner();
    within("the end of a worker", stream.collect::<Result<Vec<_>, _>>()).await?.context("watching a worker")
}

/// Waits for an event of a worker; returns it.
async fn until(
    stage: &Stage,
    id: &str,
    what: &str,
    wanted: impl Fn(&WorkerBody) -> bool,
) -> Result<pb::SubagentEvent> {
    let request = pb::WatchSubagentRequest { subagent_id: id.into(), from_sequence: 0 };
    let mut stream = subagents(stage).watch_subagent(request).await?.into_inner();
    loop {
        let event = within(what, stream.next()).await?.context("the stream ended")??;
        if event.event.as_ref().is_some_and(&wanted) {
            return Ok(event);
        }
    }
}

/// The name of what an event tells.
fn kind(event: &pb::SubagentEvent) -> &'static str {
    match &event.event {
        Some(WorkerBody::Started(_)) => "started",
        Some(WorkerBody::Output(_)) => "output",
        Some(WorkerBody::ToolUse(_)) => "tool_use",
        Some(WorkerBody::PermissionRequest(_)) => "permission_request",
        Some(WorkerBody::Completed(_)) => "completed",
        Some(WorkerBody::Failed(_)) => "failed",
        Some(WorkerBody::Cancelled(_)) => "cancelled",
        None => "nothing",
    }
}

async fn listed(stage: &Stage, parent: &str) -> Result<Vec<pb::SubagentInfo>> {
    let request = pb::ListSubagentsRequest { parent_session_id: parent.into(), ..Default::default() };
    Ok(subagents(stage).list_subagents(request).await?.into_inner().subagents)
}

fn step(id: &str, depends_on: &[&str], steps: &Value) -> pb::OrchestrationStep {
    pb::OrchestrationStep {
        id: id.into(),
        name: format!("the {id}"),
        prompt: scripted(steps),
        provider: "scripted".into(),
        depends_on: depends_on.iter().map(ToString::to_string).collect(),
        ..Default::default()
    }
}

async fn orchestrate(stage: &Stage, parent: &str, steps: Vec<pb::OrchestrationStep>) -> Result<String> {
    let request = pb::CreateOrchestrationRequest {
        parent_session_id: parent.into(),
        steps,
        strategy: pb::OrchestrationStrategy::Dag.into(),
    };
    Ok(subagents(stage).create_orchestration(request).await?.into_inner().orchestration_id)
}

/// Everything that happened in an orchestration, to its end.
async fn orchestrated(stage: &Stage, id: &str) -> Result<Vec<pb::OrchestrationEvent>> {
    let request = pb::WatchOrchestrationRequest { orchestration_id: id.into() };
    let stream = subagents(stage).watch_orchestration(request).await?.into_inner();
    within("the end of an orchestration", stream.collect::<Result<Vec<_>, _>>())
        .await?
        .context("watching an orchestration")
}

/// The events of an orchestration in short.
fn told(events: &[pb::OrchestrationEvent]) -> Vec<String> {
    let tell = |event: &pb::OrchestrationEvent| match event.event.clone() {
        Some(OrchestrationBody::StepStarted(step)) => format!("start {}", step.step_id),
        Some(OrchestrationBody::StepCompleted(step)) => format!("done {}", step.step_id),
        Some(OrchestrationBody::StepFailed(step)) => {
            format!("fail {} blocks {}", step.step_id, step.blocked_steps.join(","))
        }
        Some(OrchestrationBody::Completed(end)) => format!("completed {}/{}", end.succeeded, end.total_steps),
        Some(OrchestrationBody::Failed(end)) => {
            format!("failed {}+{}", end.completed_steps, end.failed_steps)
        }
        None => "nothing".into(),
    };
    events.iter().map(tell).collect()
}

/// A script that waits for a file of the project.
fn waits_for(stage: &Stage, name: &str) -> Value {
    json!({"wait_file": stage.world.path(name).display().to_string()})
}
