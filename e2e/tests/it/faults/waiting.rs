//! What was under way or waiting when the daemon died: turns, requests, timeouts, commands, readers.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use e2e::clients::wait_event;
use e2e::deadline::poll;
use e2e::processes;
use serde_json::{Value, json};
use wire::obey::local::v1::{ActivityType, ExecuteRequest, SessionStatus, WatchAllSessionsRequest};
use wire::obey::v1::{AnswerPermissionRequest, Decision};

use super::{assert_numbered, crash, gone, no_folder_left, revive, said};
use crate::stage::{Agent, CAMPAIGN, Stage, contents, process_scenarios, script, stage};

process_scenarios!(
    an_agent_outlives_the_daemon_and_loses_no_byte,
    a_request_survives_the_daemon_and_is_answered_once,
    a_timeout_counts_from_the_original_start,
    a_followed_log_misses_nothing_across_crashes,
);

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
    revive(&mut stage).await?;
    let ended = stage.wait_for(&id, "turn_ended", |_| true).await?;
    assert_eq!(ended["reason"], "completed", "{ended}");
    let journal = stage.journal(&id).await?;
    assert_numbered(&journal);
    assert_eq!(said(&journal), "before the crash, after the crash 🐎");
    if agent.is_real() {
        assert_eq!(stage.world.model().sent_text("crash"), said(&journal));
    }
    let info = stage.info(&id).await?;
    assert_eq!((info.status(), info.pid), (SessionStatus::Running, pid));
    let next = stage.turn(&id, &script(agent, "next", &json!([{"text": "all is well"}]))).await?;
    assert_eq!(contents(&next, ActivityType::Completion), "all is well");
    stage.close().await
}

async fn a_request_survives_the_daemon_and_is_answered_once(agent: Agent) -> Result<()> {
    let mut stage = stage!(agent);
    let id = stage.create().await?;
    let step = agent.asking("echo x >>made");
    let turn = stage.send(&id, &script(agent, "ask", &json!([step, {"text": "made it"}]))).await?;
    let request = stage.wait_for_request(&id).await?;
    crash(&mut stage).await?;
    drop(turn);
    let waiting = stage.requests(&id, false).await?;
    assert_eq!(waiting.iter().map(|waiting| &waiting.id).collect::<Vec<_>>(), [&request.id]);
    let answer = |stage: &Stage| {
        let answer = AnswerPermissionRequest {
            session_id: id.clone(),
            request_id: request.id.clone(),
            decision: Decision::AllowOnce.into(),
            ..Default::default()
        };
        let mut requests = stage.clients.requests.clone();
        async move { requests.answer_permission(answer).await }
    };
    assert!(answer(&stage).await?.into_inner().settled_by_this_answer);
    crash(&mut stage).await?;
    assert!(stage.requests(&id, false).await?.is_empty());
    assert!(!answer(&stage).await?.into_inner().settled_by_this_answer, "the first answer counts");
    stage.wait_for(&id, "turn_ended", |_| true).await?;
    stage.wait_for_text(&id, "made it").await.context("the turn must go on")?;
    let journal = stage.journal(&id).await?;
    let count = |kind: &str| journal.iter().filter(|event| event.r#type == kind).count();
    assert_eq!((count("request_opened"), count("request_settled"), count("tool_finished")), (1, 1, 1));
    if agent.is_real() {
        assert_eq!(std::fs::read_to_string(stage.world.path("project/made"))?, "x\n", "run exactly once");
    }
    stage.close().await
}

async fn a_timeout_counts_from_the_original_start(agent: Agent) -> Result<()> {
    let mut stage = stage!(agent);
    let mut request = stage.new_session();
    // Long enough for a real agent to start on a busy machine.
    let timeout = Duration::from_secs(if agent.is_real() { 20 } else { 8 });
    request.timeout = Some(prost_types::Duration { seconds: timeout.as_secs() as i64, nanos: 0 });
    let id = stage.create_as(request).await?.id;
    drop(stage.send(&id, &script(agent, "stuck", &json!([[{"text": "half"}, {"hang": true}]]))).await?);
    stage.wait_for_text(&id, "half").await?;
    crash(&mut stage).await?;
    let time = |at: Option<prost_types::Timestamp>| at.and_then(|at| SystemTime::try_from(at).ok());
    let started = time(stage.info(&id).await?.started_at).context("it has no start")?;
    stage.daemon.kill9().await?;
    poll("the timeout, without a daemon", || (started.elapsed().ok()? > timeout).then_some(())).await?;
    let revived = SystemTime::now();
    revive(&mut stage).await?;
    let failed = stage.wait_for_status(&id, "FAILED").await?;
    assert_eq!(failed["code"], "OBEY-2014", "{failed}");
    let ended = time(stage.info(&id).await?.ended_at).context("it has no end")?;
    assert!(ended.duration_since(started)? >= timeout, "the timeout came early");
    // Starting over would have taken the whole of it again.
    let after = ended.duration_since(revived)?;
    assert!(after < timeout, "the timeout came {after:?} after the daemon");
    stage.close().await
}

async fn a_followed_log_misses_nothing_across_crashes(agent: Agent) -> Result<()> {
    let mut stage = stage!(agent);
    let id = stage.create().await?;
    let mut log = stage.cli().spawn(&["session", "log", &id, "--follow", "--json"]).await?;
    for turn in 0..3 {
        let text = format!("turn {turn} ");
        let gate = stage.world.path(&format!("gate-{turn}"));
        let steps = json!([[{"text": text}, {"wait_file": gate}, {"text": "goes on", "chunks": 3}]]);
        drop(stage.send(&id, &script(agent, &format!("turn-{turn}"), &steps)).await?);
        log.wait_for_line(&text, |line| line.contains(text.trim_end())).await?;
        stage.daemon.kill9().await?;
        stage.world.touch(&format!("gate-{turn}"))?;
        revive(&mut stage).await?;
        stage.wait_for(&id, "turn_ended", |ended| ended["turn"] == format!("turn_{}", turn + 1)).await?;
    }
    stage.stop(&id, false).await?;
    let output = log.finish().await?;
    let lines = output.json_lines()?;
    let numbers: Vec<u64> = lines.iter().filter_map(|line| line["seq"].as_u64()).collect();
    let journal = stage.journal(&id).await?;
    assert_eq!(numbers, (1..=journal.len() as u64).collect::<Vec<_>>());
    let deltas = lines.iter().filter(|line| line["type"] == "text_delta");
    let text: String = deltas.filter_map(|line| line["text"].as_str()).collect();
    assert_eq!(text, (0..3).map(|turn| format!("turn {turn} goes on")).collect::<String>());
    stage.close().await
}

#[tokio::test]
async fn a_command_whose_caller_is_gone_ends_at_the_next_start() -> Result<()> {
    let mut stage = stage!(Agent::Scripted);
    stage.world.set_env("OBEY_EXECUTE_ALLOW", "sh");
    revive(&mut stage).await?;
    let request = ExecuteRequest {
        campaign_id: CAMPAIGN.into(),
        command: "sh".into(),
        args: vec!["-c".into(), "setsid sleep 600 & echo $! $$; wait".into()],
        ..Default::default()
    };
    let mut output = stage.clients.local.clone().execute(request).await?.into_inner();
    let said = wait_event(&mut output, "the command's word", |_| true).await?;
    let pids: Vec<i32> = match said.output {
        Some(wire::obey::local::v1::execute_response::Output::Stdout(bytes)) => {
            String::from_utf8(bytes)?.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
        }
        other => anyhow::bail!("unexpected {other:?}"),
    };
    assert_eq!(pids.len(), 2);
    stage.daemon.kill9().await?;
    assert!(pids.iter().all(|pid| processes::alive(*pid)), "a crash ends nothing");
    revive(&mut stage).await?;
    for pid in pids {
        gone(pid).await?;
    }
    no_folder_left(&stage).await?;
    stage.close().await
}

#[tokio::test]
async fn reading_from_beyond_the_end_is_refused_or_waits() -> Result<()> {
    let mut stage = stage!(Agent::Scripted);
    let id = stage.create().await?;
    stage.turn(&id, &script(Agent::Scripted, "one", &json!([{"text": "x"}]))).await?;
    crash(&mut stage).await?;
    let newest = stage.journal(&id).await?.len() as u64;
    for after_seq in [newest + 1, u64::MAX] {
        let request =
            wire::obey::v1::ReadEventsRequest { session_id: id.clone(), after_seq, ..Default::default() };
        let refused = stage.clients.events.clone().read_events(request).await;
        let status = refused.err().context("it was not refused")?;
        assert!(status.message().contains(&newest.to_string()), "{status:?}");
    }
    // From the middle on it is exactly the rest.
    let request = wire::obey::v1::ReadEventsRequest {
        session_id: id.clone(),
        after_seq: newest - 2,
        ..Default::default()
    };
    let rest = stage.clients.events.clone().read_events(request).await?.into_inner();
    let rest: Vec<u64> = e2e::clients::collect(rest).await?.iter().map(|event| event.seq).collect();
    assert_eq!(rest, [newest - 1, newest]);
    stage.close().await
}

#[tokio::test]
async fn a_watcher_of_all_sessions_learns_of_every_change_after_a_crash() -> Result<()> {
    let mut stage = stage!(Agent::Scripted);
    let id = stage.create().await?;
    let gate = stage.world.path("gate");
    let steps = json!([{"text": "a"}, {"wait_file": gate}, {"text": "b"}]);
    drop(stage.send(&id, &script(Agent::Scripted, "gated", &steps)).await?);
    stage.wait_for_text(&id, "a").await?;
    crash(&mut stage).await?;
    let mut watch = stage
        .clients
        .local
        .clone()
        .watch_all_sessions(WatchAllSessionsRequest::default())
        .await?
        .into_inner();
    stage.world.touch("gate")?;
    let running = wait_event(&mut watch, "RUNNING", |event| event.new_status() == SessionStatus::Running);
    assert_eq!(running.await?.session_id, id);
    let ended = stage.wait_for(&id, "turn_ended", |_| true).await?;
    assert_eq!(ended["text"], Value::from("ab"));
    stage.close().await
}
