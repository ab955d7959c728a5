//! Budgets: tokens (OBEY-2013) and time (OBEY-2014).

use super::script::{after, check};
use crate::session::Status;

#[test]
fn a_turn_that_uses_up_the_budget_is_interrupted_once() {
    check(
        "spec max_tokens=100
         given working
         agent usage 50 40
         agent usage 5 5
         agent usage 1 1
         agent fails aborted",
        r#"usage_reported {"input_tokens":50,"output_tokens":40}
           usage_reported {"input_tokens":5,"output_tokens":5}
           ; error OBEY-2013 "the session has used 100 of its 100 tokens; the turn is ended"
           ; interrupt 1 budget; tell interrupt; arm interrupt 10s
           usage_reported {"input_tokens":1,"output_tokens":1}
           disarm interrupt; turn 1 budget_exceeded error "aborted"; WORKING→RUNNING"#,
    );
}

#[test]
fn a_used_up_budget_refuses_prompts() {
    check(
        "spec max_tokens=100
         given working
         agent usage 100 0
         steer and also
         agent done
         prompt more",
        r#"usage_reported {"input_tokens":100,"output_tokens":0}
           ; error OBEY-2013 "the session has used 100 of its 100 tokens; the turn is ended"
           ; interrupt 1 budget; tell interrupt; arm interrupt 10s
           refused OBEY-2013: the session has used 100 of its 100 tokens
           disarm interrupt; turn 1 completed; WORKING→RUNNING
           refused OBEY-2013: the session has used 100 of its 100 tokens"#,
    );
}

#[test]
fn a_used_up_budget_launches_nothing() {
    check(
        "spec max_tokens=100 launch=on_prompt
         given working
         agent usage 100 0
         agent done
         stop now
         exit 0
         prompt more",
        r#"usage_reported {"input_tokens":100,"output_tokens":0}
           ; error OBEY-2013 "the session has used 100 of its 100 tokens; the turn is ended"
           ; interrupt 1 budget; tell interrupt; arm interrupt 10s
           disarm interrupt; turn 1 completed; WORKING→RUNNING
           disarm start; disarm deadline; RUNNING→STOPPING; ask to leave; arm ask 1.3s
           disarm all; agent exited 0; STOPPING→STOPPED
           refused OBEY-2013: the session has used 100 of its 100 tokens"#,
    );
}

#[test]
fn tokens_between_turns_count_and_interrupt_nothing() {
    check(
        "spec max_tokens=100
         given running
         agent usage 100 0
         prompt hi
         compact",
        r#"usage_reported {"input_tokens":100,"output_tokens":0}
           refused OBEY-2013: the session has used 100 of its 100 tokens
           refused OBEY-2013: the session has used 100 of its 100 tokens"#,
    );
}

#[test]
fn a_budget_used_up_at_the_start_ends_the_turn_that_waits() {
    check(
        "spec max_tokens=100
         prompt hi
         agent usage 100 0
         agent ready",
        r#"turn 1 "hi"; CREATED→STARTING; launch; arm start 60s
           usage_reported {"input_tokens":100,"output_tokens":0}
           ; error OBEY-2013 "the session has used 100 of its 100 tokens; the turn is ended"
           ; turn 1 budget_exceeded error "the session has used 100 of its 100 tokens; the turn is ended"
           disarm start; agent ready; STARTING→RUNNING"#,
    );
}

#[test]
fn tokens_reported_from_outside_count() {
    check(
        "spec max_tokens=100
         given working
         report activity 100",
        r#"activity_reported {"activity":"tool_call","content":"","ok":true,"tokens_input":100,"tokens_output":0}
           ; error OBEY-2013 "the session has used 100 of its 100 tokens; the turn is ended"
           ; interrupt 1 budget; tell interrupt; arm interrupt 10s"#,
    );
    check(
        "given stopped\nreport activity 5",
        r#"activity_reported {"activity":"tool_call","content":"","ok":true,"tokens_input":5,"tokens_output":0}"#,
    );
}

#[test]
fn no_budget_is_no_limit() {
    check(
        "given working\nagent usage 18446744073709551615 18446744073709551615",
        r#"usage_reported {"input_tokens":18446744073709551615,"output_tokens":18446744073709551615}"#,
    );
    let session = after("given working\nagent usage 18446744073709551615 1\nagent usage 1 1");
    assert_eq!(session.state().usage.input_tokens, u64::MAX);
}

#[test]
fn a_deadline_ends_the_session_in_every_live_status() {
    for status in ["starting", "running", "working"] {
        let session = after(&format!("spec timeout=60\ngiven {status}\ntimer deadline\nexit 0"));
        assert_eq!(session.state().status, Status::Failed, "from {status}");
        assert_eq!(session.state().error, "OBEY-2014: the session's timeout of 60 s was reached");
    }
    check(
        "spec timeout=60
         given working
         timer deadline",
        "disarm start; disarm deadline; WORKING→STOPPING; ask to leave; arm ask 1.3s",
    );
}

#[test]
fn a_turn_that_a_deadline_ended_says_so() {
    check(
        "spec timeout=60
         given working
         timer deadline
         exit 0
         prompt hi",
        r#"disarm start; disarm deadline; WORKING→STOPPING; ask to leave; arm ask 1.3s
           disarm all; agent exited 0
           ; turn 1 interrupted error "OBEY-2014: the session's timeout of 60 s was reached"
           ; error OBEY-2014 "the session's timeout of 60 s was reached"
           ; STOPPING→FAILED "OBEY-2014: the session's timeout of 60 s was reached"
           refused OBEY-2014: session sess_1 has reached its timeout; restart it to go on"#,
    );
}

#[test]
fn a_deadline_means_nothing_to_a_session_that_ends_already() {
    for status in ["created", "stopping", "grace", "stopped", "failed"] {
        check(&format!("spec timeout=60\ngiven {status}\ntimer deadline"), "nothing");
    }
}

#[test]
fn a_restart_gives_new_time() {
    check(
        "spec timeout=60
         given running
         timer deadline
         exit 0
         restart
         agent ready
         prompt hi",
        r#"disarm start; disarm deadline; RUNNING→STOPPING; ask to leave; arm ask 1.3s
           disarm all; agent exited 0; error OBEY-2014 "the session's timeout of 60 s was reached"
           ; STOPPING→FAILED "OBEY-2014: the session's timeout of 60 s was reached"
           restarted 1; FAILED→STARTING; launch and resume; arm start 60s; arm deadline 60s
           disarm start; agent ready; STARTING→RUNNING
           turn 1 "hi"; RUNNING→WORKING; tell prompt "hi""#,
    );
}
