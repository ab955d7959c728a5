//! A conversation with the gateway, frame by frame, as it was recorded.

use domain::Decision;
use domain::request::RequestSubject;
use domain::turn::EndReason;

use super::*;

mod losses;
mod queue;
mod servers;
mod steering;

fn conversation() -> GatewayConversation {
    GatewayConversation {
        key: "agent:main:k".to_owned(),
        agent_id: "main".to_owned(),
        token: "secret".to_owned(),
        working_dir: "/repo".to_owned(),
        ..GatewayConversation::default()
    }
}

/// Handles a frame and returns its effects.
fn take(conversation: &mut GatewayConversation, frame: Value) -> (Vec<AgentEvent>, Vec<Value>) {
    let mut out = FrameEffects::default();
    conversation.take(&frame.to_string(), &mut out);
    let frames = out.frames.iter().map(|frame| serde_json::from_str(frame).unwrap()).collect();
    (out.events, frames)
}

fn answer(
    conversation: &mut GatewayConversation,
    asked: &Value,
    payload: Value,
) -> (Vec<AgentEvent>, Vec<Value>) {
    take(conversation, json!({"type": "res", "id": asked["id"], "ok": true, "payload": payload}))
}

fn refuse(
    conversation: &mut GatewayConversation,
    asked: &Value,
    message: &str,
) -> (Vec<AgentEvent>, Vec<Value>) {
    take(
        conversation,
        json!({"type": "res", "id": asked["id"], "ok": false, "error": {"code": "X", "message": message}}),
    )
}

fn greet(conversation: &mut GatewayConversation) -> (Vec<AgentEvent>, Vec<Value>) {
    greet_as(conversation, "boot-1")
}

/// Connects to a gateway's process.
fn greet_as(conversation: &mut GatewayConversation, boot: &str) -> (Vec<AgentEvent>, Vec<Value>) {
    let (_, frames) =
        take(conversation, json!({"type": "event", "event": "connect.challenge", "payload": {"nonce": "n"}}));
    assert_eq!(frames[0]["params"]["auth"]["token"], "secret");
    answer(
        conversation,
        &frames[0],
        json!({"protocol": 4, "server": {"version": "2026.9.6", "bootId": boot}}),
    )
}

fn ready() -> GatewayConversation {
    let mut conversation = conversation();
    let (events, frames) = greet(&mut conversation);
    assert!(events.is_empty());
    assert_eq!(frames[0]["params"]["cwd"], "/repo");
    let (_, frames) = answer(&mut conversation, &frames[0], json!({"key": "agent:main:k"}));
    let (events, _) = answer(&mut conversation, &frames[0], json!({}));
    assert!(
        matches!(&events[0], AgentEvent::Ready { native_session, .. } if native_session == "agent:main:k")
    );
    conversation
}

fn prompt(conversation: &mut GatewayConversation, run: &str) -> Value {
    let mut out = FrameEffects::default();
    conversation.prompt("go", Vec::new(), run.to_owned(), &mut out);
    serde_json::from_str(&out.frames[0]).unwrap()
}

fn chat(run: &str, more: Value) -> Value {
    event("chat", run, more)
}

fn event(name: &str, run: &str, more: Value) -> Value {
    let mut payload = json!({"runId": run, "sessionKey": "agent:main:k"});
    for (key, value) in more.as_object().unwrap() {
        payload[key] = value.clone();
    }
    json!({"type": "event", "event": name, "payload": payload})
}

fn stream(run: &str, name: &str, data: Value) -> Value {
    event("agent", run, json!({"stream": name, "data": data}))
}

#[test]
fn a_run_streams_its_text_its_calls_and_its_end() {
    let mut conversation = ready();
    let sent = prompt(&mut conversation, "r1");
    assert_eq!(sent["params"]["message"], "go");
    let said = |text: &str| json!({"text": text, "delta": text});
    assert_eq!(take(&mut conversation, stream("r1", "assistant", said("hel"))).0.len(), 1);
    let start = json!({"phase": "start", "name": "exec", "toolCallId": "c1", "args": {"command": "ls"}});
    let (events, _) = take(&mut conversation, stream("r1", "tool", start));
    assert!(
        matches!(&events[0], AgentEvent::ToolStarted { tool, input, .. } if tool == "Bash" && input["command"] == "ls")
    );
    let result = json!({"content": [{"type": "text", "text": "a.txt"}], "details": {"status": "completed", "exitCode": 0}});
    let result =
        json!({"phase": "result", "name": "exec", "toolCallId": "c1", "isError": false, "result": result});
    let (events, _) = take(&mut conversation, stream("r1", "tool", result));
    assert!(matches!(&events[0], AgentEvent::ToolFinished { ok: true, output, .. } if output == "a.txt"));
    let message =
        json!({"role": "assistant", "usage": {"input": 100, "output": 20}, "__openclaw": {"runId": "r1"}});
    let heard = json!({"sessionKey": "agent:main:k", "message": message});
    let (events, _) =
        take(&mut conversation, json!({"type": "event", "event": "session.message", "payload": heard}));
    assert!(matches!(&events[0], AgentEvent::Usage { usage, .. } if usage.input_tokens == 100));
    take(&mut conversation, stream("r1", "assistant", said("done")));
    // Text that was not streamed comes with the end.
    let message = json!({"role": "assistant", "content": [{"type": "text", "text": "done."}]});
    let (events, _) = take(&mut conversation, chat("r1", json!({"state": "final", "message": message})));
    assert_eq!(events[0], AgentEvent::Text { text: ".".to_owned(), parent: None });
    assert!(
        matches!(&events[1], AgentEvent::TurnEnded { reason: EndReason::Completed, text, .. } if text == "done.")
    );
}

#[test]
fn an_approval_is_asked_and_answered() {
    let mut conversation = ready();
    prompt(&mut conversation, "r1");
    let start = json!({"phase": "start", "name": "exec", "toolCallId": "c1", "args": {"command": "touch x"}});
    take(&mut conversation, stream("r1", "tool", start));
    let request = json!({"command": "touch x", "cwd": "/w", "sessionKey": "agent:main:k"});
    let asked = json!({"type": "event", "event": "exec.approval.requested", "payload": {"id": "a1", "request": request}});
    let (events, _) = take(&mut conversation, asked.clone());
    assert!(
        matches!(&events[0], AgentEvent::Asked { native, ask: RequestSubject::Permission(ask) } if native == "a1" && ask.tool == "Bash")
    );
    let mut out = FrameEffects::default();
    conversation.decide("a1", Decision::Deny, "not on a Sunday", &mut out);
    assert!(out.frames[0].contains("\"decision\":\"deny\""));
    // A decided approval is not asked again.
    assert!(take(&mut conversation, asked.clone()).0.is_empty());
    // Another client of the gateway may be faster.
    let mut asked = asked;
    asked["payload"]["id"] = json!("a3");
    assert_eq!(take(&mut conversation, asked.clone()).0.len(), 1);
    assert!(take(&mut conversation, asked).0.is_empty());
    let resolved = json!({"type": "event", "event": "exec.approval.resolved", "payload": {"id": "a3"}});
    assert_eq!(take(&mut conversation, resolved).0, [AgentEvent::Withdrew { native: "a3".to_owned() }]);
    // Another session's approval does not concern us.
    let other = json!({"id": "a2", "request": {"command": "x", "sessionKey": "agent:main:other"}});
    let other = json!({"type": "event", "event": "exec.approval.requested", "payload": other});
    assert!(take(&mut conversation, other).0.is_empty());
}

#[test]
fn an_interrupt_aborts_and_late_words_of_an_old_run_are_not_heard() {
    let mut conversation = ready();
    prompt(&mut conversation, "r1");
    let mut out = FrameEffects::default();
    conversation.interrupt(&mut out);
    assert!(out.frames[0].contains("chat.abort") && out.frames[0].contains("r1"));
    let (events, _) = take(&mut conversation, chat("r1", json!({"state": "aborted"})));
    assert!(matches!(&events[0], AgentEvent::TurnEnded { reason: EndReason::Cancelled, .. }));
    prompt(&mut conversation, "r2");
    assert!(
        take(&mut conversation, chat("r1", json!({"state": "error", "errorMessage": "aborted"})))
            .0
            .is_empty()
    );
    let (events, _) =
        take(&mut conversation, chat("r2", json!({"state": "error", "errorMessage": "HTTP 500"})));
    assert!(
        matches!(&events[0], AgentEvent::TurnEnded { reason: EndReason::Failed, error, .. } if error == "HTTP 500")
    );
}

#[test]
fn a_wrong_token_an_unknown_model_and_another_version_are_named() {
    let mut first = conversation();
    let (_, frames) = take(&mut first, json!({"type": "event", "event": "connect.challenge", "payload": {}}));
    let (events, _) = refuse(&mut first, &frames[0], "unauthorized");
    let [AgentEvent::Broken { code: Some(ErrorCode::ProviderNotReady), message }] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert!(message.contains("unauthorized") && !message.contains("secret"));

    let mut second = GatewayConversation { model: "stub/modle".to_owned(), ..conversation() };
    let (_, frames) = greet(&mut second);
    let (events, _) =
        answer(&mut second, &frames[0], json!({"models": [{"id": "model", "provider": "stub"}]}));
    assert!(
        matches!(&events[0], AgentEvent::Broken { code: Some(ErrorCode::ModelUnsupported), message } if message.contains("stub/model"))
    );

    let mut third = conversation();
    let (_, frames) = take(&mut third, json!({"type": "event", "event": "connect.challenge", "payload": {}}));
    let (events, _) =
        answer(&mut third, &frames[0], json!({"protocol": 5, "server": {"version": "2027.1.0"}}));
    assert!(
        matches!(&events[0], AgentEvent::Notice { message, .. } if message.contains("2027.1.0") && message.contains("2026.9"))
    );
}

#[test]
fn a_gateway_that_works_elsewhere_is_told_where_the_session_is() {
    let mut conversation = conversation();
    let (_, frames) = greet(&mut conversation);
    let (events, frames) = refuse(&mut conversation, &frames[0], "cwd is outside the workspace");
    assert!(
        matches!(&events[0], AgentEvent::Notice { message, .. } if message.contains("outside the workspace"))
    );
    answer(&mut conversation, &frames[0], json!({}));
    assert_eq!(prompt(&mut conversation, "r1")["params"]["message"], "[Working directory: /repo]\n\ngo");
    assert_eq!(prompt(&mut conversation, "r2")["params"]["message"], "go");
}

#[test]
fn nonsense_is_kept_or_passed_over() {
    let mut conversation = ready();
    let mut out = FrameEffects::default();
    conversation.take("not json", &mut out);
    assert!(matches!(out.events[0], AgentEvent::Unparsed { .. }));
    for frame in [
        json!(1),
        json!({}),
        json!({"type": "event"}),
        json!({"type": "res"}),
        json!({"type": "event", "event": "agent", "payload": []}),
    ] {
        assert!(take(&mut conversation, frame).0.is_empty());
    }
}

#[test]
fn a_conversation_that_the_gateway_forgot_is_said_to_be_lost() {
    let mut conversation = GatewayConversation { had_turns: true, ..conversation() };
    let (_, frames) = greet(&mut conversation);
    let (_, frames) = answer(&mut conversation, &frames[0], json!({"key": "agent:main:k"}));
    let (_, frames) = answer(&mut conversation, &frames[0], json!({}));
    assert_eq!((&frames[0]["method"], &frames[0]["params"]["limit"]), (&json!("chat.history"), &json!(20)));
    assert!(answer(&mut conversation, &frames[0], json!({"messages": [{"role": "user"}]})).0.is_empty());
    let (events, _) = answer(&mut conversation, &frames[0], json!({"messages": []}));
    assert!(
        matches!(&events[..], [AgentEvent::Notice { level: Level::Warning, message, .. }] if message.contains("no longer has")),
        "{events:?}"
    );
}

#[test]
fn what_a_run_used_counts_also_where_it_is_said_behind_its_end() {
    let mut conversation = ready();
    prompt(&mut conversation, "r1");
    let said = json!({"state": "final", "message": {"content": [{"type": "text", "text": "done"}]}});
    let (events, _) = take(&mut conversation, chat("r1", said.clone()));
    assert!(matches!(&events[..], [AgentEvent::Text { .. }]) && conversation.is_over(), "{events:?}");
    let used =
        json!({"role": "assistant", "usage": {"input": 7, "output": 2}, "__openclaw": {"runId": "r1"}});
    let payload = json!({"sessionKey": "agent:main:k", "message": used});
    let (events, _) =
        take(&mut conversation, json!({"type": "event", "event": "session.message", "payload": payload}));
    assert!(
        matches!(&events[..], [AgentEvent::Usage { usage, .. }, AgentEvent::TurnEnded { reason: EndReason::Completed, .. }]
            if usage.input_tokens == 7),
        "{events:?}"
    );
    // A model that reports no usage is not waited for.
    prompt(&mut conversation, "r2");
    take(&mut conversation, chat("r2", said));
    let mut out = FrameEffects::default();
    conversation.settle(&mut out);
    assert!(matches!(&out.events[..], [AgentEvent::TurnEnded { .. }]), "{out:?}");
}

#[test]
fn a_run_that_is_to_stop_is_aborted_before_it_hears_of_the_denial() {
    let mut conversation = ready();
    prompt(&mut conversation, "r1");
    let request = json!({"id": "a1", "request": {"command": "ls", "sessionKey": "agent:main:k"}});
    take(&mut conversation, json!({"type": "event", "event": "exec.approval.requested", "payload": request}));
    let mut out = FrameEffects::default();
    conversation.decide("a1", Decision::DenyAndStop, "enough", &mut out);
    let methods: Vec<Value> = out
        .frames
        .iter()
        .map(|frame| serde_json::from_str::<Value>(frame).unwrap()["method"].clone())
        .collect();
    assert_eq!(methods, ["chat.abort", "exec.approval.resolve"]);
}
