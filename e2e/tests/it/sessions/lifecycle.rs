//! Life and death of sessions: interrupts, stops, restarts, crashes, and those who watch.

use anyhow::{Context, Result};
use e2e::clients::{collect, collect_all, mentions, refused, wait_event};
use e2e::model_server::Outcome;
use e2e::{deadline, processes};
use rustix::process::Signal;
use serde_json::json;
use tonic::{Code, Response};
use wire::obey::local::v1::{
    ActivityType, ListSessionsRequest, SessionStatus, WatchAllSessionsRequest, WatchSessionRequest,
};

use crate::stage::{Agent, Stage, contents, scenarios, script, stage};
use crate::suite::{judge, unsupported};

scenarios!(
    an_interrupt_ends_the_turn_and_the_next_one_works,
    an_interrupt_without_a_turn_changes_nothing,
    a_graceful_stop_lets_the_turn_end,
    a_forced_stop_cuts_the_turn,
    a_stopped_session_stays_stopped,
    a_restart_keeps_the_id_and_counts,
    a_crash_fails_the_turn_and_the_session,
    watchers_see_every_change_and_end_with_the_session,
);

/// Starts a turn that says something and then never ends by itself.
async fn stuck(
    stage: &Stage,
    id: &str,
) -> Result<tonic::Streaming<wire::obey::local::v1::SessionActivityEvent>> {
    let turn = stage.send(id, &script(stage.agent, "stuck", &json!([stage.agent.endless()]))).await?;
    stage.wait_for_text(id, "half a").await?;
    Ok(turn)
}

async fn an_interrupt_ends_the_turn_and_the_next_one_works(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    let turn = stuck(&stage, &id).await?;
    assert!(stage.cancel(&id).await?);
    let events = collect(turn).await?;
    let ended = stage.wait_for(&id, "turn_ended", |_| true).await?;
    assert_eq!(ended["reason"], "cancelled", "{events:#?}");
    if agent.hangs_up() {
        stage.world.model().wait_for_request(|request| request.outcome == Outcome::ClientGone).await?;
    }
    assert_eq!(stage.info(&id).await?.status(), SessionStatus::Running);
    let next = stage.turn(&id, &script(agent, "next", &json!([{"text": "still here"}]))).await?;
    assert_eq!(contents(&next, ActivityType::Completion), "still here");
    judge(&stage, &id, "interrupt_streaming").await?;
    stage.close().await
}

async fn an_interrupt_without_a_turn_changes_nothing(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    assert!(!stage.cancel(&id).await?);
    let next = stage.turn(&id, &script(agent, "next", &json!([{"text": "fine"}]))).await?;
    assert_eq!(contents(&next, ActivityType::Completion), "fine");
    stage.close().await
}

async fn a_graceful_stop_lets_the_turn_end(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    let gate = stage.world.path("gate");
    let steps = json!([[{"text": "before "}, {"wait_file": gate}, {"text": "after"}]]);
    let turn = stage.send(&id, &script(agent, "long", &steps)).await?;
    stage.wait_for_text(&id, "before").await?;
    let (stopped, events) = tokio::join!(stage.stop(&id, true), async {
        stage.wait_for_status(&id, "STOPPING").await?;
        stage.world.touch("gate")?;
        collect(turn).await
    });
    let stopped = stopped?;
    assert_eq!(stopped.status(), SessionStatus::Stopped);
    assert!(stopped.ended_at.is_some());
    let journal = stage.journal(&id).await?;
    assert!(journal.iter().any(|event| event.r#type == "turn_ended" && event.json.contains("completed")));
    assert!(contents(&events?, ActivityType::Completion).ends_with("after"));
    stage.close().await
}

async fn a_forced_stop_cuts_the_turn(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    let turn = stuck(&stage, &id).await?;
    let pid = stage.info(&id).await?.pid;
    let stopped = stage.stop(&id, false).await?;
    assert_eq!(stopped.status(), SessionStatus::Stopped);
    let (events, end) = collect_all(turn).await?;
    let end = end.with_context(|| format!("the stream ended as if all was well: {events:#?}"))?;
    assert_eq!(end.code(), Code::FailedPrecondition, "{end:?}");
    if pid > 0 {
        deadline::poll("the agent's end", || (!processes::alive(pid)).then_some(())).await?;
    }
    stage.close().await
}

async fn a_stopped_session_stays_stopped(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    stage.stop(&id, true).await?;
    let again = stage.stop(&id, true).await;
    refused(again.map(Response::new), Code::FailedPrecondition, "OBEY-2020")?;
    let prompt = stage.send(&id, "hello").await;
    refused(prompt.map(Response::new), Code::FailedPrecondition, "OBEY-2011")?;
    let list = |include_terminated| {
        let request = ListSessionsRequest { include_terminated, ..Default::default() };
        let mut local = stage.clients.local.clone();
        async move { local.list_sessions(request).await.map(|list| list.into_inner().sessions.len()) }
    };
    assert_eq!((list(false).await?, list(true).await?), (0, 1));
    assert!(!stage.journal(&id).await?.is_empty());
    stage.close().await
}

async fn a_restart_keeps_the_id_and_counts(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    stage.turn(&id, &script(agent, "one", &json!([{"text": "remember me"}]))).await?;
    stage.stop(&id, true).await?;
    agent.age(&stage.world)?;
    let restarted = stage.restart(&id).await?;
    assert_eq!((restarted.id.as_str(), restarted.restart_count), (id.as_str(), 1));
    assert_eq!(restarted.status(), SessionStatus::Running);
    assert!(restarted.ended_at.is_none(), "{restarted:?}");
    let events = stage.turn(&id, &script(agent, "two", &json!([{"text": "back"}]))).await?;
    assert_eq!(contents(&events, ActivityType::Completion), "back");
    if agent.is_real() {
        let history = agent.history(&stage.world.model().requests_for("two")[0].body);
        assert!(history.contains("remember me"), "the agent forgot: {history}");
    }
    // A running session is stopped first.
    let restarted = stage.restart(&id).await?;
    assert_eq!((restarted.restart_count, restarted.status()), (2, SessionStatus::Running));
    judge(&stage, &id, "resume").await?;
    stage.close().await
}

async fn a_crash_fails_the_turn_and_the_session(agent: Agent) -> Result<()> {
    if !agent.is_process() {
        // It dies with the daemon alone; see `openai`. A gateway that dies is in `real_openclaw`.
        return unsupported(agent, "crash");
    }
    let stage = stage!(agent);
    let id = stage.create().await?;
    let turn = match agent {
        Agent::Scripted => {
            stage.send(&id, &script(agent, "crash", &json!([{"text": "half a "}, {"crash": 3}]))).await?
        }
        _ => {
            let turn = stuck(&stage, &id).await?;
            processes::signal(stage.info(&id).await?.pid, Signal::KILL);
            turn
        }
    };
    let (events, end) = collect_all(turn).await?;
    let end = end.with_context(|| format!("the stream ended as if all was well: {events:#?}"))?;
    assert!(mentions(&end, "OBEY-2031"), "{end:?}");
    let failed = stage.wait_for_status(&id, "FAILED").await?;
    assert_eq!(failed["code"], "OBEY-2031", "{failed}");
    let info = stage.info(&id).await?;
    assert_eq!(info.status(), SessionStatus::Failed);
    assert!(info.error_message.contains("OBEY-2031"), "{info:?}");
    assert!(info.ended_at.is_some());
    let restarted = stage.restart(&id).await?;
    assert_eq!((restarted.restart_count, restarted.status()), (1, SessionStatus::Running));
    let events = stage.turn(&id, &script(agent, "after", &json!([{"text": "alive"}]))).await?;
    assert_eq!(contents(&events, ActivityType::Completion), "alive");
    judge(&stage, &id, "crash").await?;
    stage.close().await
}

async fn watchers_see_every_change_and_end_with_the_session(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let all = WatchAllSessionsRequest::default();
    let mut all = stage.clients.local.clone().watch_all_sessions(all).await?.into_inner();
    let id = stage.create().await?;
    let running =
        wait_event(&mut all, "RUNNING", |event| event.new_status() == SessionStatus::Running).await?;
    assert_eq!(
        (running.session_id.as_str(), running.previous_status()),
        (id.as_str(), SessionStatus::Starting)
    );
    let watch = WatchSessionRequest { session_id: id.clone() };
    let one = stage.clients.local.clone().watch_session(watch).await?.into_inner();
    stage.turn(&id, &script(agent, "one", &json!([{"text": "hi"}]))).await?;
    stage.stop(&id, true).await?;
    let seen = collect(one).await.context("the watch must end with the session")?;
    let last = seen.last().context("nothing was seen")?;
    assert_eq!(last.new_status(), SessionStatus::Stopped, "{seen:#?}");
    for pair in seen.windows(2) {
        assert_eq!(pair[0].new_status(), pair[1].previous_status(), "a change was missed: {seen:#?}");
    }
    assert!(seen.iter().any(|event| event.new_status() == SessionStatus::Working), "{seen:#?}");
    wait_event(&mut all, "STOPPED", |event| event.new_status() == SessionStatus::Stopped).await?;
    stage.close().await
}
