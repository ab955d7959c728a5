//! The overview over gRPC: who waits, who failed and why, who works, who is done and was not looked at.

use anyhow::{Context, Result};
use e2e::clients::{collect, mentions, refused, wait_event};
use serde_json::json;
use tonic::transport::Channel;
use wire::obey::v1 as own;
use wire::obey::v1::overview_service_client::OverviewServiceClient;

use crate::stage::{Agent, Stage, process_scenarios, script, stage};

process_scenarios!(
    the_overview_tells_who_waits_who_failed_and_who_is_done,
    a_watcher_sees_a_session_from_its_prompt_to_its_end,
    a_killed_agent_is_failed_with_its_signal,
);

mod once {
    crate::stage::scenarios_of!(
        scripted,
        Scripted,
        a_look_survives_a_killed_daemon_and_a_list_is_none,
        a_journal_is_read_backwards_and_by_its_tail
    );
    use super::{
        a_journal_is_read_backwards_and_by_its_tail, a_look_survives_a_killed_daemon_and_a_list_is_none,
    };
}

fn client(stage: &Stage) -> OverviewServiceClient<Channel> {
    OverviewServiceClient::new(stage.clients.channel.clone())
}

async fn list(stage: &Stage) -> Result<Vec<own::SessionOverview>> {
    Ok(client(stage).list(own::ListOverviewRequest::default()).await?.into_inner().sessions)
}

async fn one(stage: &Stage, id: &str) -> Result<own::SessionOverview> {
    let found = list(stage).await?.into_iter().find(|session| session.session_id == id);
    found.with_context(|| format!("{id} is not listed"))
}

async fn named(stage: &Stage, name: &str, message: &str) -> Result<String> {
    let mut request = stage.new_session();
    request.agent_name = name.into();
    let id = stage.create_as(request).await?.id;
    let prompt = own::PromptRequest { session_id: id.clone(), text: message.into(), ..Default::default() };
    stage.clients.turns.clone().prompt(prompt).await?;
    Ok(id)
}

async fn the_overview_tells_who_waits_who_failed_and_who_is_done(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let asks = json!([agent.asking("touch made"), {"text": "made it"}]);
    let first = named(&stage, "first", &script(agent, "first", &asks)).await?;
    stage.wait_for_request(&first).await?;
    let second = named(&stage, "second", &script(agent, "second", &asks)).await?;
    stage.wait_for_request(&second).await?;
    let done =
        named(&stage, "done", &script(agent, "done", &json!([{"text": "line one\nall is well"}]))).await?;
    stage.wait_for(&done, "turn_ended", |_| true).await?;
    stage.wait_for(&done, "status_changed", |event| event["from"] == "WORKING").await?;
    let idle = stage.create().await?;
    let sessions = list(&stage).await?;
    let order: Vec<&str> = sessions.iter().map(|session| session.session_id.as_str()).collect();
    assert_eq!(order, [&first, &second, &done, &idle], "needs come first, oldest first");
    let waits = &sessions[0];
    assert_eq!(waits.state(), own::SessionState::NeedsYou);
    assert_eq!(
        (waits.name.as_str(), waits.campaign.as_str(), waits.cause.as_str()),
        ("first", "demo", "permission")
    );
    assert!(waits.reason.contains("touch made"), "{waits:?}");
    assert_eq!(waits.requests.len(), 1);
    assert!(
        waits.requests[0].text.contains("touch made") && waits.requests[0].request_id == "req_1",
        "{waits:?}"
    );
    assert_eq!(waits.evidence.as_ref().and_then(|evidence| evidence.process_alive), Some(true), "{waits:?}");
    assert_eq!(waits.branch, "main");
    assert_eq!(waits.mode, "supervised");
    assert_eq!(waits.provider, agent.name());
    assert!(!waits.machine.is_empty() && waits.since.is_some());
    let finished = &sessions[2];
    assert_eq!((finished.state(), finished.last_line.as_str()), (own::SessionState::Done, "all is well"));
    assert!(!finished.seen);
    assert_eq!(finished.tokens.is_some(), agent.is_real(), "{finished:?}");
    assert_eq!(sessions[3].state(), own::SessionState::Idle);
    assert_eq!((sessions[3].tokens, sessions[3].cost_micro_usd), (None, None), "not reported is not 0");
    stage.decide(&first, "req_1", own::Decision::AllowOnce).await?;
    stage.wait_for(&first, "turn_ended", |_| true).await?;
    assert_ne!(one(&stage, &first).await?.state(), own::SessionState::NeedsYou);
    stage.close().await
}

async fn a_watcher_sees_a_session_from_its_prompt_to_its_end(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    let mut updates = client(&stage).watch(own::WatchOverviewRequest::default()).await?.into_inner();
    let first = wait_event(&mut updates, "a snapshot", |_| true).await?;
    assert!(first.snapshot);
    assert_eq!(first.sessions.len(), 1);
    assert_eq!(first.sessions[0].state(), own::SessionState::Idle);
    let asks = script(agent, "ask", &json!([agent.asking("touch made"), {"text": "made it"}]));
    let prompt = own::PromptRequest { session_id: id.clone(), text: asks, ..Default::default() };
    stage.clients.turns.clone().prompt(prompt).await?;
    let is = |wanted: own::SessionState| {
        move |update: &own::OverviewUpdate| {
            !update.snapshot && update.sessions.iter().any(|session| session.state() == wanted)
        }
    };
    wait_event(&mut updates, "needs you", is(own::SessionState::NeedsYou)).await?;
    stage.decide(&id, "req_1", own::Decision::AllowOnce).await?;
    wait_event(&mut updates, "done", is(own::SessionState::Done)).await?;
    stage.stop(&id, false).await?;
    wait_event(&mut updates, "removed", |update| update.removed.contains(&id)).await?;
    drop(updates);
    stage.close().await
}

async fn a_killed_agent_is_failed_with_its_signal(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = named(&stage, "victim", &script(agent, "long", &json!([agent.asking("touch made")]))).await?;
    stage.wait_for_request(&id).await?;
    let pid = stage.info(&id).await?.pid;
    e2e::processes::signal(pid, rustix::process::Signal::KILL);
    stage.wait_for_status(&id, "FAILED").await?;
    let failed = one(&stage, &id).await?;
    assert_eq!(
        (failed.state(), failed.cause.as_str()),
        (own::SessionState::Failed, "agent_died"),
        "{failed:?}"
    );
    assert!(failed.reason.contains("signal 9"), "{failed:?}");
    stage.close().await
}

async fn a_look_survives_a_killed_daemon_and_a_list_is_none(agent: Agent) -> Result<()> {
    let mut stage = stage!(agent);
    let id = named(&stage, "done", &script(agent, "done", &json!([{"text": "well"}]))).await?;
    stage.wait_for(&id, "status_changed", |event| event["from"] == "WORKING").await?;
    for _ in 0..3 {
        assert_eq!(one(&stage, &id).await?.state(), own::SessionState::Done, "a list is no look");
    }
    stage.daemon.kill9().await?;
    stage.daemon.restart().await?;
    stage.clients = stage.daemon.clients().await?;
    assert_eq!(one(&stage, &id).await?.state(), own::SessionState::Done);
    let newest = one(&stage, &id).await?.last_seq;
    let wrong = own::MarkSeenRequest { session_id: id.clone(), seq: newest + 1 };
    let status = refused(client(&stage).mark_seen(wrong).await, tonic::Code::InvalidArgument, "OBEY-1001")?;
    assert!(mentions(&status, "seq"), "{status:?}");
    let seen = own::MarkSeenRequest { session_id: id.clone(), seq: newest };
    let answer = client(&stage).mark_seen(seen).await?.into_inner().session.context("the session")?;
    assert_eq!(answer.state(), own::SessionState::Idle);
    stage.daemon.kill9().await?;
    stage.daemon.restart().await?;
    stage.clients = stage.daemon.clients().await?;
    let after = one(&stage, &id).await?;
    assert!(after.seen && after.state() == own::SessionState::Idle, "{after:?}");
    let prompt = script(agent, "fail", &json!([{"text": "a"}, {"error": "Invalid API key"}]));
    let prompt = own::PromptRequest { session_id: id.clone(), text: prompt, ..Default::default() };
    stage.clients.turns.clone().prompt(prompt).await?;
    stage.wait_for(&id, "turn_ended", |event| event["reason"] == "failed").await?;
    let failed = one(&stage, &id).await?;
    assert_eq!(failed.state(), own::SessionState::Failed);
    assert_eq!(failed.reason, "turn 2 failed: Invalid API key");
    stage.close().await
}

async fn a_journal_is_read_backwards_and_by_its_tail(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    stage.turn(&id, &script(agent, "hi", &json!([{"text": "one"}, {"text": "two"}]))).await?;
    let all = stage.journal(&id).await?;
    let newest = all.len() as u64;
    let read = async |request: own::ReadEventsRequest| -> Result<Vec<u64>> {
        let request = own::ReadEventsRequest { session_id: id.clone(), ..request };
        let events = collect(stage.clients.events.clone().read_events(request).await?.into_inner()).await?;
        Ok(events.iter().map(|event| event.seq).collect())
    };
    let page = own::ReadEventsRequest { before_seq: newest, limit: 3, ..Default::default() };
    assert_eq!(read(page).await?, [newest - 3, newest - 2, newest - 1]);
    let first = own::ReadEventsRequest { before_seq: 3, limit: 10, ..Default::default() };
    assert_eq!(read(first).await?, [1, 2]);
    let none = own::ReadEventsRequest { before_seq: 1, ..Default::default() };
    assert_eq!(read(none).await?, Vec::<u64>::new());
    let tail = own::ReadEventsRequest { tail: 2, ..Default::default() };
    assert_eq!(read(tail).await?, [newest - 1, newest]);
    let long = own::ReadEventsRequest { tail: 1_000_000, ..Default::default() };
    assert_eq!(read(long).await?, (1..=newest).collect::<Vec<_>>());
    let both = own::ReadEventsRequest { session_id: id.clone(), tail: 2, after_seq: 1, ..Default::default() };
    let answer = stage.clients.events.clone().read_events(both).await;
    let status = refused(answer, tonic::Code::InvalidArgument, "OBEY-1001")?;
    assert!(mentions(&status, "tail"), "{status:?}");
    stage.close().await
}
