//! What clients get wrong, and what they are told.

use std::collections::HashMap;

use anyhow::{Context, Result};
use e2e::clients::refused;
use serde_json::json;
use tonic::Code;
use wire::betcode::v1 as pb;
use wire::betcode::v1::PermissionDecision as Decision;
use wire::betcode::v1::agent_event::Event as Body;
use wire::betcode::v1::agent_request::Request as Said;

use super::talk::{Talk, agents, new_start, text};
use crate::stage::{Agent, Stage, script, stage};

/// Opens a stream with these words and returns the error that ends it.
async fn fatal(stage: &Stage, first: Said) -> Result<pb::ErrorEvent> {
    let mut talk = Talk::raw(&mut agents(&stage.clients), vec![first]).await?;
    let error = talk.error().await?;
    assert!(error.is_fatal, "{error:?}");
    talk.rest().await.context("after a fatal error the stream ends, and well")?;
    Ok(error)
}

#[tokio::test]
async fn a_conversation_begins_with_a_start() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let message = pb::UserMessage { content: "hi".into(), ..Default::default() };
    let error = fatal(&stage, Said::Message(message)).await?;
    assert_eq!(error.code, "OBEY-1001");
    assert!(error.message.starts_with("start: "), "{error:?}");
    fatal(&stage, Said::Cancel(pb::CancelRequest::default())).await?;
    stage.close().await
}

#[tokio::test]
async fn a_start_that_cannot_be_is_fatal_and_names_its_field() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let metadata = |key: &str, value: &str| HashMap::from([(key.to_owned(), value.to_owned())]);
    let good = || new_start(&stage);
    let unknown = pb::StartConversation { session_id: "sess_x".into(), ..Default::default() };
    for (start, code, field) in [
        (unknown, "OBEY-2010", "session_id"),
        (
            pb::StartConversation { working_directory: "/nowhere/x".into(), ..good() },
            "OBEY-2005",
            "working_directory",
        ),
        (pb::StartConversation { working_directory: "x".into(), ..good() }, "OBEY-2005", "working_directory"),
        (pb::StartConversation { working_directory: "/".into(), ..good() }, "OBEY-2005", "working_directory"),
        (pb::StartConversation { model: "gpt-0".into(), ..good() }, "OBEY-2003", "model"),
        (
            pb::StartConversation { allowed_tools: vec!["Bash(".into()], ..good() },
            "OBEY-1001",
            "allowed_tools",
        ),
        (pb::StartConversation { worktree_id: "wt_x".into(), ..good() }, "OBEY-2040", "worktree_id"),
        (
            pb::StartConversation { metadata: metadata("provider", "hal"), ..good() },
            "OBEY-2002",
            "metadata.provider",
        ),
        (
            pb::StartConversation { metadata: metadata("from_sequence", "x"), ..good() },
            "OBEY-1001",
            "metadata.from_sequence",
        ),
    ] {
        let error = fatal(&stage, Said::Start(start)).await?;
        assert_eq!(error.code, code, "{error:?}");
        assert!(error.message.starts_with(&format!("{field}: ")), "{error:?}");
    }
    stage.close().await
}

#[tokio::test]
async fn what_is_wrong_within_a_conversation_is_said_inline() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut talk = Talk::new(&stage).await?;
    let decide = |id: &str| {
        Said::Permission(pb::PermissionResponse {
            request_id: id.into(),
            decision: Decision::AllowOnce.into(),
            ..Default::default()
        })
    };
    let answer = |id: &str| {
        Said::QuestionResponse(pb::UserQuestionResponse {
            question_id: id.into(),
            answers: HashMap::from([("x".to_owned(), "y".to_owned())]),
        })
    };
    let message = |content: &str| pb::UserMessage { content: content.into(), ..Default::default() };
    let garbage =
        prost_types::Struct { fields: [("x".to_owned(), prost_types::Value { kind: None })].into() };
    let garbage = pb::PermissionResponse {
        request_id: "req_1".into(),
        decision: Decision::AllowWithEdit.into(),
        updated_input: Some(garbage),
        ..Default::default()
    };
    let elsewhere = pb::UserMessage { agent_id: "other".into(), ..message("hi") };
    for (said, code, what) in [
        (Said::Start(new_start(&stage)), "OBEY-1001", "start: was sent already"),
        (Said::Message(message(" ")), "OBEY-1001", "message.content: is required"),
        (Said::Message(elsewhere), "OBEY-1001", "message.agent_id: "),
        (decide("req_9"), "OBEY-2015", "has no request req_9"),
        (decide("nonsense"), "OBEY-1001", "permission.request_id: "),
        (answer("req_9"), "OBEY-2015", "has no request req_9"),
        (Said::Permission(garbage), "OBEY-1001", "permission.updated_input.x: has no value"),
    ] {
        talk.say(said).await?;
        let error = talk.error().await?;
        assert!(error.code == code && error.message.contains(what) && !error.is_fatal, "{what}: {error:?}");
    }
    // Cancelling nothing is nothing.
    talk.say(Said::Cancel(pb::CancelRequest::default())).await?;
    talk.prompt(&script(Agent::Scripted, "go", &json!([{"text": "all is well"}]))).await?;
    assert_eq!(text(&talk.turn().await?), "all is well");
    stage.close().await
}

#[tokio::test]
async fn large_files_are_refused_with_their_limit() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut talk = Talk::new(&stage).await?;
    let file = |bytes: usize| pb::UserMessage {
        content: "look".into(),
        attachments: vec![pb::Attachment {
            filename: "a.bin".into(),
            mime_type: "application/octet-stream".into(),
            data: vec![7; bytes],
        }],
        ..Default::default()
    };
    talk.say(Said::Message(file((10 << 20) + 1))).await?;
    let error = talk.error().await?;
    assert_eq!((error.code.as_str(), error.is_fatal), ("OBEY-1003", false));
    assert!(error.message.contains("the limit is 10485760"), "{error:?}");
    // What cannot even be read ends the stream, with the limit as well.
    talk.say(Said::Message(file(40 << 20))).await?;
    let error = talk.error().await?;
    assert!(error.is_fatal && error.message.contains("33554432"), "{error:?}");
    talk.rest().await?;
    stage.close().await
}

#[tokio::test]
async fn calls_about_sessions_that_are_not_there_are_refused() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut agents = agents(&stage.clients);
    let session_id = || "sess_x".to_owned();
    let code = (Code::NotFound, "OBEY-2010");
    refused(agents.cancel_turn(pb::CancelTurnRequest { session_id: session_id() }).await, code.0, code.1)?;
    refused(
        agents.compact_session(pb::CompactSessionRequest { session_id: session_id() }).await,
        code.0,
        code.1,
    )?;
    refused(
        agents.request_input_lock(pb::InputLockRequest { session_id: session_id() }).await,
        code.0,
        code.1,
    )?;
    refused(
        agents.delete_session(pb::DeleteSessionRequest { session_id: session_id() }).await,
        code.0,
        code.1,
    )?;
    let rename = pb::RenameSessionRequest { session_id: session_id(), name: "x".into() };
    refused(agents.rename_session(rename).await, code.0, code.1)?;
    let resume = pb::ResumeSessionRequest { session_id: session_id(), from_sequence: 0 };
    assert_eq!(agents.resume_session(resume).await.unwrap_err().code(), Code::NotFound);
    let nobody = pb::CancelTurnRequest::default();
    refused(agents.cancel_turn(nobody).await, Code::InvalidArgument, "OBEY-1001")?;
    stage.close().await
}

#[tokio::test]
async fn an_agent_that_dies_is_said_and_the_next_message_brings_it_back() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut talk = Talk::new(&stage).await?;
    talk.prompt(&script(Agent::Scripted, "die", &json!([{"text": "alas"}, {"crash": 3}]))).await?;
    let turn = talk.turn().await?;
    assert_eq!(super::talk::stop_reason(&turn), "interrupted");
    let error = talk.until("why", |body| matches!(body, Body::Error(_))).await?;
    let Some(Body::Error(why)) = error.event else { unreachable!() };
    assert!(error.sequence > 0 && why.code == "OBEY-2031" && !why.is_fatal, "{why:?}");
    talk.prompt(&script(Agent::Scripted, "again", &json!([{"text": "back again"}]))).await?;
    assert_eq!(text(&talk.turn().await?), "back again");
    stage.close().await
}

#[tokio::test]
async fn a_turn_that_fails_says_why_before_it_ends() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut talk = Talk::new(&stage).await?;
    talk.prompt(&script(Agent::Scripted, "fail", &json!([{"error": "out of luck"}]))).await?;
    assert!(talk.error().await?.message.contains("out of luck"));
    assert_eq!(super::talk::stop_reason(&talk.turn().await?), "error");
    stage.close().await
}
