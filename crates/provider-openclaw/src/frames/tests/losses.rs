//! A connection that is lost in the middle of something, and the state after the reconnect.

use super::*;

/// Reconnects to the process of this name. Returns all effects.
fn back(conversation: &mut GatewayConversation, boot: &str) -> (Vec<AgentEvent>, Vec<Value>) {
    back_with(conversation, boot, &json!([]))
}

/// The same, with approvals pending at the gateway.
fn back_with(
    conversation: &mut GatewayConversation,
    boot: &str,
    approvals: &Value,
) -> (Vec<AgentEvent>, Vec<Value>) {
    let (mut events, mut frames) = greet_as(conversation, boot);
    let mut all = Vec::new();
    while !conversation.is_connected {
        let asked = frames.remove(0);
        let answered = match asked["method"].as_str().unwrap() {
            "sessions.create" => refuse(conversation, &asked, "session exists"),
            "exec.approval.list" => answer(conversation, &asked, approvals.clone()),
            _ => answer(conversation, &asked, json!({})),
        };
        events.extend(answered.0);
        all.extend(answered.1.clone());
        frames.extend(answered.1);
    }
    assert!(
        events
            .iter()
            .any(|event| matches!(event, AgentEvent::Notice { message, .. } if message.contains("is back")))
    );
    events.retain(|event| !matches!(event, AgentEvent::Notice { level: Level::Info, .. }));
    (events, all)
}

fn find(frames: &[Value], method: &str) -> Value {
    let found: Vec<&Value> = frames.iter().filter(|frame| frame["method"] == method).collect();
    assert_eq!(found.len(), 1, "{method}: {frames:?}");
    found[0].clone()
}

#[test]
fn a_run_that_ended_while_the_connection_was_lost_is_ended() {
    let mut conversation = ready();
    prompt(&mut conversation, "r1");
    take(&mut conversation, stream("r1", "assistant", json!({"delta": "hel"})));
    conversation.lose();
    assert!(!conversation.is_connected && conversation.is_at_work());
    let frames = back(&mut conversation, "boot-1").1;
    let wait = find(&frames, "agent.wait");
    let (events, _) = answer(
        &mut conversation,
        &wait,
        json!({"runId": "r1", "status": "ok", "endedAt": 2, "terminalReply": {"text": "hello"}}),
    );
    assert_eq!(events[0], AgentEvent::Text { text: "lo".to_owned(), parent: None });
    assert!(matches!(&events[1], AgentEvent::TurnEnded { reason: EndReason::Completed, .. }));
}

#[test]
fn a_run_of_a_gateway_that_was_started_anew_has_failed() {
    let mut conversation = ready();
    prompt(&mut conversation, "r1");
    let start = json!({"phase": "start", "name": "exec", "toolCallId": "c1", "args": {"command": "ls"}});
    take(&mut conversation, stream("r1", "tool", start));
    conversation.lose();
    let (events, frames) = back(&mut conversation, "boot-2");
    let [
        AgentEvent::ToolFinished { ok: false, .. },
        AgentEvent::TurnEnded { reason: EndReason::Failed, error, .. },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert!(error.starts_with("OBEY-2032: ") && error.contains("started anew"), "{error}");
    assert!(frames.iter().all(|frame| frame["method"] != "agent.wait"), "{frames:?}");
    // The earlier run has ended; the next one is handled.
    prompt(&mut conversation, "r2");
    assert!(take(&mut conversation, chat("r1", json!({"state": "error"}))).0.is_empty());
    assert_eq!(
        take(&mut conversation, stream("r2", "assistant", json!({"text": "a", "delta": "a"}))).0.len(),
        1
    );
}

#[test]
fn a_run_that_goes_on_is_asked_for_until_it_is_over() {
    let mut conversation = ready();
    let sent = prompt(&mut conversation, "r1");
    answer(&mut conversation, &sent, json!({"runId": "r1", "status": "started"}));
    conversation.lose();
    let (events, frames) = back(&mut conversation, "boot-1");
    assert!(events.is_empty(), "{events:?}");
    let mut wait = find(&frames, "agent.wait");
    for status in [
        json!({"runId": "r1", "status": "timeout"}),
        json!({"runId": "r1", "status": "pending", "timeoutPhase": "queue"}),
        json!({"runId": "r1", "status": "timeout", "error": "HTTP 500", "pendingError": true, "startedAt": 1}),
    ] {
        let (events, frames) = answer(&mut conversation, &wait, status);
        assert!(events.is_empty() && frames.is_empty() && conversation.is_unsure(), "{events:?} {frames:?}");
        // After a while.
        let mut out = FrameEffects::default();
        conversation.look(&mut out);
        assert!(!conversation.is_unsure());
        wait = serde_json::from_str(&out.frames[0]).unwrap();
        assert_eq!((&wait["method"], &wait["params"]["runId"]), (&json!("agent.wait"), &json!("r1")));
    }
    // An answer about another run says nothing about this one.
    assert!(
        answer(&mut conversation, &wait, json!({"runId": "r0", "status": "ok", "endedAt": 1})).0.is_empty()
    );
    let aborted =
        json!({"runId": "r1", "status": "timeout", "stopReason": "rpc", "startedAt": 1, "endedAt": 2});
    let (events, _) = answer(&mut conversation, &wait, aborted);
    assert!(
        matches!(&events[..], [AgentEvent::TurnEnded { reason: EndReason::Failed, error, .. }] if error.contains("rpc")),
        "{events:?}"
    );
    assert!(!conversation.is_unsure());
}

#[test]
fn a_prompt_that_was_lost_on_its_way_is_sent_again() {
    let mut conversation = ready();
    let sent = prompt(&mut conversation, "r1");
    conversation.lose();
    let (_, frames) = back(&mut conversation, "boot-1");
    let again = find(&frames, "chat.send");
    // The gateway accepts an id once: a message it had received is not handled twice.
    assert_eq!(again["params"], sent["params"]);
    answer(&mut conversation, &again, json!({"runId": "r1", "status": "in_flight"}));
    conversation.lose();
    let (_, frames) = back(&mut conversation, "boot-1");
    assert!(frames.iter().all(|frame| frame["method"] != "chat.send"), "{frames:?}");
}

#[test]
fn a_run_that_the_gateway_does_not_know_has_failed() {
    let mut conversation = ready();
    let sent = prompt(&mut conversation, "r1");
    answer(&mut conversation, &sent, json!({}));
    conversation.lose();
    let (_, frames) = back(&mut conversation, "boot-1");
    let (events, _) = refuse(&mut conversation, &find(&frames, "agent.wait"), "agent run was not found");
    assert!(
        matches!(&events[..], [AgentEvent::TurnEnded { reason: EndReason::Failed, error, .. }]
            if error.starts_with("OBEY-2032: ") && error.contains("not found")),
        "{events:?}"
    );
}

fn approval(id: &str, key: &str) -> Value {
    json!({"id": id, "request": {"command": "touch x", "cwd": "/w", "sessionKey": key}, "expiresAtMs": 9})
}

fn request(conversation: &mut GatewayConversation, id: &str) -> Vec<AgentEvent> {
    let payload = approval(id, "agent:main:k");
    take(conversation, json!({"type": "event", "event": "exec.approval.requested", "payload": payload})).0
}

fn resolved(frames: &[Value]) -> Vec<(String, String)> {
    let told = frames.iter().filter(|frame| frame["method"] == "exec.approval.resolve");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    told.map(|frame| (text(&frame["params"]["id"]), text(&frame["params"]["decision"]))).collect()
}

#[test]
fn what_was_decided_while_the_connection_was_lost_is_told() {
    let mut conversation = ready();
    prompt(&mut conversation, "r1");
    for id in ["kept", "late", "other", "gone"] {
        assert_eq!(request(&mut conversation, id).len(), 1);
    }
    // This one is sent, and whether it arrived is unknown.
    conversation.decide("other", Decision::Deny, "", &mut FrameEffects::default());
    conversation.lose();
    for id in ["kept", "late"] {
        conversation.decide(id, Decision::AllowOnce, "", &mut FrameEffects::default());
    }
    let waiting = json!([
        approval("kept", "agent:main:k"),
        approval("other", "agent:main:k"),
        approval("new", "agent:main:k"),
        approval("of somebody else", "agent:main:x"),
    ]);
    let (events, frames) = back_with(&mut conversation, "boot-1", &waiting);
    let told = |id: &str, decision: &str| (id.to_owned(), decision.to_owned());
    assert_eq!(resolved(&frames), [told("kept", "allow-once"), told("other", "deny")]);
    // What was settled elsewhere is withdrawn, what was asked meanwhile is asked, and nothing is asked twice.
    assert!(
        matches!(&events[..], [AgentEvent::Withdrew { native: gone }, AgentEvent::Asked { native: new, .. }]
            if gone == "gone" && new == "new"),
        "{events:?}"
    );
    let told = frames.iter().find(|frame| frame["method"] == "exec.approval.resolve").unwrap();
    answer(&mut conversation, told, json!({"ok": true}));
    conversation.lose();
    let (events, frames) = back_with(&mut conversation, "boot-1", &json!([approval("new", "agent:main:k")]));
    assert!(events.is_empty() && resolved(&frames).is_empty(), "{events:?} {frames:?}");
    conversation.decide("new", Decision::AllowOnce, "", &mut FrameEffects::default());
}

#[test]
fn a_gateway_that_lists_no_approvals_is_told_all_the_same() {
    let mut conversation = ready();
    prompt(&mut conversation, "r1");
    request(&mut conversation, "a1");
    conversation.lose();
    conversation.decide("a1", Decision::AllowOnce, "", &mut FrameEffects::default());
    let (_, mut frames) = greet(&mut conversation);
    for _ in 0..2 {
        (_, frames) = answer(&mut conversation, &frames[0], json!({}));
    }
    assert_eq!(frames[0]["method"], "exec.approval.list");
    let (_, frames) = refuse(&mut conversation, &frames[0], "unknown method");
    assert_eq!(resolved(&frames), [("a1".to_owned(), "allow-once".to_owned())]);
}

#[test]
fn what_was_said_while_the_connection_was_lost_is_sent_in_order() {
    let mut conversation = ready();
    let sent = prompt(&mut conversation, "r1");
    answer(&mut conversation, &sent, json!({}));
    conversation.lose();
    for number in 0..40 {
        let mut out = FrameEffects::default();
        conversation.steer(&format!("and {number}"), &format!("s{number}"), &mut out);
        assert_eq!(out.events.is_empty(), number < 32, "{number}: {:?}", out.events);
    }
    let (_, frames) = back(&mut conversation, "boot-1");
    let said: Vec<&str> = frames
        .iter()
        .filter(|frame| frame["method"] == "chat.send")
        .map(|frame| frame["params"]["message"].as_str().unwrap())
        .collect();
    assert_eq!(said.len(), 32);
    assert_eq!((said[0], said[9], said[31]), ("and 0", "and 9", "and 31"));
}

#[test]
fn a_run_that_was_stopped_while_the_connection_was_lost_is_aborted_when_it_is_back() {
    let mut conversation = ready();
    prompt(&mut conversation, "r1");
    conversation.lose();
    conversation.interrupt(&mut FrameEffects::default());
    let mut out = FrameEffects::default();
    conversation.fail(String::new(), &mut out);
    assert!(
        matches!(&out.events[..], [AgentEvent::TurnEnded { reason: EndReason::Cancelled, .. }]),
        "{out:?}"
    );
    let (_, frames) = back(&mut conversation, "boot-1");
    assert_eq!(find(&frames, "chat.abort")["params"]["runId"], "r1");
    // An abort that was sent, and whose run is still open.
    prompt(&mut conversation, "r2");
    conversation.interrupt(&mut FrameEffects::default());
    conversation.lose();
    let (_, frames) = back(&mut conversation, "boot-1");
    assert_eq!(find(&frames, "chat.abort")["params"]["runId"], "r2");
    conversation.lose();
    // Another process has nothing to abort.
    let (_, frames) = back(&mut conversation, "boot-2");
    assert!(frames.iter().all(|frame| frame["method"] != "chat.abort"), "{frames:?}");
}

#[test]
fn calls_are_heard_on_a_new_connection_too() {
    let mut conversation = ready();
    prompt(&mut conversation, "r1");
    let start = json!({"phase": "start", "name": "exec", "toolCallId": "c1", "args": {"command": "ls"}});
    take(&mut conversation, stream("r1", "tool", start));
    conversation.lose();
    find(&back(&mut conversation, "boot-1").1, "sessions.subscribe");
    let result = json!({"content": [{"type": "text", "text": "a.txt"}]});
    let result =
        json!({"phase": "result", "name": "exec", "toolCallId": "c1", "isError": false, "result": result});
    let (events, _) =
        take(&mut conversation, event("session.tool", "r1", json!({"stream": "tool", "data": result})));
    assert!(matches!(&events[..], [AgentEvent::ToolFinished { ok: true, .. }]), "{events:?}");
}

fn piece(item: &str, text: &str, delta: &str) -> Value {
    stream("r1", "assistant", json!({"itemId": item, "text": text, "delta": delta}))
}

fn texts(events: &[AgentEvent]) -> String {
    let text = |event: &AgentEvent| match event {
        AgentEvent::Text { text, .. } => text.clone(),
        _ => String::new(),
    };
    events.iter().map(text).collect()
}

fn last(text: &str) -> Value {
    chat("r1", json!({"state": "final", "message": {"content": [{"type": "text", "text": text}]}}))
}

#[test]
fn text_that_was_missed_is_said_with_the_next_piece() {
    let mut conversation = ready();
    prompt(&mut conversation, "r1");
    let mut said = texts(&take(&mut conversation, piece("i:1", "one ", "one ")).0);
    conversation.lose();
    // " two" was sent while the connection was lost.
    back(&mut conversation, "boot-1");
    said += &texts(&take(&mut conversation, piece("i:1", "one two three", "three")).0);
    assert_eq!(said, "one two three");
    // Another message starts from the beginning, also after a call.
    let start = json!({"phase": "start", "name": "exec", "toolCallId": "c1", "args": {"command": "ls"}});
    take(&mut conversation, stream("r1", "tool", start));
    assert_eq!(texts(&take(&mut conversation, piece("i:1", "one two three.", ".")).0), ".");
    assert_eq!(texts(&take(&mut conversation, piece("i:2", "fo", "fo")).0), "fo");
    let (events, _) = take(&mut conversation, last("four"));
    assert_eq!(texts(&events), "ur");
    let mut out = FrameEffects::default();
    conversation.settle(&mut out);
    assert!(
        matches!(out.events.last(), Some(AgentEvent::TurnEnded { text, .. }) if text == "four"),
        "{out:?}"
    );
}

#[test]
fn text_that_was_changed_is_right_in_the_end() {
    let mut conversation = ready();
    prompt(&mut conversation, "r1");
    take(&mut conversation, piece("i:1", "one two", "one two"));
    conversation.lose();
    back(&mut conversation, "boot-1");
    let (events, _) = take(&mut conversation, last("three"));
    assert!(
        matches!(&events[..], [AgentEvent::Notice { level: Level::Warning, message }] if message.contains("changed")),
        "{events:?}"
    );
    let mut out = FrameEffects::default();
    conversation.settle(&mut out);
    assert!(
        matches!(out.events.last(), Some(AgentEvent::TurnEnded { text, .. }) if text == "three"),
        "{out:?}"
    );
    // As long as nothing was missed, the model's own text counts, however the gateway normalises it.
    prompt(&mut conversation, "r1");
    assert_eq!(texts(&take(&mut conversation, piece("i:1", "a b", "a  b\n\n")).0), "a  b\n\n");
    assert_eq!(texts(&take(&mut conversation, piece("i:1", "a b c", "c")).0), "c");
    let (events, _) = take(&mut conversation, last("a b c"));
    assert!(events.is_empty(), "{events:?}");
    // The same words with less white space around them, or with those before a call, are no change.
    for text in ["one two", "zero\n\none two"] {
        prompt(&mut conversation, "r1");
        take(&mut conversation, piece("i:1", "one two ", "one two "));
        let (events, _) = take(&mut conversation, last(text));
        assert!(events.is_empty(), "{events:?}");
    }
    // A model that is retried starts from the beginning, which the gateway reports itself.
    prompt(&mut conversation, "r1");
    let empty = json!({"itemId": "i:2", "text": "", "delta": "", "replace": true});
    assert!(take(&mut conversation, stream("r1", "assistant", empty)).0.is_empty());
}
