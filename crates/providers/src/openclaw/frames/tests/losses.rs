//! A connection that is lost in the middle of something, and what is made of it when it is there again.

use super::*;

/// Connects again, to the process of a name. Returns all that came of it.
fn back(talk: &mut Talk, boot: &str) -> (Vec<AgentEvent>, Vec<Value>) {
    back_with(talk, boot, &json!([]))
}

/// The same, with approvals that wait at the gateway.
fn back_with(talk: &mut Talk, boot: &str, approvals: &Value) -> (Vec<AgentEvent>, Vec<Value>) {
    let (mut events, mut frames) = greet_as(talk, boot);
    let mut all = Vec::new();
    while !talk.is_connected {
        let asked = frames.remove(0);
        let answered = match asked["method"].as_str().unwrap() {
            "sessions.create" => refuse(talk, &asked, "session exists"),
            "exec.approval.list" => answer(talk, &asked, approvals.clone()),
            _ => answer(talk, &asked, json!({})),
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
    let mut talk = ready();
    prompt(&mut talk, "r1");
    take(&mut talk, stream("r1", "assistant", json!({"delta": "hel"})));
    talk.lose();
    assert!(!talk.is_connected && talk.is_at_work());
    let frames = back(&mut talk, "boot-1").1;
    let wait = find(&frames, "agent.wait");
    let (events, _) = answer(
        &mut talk,
        &wait,
        json!({"runId": "r1", "status": "ok", "endedAt": 2, "terminalReply": {"text": "hello"}}),
    );
    assert_eq!(events[0], AgentEvent::Text { text: "lo".to_owned(), parent: None });
    assert!(matches!(&events[1], AgentEvent::TurnEnded { reason: EndReason::Completed, .. }));
}

#[test]
fn a_run_of_a_gateway_that_was_started_anew_has_failed() {
    let mut talk = ready();
    prompt(&mut talk, "r1");
    let start = json!({"phase": "start", "name": "exec", "toolCallId": "c1", "args": {"command": "ls"}});
    take(&mut talk, stream("r1", "tool", start));
    talk.lose();
    let (events, frames) = back(&mut talk, "boot-2");
    let [
        AgentEvent::ToolFinished { ok: false, .. },
        AgentEvent::TurnEnded { reason: EndReason::Failed, error, .. },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert!(error.starts_with("OBEY-2032: ") && error.contains("started anew"), "{error}");
    assert!(frames.iter().all(|frame| frame["method"] != "agent.wait"), "{frames:?}");
    // What the run said before is over; the next one is heard.
    prompt(&mut talk, "r2");
    assert!(take(&mut talk, chat("r1", json!({"state": "error"}))).0.is_empty());
    assert_eq!(take(&mut talk, stream("r2", "assistant", json!({"text": "a", "delta": "a"}))).0.len(), 1);
}

#[test]
fn a_run_that_goes_on_is_asked_for_until_it_is_over() {
    let mut talk = ready();
    let sent = prompt(&mut talk, "r1");
    answer(&mut talk, &sent, json!({"runId": "r1", "status": "started"}));
    talk.lose();
    let (events, frames) = back(&mut talk, "boot-1");
    assert!(events.is_empty(), "{events:?}");
    let mut wait = find(&frames, "agent.wait");
    for status in [
        json!({"runId": "r1", "status": "timeout"}),
        json!({"runId": "r1", "status": "pending", "timeoutPhase": "queue"}),
        json!({"runId": "r1", "status": "timeout", "error": "HTTP 500", "pendingError": true, "startedAt": 1}),
    ] {
        let (events, frames) = answer(&mut talk, &wait, status);
        assert!(events.is_empty() && frames.is_empty() && talk.is_unsure(), "{events:?} {frames:?}");
        // After a while.
        let mut out = Out::default();
        talk.look(&mut out);
        assert!(!talk.is_unsure());
        wait = serde_json::from_str(&out.frames[0]).unwrap();
        assert_eq!((&wait["method"], &wait["params"]["runId"]), (&json!("agent.wait"), &json!("r1")));
    }
    // An answer about another run is none about this one.
    assert!(answer(&mut talk, &wait, json!({"runId": "r0", "status": "ok", "endedAt": 1})).0.is_empty());
    let aborted =
        json!({"runId": "r1", "status": "timeout", "stopReason": "rpc", "startedAt": 1, "endedAt": 2});
    let (events, _) = answer(&mut talk, &wait, aborted);
    assert!(
        matches!(&events[..], [AgentEvent::TurnEnded { reason: EndReason::Failed, error, .. }] if error.contains("rpc")),
        "{events:?}"
    );
    assert!(!talk.is_unsure());
}

#[test]
fn a_prompt_that_was_lost_on_its_way_is_sent_again() {
    let mut talk = ready();
    let sent = prompt(&mut talk, "r1");
    talk.lose();
    let (_, frames) = back(&mut talk, "boot-1");
    let again = find(&frames, "chat.send");
    // The gateway takes a name once: what it had heard is not heard twice.
    assert_eq!(again["params"], sent["params"]);
    answer(&mut talk, &again, json!({"runId": "r1", "status": "in_flight"}));
    talk.lose();
    let (_, frames) = back(&mut talk, "boot-1");
    assert!(frames.iter().all(|frame| frame["method"] != "chat.send"), "{frames:?}");
}

#[test]
fn a_run_that_the_gateway_does_not_know_has_failed() {
    let mut talk = ready();
    let sent = prompt(&mut talk, "r1");
    answer(&mut talk, &sent, json!({}));
    talk.lose();
    let (_, frames) = back(&mut talk, "boot-1");
    let (events, _) = refuse(&mut talk, &find(&frames, "agent.wait"), "agent run was not found");
    assert!(
        matches!(&events[..], [AgentEvent::TurnEnded { reason: EndReason::Failed, error, .. }]
            if error.starts_with("OBEY-2032: ") && error.contains("not found")),
        "{events:?}"
    );
}
