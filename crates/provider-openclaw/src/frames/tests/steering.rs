//! Messages to a run that is open, at its end, or over.

use super::*;

fn steer(conversation: &mut GatewayConversation, name: &str) -> Value {
    let mut out = FrameEffects::default();
    conversation.steer("and this", name, &mut out);
    assert!(out.events.is_empty(), "{:?}", out.events);
    serde_json::from_str(&out.frames[0]).unwrap()
}

fn ended(conversation: &mut GatewayConversation, run: &str) -> Vec<AgentEvent> {
    let message = json!({"content": [{"type": "text", "text": "done"}]});
    take(conversation, chat(run, json!({"state": "final", "message": message}))).0
}

fn used(conversation: &mut GatewayConversation, run: &str) -> Vec<AgentEvent> {
    let used = json!({"role": "assistant", "usage": {"input": 7, "output": 2}, "__openclaw": {"runId": run}});
    let payload = json!({"sessionKey": "agent:main:k", "message": used});
    take(conversation, json!({"type": "event", "event": "session.message", "payload": payload})).0
}

fn begins(conversation: &mut GatewayConversation, run: &str) -> Vec<AgentEvent> {
    take(conversation, stream(run, "lifecycle", json!({"phase": "start", "startedAt": 1}))).0
}

#[test]
fn a_message_that_is_refused_does_not_end_the_turn() {
    let mut conversation = ready();
    let sent = prompt(&mut conversation, "r1");
    answer(&mut conversation, &sent, json!({"status": "started"}));
    let steered = steer(&mut conversation, "s1");
    assert_eq!(steered["params"]["queueMode"], "steer");
    let (events, _) = refuse(&mut conversation, &steered, "too many messages");
    assert!(
        matches!(&events[..], [AgentEvent::Notice { level: Level::Warning, message }] if message.contains("too many")),
        "{events:?}"
    );
    assert!(conversation.is_at_work());
    used(&mut conversation, "r1");
    let events = ended(&mut conversation, "r1");
    assert!(
        matches!(events.last(), Some(AgentEvent::TurnEnded { reason: EndReason::Completed, .. })),
        "{events:?}"
    );
    // A prompt that is refused ends its own run.
    let sent = prompt(&mut conversation, "r2");
    let (events, _) = refuse(&mut conversation, &sent, "too many messages");
    assert!(matches!(&events[..], [AgentEvent::TurnEnded { reason: EndReason::Failed, .. }]), "{events:?}");
}

#[test]
fn a_message_at_the_end_of_a_run_is_the_next_run_of_the_same_turn() {
    let mut conversation = ready();
    prompt(&mut conversation, "r1");
    ended(&mut conversation, "r1");
    assert!(conversation.is_over());
    let steered = steer(&mut conversation, "s1");
    assert!(steered["params"]["queueMode"] == "followup" && !conversation.is_over(), "{steered}");
    // The usage of the first run arrives late, and counts; it ends nothing.
    let events = used(&mut conversation, "r1");
    assert!(matches!(&events[..], [AgentEvent::Usage { .. }]), "{events:?}");
    assert!(begins(&mut conversation, "s1").is_empty());
    let (events, _) =
        take(&mut conversation, stream("s1", "assistant", json!({"text": "more", "delta": "more"})));
    assert_eq!(events, [AgentEvent::Text { text: "more".to_owned(), parent: None }]);
    used(&mut conversation, "s1");
    let (events, _) = take(&mut conversation, chat("s1", json!({"state": "final"})));
    assert!(
        matches!(&events[..], [AgentEvent::TurnEnded { reason: EndReason::Completed, text, .. }] if text == "more"),
        "{events:?}"
    );
}

#[test]
fn a_message_that_came_too_late_is_heard_all_the_same() {
    let mut conversation = ready();
    prompt(&mut conversation, "r1");
    steer(&mut conversation, "s1");
    steer(&mut conversation, "s2");
    // Added to the run: its own id has an end, but no start.
    assert!(take(&mut conversation, chat("s1", json!({"state": "final"}))).0.is_empty());
    ended(&mut conversation, "r1");
    // The other one arrived after the run's last message; the turn does not end before that run.
    assert!(begins(&mut conversation, "s2").is_empty());
    assert!(!conversation.is_over());
    used(&mut conversation, "s2");
    let events = ended(&mut conversation, "s2");
    assert!(matches!(events.last(), Some(AgentEvent::TurnEnded { .. })), "{events:?}");
    // And after the turn's end: it is a new turn.
    prompt(&mut conversation, "r2");
    steer(&mut conversation, "s3");
    used(&mut conversation, "r2");
    assert!(matches!(ended(&mut conversation, "r2").last(), Some(AgentEvent::TurnEnded { .. })));
    assert_eq!(begins(&mut conversation, "s3"), [AgentEvent::TurnStarted]);
    assert!(conversation.is_at_work());
    // A run of another client of the gateway is not ours.
    conversation.run = None;
    assert!(begins(&mut conversation, "x").is_empty() && !conversation.is_at_work());
}
