//! The daemon restarted: agents that survived are reattached, agents that ran inside it are replaced.

use serde_json::json;

use super::script::{after, check, spec};
use crate::redact::Originals;
use crate::session::Status;
use crate::state::State;
use crate::turn::{OpenTurn, PendingPrompt};

/// Rows of sessions are read by later versions, and those of former ones by this one.
#[test]
fn fields_that_were_renamed_are_stored_under_their_former_names() {
    let prompt = PendingPrompt { text: "go".to_owned(), attachments: Vec::new() };
    let originals = Originals { pending_prompt: Some(prompt.clone()), ..Originals::default() };
    assert_eq!(serde_json::to_value(&originals).unwrap()["untold"]["text"], "go");
    let turn = json!({"id": "turn_1", "untold": prompt, "interrupted": null, "calls": {}});
    let turn: OpenTurn = serde_json::from_value(turn).unwrap();
    assert_eq!(turn.pending_prompt, Some(prompt));
    assert_eq!(serde_json::to_value(&turn).unwrap()["untold"]["text"], "go");
    let state = serde_json::to_value(State::default()).unwrap();
    assert_eq!(state["untold"], json!({"mode": false, "tools": false}));
    let spec = serde_json::to_value(spec()).unwrap();
    assert!(spec["upkeep"].is_object() && spec.get("timeouts").is_none(), "{spec}");
}

#[test]
fn a_turn_goes_on_after_the_daemon_came_back() {
    check(
        "given working
         agent tool c1 Bash
         reattached
         agent result c1 ok
         agent done",
        r#"call c1 Bash
           nothing
           call c1 Bash ok ""
           disarm interrupt; turn 1 completed; WORKING→RUNNING"#,
    );
}

#[test]
fn a_request_can_be_answered_after_the_daemon_came_back() {
    check(
        "given working
         agent ask n1 Bash
         reattached
         decide 1 allow_once by anna
         reattached
         decide 1 deny by ben",
        "request 1 permission Bash
         nothing
         request 1 allowed once by anna; tell n1 allowed once
         nothing
         nothing",
    );
}

#[test]
fn a_prompt_that_waits_for_the_agent_is_told_after_the_daemon_came_back() {
    check(
        "spec launch=on_prompt
         prompt hi
         launched 42
         reattached
         agent ready",
        r#"turn 1 "hi"; CREATED→STARTING; launch; arm start 60s
           agent started 42
           arm start 60s
           disarm start; agent ready; STARTING→WORKING; tell prompt "hi""#,
    );
}

#[test]
fn a_cancel_is_waited_for_again() {
    check(
        "given working
         cancel
         reattached
         timer interrupt",
        "interrupt 1 cancelled; tell interrupt; arm interrupt 10s
         arm interrupt 10s
         WORKING→STOPPING; kill",
    );
}

#[test]
fn a_stop_that_was_under_way_is_finished_by_force() {
    for status in ["stopping", "grace"] {
        check(&format!("given {status}\nreattached"), "kill");
        let session = after(&format!("given {status}\nreattached\nexit signal 9"));
        assert_eq!(session.state().status, Status::Stopped);
        assert_eq!(session.state().turn, None);
    }
}

#[test]
fn a_timeout_counts_from_the_original_start() {
    check(
        "spec timeout=60
         given working
         after 20
         reattached
         after 300
         reattached",
        "arm deadline 40s
         arm deadline 0ns",
    );
    check("spec timeout=60\ngiven stopped\nreattached", "nothing");
}

#[test]
fn nothing_happens_to_a_session_at_rest() {
    for status in ["created", "running", "stopped", "failed"] {
        check(&format!("given {status}\nreattached"), "nothing");
    }
    for status in ["created", "stopped", "failed"] {
        check(&format!("given {status}\nrevived"), "nothing");
    }
}

#[test]
fn a_turn_of_an_agent_inside_the_daemon_is_lost_and_says_so() {
    check(
        "given working
         agent tool c1 Bash
         revived
         prompt again",
        r#"call c1 Bash
           call c1 Bash failed "not finished when the turn ended"
           ; turn 1 interrupted error "the daemon ended while the turn was running"; WORKING→RUNNING
           turn 2 "again"; RUNNING→WORKING; tell prompt "again""#,
    );
    check("given starting\nrevived", "STARTING→RUNNING");
}

#[test]
fn nobody_is_left_to_hear_the_answer_to_an_agent_inside_the_daemon() {
    check(
        "given running
         agent ask n1 Bash
         revived",
        "request 1 permission Bash
         request 1 withdrawn by agent",
    );
}

#[test]
fn a_stop_of_an_agent_inside_the_daemon_is_over_with_the_daemon() {
    check("given stopping\nrevived", "STOPPING→STOPPED");
    check(
        "given grace
         agent ask n1 Bash
         revived",
        r#"request 1 permission Bash; disarm grace; ask to leave; arm ask 1.3s
           request 1 withdrawn by agent; turn 1 interrupted error "the session was stopped"; STOPPING→STOPPED"#,
    );
}

#[test]
fn a_revived_session_keeps_its_deadline() {
    check("spec timeout=60\ngiven running\nafter 20\nrevived", "arm deadline 40s");
}
