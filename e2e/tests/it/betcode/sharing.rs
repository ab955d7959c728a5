//! Several clients at one session: all of them hear everything, one of them may speak.

use std::collections::HashMap;

use anyhow::{Result, bail};
use serde_json::json;
use wire::betcode::v1 as pb;
use wire::betcode::v1::PermissionDecision as Decision;
use wire::betcode::v1::agent_event::Event as Body;

use super::talk::{Talk, again, agents, numbered, text};
use crate::stage::{Agent, process_scenarios, script, stage};

process_scenarios!(two_clients_hear_the_same_and_one_speaks);
crate::stage::scenarios_of!(openai, Openai, two_clients_hear_the_same_and_one_speaks);

fn named(session: &str, client: &str) -> pb::StartConversation {
    let metadata = HashMap::from([("client_id".to_owned(), client.to_owned())]);
    pb::StartConversation { session_id: session.into(), metadata, ..Default::default() }
}

fn is_held_by(body: &Body, holder: &str) -> bool {
    matches!(body, Body::StatusChange(change) if change.message == format!("input is held by {holder}"))
}

async fn two_clients_hear_the_same_and_one_speaks(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let other = stage.daemon.clients().await?;
    let mut first = Talk::new(&stage).await?;
    let session = first.session().to_owned();
    let mut second = Talk::start(&other, again(&session, 0)).await?;
    second.prompt("let me").await?;
    let refused = second.error().await?;
    assert_eq!((refused.code.as_str(), refused.is_fatal), ("OBEY-1002", false), "{refused:?}");
    assert!(refused.message.contains("RequestInputLock"), "{refused:?}");

    first.prompt(&script(agent, "ask", &json!([agent.asking("touch made"), {"text": "made it"}]))).await?;
    let asked = second.permission().await?;
    assert_eq!(asked, first.permission().await?);
    // Answers are everybody's; only messages need the input.
    second.decide(&asked.request_id, Decision::AllowOnce).await?;
    assert_eq!(text(&first.turn().await?), "made it");
    assert_eq!(text(&second.turn().await?), "made it");

    let taken =
        agents(&other).request_input_lock(pb::InputLockRequest { session_id: session.clone() }).await?;
    let taken = taken.into_inner();
    assert!(taken.granted && taken.previous_holder.starts_with("client-"), "{taken:?}");
    second.prompt(&script(agent, "mine", &json!([{"text": "now mine"}]))).await?;
    assert_eq!(text(&second.turn().await?), "now mine");
    assert_eq!(text(&first.turn().await?), "now mine");
    first.prompt("and I").await?;
    assert_eq!(first.error().await?.code, "OBEY-1002");
    // Who leaves hands the input on.
    let heard = numbered(&second.heard);
    drop(second);
    let back = taken.previous_holder;
    first.until("the input", |body| is_held_by(body, &back)).await?;
    first.prompt(&script(agent, "again", &json!([{"text": "mine again"}]))).await?;
    assert_eq!(text(&first.turn().await?), "mine again");
    let all = numbered(&first.heard);
    assert_eq!(heard, all[..heard.len()], "both heard the same");
    stage.close().await
}

#[tokio::test]
async fn two_streams_of_one_connection_are_two_clients() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let first = Talk::new(&stage).await?;
    let session = first.session().to_owned();
    let mut second = Talk::start(&stage.clients, again(&session, 0)).await?;
    second.prompt("let me").await?;
    assert_eq!(second.error().await?.code, "OBEY-1002");
    let taken =
        agents(&stage.clients).request_input_lock(pb::InputLockRequest { session_id: session }).await?;
    assert!(taken.into_inner().granted);
    second.prompt(&script(Agent::Scripted, "go", &json!([{"text": "mine"}]))).await?;
    assert_eq!(text(&second.turn().await?), "mine");
    stage.close().await
}

#[tokio::test]
async fn who_is_not_there_cannot_take_the_input() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut talk = Talk::new(&stage).await?;
    let request = pb::InputLockRequest { session_id: talk.session().into() };
    let answer = agents(&stage.daemon.clients().await?).request_input_lock(request).await?.into_inner();
    assert!(!answer.granted, "{answer:?}");
    talk.prompt(&script(Agent::Scripted, "go", &json!([{"text": "still mine"}]))).await?;
    assert_eq!(text(&talk.turn().await?), "still mine");
    stage.close().await
}

#[tokio::test]
async fn a_client_with_a_name_is_known_by_it_everywhere() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let other = stage.daemon.clients().await?;
    let talk = Talk::new(&stage).await?;
    let session = talk.session().to_owned();
    let mut phone = Talk::start(&other, named(&session, "phone")).await?;
    // From a third connection, in the phone's name.
    let mut request = tonic::Request::new(pb::InputLockRequest { session_id: session.clone() });
    request.metadata_mut().insert("x-client-id", "phone".parse()?);
    agents(&stage.daemon.clients().await?).request_input_lock(request).await?;
    phone.until("the input", |body| is_held_by(body, "phone")).await?;
    phone.prompt(&script(Agent::Scripted, "go", &json!([{"text": "from afar"}]))).await?;
    assert_eq!(text(&phone.turn().await?), "from afar");
    let turn = stage.wait_for(&session, "turn_started", |_| true).await?;
    assert_eq!(turn["by"], "phone");
    drop(talk);
    stage.close().await
}

#[tokio::test]
async fn the_first_client_holds_the_input_of_an_old_session() -> Result<()> {
    let mut stage = stage!(Agent::Scripted);
    let mut talk = Talk::new(&stage).await?;
    talk.prompt(&script(Agent::Scripted, "go", &json!([{"text": "one"}]))).await?;
    talk.turn().await?;
    let session = talk.session().to_owned();
    stage.daemon.kill9().await?;
    stage.daemon.restart().await?;
    stage.clients = stage.daemon.clients().await?;
    let Ok(mut back) = Talk::start(&stage.clients, named(&session, "late")).await else { bail!("no talk") };
    back.prompt(&script(Agent::Scripted, "go", &json!([{"text": "two"}]))).await?;
    back.until("the second turn", |body| matches!(body, Body::TextDelta(delta) if delta.text == "two"))
        .await?;
    stage.close().await
}
