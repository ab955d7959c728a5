//! What a client may get wrong: each has its published code, and only a start that cannot be ends the stream.

use anyhow::{Context, Result};
use prost_types::value::Kind;
use prost_types::{Struct, Value};
use serde_json::json;
use wire::roz::v1 as pb;
use wire::roz::v1::content_block::Block;
use wire::roz::v1::session_request::Request as Said;
use wire::roz::v1::session_response::Response as Body;

use super::talk::{Talk, environment, pure, start, text};
use crate::stage::{Agent, script, stage};

/// No such thing was ever made.
const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

#[tokio::test]
async fn nothing_happens_before_a_start() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let message = pb::UserMessage { content: "hi".into(), ..Default::default() };
    let mut talk = Talk::raw(&stage.clients, vec![Said::UserMessage(message)]).await?;
    let refused = talk.error().await?;
    assert_eq!((refused.code.as_str(), refused.retryable), ("no_session", false));
    // It is not too late.
    talk.say(Said::Start(start(&environment(&stage).await?))).await?;
    talk.until("the start", |body| matches!(body, Body::SessionStarted(_)).then_some(())).await?;
    stage.close().await
}

#[tokio::test]
async fn a_start_that_cannot_be_ends_the_stream() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let environment = environment(&stage).await?;
    let garbage = Struct { fields: [("x".to_owned(), Value { kind: None })].into() };
    let nan = Struct { fields: [("x".to_owned(), Value { kind: Some(Kind::NumberValue(f64::NAN)) })].into() };
    let wrong = [
        ("environment_id", pb::StartSession::default()),
        ("environment_id", start("lab")),
        ("environment_id", start(UNKNOWN)),
        ("host_id", pb::StartSession { host_id: Some("arm".into()), ..start(&environment) }),
        ("host_id", pb::StartSession { host_id: Some(UNKNOWN.into()), ..start(&environment) }),
        ("model", pb::StartSession { model: Some("no such model".into()), ..start(&environment) }),
        ("tools[0].name", pb::StartSession { tools: vec![pure("a b")], ..start(&environment) }),
        (
            "tools[0].parameters_schema.x",
            pb::StartSession {
                tools: vec![pb::ToolSchema { parameters_schema: Some(garbage), ..pure("a") }],
                ..start(&environment)
            },
        ),
        (
            "tools[0].parameters_schema.x",
            pb::StartSession {
                tools: vec![pb::ToolSchema { parameters_schema: Some(nan), ..pure("a") }],
                ..start(&environment)
            },
        ),
        ("history[0].role", pb::StartSession { history: vec![Default::default()], ..start(&environment) }),
        ("tools", pb::StartSession { tools: vec![pure("a"); 600], ..start(&environment) }),
    ];
    for (field, start) in wrong {
        let mut talk = Talk::raw(&stage.clients, vec![Said::Start(start)]).await?;
        let error = talk.error().await?;
        assert_eq!(error.code, "invalid_argument", "{field}: {error:?}");
        assert!(error.message.contains(field), "{field}: {error:?}");
        assert!(talk.next().await?.is_none(), "the stream goes on behind {error:?}");
    }
    let sessions = stage.cli().json(&["session", "list", "--all"]).await?;
    assert_eq!(sessions["sessions"].as_array().context("no list")?.len(), 0, "{sessions}");
    stage.close().await
}

#[tokio::test]
async fn a_running_session_survives_what_its_client_gets_wrong() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut talk = Talk::new(&stage, Vec::new()).await?;
    let environment = pb::StartSession::default();
    let huge = pb::ContentBlock { block: Some(Block::Text("x".repeat(11 << 20))), label: None };
    let wrong = [
        ("already_started", Said::Start(environment)),
        (
            "no_active_turn",
            Said::ToolResult(pb::ToolResult { tool_call_id: "x".into(), ..Default::default() }),
        ),
        ("no_active_turn", Said::CancelTurn(pb::CancelTurn::default())),
        ("invalid_argument", Said::UserMessage(pb::UserMessage::default())),
        (
            "invalid_argument",
            Said::UserMessage(pb::UserMessage {
                content: "x".into(),
                message_id: Some("x".repeat(300)),
                ..Default::default()
            }),
        ),
        (
            "invalid_argument",
            Said::UserMessage(pb::UserMessage {
                content: "x".into(),
                context: vec![huge],
                ..Default::default()
            }),
        ),
        (
            "invalid_argument",
            Said::UserMessage(pb::UserMessage {
                content: "x".into(),
                tools: vec![pure("")],
                ..Default::default()
            }),
        ),
        (
            "invalid_argument",
            Said::RegisterTools(pb::RegisterTools { tools: vec![pure("a.b")], ..Default::default() }),
        ),
        (
            "invalid_argument",
            Said::Feedback(pb::MessageFeedback {
                session_id: "sess_other".into(),
                message_id: "m".into(),
                rating: "up".into(),
            }),
        ),
    ];
    for (code, request) in wrong {
        let shown = format!("{request:.120?}");
        talk.say(request).await?;
        let error = talk.error().await?;
        assert_eq!(error.code, code, "{shown}: {error:?}");
    }
    // What nobody waits for is ignored.
    talk.decide("nobody", true).await?;
    talk.prompt("m-1", &script(Agent::Scripted, "say", &json!([{"text": "still here"}]))).await?;
    assert_eq!(text(&talk.turn().await?.1), "still here");
    stage.close().await
}

/// Whatever is too large is refused with the limit, and what is just small enough reaches the agent, and comes back to
/// a client that takes no more than gRPC's own 4 MiB a message.
#[tokio::test]
async fn what_is_too_large_is_refused_with_its_limit() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut talk = Talk::new(&stage, Vec::new()).await?;
    let message = |content: String| pb::UserMessage { content, ..Default::default() };
    let block = |bytes: usize| pb::ContentBlock { block: Some(Block::Text("x".repeat(bytes))), label: None };
    let described = pb::ToolSchema { description: "x".repeat(3 << 20), ..pure("big") };
    let (files, prompt, tools) = ("10485760", "3584000", "2097152");
    let wrong = [
        ("content: ", prompt, Said::UserMessage(message("x".repeat((3_500 << 10) + 1)))),
        (
            "context: ",
            files,
            Said::UserMessage(pb::UserMessage { context: vec![block(11 << 20)], ..message("x".into()) }),
        ),
        (
            "context: ",
            files,
            Said::UserMessage(pb::UserMessage {
                context: vec![block(6 << 20)],
                system_context: Some("y".repeat(6 << 20)),
                ..message("x".into())
            }),
        ),
        (
            "tools: ",
            tools,
            Said::UserMessage(pb::UserMessage { tools: vec![described.clone()], ..message("x".into()) }),
        ),
        (
            "tools: ",
            tools,
            Said::RegisterTools(pb::RegisterTools { tools: vec![described], ..Default::default() }),
        ),
    ];
    for (field, limit, request) in wrong {
        talk.say(request).await?;
        let error = talk.error().await?;
        assert_eq!(error.code, "invalid_argument", "{field}: {error:?}");
        assert!(error.message.contains(field) && error.message.contains(limit), "{field}: {error:?}");
    }
    // A little below the limit it is said, and the answer is as long.
    let long = "x".repeat(3 << 20);
    let steps = json!([{"text": long}]);
    talk.prompt("m-1", &script(Agent::Scripted, "say", &steps)).await?;
    assert_eq!(text(&talk.turn().await?.1).len(), long.len());
    stage.close().await
}

/// What is larger than any message may be cannot be read at all: the stream ends, and says which limit it was.
#[tokio::test]
async fn a_message_beyond_all_limits_ends_the_stream_and_names_the_limit() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut talk = Talk::new(&stage, Vec::new()).await?;
    let content = "x".repeat(33 << 20);
    talk.say(Said::UserMessage(pb::UserMessage { content, ..Default::default() })).await?;
    let error = talk.error().await?;
    assert_eq!(error.code, "invalid_argument", "{error:?}");
    assert!(error.message.contains("33554432"), "{error:?}");
    assert!(talk.next().await?.is_none());
    stage.close().await
}

#[tokio::test]
async fn a_failing_turn_and_a_dying_agent_have_their_codes() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut talk = Talk::new(&stage, Vec::new()).await?;
    talk.prompt("m-1", &script(Agent::Scripted, "fail", &json!([{"error": "it broke"}]))).await?;
    let error = talk.error().await?;
    assert_eq!((error.code.as_str(), error.message.as_str()), ("agent_error", "it broke"));
    assert_eq!(talk.turn().await?.0.stop_reason, "error");
    talk.prompt("m-2", &script(Agent::Scripted, "die", &json!([{"crash": 3}]))).await?;
    let error = talk.error().await?;
    assert_eq!((error.code.as_str(), error.retryable), ("internal", true));
    talk.rest().await?;
    stage.close().await
}
