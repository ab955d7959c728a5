//! Messages to a run that is open, at its end, or over.

use super::*;

fn steer(talk: &mut Talk, name: &str) -> Value {
    let mut out = Out::default();
    talk.steer("and this", name, &mut out);
    assert!(out.events.is_empty(), "{:?}", out.events);
    serde_json::from_str(&out.frames[0]).unwrap()
}

fn ended(talk: &mut Talk, run: &str) -> Vec<AgentEvent> {
    let message = json!({"content": [{"type": "text", "text": "done"}]});
    take(talk, chat(run, json!({"state": "final", "message": message}))).0
}

fn used(talk: &mut Talk, run: &str) -> Vec<AgentEvent> {
    let used = json!({"role": "assistant", "usage": {"input": 7, "output": 2}, "__openclaw": {"runId": run}});
    let payload = json!({"sessionKey": "agent:main:k", "message": used});
    take(talk, json!({"type": "event", "event": "session.message", "payload": payload})).0
}

fn begins(talk: &mut Talk, run: &str) -> Vec<AgentEvent> {
    take(talk, stream(run, "lifecycle", json!({"phase": "start", "startedAt": 1}))).0
}

#[test]
fn a_message_that_is_refused_does_not_end_the_turn() {
    let mut talk = ready();
    let sent = prompt(&mut talk, "r1");
    answer(&mut talk, &sent, json!({"status": "started"}));
    let steered = steer(&mut talk, "s1");
    assert_eq!(steered["params"]["queueMode"], "steer");
    let (events, _) = refuse(&mut talk, &steered, "too many messages");
    assert!(
        matches!(&events[..], [AgentEvent::Notice { level: Level::Warning, message }] if message.contains("too many")),
        "{events:?}"
    );
    assert!(talk.is_at_work());
    used(&mut talk, "r1");
    let events = ended(&mut talk, "r1");
    assert!(
        matches!(events.last(), Some(AgentEvent::TurnEnded { reason: EndReason::Completed, .. })),
        "{events:?}"
    );
    // A prompt that is refused ends its own.
    let sent = prompt(&mut talk, "r2");
    let (events, _) = refuse(&mut talk, &sent, "too many messages");
    assert!(matches!(&events[..], [AgentEvent::TurnEnded { reason: EndReason::Failed, .. }]), "{events:?}");
}

#[test]
fn a_message_at_the_end_of_a_run_is_the_next_run_of_the_same_turn() {
    let mut talk = ready();
    prompt(&mut talk, "r1");
    ended(&mut talk, "r1");
    assert!(talk.is_over());
    let steered = steer(&mut talk, "s1");
    assert!(steered["params"]["queueMode"] == "followup" && !talk.is_over(), "{steered}");
    // What the first one used is said late, and counts; it ends nothing.
    let events = used(&mut talk, "r1");
    assert!(matches!(&events[..], [AgentEvent::Usage { .. }]), "{events:?}");
    assert!(begins(&mut talk, "s1").is_empty());
    let (events, _) = take(&mut talk, stream("s1", "assistant", json!({"text": "more", "delta": "more"})));
    assert_eq!(events, [AgentEvent::Text { text: "more".to_owned(), parent: None }]);
    used(&mut talk, "s1");
    let (events, _) = take(&mut talk, chat("s1", json!({"state": "final"})));
    assert!(
        matches!(&events[..], [AgentEvent::TurnEnded { reason: EndReason::Completed, text, .. }] if text == "more"),
        "{events:?}"
    );
}

#[test]
fn a_message_that_came_too_late_is_heard_all_the_same() {
    let mut talk = ready();
    prompt(&mut talk, "r1");
    steer(&mut talk, "s1");
    steer(&mut talk, "s2");
    // Taken up by the run: its own name has an end, and no beginning.
    assert!(take(&mut talk, chat("s1", json!({"state": "final"}))).0.is_empty());
    ended(&mut talk, "r1");
    // The other one came behind the run's last word; the turn is not over before that run is.
    assert!(begins(&mut talk, "s2").is_empty());
    assert!(!talk.is_over());
    used(&mut talk, "s2");
    let events = ended(&mut talk, "s2");
    assert!(matches!(events.last(), Some(AgentEvent::TurnEnded { .. })), "{events:?}");
    // And behind the turn's end: it is a turn of its own.
    prompt(&mut talk, "r2");
    steer(&mut talk, "s3");
    used(&mut talk, "r2");
    assert!(matches!(ended(&mut talk, "r2").last(), Some(AgentEvent::TurnEnded { .. })));
    assert_eq!(begins(&mut talk, "s3"), [AgentEvent::TurnStarted]);
    assert!(talk.is_at_work());
    // A run of somebody else at the gateway is not ours.
    talk.run = None;
    assert!(begins(&mut talk, "x").is_empty() && !talk.is_at_work());
}
