//! Fork, rename, archive and remove, and names that are unique among living sessions.

use anyhow::{Result, ensure};
use serde_json::json;
use tonic::Code;
use tonic::transport::Channel;
use wire::obey::local::v1 as local;
use wire::obey::v1 as own;
use wire::obey::v1::session_service_client::SessionServiceClient;

use super::{kill_and_restart, session, wait_for_turns};
use crate::stage::{Agent, Stage, fields, script, stage};
use e2e::clients::refused;

fn operations(stage: &Stage) -> SessionServiceClient<Channel> {
    SessionServiceClient::new(stage.clients.channel.clone())
}

async fn fork(stage: &Stage, id: &str, seq: u64) -> Result<own::ForkSessionResponse> {
    let request = own::ForkSessionRequest { session_id: id.to_owned(), seq, ..Default::default() };
    Ok(operations(stage).fork(request).await?.into_inner())
}

#[tokio::test]
async fn names_are_unique_among_living_sessions() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let named = |name: &str| local::CreateSessionRequest { agent_name: name.into(), ..stage.new_session() };
    let first = stage.create_as(named("fixer")).await?;
    let taken = stage.clients.local.clone().create_session(named("fixer")).await;
    let status = refused(taken, Code::InvalidArgument, "OBEY-1001")?;
    ensure!(status.message().contains(&first.id) && status.message().contains("fixer-2"), "{status:?}");
    let other = stage.create_as(named("other")).await?;
    let cli = stage.cli();
    let refused = cli.run(&["rename", "other", "fixer"]).await?;
    ensure!(refused.code == Some(2) || refused.stderr.contains("fixer-2"), "{refused:?}");
    cli.ok(&["rename", "other", "helper"]).await?;
    assert_eq!(stage.info(&other.id).await?.agent_name, "helper");
    stage.stop(&first.id, false).await?;
    let second = stage.create_as(named("fixer")).await?;
    assert_eq!(second.agent_name, "fixer");
    stage.stop(&second.id, false).await?;
    // Two have ended under this name: the last one is meant.
    let shown = cli.json(&["session", "info", "fixer"]).await?;
    ensure!(shown.to_string().contains(&second.id), "{shown}");
    stage.close().await
}

#[tokio::test]
async fn a_removed_session_is_gone_with_its_journal_and_a_living_one_is_refused() -> Result<()> {
    let mut stage = stage!(Agent::Scripted);
    let id = session(&stage).await?;
    stage.turn(&id, "hello").await?;
    let request = own::RemoveSessionRequest { session_id: id.clone() };
    refused(operations(&stage).remove(request.clone()).await, Code::FailedPrecondition, "OBEY-2011")?;
    stage.stop(&id, false).await?;
    stage.cli().ok(&["rm", &id]).await?;
    kill_and_restart(&mut stage).await?;
    refused(operations(&stage).remove(request).await, Code::NotFound, "OBEY-2010")?;
    ensure!(stage.journal(&id).await.is_err());
    let living = session(&stage).await?;
    stage.cli().ok(&["rm", "--force", &living]).await?;
    ensure!(stage.info(&living).await.is_err());
    stage.close().await
}

#[tokio::test]
async fn an_archived_session_is_hidden_from_lists_and_lives_on() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let id = session(&stage).await?;
    stage.cli().ok(&["session", "archive", &id]).await?;
    let list = |all: bool| local::ListSessionsRequest { include_terminated: all, ..Default::default() };
    let mut client = stage.clients.local.clone();
    ensure!(client.list_sessions(list(false)).await?.into_inner().sessions.is_empty());
    assert_eq!(client.list_sessions(list(true)).await?.into_inner().sessions.len(), 1);
    stage.turn(&id, "still there").await?;
    stage.cli().ok(&["session", "archive", "--undo", &id]).await?;
    assert_eq!(client.list_sessions(list(false)).await?.into_inner().sessions.len(), 1);
    stage.close().await
}

#[tokio::test]
async fn a_fork_has_the_history_up_to_an_event_and_goes_its_own_way() -> Result<()> {
    let mut stage = stage!(Agent::Scripted);
    let id = session(&stage).await?;
    stage.turn(&id, "one").await?;
    stage.turn(&id, "two").await?;
    let journal = stage.journal(&id).await?;
    let end_of_one = journal.iter().find(|event| event.r#type == "turn_ended").map_or(0, |event| event.seq);
    let forked = fork(&stage, &id, end_of_one).await?;
    assert_eq!(forked.seq, end_of_one);
    ensure!(!forked.resumes && forked.name.ends_with("-fork"), "{forked:?}");
    kill_and_restart(&mut stage).await?;
    let copied = stage.journal(&forked.session_id).await?;
    let length = usize::try_from(end_of_one)?;
    let bodies =
        |events: &[own::Event]| events.iter().take(length).map(|e| e.json.clone()).collect::<Vec<_>>();
    assert_eq!(bodies(&copied), bodies(&journal));
    ensure!(copied.iter().enumerate().all(|(index, event)| event.seq == index as u64 + 1));
    ensure!(copied[length..].iter().any(|event| event.r#type == "session_forked"));
    stage.turn(&forked.session_id, "three").await?;
    wait_for_turns(&stage, &forked.session_id, 2).await?;
    assert_eq!(stage.journal(&id).await?.len(), journal.len(), "the other session is as it was");
    let beyond = own::ForkSessionRequest { session_id: id.clone(), seq: 100_000, ..Default::default() };
    let status = refused(operations(&stage).fork(beyond).await, Code::InvalidArgument, "OBEY-1001")?;
    ensure!(status.message().contains("seq"), "{status:?}");
    stage.close().await
}

#[tokio::test]
async fn a_fork_of_claude_code_resumes_its_conversation_or_is_told_it() -> Result<()> {
    let stage = stage!(Agent::Claude);
    let id = stage.create().await?;
    stage.turn(&id, &script(Agent::Claude, "alpha", &json!([{"text": "the word is plum"}]))).await?;
    stage.turn(&id, &script(Agent::Claude, "beta", &json!([{"text": "the word is pear"}]))).await?;
    let journal = stage.journal(&id).await?;
    let end_of_one = journal.iter().find(|event| event.r#type == "turn_ended").map_or(0, |event| event.seq);

    let whole = fork(&stage, &id, 0).await?;
    ensure!(whole.resumes, "{whole:?}");
    stage.turn(&whole.session_id, &script(Agent::Claude, "gamma", &json!([{"text": "done"}]))).await?;
    let asked = stage.world.model().requests_for("gamma");
    let sent = format!("{asked:?}");
    ensure!(sent.contains("the word is plum") && sent.contains("the word is pear"), "{sent}");
    ensure!(!sent.contains("<history>"), "the conversation was resumed, not told");

    let part = fork(&stage, &id, end_of_one).await?;
    ensure!(!part.resumes, "{part:?}");
    stage.turn(&part.session_id, &script(Agent::Claude, "delta", &json!([{"text": "done"}]))).await?;
    // The history carries the script of the first prompt, by which the model files the request.
    let told = stage.world.model().requests().into_iter().map(|request| format!("{request:?}"));
    let told: Vec<String> =
        told.filter(|sent| sent.contains("<history>") && sent.contains("delta")).collect();
    ensure!(!told.is_empty(), "the history was not told");
    ensure!(told.iter().all(|sent| sent.contains("the word is plum") && !sent.contains("the word is pear")));

    // The first session goes on with its own conversation.
    stage.turn(&id, &script(Agent::Claude, "epsilon", &json!([{"text": "done"}]))).await?;
    let sent = format!("{:?}", stage.world.model().requests_for("epsilon"));
    ensure!(sent.contains("the word is pear") && !sent.contains("gamma"), "{sent}");
    let forked = stage.journal(&whole.session_id).await?;
    let ready =
        forked.iter().rev().find(|event| event.r#type == "agent_ready").map(fields).unwrap_or_default();
    let own = stage.journal(&id).await?;
    let first = own.iter().find(|event| event.r#type == "agent_ready").map(fields).unwrap_or_default();
    ensure!(ready["native_session"] != first["native_session"], "a fork has a conversation of its own");
    stage.close().await
}
