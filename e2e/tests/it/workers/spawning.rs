//! Single workers: what they may do, how they are watched, told and ended.

use anyhow::{Context, Result};
use e2e::clients::refused;
use e2e::deadline::within;
use serde_json::json;
use tonic::Code;
use wire::betcode::v1 as pb;
use wire::betcode::v1::SubagentStatus as Status;
use wire::betcode::v1::agent_request::Request as Said;
use wire::betcode::v1::subagent_event::Event as Body;
use wire::obey::v1 as own;

use super::{kind, listed, scripted, spawn, spawned, subagents, until, waits_for, watched};
use crate::betcode::talk::Talk;
use crate::stage::{Agent, stage};

#[tokio::test]
async fn a_worker_is_watched_from_any_number_and_its_parent_is_told() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let parent = stage.create().await?;
    let steps = json!([{"tool": "Read", "input": {}, "result": "x"}, {"text": "all is well"}]);
    let request = pb::SpawnSubagentRequest { name: "reader".into(), ..spawn(&parent, &steps) };
    let id = spawned(&stage, request).await?;
    let all = watched(&stage, &id, 0).await?;
    let kinds: Vec<&str> = all.iter().map(kind).collect();
    assert_eq!((kinds[0], kinds[kinds.len() - 1]), ("started", "completed"), "{kinds:?}");
    assert!(kinds.contains(&"tool_use") && kinds.contains(&"output"), "{kinds:?}");
    assert!(all.windows(2).all(|pair| pair[0].sequence < pair[1].sequence), "{all:#?}");
    let rest = watched(&stage, &id, all[1].sequence).await?;
    assert_eq!(rest, all[2..], "a later watcher sees the same");
    let Some(Body::Completed(end)) = all.last().and_then(|event| event.event.clone()) else {
        panic!("{all:#?}")
    };
    assert_eq!((end.exit_code, end.result_summary.as_str()), (0, "all is well"));

    stage.wait_for(&parent, "worker_started", |event| event["title"] == "reader").await?;
    let finished = stage.wait_for(&parent, "worker_finished", |event| event["worker"] == id.as_str()).await?;
    assert_eq!((&finished["ok"], &finished["summary"]), (&json!(true), &json!("all is well")));
    let info = poll_ended(&stage, &parent, &id).await?;
    assert_eq!((info.status(), info.result_summary.as_str()), (Status::Completed, "all is well"));
    assert_eq!((info.name.as_str(), info.provider.as_str(), info.max_turns), ("reader", "scripted", 50));
    assert!(info.created_at.is_some() && info.completed_at.is_some());
    assert_eq!(info.working_directory, stage.world.project().canonicalize()?.display().to_string());

    // It has ended: what is sent now reaches nobody, and a cancel changes nothing.
    let late = pb::SendToSubagentRequest { subagent_id: id.clone(), content: "more".into() };
    refused(subagents(&stage).send_to_subagent(late).await, Code::FailedPrecondition, "OBEY-2011")?;
    let cancel = pb::CancelSubagentRequest { subagent_id: id.clone(), ..Default::default() };
    let answer = subagents(&stage).cancel_subagent(cancel).await?.into_inner();
    assert_eq!((answer.cancelled, answer.final_status()), (false, Status::Completed));
    assert_eq!(answer.tool_calls_executed, 1);
    bad_requests(&stage, &parent).await?;
    stage.close().await
}

async fn poll_ended(stage: &crate::stage::Stage, parent: &str, id: &str) -> Result<pb::SubagentInfo> {
    within("the end on record", async {
        loop {
            let all = listed(stage, parent).await?;
            let info = all.into_iter().find(|info| info.id == id).context("the worker is not listed")?;
            if info.completed_at.is_some() {
                return Ok(info);
            }
            tokio::task::yield_now().await;
        }
    })
    .await?
}

async fn bad_requests(stage: &crate::stage::Stage, parent: &str) -> Result<()> {
    let good = spawn(parent, &json!([{"text": "x"}]));
    let env = |name: &str| [(name.to_owned(), "x".to_owned())].into_iter().collect();
    let cases = [
        (pb::SpawnSubagentRequest { prompt: " ".into(), ..good.clone() }, Code::InvalidArgument, "prompt: "),
        (
            pb::SpawnSubagentRequest { parent_session_id: String::new(), ..good.clone() },
            Code::InvalidArgument,
            "parent_session_id: ",
        ),
        (
            pb::SpawnSubagentRequest { parent_session_id: "sess_none".into(), ..good.clone() },
            Code::NotFound,
            "parent_session_id: ",
        ),
        (
            pb::SpawnSubagentRequest { auto_approve: true, ..good.clone() },
            Code::InvalidArgument,
            "allowed_tools: ",
        ),
        (pb::SpawnSubagentRequest { max_turns: 201, ..good.clone() }, Code::InvalidArgument, "max_turns: "),
        (pb::SpawnSubagentRequest { max_turns: -1, ..good.clone() }, Code::InvalidArgument, "max_turns: "),
        (pb::SpawnSubagentRequest { env: env("LD_PRELOAD"), ..good.clone() }, Code::InvalidArgument, "env: "),
        (
            pb::SpawnSubagentRequest { env: env("ANTHROPIC_API_KEY"), ..good.clone() },
            Code::InvalidArgument,
            "env: ",
        ),
        (
            pb::SpawnSubagentRequest { provider: "nobody".into(), ..good.clone() },
            Code::InvalidArgument,
            "provider: ",
        ),
        (
            pb::SpawnSubagentRequest { working_directory: "/no/such".into(), ..good.clone() },
            Code::InvalidArgument,
            "working_directory: ",
        ),
    ];
    for (request, code, field) in cases {
        let status = subagents(stage).spawn_subagent(request).await.err().context(field)?;
        assert!(status.code() == code && status.message().contains(field), "{field} {status:?}");
    }
    let unknown = pb::WatchSubagentRequest { subagent_id: parent.into(), from_sequence: 0 };
    refused(subagents(stage).watch_subagent(unknown).await, Code::NotFound, "OBEY-2010")?;
    Ok(())
}

#[tokio::test]
async fn a_workers_calls_are_approved_as_far_as_its_user_said() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let parent = stage.create().await?;
    let call =
        |command: &str| json!({"tool": "Bash", "input": {"command": command}, "ask": true, "result": "ok"});
    // Without a word of the user a call is asked about, and its parent says so.
    let asking = spawned(&stage, spawn(&parent, &json!([call("make"), {"text": "asked"}]))).await?;
    let asked =
        until(&stage, &asking, "a request", |body| matches!(body, Body::PermissionRequest(_))).await?;
    let Some(Body::PermissionRequest(request)) = asked.event else { unreachable!() };
    assert_eq!(request.tool_name, "Bash");
    stage
        .wait_for(&parent, "worker_progressed", |event| {
            event["summary"].as_str().is_some_and(|text| text.contains("asks"))
        })
        .await?;
    stage.decide(&asking, &request.request_id, own::Decision::AllowOnce).await?;
    assert_eq!(watched(&stage, &asking, 0).await?.last().map(kind), Some("completed"));

    // With it, what it covers is not; the rest is. Revoked, nothing is.
    let steps = json!([
        call("make all"), call("make test"), waits_for(&stage, "revoked"), call("make clean"), {"text": "made"},
    ]);
    let request = pb::SpawnSubagentRequest {
        allowed_tools: vec!["Bash(make *)".into()],
        auto_approve: true,
        ..spawn(&parent, &steps)
    };
    let id = spawned(&stage, request).await?;
    let mut finished = 0;
    stage
        .wait_for(&id, "tool_finished", |_| {
            finished += 1;
            finished == 2
        })
        .await?;
    let revoke = pb::RevokeAutoApproveRequest { subagent_id: id.clone(), ..Default::default() };
    let answer = subagents(&stage).revoke_auto_approve(revoke.clone()).await?.into_inner();
    assert_eq!(
        (answer.revoked, answer.pending_tool_calls, answer.subagent_status()),
        (true, 0, Status::Running)
    );
    stage.world.touch("revoked")?;
    until(&stage, &id, "a request", |body| matches!(body, Body::PermissionRequest(_))).await?;
    let answer = subagents(&stage).revoke_auto_approve(revoke.clone()).await?.into_inner();
    assert_eq!((answer.revoked, answer.pending_tool_calls), (false, 1), "it was revoked before");
    let ends = pb::RevokeAutoApproveRequest { terminate_if_pending: true, reason: "enough".into(), ..revoke };
    let answer = subagents(&stage).revoke_auto_approve(ends).await?.into_inner();
    assert_eq!(answer.subagent_status(), Status::Cancelled);
    let all = watched(&stage, &id, 0).await?;
    let Some(Body::Cancelled(end)) = all.last().and_then(|event| event.event.clone()) else {
        panic!("{all:#?}")
    };
    assert_eq!(end.reason, "enough");
    let cancel = pb::CancelSubagentRequest { subagent_id: id, ..Default::default() };
    let answer = subagents(&stage).cancel_subagent(cancel).await?.into_inner();
    assert_eq!((answer.cancelled, answer.tool_calls_auto_approved), (true, 2));
    stage.close().await
}

#[tokio::test]
async fn workers_are_told_and_cancelled_and_end_with_their_parent() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let talk = Talk::new(&stage).await?;
    talk.prompt(&scripted(&json!([{"text": "here"}]))).await?;
    let parent = talk.session().to_owned();
    let waiting = |name: &str| json!([waits_for(&stage, name), {"text": "waited"}]);
    let told = spawned(&stage, spawn(&parent, &waiting("told"))).await?;
    // A message that comes while its agent starts becomes part of the prompt, which is a script here.
    stage.wait_for_status(&told, "WORKING").await?;
    let message = pb::SendToSubagentRequest { subagent_id: told.clone(), content: "and this".into() };
    assert!(subagents(&stage).send_to_subagent(message).await?.into_inner().delivered);
    stage.wait_for(&told, "message_added", |event| event["text"] == "and this").await?;
    // The same from the parent's conversation.
    let addressed = |agent: &str| {
        Said::Message(pb::UserMessage {
            content: "over here".into(),
            agent_id: agent.into(),
            ..Default::default()
        })
    };
    talk.say(addressed(&told)).await?;
    stage.wait_for(&told, "message_added", |event| event["text"] == "over here").await?;
    stage.world.touch("told")?;
    assert_eq!(watched(&stage, &told, 0).await?.last().map(kind), Some("completed"));

    let other = spawned(&stage, spawn(&parent, &waiting("never"))).await?;
    stage.wait_for(&other, "turn_started", |_| true).await?;
    let cancel = pb::CancelSubagentRequest {
        subagent_id: other.clone(),
        reason: "no need".into(),
        ..Default::default()
    };
    for _ in 0..2 {
        let answer = subagents(&stage).cancel_subagent(cancel.clone()).await?.into_inner();
        assert_eq!(
            (answer.cancelled, answer.final_status()),
            (true, Status::Cancelled),
            "it is the same twice"
        );
    }
    let third = spawned(&stage, spawn(&parent, &waiting("never"))).await?;
    stage.wait_for(&third, "turn_started", |_| true).await?;
    stage.cli().ok(&["session", "stop", &parent]).await?;
    let end = watched(&stage, &third, 0).await?;
    let Some(Body::Cancelled(reason)) = end.last().and_then(|event| event.event.clone()) else {
        panic!("{end:#?}")
    };
    assert!(reason.reason.contains("parent"), "{reason:?}");
    stage.close().await
}

#[tokio::test]
async fn what_workers_spend_ends_their_parents_budget() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut new = stage.new_session();
    new.max_tokens = 1_000;
    let parent = stage.create_as(new).await?.id;
    let spends = |tokens: u64, file: &str| json!([{"usage": {"input_tokens": tokens}}, waits_for(&stage, file), {"text": "spent"}]);
    let first = spawned(&stage, spawn(&parent, &spends(600, "first"))).await?;
    stage.wait_for(&parent, "worker_progressed", |event| event["spent"]["tokens"] == 600).await?;
    let second = spawned(&stage, spawn(&parent, &spends(300, "second"))).await?;
    let budget = stage.wait_for(&second, "budget_changed", |_| true).await?;
    assert_eq!(budget["budget"]["tokens"], 400, "a worker gets no more than what is left");
    stage.wait_for(&parent, "worker_progressed", |event| event["spent"]["tokens"] == 300).await?;
    let third = spawned(&stage, spawn(&parent, &spends(100, "third"))).await?;
    for id in [&first, &second, &third] {
        assert_ne!(watched(&stage, id, 0).await?.last().map(kind), Some("completed"), "{id}");
    }
    let more = subagents(&stage).spawn_subagent(spawn(&parent, &json!([{"text": "x"}]))).await;
    refused(more, Code::ResourceExhausted, "OBEY-2013").map(drop)?;
    stage.close().await
}

#[tokio::test]
async fn workers_go_on_when_the_daemon_is_killed() -> Result<()> {
    let mut stage = stage!(Agent::Scripted);
    let parent = stage.create().await?;
    let steps = json!([waits_for(&stage, "go"), {"text": "survived"}]);
    let id = spawned(&stage, spawn(&parent, &steps)).await?;
    stage.wait_for(&id, "turn_started", |_| true).await?;
    stage.daemon.kill9().await?;
    stage.daemon.restart().await?;
    stage.clients = stage.daemon.clients().await?;
    stage.world.touch("go")?;
    let all = watched(&stage, &id, 0).await?;
    assert_eq!(all.iter().filter(|event| kind(event) == "started").count(), 1);
    assert_eq!(all.last().map(kind), Some("completed"), "{all:#?}");
    stage.wait_for(&parent, "worker_finished", |event| event["ok"] == true).await?;
    stage.close().await
}
