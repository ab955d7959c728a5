//! A prompt that is queued at the gateway until something else has ended, frame by frame, as it was recorded.

use super::*;

/// A message of a user that was sent with an id.
fn user(name: &str) -> Value {
    json!({"role": "user", "content": "go", "idempotencyKey": format!("{name}:user"), "__openclaw": {"seq": 4}})
}

/// What a restarted gateway writes to resume a turn on its own, with its own id.
fn recovery(name: &str) -> Value {
    let mut message = user(name);
    message["provenance"] = json!({"kind": "internal_system", "sourceTool": "main_session_restart_recovery"});
    message
}

fn assistant(run: &str, text: &str) -> Value {
    json!({"role": "assistant", "content": [{"type": "text", "text": text}], "usage": {"input": 7, "output": 2},
        "__openclaw": {"runId": run}})
}

fn written(conversation: &mut GatewayConversation, message: &Value) -> (Vec<AgentEvent>, Vec<Value>) {
    let payload = json!({"sessionKey": "agent:main:k", "message": message});
    take(conversation, json!({"type": "event", "event": "session.message", "payload": payload}))
}

fn phase(conversation: &mut GatewayConversation, run: &str, phase: &str) {
    let (events, frames) =
        take(conversation, stream(run, "lifecycle", json!({"phase": phase, "startedAt": 1})));
    assert!(events.is_empty() && frames.is_empty(), "{events:?} {frames:?}");
}

/// Prompts, and handles the answer that the gateway has queued the prompt. Returns the next request.
fn put_aside(conversation: &mut GatewayConversation, run: &str) -> Value {
    let sent = prompt(conversation, run);
    assert_eq!(sent["params"]["queueMode"], "followup");
    answer(conversation, &sent, json!({"runId": run, "status": "started"}));
    let (events, frames) = take(conversation, chat(run, json!({"state": "final", "seq": 1})));
    assert!(events.is_empty() && conversation.is_at_work(), "{events:?}");
    assert_eq!(frames[0]["method"], "chat.history");
    frames[0].clone()
}

fn history(messages: &[Value], waiting: &[&str], active: &[&str]) -> Value {
    let items: Vec<Value> = waiting.iter().map(|run| json!({"state": "queued", "runId": run})).collect();
    json!({"messages": messages, "pendingInputs": {"items": items}, "sessionInfo": {"activeRunIds": active}})
}

fn say(conversation: &mut GatewayConversation, run: &str, text: &str) -> Vec<AgentEvent> {
    take(conversation, stream(run, "assistant", json!({"itemId": "i:1", "text": text, "delta": text}))).0
}

fn finish(conversation: &mut GatewayConversation, run: &str, text: &str) -> Vec<AgentEvent> {
    written(conversation, &assistant(run, text));
    let message = json!({"content": [{"type": "text", "text": text}]});
    take(conversation, chat(run, json!({"state": "final", "message": message}))).0
}

fn is_completed(events: &[AgentEvent], said: &str) -> bool {
    matches!(events.last(), Some(AgentEvent::TurnEnded { reason: EndReason::Completed, text, .. }) if text == said)
}

#[test]
fn a_prompt_behind_a_turn_that_the_gateway_took_up_is_answered() {
    let mut conversation = ready();
    let asked = put_aside(&mut conversation, "r1");
    let (events, frames) = answer(&mut conversation, &asked, history(&[], &["r1"], &["its own", "r1"]));
    assert!(events.is_empty() && frames.is_empty() && conversation.is_unsure(), "{events:?} {frames:?}");
    // The turn that it resumed is recognised by its message, and aborted.
    let (events, frames) = written(&mut conversation, &recovery("its own"));
    assert!(matches!(&events[..], [AgentEvent::Notice { level: Level::Info, .. }]), "{events:?}");
    assert_eq!(
        (&frames[0]["method"], &frames[0]["params"]["runId"]),
        (&json!("chat.abort"), &json!("its own"))
    );
    answer(&mut conversation, &frames[0], json!({"aborted": true, "runIds": ["its own"]}));
    assert!(say(&mut conversation, "its own", "half").is_empty());
    phase(&mut conversation, "its own", "end");
    // Then the prompt is run, with another id.
    phase(&mut conversation, "another", "start");
    let (events, frames) = written(&mut conversation, &user("r1"));
    assert!(events.is_empty() && frames.is_empty(), "{events:?} {frames:?}");
    assert_eq!(
        say(&mut conversation, "another", "a whole"),
        [AgentEvent::Text { text: "a whole".into(), parent: None }]
    );
    let events = finish(&mut conversation, "another", "a whole answer");
    assert!(is_completed(&events, "a whole answer"), "{events:?}");
    // The next prompt works as usual.
    prompt(&mut conversation, "r2");
    assert_eq!(say(&mut conversation, "r2", "yes").len(), 1);
    assert!(is_completed(&finish(&mut conversation, "r2", "yes"), "yes"));
}

#[test]
fn a_run_of_somebody_else_is_waited_for_and_not_ended() {
    let mut conversation = ready();
    let asked = put_aside(&mut conversation, "r1");
    let (_, frames) = answer(&mut conversation, &asked, history(&[user("theirs")], &["r1"], &["theirs"]));
    assert!(frames.is_empty() && conversation.is_unsure(), "{frames:?}");
    phase(&mut conversation, "theirs", "end");
    let mut out = FrameEffects::default();
    conversation.look(&mut out);
    assert!(out.frames[0].contains("chat.history"), "{out:?}");
    assert!(conversation.is_at_work());
}

#[test]
fn what_is_said_to_a_prompt_that_waits_reaches_its_run() {
    let mut conversation = ready();
    put_aside(&mut conversation, "r1");
    let mut out = FrameEffects::default();
    conversation.steer("and this", "s1", &mut out);
    assert!(out.frames.is_empty() && out.events.is_empty(), "{out:?}");
    phase(&mut conversation, "another", "start");
    let (_, frames) = written(&mut conversation, &user("r1"));
    assert_eq!(
        (&frames[0]["params"]["message"], &frames[0]["params"]["queueMode"]),
        (&json!("and this"), &json!("steer"))
    );
}

#[test]
fn a_prompt_that_waits_can_be_interrupted() {
    let mut conversation = ready();
    put_aside(&mut conversation, "r1");
    let mut out = FrameEffects::default();
    conversation.interrupt(&mut out);
    let asked: Value = serde_json::from_str(&out.frames[0]).unwrap();
    let (events, _) = answer(&mut conversation, &asked, json!({"aborted": true, "runIds": ["r1"]}));
    assert!(
        matches!(&events[..], [AgentEvent::TurnEnded { reason: EndReason::Cancelled, .. }]),
        "{events:?}"
    );
    // One that has just started is aborted with its other id.
    put_aside(&mut conversation, "r2");
    conversation.steer("and this", "s1", &mut FrameEffects::default());
    let mut out = FrameEffects::default();
    conversation.interrupt(&mut out);
    let asked: Value = serde_json::from_str(&out.frames[0]).unwrap();
    let (_, frames) = answer(&mut conversation, &asked, json!({"aborted": false, "runIds": []}));
    let (_, frames) = answer(&mut conversation, &frames[0], history(&[user("r2")], &[], &["another"]));
    assert_eq!(
        (&frames[0]["method"], &frames[0]["params"]["runId"]),
        (&json!("chat.abort"), &json!("another"))
    );
    assert_eq!(frames.len(), 1, "nothing is said to what is aborted: {frames:?}");
    let (events, _) = take(&mut conversation, chat("another", json!({"state": "aborted"})));
    assert!(
        matches!(&events[..], [AgentEvent::TurnEnded { reason: EndReason::Cancelled, .. }]),
        "{events:?}"
    );
}

#[test]
fn a_run_that_began_or_ended_unseen_is_found() {
    let mut conversation = ready();
    let asked = put_aside(&mut conversation, "r1");
    answer(&mut conversation, &asked, history(&[user("r1")], &[], &["another"]));
    assert_eq!(say(&mut conversation, "another", "yes").len(), 1);
    assert!(is_completed(&finish(&mut conversation, "another", "yes"), "yes"));
    let asked = put_aside(&mut conversation, "r2");
    let messages = [user("r2"), assistant("third", "let me see"), assistant("third", "no"), user("theirs")];
    let (events, _) = answer(&mut conversation, &asked, history(&messages, &[], &[]));
    assert!(is_completed(&events, "no"), "{events:?}");
    assert!(events.iter().any(|event| matches!(event, AgentEvent::Usage { .. })), "{events:?}");
    // Its own message is no longer listed if it has sent very much.
    let asked = put_aside(&mut conversation, "r4");
    assert_eq!(asked["params"]["limit"], crate::limits::GATEWAY_RUN_LOOK);
    let many = vec![assistant("fourth", "and on"); crate::limits::GATEWAY_RUN_LOOK];
    let (events, _) = answer(&mut conversation, &asked, history(&many, &[], &[]));
    assert!(is_completed(&events, "and on"), "{events:?}");
    // A prompt for which nothing is run does not wait forever, and that is reported.
    let asked = put_aside(&mut conversation, "r3");
    let (events, _) = answer(&mut conversation, &asked, history(&[user("r2")], &[], &[]));
    assert!(matches!(&events[0], AgentEvent::Notice { level: Level::Warning, .. }), "{events:?}");
    assert!(is_completed(&events, ""), "{events:?}");
}

#[test]
fn a_prompt_that_waits_outlives_the_connection() {
    let mut conversation = ready();
    let asked = put_aside(&mut conversation, "r1");
    answer(&mut conversation, &asked, history(&[], &["r1"], &["theirs"]));
    phase(&mut conversation, "theirs", "start");
    conversation.lose();
    let mut out = FrameEffects::default();
    conversation.resume(&mut out);
    assert!(out.frames.iter().any(|frame| frame.contains("chat.history")), "{out:?}");
    // The run that had started before may have ended: it is not taken for the prompt's.
    written(&mut conversation, &user("r1"));
    assert!(say(&mut conversation, "theirs", "not ours").is_empty());
    assert!(out.frames.iter().all(|frame| !frame.contains("agent.wait")), "{out:?}");
    // A prompt that was queued while the connection was lost is recognised by its run's empty end.
    let mut conversation = ready();
    prompt(&mut conversation, "r2");
    conversation.lose();
    let mut out = FrameEffects::default();
    conversation.resume(&mut out);
    let wait = out.frames.iter().find(|frame| frame.contains("agent.wait")).unwrap();
    let wait: Value = serde_json::from_str(wait).unwrap();
    let (events, frames) = answer(&mut conversation, &wait, json!({"runId": "r2", "status": "ok"}));
    assert!(events.is_empty() && conversation.is_at_work(), "{events:?}");
    assert_eq!(frames[0]["method"], "chat.history");
}

#[test]
fn a_turn_that_was_taken_up_unseen_is_ended_when_the_gateway_is_back() {
    let mut conversation = ready();
    conversation.lose();
    let mut out = FrameEffects::default();
    conversation.resume(&mut out);
    let asked: Value = serde_json::from_str(out.frames.last().unwrap()).unwrap();
    let found = [user("r0"), recovery("old"), recovery("its own")];
    let (_, frames) = answer(&mut conversation, &asked, history(&found, &[], &["its own"]));
    assert_eq!(
        (&frames[0]["method"], &frames[0]["params"]["runId"]),
        (&json!("chat.abort"), &json!("its own"))
    );
    // As reported some time after the run has started.
    let mut begun = history(&found, &[], &[]);
    begun["sessionInfo"] = json!({"hasActiveRun": true});
    begun["inFlightRun"] = json!({"runId": "its own", "text": "half a"});
    let (_, frames) = answer(&mut conversation, &asked, begun);
    assert_eq!(frames[0]["params"]["runId"], "its own");
    // A run that has ended is left alone, and so is another client's.
    let (events, frames) = answer(&mut conversation, &asked, history(&found, &[], &["theirs"]));
    assert!(events.is_empty() && frames.is_empty(), "{events:?} {frames:?}");
}

#[test]
fn a_run_whose_turn_ended_with_a_daemon_is_ended() {
    let mut conversation = GatewayConversation { had_turns: true, ..conversation() };
    let (_, frames) = greet(&mut conversation);
    let (_, frames) = answer(&mut conversation, &frames[0], json!({"key": "agent:main:k"}));
    let (_, frames) = answer(&mut conversation, &frames[0], json!({}));
    let old = "agent:main:k-1-0123456789abcdef";
    // A prompt sent at once is not affected.
    prompt(&mut conversation, "agent:main:k-1-fedcba9876543210");
    let active = [old, "agent:main:k-1-fedcba9876543210", "of somebody else"];
    let (events, sent) = answer(&mut conversation, &frames[0], history(&[user(old)], &[], &active));
    assert!(matches!(&events[..], [AgentEvent::Notice { level: Level::Info, .. }]), "{events:?}");
    assert_eq!(sent.len(), 1);
    assert_eq!((&sent[0]["method"], &sent[0]["params"]["runId"]), (&json!("chat.abort"), &json!(old)));
}
