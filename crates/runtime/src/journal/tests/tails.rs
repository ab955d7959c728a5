//! The events kept in memory stay within their limits, whatever the events are.

use std::sync::Arc;

use domain::event::ClientTool;
use domain::request::{PermissionSubject, Question, RequestSubject};
use domain::turn::{EndReason, TurnOrigin};
use domain::{CallId, Event, EventKind, RequestId, SessionId, Timestamp, TurnId};
use serde_json::json;

use crate::journal::BOUNDS;
use crate::journal::tail::Tail;
use crate::limits;

/// Every kind of event that can be large, with a text of this length.
fn large_kinds(text: &str) -> Vec<EventKind> {
    let (text, call, turn) = (text.to_owned(), CallId::new("c"), TurnId(1));
    let ask = |ask| EventKind::RequestOpened {
        request: RequestId(1),
        native: String::new(),
        automatic: false,
        ask,
        proposals: Vec::new(),
        advice: domain::permission::PermissionAdvice::default(),
    };
    let permission = PermissionSubject {
        call: None,
        tool: String::new(),
        input: json!({ "x": [text] }),
        title: String::new(),
        parent: None,
    };
    let question = Question { text: text.clone(), ..Question::default() };
    let tool = ClientTool {
        name: String::new(),
        description: text.clone(),
        input_schema: json!(null),
        exclusive: false,
        timeout_ms: None,
        asks: false,
    };
    vec![
        EventKind::TextDelta { text: text.clone(), parent: None },
        EventKind::ThinkingDelta { text: text.clone(), parent: None },
        EventKind::ToolFinished { call: call.clone(), tool: String::new(), ok: true, output: text.clone() },
        EventKind::ToolProgress { call: call.clone(), output: text.clone() },
        EventKind::ToolStarted {
            call: call.clone(),
            tool: String::new(),
            input: json!({ "deep": [{ "er": text }] }),
            title: String::new(),
            parent: None,
        },
        EventKind::TurnStarted {
            turn,
            origin: TurnOrigin::Client,
            prompt: text.clone(),
            attachments: Vec::new(),
            by: String::new(),
        },
        EventKind::TurnEnded { turn, reason: EndReason::Completed, text: text.clone(), error: String::new() },
        EventKind::MessageAdded { turn, text: text.clone(), by: String::new() },
        EventKind::Unparsed { raw: text.clone(), length: None },
        EventKind::AgentLogged { line: text.clone() },
        EventKind::ToolsRegistered { source: String::new(), tools: vec![tool] },
        EventKind::Compacted { tokens_before: None, tokens_after: None, summary: text.clone() },
        ask(RequestSubject::Permission(permission)),
        ask(RequestSubject::Question { questions: vec![question], call: None }),
        ask(RequestSubject::ClientTool { call, tool: String::new(), input: json!(text) }),
        EventKind::RequestSettled {
            request: RequestId(1),
            outcome: domain::request::RequestOutcome::ToolReturned { ok: true, output: text },
            by: String::new(),
            message: String::new(),
            grant: None,
            used_grant: String::new(),
        },
    ]
}

fn event(seq: u64, kind: &EventKind) -> Arc<Event> {
    Arc::new(Event { session: SessionId::new("s"), seq, at: Timestamp(0), kind: kind.clone() })
}

#[test]
fn large_events_of_every_kind_are_let_go() {
    let text = "x".repeat(100_000);
    for kind in large_kinds(&text) {
        let tail = Tail::new(0, BOUNDS);
        for seq in 1..=50 {
            tail.extend(vec![event(seq, &kind)]);
        }
        assert_eq!(tail.after(0, 100), None, "{}", kind.name());
        let kept = (0..50).rev().take_while(|seq| tail.after(*seq, 100).is_some()).count();
        let most = limits::TAIL_BYTES_MAX / text.len();
        assert!((1..=most).contains(&kept), "{} of {}", kept, kind.name());
    }
}

#[test]
fn small_events_are_let_go_by_number() {
    let tail = Tail::new(0, BOUNDS);
    let kind = EventKind::TextDelta { text: String::new(), parent: None };
    let bare = 256;
    let most = limits::TAIL_EVENTS_MAX.min(limits::TAIL_BYTES_MAX / bare) as u64;
    tail.extend((1..=most + 10).map(|seq| event(seq, &kind)).collect());
    assert_eq!(tail.after(9, 10), None);
    assert_eq!(tail.after(10, 10).unwrap().len(), 10);
}

#[test]
fn one_event_larger_than_the_tail_is_kept_until_the_next() {
    let tail = Tail::new(0, BOUNDS);
    let kind = EventKind::TextDelta { text: "x".repeat(limits::TAIL_BYTES_MAX * 2), parent: None };
    tail.extend(vec![event(1, &kind)]);
    assert_eq!(tail.after(0, 10).unwrap().len(), 1);
    tail.extend(vec![event(2, &EventKind::Restarted { count: 1 })]);
    assert_eq!(tail.after(0, 10), None);
    assert_eq!(tail.after(1, 10).unwrap()[0].seq, 2);
}
