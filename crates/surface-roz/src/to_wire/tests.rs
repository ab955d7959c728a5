//! Journals in, messages out. The recorded conversation with the real Claude Code is the one that the other
//! surfaces use; the samples of the stored format cover every kind of event.

use domain::event::ClientTool;
use domain::{CallId, SessionId, Timestamp, TurnId};
use serde_json::{Value, json};

use super::*;
use crate::transcript;
use crate::transcript_session::snapshot;

const SAMPLES: &str = include_str!("../../../domain/tests/journal_format.jsonl");

fn event(seq: u64, kind: EventKind) -> Event {
    Event { session: SessionId::new("sess_1"), seq, at: Timestamp(seq as i64 * 1_000), kind }
}

fn kinds(lines: &str) -> Vec<EventKind> {
    lines
        .lines()
        .map(|line| serde_json::from_value(serde_json::from_str::<Value>(line).unwrap()).unwrap())
        .collect()
}

fn project(kinds: Vec<EventKind>) -> Vec<Body> {
    let events: Vec<Event> =
        kinds.into_iter().enumerate().map(|(at, kind)| event(at as u64 + 1, kind)).collect();
    transcript::project(&snapshot(), &events)
}

fn started(by: &str) -> EventKind {
    EventKind::TurnStarted {
        turn: TurnId(1),
        origin: domain::turn::TurnOrigin::Client,
        prompt: "go".to_owned(),
        attachments: Vec::new(),
        by: by.to_owned(),
    }
}

fn ended(reason: EndReason, error: &str) -> EventKind {
    EventKind::TurnEnded { turn: TurnId(1), reason, text: String::new(), error: error.to_owned() }
}

fn tool(name: &str, exclusive: bool) -> ClientTool {
    ClientTool {
        name: name.to_owned(),
        description: String::new(),
        input_schema: json!({}),
        exclusive,
        timeout_ms: None,
        asks: exclusive,
    }
}

fn called(request: u64, tool: &str) -> EventKind {
    EventKind::RequestOpened {
        request: RequestId(request),
        native: format!("n{request}"),
        automatic: false,
        ask: RequestSubject::ClientTool {
            call: CallId::new(format!("c{request}")),
            tool: tool.to_owned(),
            input: json!({"x": 1}),
        },
        proposals: Vec::new(),
        advice: domain::permission::PermissionAdvice::default(),
    }
}

fn returned(request: u64) -> EventKind {
    EventKind::RequestSettled {
        request: RequestId(request),
        outcome: RequestOutcome::ToolReturned { ok: true, output: "done".to_owned() },
        by: "roz".to_owned(),
        message: String::new(),
        grant: None,
        used_grant: String::new(),
    }
}

fn requests(bodies: &[Body]) -> Vec<&str> {
    bodies
        .iter()
        .filter_map(|body| match body {
            Body::ToolRequest(asked) => Some(asked.tool_call_id.as_str()),
            _ => None,
        })
        .collect()
}

#[test]
fn every_kind_of_event_reads_as_it_always_did() {
    insta::assert_snapshot!("every_kind", transcript::lines(&project(kinds(SAMPLES))));
}

#[test]
fn what_answers_a_message_names_it() {
    let text = EventKind::TextDelta { text: "hi".to_owned(), parent: None };
    let bodies = project(vec![started("roz:m-1"), text, ended(EndReason::Completed, "")]);
    let delta = bodies.iter().any(|body| matches!(body, Body::TextDelta(delta) if delta.message_id == "m-1"));
    let end = bodies.iter().any(|body| matches!(body, Body::TurnComplete(end) if end.message_id == "m-1"));
    assert!(delta && end, "{bodies:?}");
}

#[test]
fn physical_calls_go_out_one_at_a_time_and_pure_ones_at_once() {
    let tools = EventKind::ToolsRegistered {
        source: "roz".to_owned(),
        tools: vec![tool("arm", true), tool("read", false)],
    };
    let mut all = vec![tools, started("roz:m"), called(1, "arm"), called(2, "arm")];
    all.extend([called(3, "read"), called(4, "read")]);
    assert_eq!(requests(&project(all.clone())), ["c1", "c3", "c4"]);
    all.push(returned(1));
    assert_eq!(requests(&project(all.clone())), ["c1", "c3", "c4", "c2"]);
    all.push(called(5, "unknown"));
    assert_eq!(requests(&project(all)), ["c1", "c3", "c4", "c2"]);
}

#[test]
fn a_failed_turn_says_why_before_it_ends() {
    let codes = |error: &str| -> Vec<String> {
        let bodies = project(vec![started("roz:m"), ended(EndReason::Failed, error)]);
        let word = |body: &Body| match body {
            Body::Error(error) => Some(format!("{} {}", error.code, error.retryable)),
            Body::TurnComplete(end) => Some(end.stop_reason.clone()),
            _ => None,
        };
        bodies.iter().filter_map(word).collect()
    };
    assert_eq!(codes("API Error: 529 overloaded"), ["model_error true", "error"]);
    assert_eq!(codes("the script ended"), ["agent_error false", "error"]);
}

#[test]
fn a_cancelled_turn_has_no_usage() {
    let bodies = project(vec![started("roz:m"), ended(EndReason::Cancelled, "")]);
    let end = bodies.iter().find_map(|body| match body {
        Body::TurnComplete(end) => Some(end),
        _ => None,
    });
    let end = end.unwrap();
    assert_eq!((end.stop_reason.as_str(), end.usage.is_none()), ("cancelled", true));
}

#[test]
fn errors_go_by_the_published_codes() {
    let code = |code: ErrorCode| match failure(&Error::new(code, "x")) {
        Body::Error(error) => format!("{} {}", error.code, error.retryable),
        other => panic!("{other:?}"),
    };
    assert_eq!(code(ErrorCode::InvalidArgument), "invalid_argument false");
    assert_eq!(code(ErrorCode::RecordNotFound), "invalid_argument false");
    assert_eq!(code(ErrorCode::ModelUnsupported), "invalid_argument false");
    assert_eq!(code(ErrorCode::NotAllowed), "unauthenticated false");
    assert_eq!(code(ErrorCode::StorageFailed), "internal true");
    assert_eq!(code(ErrorCode::CreateFailed), "internal true");
}
