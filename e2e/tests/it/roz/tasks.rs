//! Tasks run as sessions, workers as sessions with a parent, and whoever watches late sees all of it.

use anyhow::{Context, Result, bail};
use e2e::clients::{collect, refused};
use e2e::deadline::within;
use serde_json::json;
use tokio_stream::StreamExt;
use tonic::Code;
use tonic::transport::Channel;
use wire::roz::v1 as pb;
use wire::roz::v1::host_service_client::HostServiceClient;
use wire::roz::v1::task_service_client::TaskServiceClient;
use wire::roz::v1::team_event::Event as Team;

use super::talk::{Talk, agents, call, environment, environment_with, start};
use crate::stage::{Agent, Stage, script, stage, usual_scenarios};

usual_scenarios!(a_task_runs_as_a_session, a_task_that_waits_is_approved_or_cancelled);

const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

fn tasks(stage: &Stage) -> TaskServiceClient<Channel> {
    TaskServiceClient::new(stage.clients.channel.clone())
}

fn new_task(environment_id: &str, prompt: &str) -> pb::CreateTaskRequest {
    pb::CreateTaskRequest {
        prompt: prompt.into(),
        environment_id: environment_id.into(),
        ..Default::default()
    }
}

/// Everything a task's status was, up to its end.
async fn statuses(stage: &Stage, id: &str) -> Result<Vec<String>> {
    let request = pb::StreamTaskStatusRequest { task_id: id.into() };
    let stream = tasks(stage).stream_task_status(request).await?.into_inner();
    Ok(collect(stream).await?.into_iter().map(|update| update.status).collect())
}

async fn a_task_runs_as_a_session(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let environment = environment(&stage).await?;
    let prompt = script(agent, "work", &json!([{"text": "all done"}]));
    let task = tasks(&stage).create_task(new_task(&environment, &prompt)).await?.into_inner();
    assert_eq!((task.environment_id.as_str(), task.status.as_str()), (environment.as_str(), "pending"));
    assert_eq!(statuses(&stage, &task.id).await?.last().map(String::as_str), Some("succeeded"));
    let found = tasks(&stage).get_task(pb::GetTaskRequest { id: task.id.clone() }).await?.into_inner();
    assert_eq!((found.status.as_str(), found.prompt.as_str()), ("succeeded", prompt.as_str()));
    let listed = tasks(&stage).list_tasks(pb::ListTasksRequest::default()).await?.into_inner().data;
    assert_eq!(listed.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), [task.id.as_str()]);
    // Its agent leaves when the work is done.
    let sessions = stage.cli().json(&["session", "list", "--all"]).await?;
    let session = sessions["sessions"][0]["id"].as_str().context("no session")?.to_owned();
    assert_eq!(sessions["sessions"][0]["task_id"], json!(task.id));
    stage.wait_for_status(&session, "STOPPED").await?;
    stage.close().await
}

async fn a_task_that_waits_is_approved_or_cancelled(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let environment = environment(&stage).await?;
    let mut ids = Vec::new();
    let mut sessions = Vec::new();
    for key in ["first", "second"] {
        let prompt = script(agent, key, &json!([agent.asking("touch approved"), {"text": "touched"}]));
        ids.push(tasks(&stage).create_task(new_task(&environment, &prompt)).await?.into_inner().id);
        sessions = sessions_of(&stage, &ids).await?;
        stage.wait_for_request(&sessions[ids.len() - 1]).await?;
    }
    let waiting = stage.wait_for_request(&sessions[0]).await?;
    let approve = pb::ApproveToolUseRequest {
        task_id: ids[0].clone(),
        tool_call_id: waiting.tool_call_id.clone(),
        approved: true,
        modifier: None,
    };
    let nobody = pb::ApproveToolUseRequest { tool_call_id: "nobody".into(), ..approve.clone() };
    refused(tasks(&stage).approve_tool_use(nobody).await, Code::NotFound, "OBEY-2015")?;
    tasks(&stage).approve_tool_use(approve).await?;
    assert_eq!(statuses(&stage, &ids[0]).await?.last().map(String::as_str), Some("succeeded"));
    stage.wait_for_request(&sessions[1]).await?;
    tasks(&stage).cancel_task(pb::CancelTaskRequest { id: ids[1].clone() }).await?;
    assert_eq!(statuses(&stage, &ids[1]).await?.last().map(String::as_str), Some("cancelled"));
    stage.close().await
}

/// A cancel with a client's key.
fn keyed_cancel(id: &str, key: &str) -> Result<tonic::Request<pb::CancelTaskRequest>> {
    let mut request = tonic::Request::new(pb::CancelTaskRequest { id: id.to_owned() });
    request.metadata_mut().insert("x-obey-client-key", key.parse()?);
    Ok(request)
}

#[tokio::test]
async fn a_cancel_with_a_key_takes_effect_once_across_a_kill() -> Result<()> {
    let mut stage = stage!(Agent::Scripted);
    let environment = environment(&stage).await?;
    let work = |key: &str| script(Agent::Scripted, key, &json!([{"text": "begun"}, {"hang": true}]));
    let task = tasks(&stage).create_task(new_task(&environment, &work("first"))).await?.into_inner();
    let session = sessions_of(&stage, std::slice::from_ref(&task.id)).await?.remove(0);
    stage.wait_for_text(&session, "begun").await?;
    tasks(&stage).cancel_task(keyed_cancel(&task.id, "c-1")?).await?;
    stage.wait_for_status(&session, "STOPPED").await?;
    stage.daemon.kill9().await?;
    stage.daemon.restart().await?;
    stage.clients = stage.daemon.clients().await?;
    // What somebody started again since then is not meant by the repeated call.
    stage.restart(&session).await?;
    stage.cli().ok(&["session", "send", &session, "--no-wait", &work("second")]).await?;
    stage.wait_for(&session, "turn_started", |event| event["turn"] == "turn_2").await?;
    tasks(&stage).cancel_task(keyed_cancel(&task.id, "c-1")?).await?;
    let running = stage.cli().json(&["session", "info", &session]).await?;
    assert_eq!(running["status"], "WORKING", "{running}");
    tasks(&stage).cancel_task(keyed_cancel(&task.id, "c-2")?).await?;
    stage.wait_for_status(&session, "STOPPED").await?;
    stage.close().await
}

/// Waits until tasks have their sessions; returns them in order.
async fn sessions_of(stage: &Stage, tasks: &[String]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for task in tasks {
        let session = within("the session of a task", async {
            loop {
                let listed = stage.cli().json(&["session", "list", "--all"]).await?;
                let sessions = listed["sessions"].as_array().cloned().unwrap_or_default();
                let own = sessions.iter().find(|session| session["task_id"] == json!(task));
                if let Some(id) = own.and_then(|session| session["id"].as_str()) {
                    return anyhow::Ok(id.to_owned());
                }
            }
        });
        found.push(session.await??);
    }
    Ok(found)
}

fn name(event: &pb::TeamEvent) -> &'static str {
    match &event.event {
        Some(Team::WorkerStarted(_)) => "started",
        Some(Team::WorkerPhase(_)) => "phase",
        Some(Team::WorkerToolCall(_)) => "call",
        Some(Team::WorkerCompleted(_)) => "completed",
        Some(Team::WorkerFailed(_)) => "failed",
        Some(Team::WorkerExited(_)) => "exited",
        None => "nothing",
    }
}

#[tokio::test]
async fn a_team_is_watched_from_the_beginning_however_late() -> Result<()> {
    let agent = Agent::Scripted;
    let stage = stage!(agent);
    let environment = environment(&stage).await?;
    let gate = stage.world.path("gate");
    let lead = script(agent, "lead", &json!([{"wait_file": gate}, {"text": "led"}]));
    let lead = tasks(&stage).create_task(new_task(&environment, &lead)).await?.into_inner();
    let watch = || pb::WatchTeamRequest { task_id: lead.id.clone() };
    let mut early = agents(&stage.clients).watch_team(watch()).await?.into_inner();
    let steps = json!([{"tool": "Bash", "input": {"command": "ls"}, "result": "x"}, {"text": "worked"}]);
    let host = pb::RegisterHostRequest {
        name: "arm".into(),
        environment_id: environment.clone(),
        ..Default::default()
    };
    let host =
        HostServiceClient::new(stage.clients.channel.clone()).register_host(host).await?.into_inner().id;
    let worker = pb::CreateTaskRequest {
        parent_task_id: Some(lead.id.clone()),
        host_id: Some(host.clone()),
        ..new_task(&environment, &script(agent, "worker", &steps))
    };
    let worker = tasks(&stage).create_task(worker).await?.into_inner();
    assert_eq!(statuses(&stage, &worker.id).await?.last().map(String::as_str), Some("succeeded"));
    let mut seen = Vec::new();
    while seen.last() != Some(&"exited") {
        let event = within("an event of the team", early.next()).await?.context("it ended")??;
        if let Some(Team::WorkerStarted(started)) = &event.event {
            assert_eq!((&started.worker_id, &started.host_id), (&worker.id, &host));
        }
        if let Some(Team::WorkerExited(exited)) = &event.event {
            assert_eq!((&exited.worker_id, &exited.parent_task_id), (&worker.id, &lead.id));
        }
        if let Some(Team::WorkerCompleted(completed)) = &event.event {
            assert_eq!(completed.result, "worked");
        }
        seen.push(name(&event));
    }
    assert_eq!(seen, ["started", "phase", "call", "completed", "exited"]);
    stage.world.touch("gate")?;
    assert_eq!(statuses(&stage, &lead.id).await?.last().map(String::as_str), Some("succeeded"));
    // All is over; a late watcher sees the same and is not kept waiting.
    let late = collect(agents(&stage.clients).watch_team(watch()).await?.into_inner()).await?;
    assert_eq!(late.iter().map(name).collect::<Vec<_>>(), seen);
    stage.close().await
}

#[tokio::test]
async fn real_claude_an_agent_has_workers_within_limits() -> Result<()> {
    let agent = Agent::Claude;
    let stage = stage!(agent);
    let environment = environment_with(&stage, "free", &["--mode", "autonomous"]).await?;
    let mut talk = Talk::start(&stage, start(&environment)).await?;
    let deeper = call("spawn_worker", json!({"prompt": script(agent, "deepest", &json!([{"text": "x"}]))}));
    let inner = script(agent, "deeper", &json!([deeper, {"text": "could not"}]));
    let worker = script(
        agent,
        "worker",
        &json!([call("spawn_worker", json!({"prompt": inner})), call("watch_team", json!({"wait": true, "timeout_secs": 25})), {"text": "worked"}]),
    );
    let steps = json!([
        call("spawn_worker", json!({"prompt": worker, "name": "digger"})),
        call("watch_team", json!({"wait": true, "timeout_secs": 28})),
        {"text": "led"},
    ]);
    talk.prompt("m-1", &script(agent, "lead", &steps)).await?;
    let (end, _) = talk.turn().await?;
    assert_eq!(end.stop_reason, "end_turn");
    let watched =
        stage.wait_for(talk.session(), "tool_finished", |event| event["tool"] == "watch_team").await?;
    let output = watched["output"].as_str().unwrap_or_default();
    assert!(output.contains("worked") && output.contains("digger"), "{output}");
    let listed = stage.cli().json(&["session", "list", "--all"]).await?;
    let sessions = listed["sessions"].as_array().context("no list")?;
    assert_eq!(sessions.len(), 3, "workers of workers of workers were to be refused: {listed}");
    // The team of a session is watched by its id.
    let request = pb::WatchTeamRequest { task_id: talk.session().into() };
    let mut team = agents(&stage.clients).watch_team(request).await?.into_inner();
    let first = within("an event of the team", team.next()).await?.context("it ended")??;
    assert_eq!(name(&first), "started");
    stage.close().await
}

#[tokio::test]
async fn real_claude_a_worker_inside_the_agent_says_what_it_does() -> Result<()> {
    let agent = Agent::Claude;
    let stage = stage!(agent);
    let environment = environment_with(&stage, "free", &["--mode", "autonomous"]).await?;
    let mut talk = Talk::start(&stage, start(&environment)).await?;
    let request = pb::WatchTeamRequest { task_id: talk.session().into() };
    let mut team = agents(&stage.clients).watch_team(request).await?.into_inner();
    let bash = json!({"tool": "Bash", "input": {"command": "echo inner", "description": "say"}});
    let prompt = script(agent, "inner", &json!([bash, {"text": "inner done"}]));
    let input = json!({"description": "inner", "subagent_type": "general-purpose", "prompt": prompt});
    let steps = json!([{"tool": "Task", "input": input}, {"text": "led"}]);
    talk.prompt("m-1", &script(agent, "lead", &steps)).await?;
    talk.turn().await?;
    let mut seen = Vec::new();
    while seen.last() != Some(&"exited") {
        let event = within("an event of the team", team.next()).await?.context("it ended")??;
        if let Some(Team::WorkerToolCall(call)) = &event.event {
            assert_eq!(call.tool, "Bash");
        }
        seen.push(name(&event));
    }
    assert_eq!(seen, ["started", "phase", "call", "completed", "exited"]);
    stage.close().await
}

#[tokio::test]
async fn real_claude_a_worker_is_asked_for() -> Result<()> {
    let agent = Agent::Claude;
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage, Vec::new()).await?;
    let worker = script(agent, "worker", &json!([{"text": "worked"}]));
    let steps = json!([
        call("spawn_worker", json!({"prompt": worker})),
        call("spawn_worker", json!({"prompt": worker})),
        {"text": "led"},
    ]);
    talk.prompt("m-1", &script(agent, "lead", &steps)).await?;
    let waiting = talk.approval().await?;
    talk.decide(&waiting, false).await?;
    let waiting = talk.approval().await?;
    talk.decide(&waiting, true).await?;
    assert_eq!(talk.turn().await?.0.stop_reason, "end_turn");
    let listed = stage.cli().json(&["session", "list", "--all"]).await?;
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(2), "{listed}");
    let mode = &stage.journal(talk.session()).await?[0];
    assert_eq!(crate::stage::fields(mode)["mode"], "supervised");
    stage.close().await
}

#[tokio::test]
async fn a_task_answers_while_its_agent_starts() -> Result<()> {
    let agent = Agent::Scripted;
    let stage = stage!(agent);
    let environment = environment(&stage).await?;
    let never = stage.world.path("never");
    let waiting = |key| script(agent, key, &json!([{"wait_file": never}, {"text": "done"}]));
    let lead = tasks(&stage).create_task(new_task(&environment, &waiting("lead"))).await?.into_inner();
    let watch = pb::WatchTeamRequest { task_id: lead.id.clone() };
    let team = agents(&stage.clients).watch_team(watch).await?.into_inner();
    let worker = pb::CreateTaskRequest {
        parent_task_id: Some(lead.id.clone()),
        ..new_task(&environment, &waiting("worker"))
    };
    let worker = tasks(&stage).create_task(worker).await?.into_inner();
    // Each is cancelled wherever its start is: waiting for the lead's, under way, or over.
    for id in [worker.id, lead.id] {
        tasks(&stage).cancel_task(pb::CancelTaskRequest { id: id.clone() }).await?;
        assert_eq!(statuses(&stage, &id).await?.last().map(String::as_str), Some("cancelled"));
    }
    collect(team).await?;
    // A prompt that no agent takes is refused, instead of being kept and listed.
    let long = new_task(&environment, &"x".repeat(3_500 * 1024 + 1));
    refused(tasks(&stage).create_task(long).await, Code::InvalidArgument, "OBEY-1001")?;
    assert_eq!(tasks(&stage).list_tasks(pb::ListTasksRequest::default()).await?.into_inner().data.len(), 2);
    stage.close().await
}

#[tokio::test]
async fn a_task_that_is_cancelled_while_its_agent_starts_does_nothing_nor_do_its_workers() -> Result<()> {
    let agent = Agent::Scripted;
    let stage = stage!(agent);
    let project = stage.world.project().display().to_string();
    let slow = r#"{"startup_delay_ms": "15000"}"#;
    let slow =
        ["environment", "create", "slow", "--dir", &project, "--provider", "scripted", "--config", slow];
    let slow = stage.cli().json(&slow).await?["id"].as_str().context("no id was printed")?.to_owned();
    let quick = environment(&stage).await?;
    let never = stage.world.path("never");
    for (environment, steps) in [
        (slow, json!([{"text": "done although it was cancelled"}])),
        (quick, json!([{"wait_file": never}, {"text": "done"}])),
    ] {
        let prompt = script(agent, "work", &steps);
        let lead = tasks(&stage).create_task(new_task(&environment, &prompt)).await?.into_inner();
        let worker = pb::CreateTaskRequest {
            parent_task_id: Some(lead.id.clone()),
            ..new_task(&environment, &prompt)
        };
        let worker = tasks(&stage).create_task(worker).await?.into_inner();
        tasks(&stage).cancel_task(pb::CancelTaskRequest { id: lead.id.clone() }).await?;
        for id in [lead.id, worker.id] {
            assert_eq!(statuses(&stage, &id).await?.last().map(String::as_str), Some("cancelled"));
        }
    }
    stage.close().await
}

#[tokio::test]
async fn a_worker_that_runs_is_cancelled_with_its_task() -> Result<()> {
    let agent = Agent::Scripted;
    let stage = stage!(agent);
    let environment = environment(&stage).await?;
    let never = stage.world.path("never");
    let prompt = script(agent, "work", &json!([{"wait_file": never}, {"text": "done"}]));
    let lead = tasks(&stage).create_task(new_task(&environment, &prompt)).await?.into_inner();
    let worker =
        pb::CreateTaskRequest { parent_task_id: Some(lead.id.clone()), ..new_task(&environment, &prompt) };
    let worker = tasks(&stage).create_task(worker).await?.into_inner();
    let request = pb::StreamTaskStatusRequest { task_id: worker.id.clone() };
    let mut running = tasks(&stage).stream_task_status(request).await?.into_inner();
    while within("the worker", running.next()).await?.context("it ended")??.status != "running" {}
    tasks(&stage).cancel_task(pb::CancelTaskRequest { id: lead.id.clone() }).await?;
    for id in [&lead.id, &worker.id] {
        assert_eq!(statuses(&stage, id).await?.last().map(String::as_str), Some("cancelled"));
    }
    // It did not fail: it was stopped.
    let watch = pb::WatchTeamRequest { task_id: lead.id };
    let team = collect(agents(&stage.clients).watch_team(watch).await?.into_inner()).await?;
    let reasons: Vec<&str> = team
        .iter()
        .filter_map(|event| match &event.event {
            Some(Team::WorkerFailed(failed)) => Some(failed.reason.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(reasons, ["e_stop"], "{team:#?}");
    stage.close().await
}

#[tokio::test]
async fn wrong_tasks_teams_and_hosts_are_refused_by_name() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let environment = environment(&stage).await?;
    let wrong = [
        (new_task("lab", "x"), Code::InvalidArgument, "OBEY-1001"),
        (new_task(UNKNOWN, "x"), Code::NotFound, "OBEY-1016"),
        (new_task(&environment, " "), Code::InvalidArgument, "OBEY-1001"),
        (
            pb::CreateTaskRequest { host_id: Some(UNKNOWN.into()), ..new_task(&environment, "x") },
            Code::NotFound,
            "OBEY-1016",
        ),
        (
            pb::CreateTaskRequest { parent_task_id: Some(UNKNOWN.into()), ..new_task(&environment, "x") },
            Code::NotFound,
            "OBEY-1016",
        ),
    ];
    for (request, code, obey) in wrong {
        refused(tasks(&stage).create_task(request).await, code, obey)?;
    }
    let watch = |id: &str| pb::WatchTeamRequest { task_id: id.into() };
    refused(agents(&stage.clients).watch_team(watch("x")).await, Code::InvalidArgument, "OBEY-1001")?;
    refused(agents(&stage.clients).watch_team(watch(UNKNOWN)).await, Code::NotFound, "OBEY-1016")?;
    let mut hosts = HostServiceClient::new(stage.clients.channel.clone());
    let register = pb::RegisterHostRequest {
        name: "arm".into(),
        environment_id: environment.clone(),
        capabilities: [("gripper".to_owned(), "yes".to_owned())].into(),
    };
    let host = hosts.register_host(register).await?.into_inner();
    assert_eq!(host.capabilities.get("gripper").map(String::as_str), Some("yes"));
    let listed = hosts.list_hosts(pb::ListHostsRequest::default()).await?.into_inner().data;
    assert_eq!(listed, std::slice::from_ref(&host));
    let started = pb::StartSession { host_id: Some(host.id.clone()), ..start(&environment) };
    drop(Talk::start(&stage, started).await?);
    hosts.deregister_host(pb::DeregisterHostRequest { id: host.id.clone() }).await?;
    refused(hosts.get_host(pb::GetHostRequest { id: host.id }).await, Code::NotFound, "OBEY-1016")?;
    stage.close().await
}

#[tokio::test]
async fn environments_are_made_listed_and_forgotten() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let id = environment(&stage).await?;
    assert_eq!(id.len(), 36, "{id}");
    let again = stage.cli().run(&["environment", "create", "lab", "--dir", "."]).await?;
    assert!(again.code == Some(2) && again.stderr.contains("name: "), "{again:?}");
    let nowhere = stage.cli().run(&["environment", "create", "x", "--dir", "/nowhere"]).await?;
    assert_ne!(nowhere.code, Some(0), "{nowhere:?}");
    let listed = stage.cli().json(&["environment", "list"]).await?;
    assert_eq!(listed["environments"][0]["id"], json!(id));
    assert_eq!(listed["environments"][0]["provider"], "scripted");
    stage.cli().ok(&["environment", "remove", "lab"]).await?;
    let gone = stage.cli().run(&["environment", "remove", "lab"]).await?;
    assert_eq!(gone.code, Some(4), "{gone:?}");
    let talk = Talk::start(&stage, start(&id)).await;
    let Err(error) = talk else { bail!("a session started in an environment that is gone") };
    assert!(format!("{error:#}").contains("invalid_argument"), "{error:#}");
    stage.close().await
}
