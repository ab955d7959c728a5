//! Budgets: tokens (OBEY-2013) and time (OBEY-2014).

use super::script::{Play, after, check};
use crate::command::Command;
use crate::id::RequestId;
use crate::machine::Input;
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
           disarm interrupt; turn 1 budget_exceeded error "aborted"; WORKING→RUNNING
           ; request 1 question budget"#,
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
           refused OBEY-2013: the session has used 100 of its 100 tokens; raise it with `obey session budget sess_1`
           disarm interrupt; turn 1 completed; WORKING→RUNNING
           refused OBEY-2013: the session has used 100 of its 100 tokens; raise it with `obey session budget sess_1`"#,
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
           refused OBEY-2013: the session has used 100 of its 100 tokens; raise it with `obey session budget sess_1`"#,
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
           refused OBEY-2013: the session has used 100 of its 100 tokens; raise it with `obey session budget sess_1`
           refused OBEY-2013: the session has used 100 of its 100 tokens; raise it with `obey session budget sess_1`"#,
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
           ; request 1 question budget
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

#[test]
fn every_part_of_a_budget_stops_a_turn() {
    for (budget, uses) in [
        ("usd=1", "agent cost 1000000 0"),
        ("usd=1", "agent cost 0 1000000"),
        ("calls=1", "agent tool c1 Bash"),
        ("minutes=1", "after 60\ntimer budget"),
        ("tokens=5", "agent usage 5 0"),
    ] {
        let session = after(&format!("given working\nbudget {budget}\n{uses}"));
        let turn = session.state().turn.as_ref().unwrap();
        assert!(turn.interrupted.is_some(), "{budget}: {turn:?}");
    }
}

#[test]
fn an_estimated_cost_is_replaced_by_the_reported_one() {
    let session =
        after("given working\nbudget usd=1\nagent cost 0 900000\nagent cost 300000 0\nagent cost 0 600000");
    assert_eq!(session.state().usage.spent_micro_usd(), 900_000);
    assert_eq!(session.state().turn.as_ref().unwrap().interrupted, None);
}

#[test]
fn a_raised_budget_goes_on_with_the_same_conversation() {
    check(
        "spec max_tokens=100
         given working
         agent usage 100 0
         agent fails aborted
         prompt hi
         budget tokens=300 by anna
         agent done",
        r#"usage_reported {"input_tokens":100,"output_tokens":0}
           ; error OBEY-2013 "the session has used 100 of its 100 tokens; the turn is ended"
           ; interrupt 1 budget; tell interrupt; arm interrupt 10s
           disarm interrupt; turn 1 budget_exceeded error "aborted"; WORKING→RUNNING; request 1 question budget
           refused OBEY-2013: the session has used 100 of its 100 tokens; raise it with `obey session budget sess_1`
           budget_changed {"budget":{"tokens":300},"by":"anna"}; request 1 answered by anna
           ; turn 2 by anna "Go on where you stopped."; RUNNING→WORKING; tell prompt "Go on where you stopped."
           disarm interrupt; turn 2 completed; WORKING→RUNNING"#,
    );
}

#[test]
fn the_question_about_a_budget_is_answered_with_one_of_its_options() {
    let stopped =
        "spec max_tokens=100\ngiven working\nqueue add later\nagent usage 130 0\nagent fails aborted";
    let mut play = Play::new();
    for line in stopped.lines() {
        play.line(line);
    }
    let answer = |answer: &str| {
        let answers = std::collections::BTreeMap::from([("budget".to_owned(), answer.to_owned())]);
        Input::Command(Command::Answer { request: RequestId(1), answers, by: "anna".to_owned() })
    };
    let now = play.now;
    assert!(play.machine.apply(now, answer("perhaps")).is_err());
    let mut left = play.machine.clone();
    left.apply(now, answer("Leave it")).unwrap();
    assert_eq!(left.state().status, Status::Running);
    play.machine.apply(now, answer("Raise it and go on")).unwrap();
    let state = play.machine.state();
    assert_eq!(state.status, Status::Working);
    assert_eq!(state.budget.unwrap().tokens, Some(230));
    assert_eq!(state.queue.entries.len(), 1, "the interrupted turn goes on first");
    play.line("agent done");
    assert!(play.machine.state().queue.entries.is_empty());
}

#[test]
fn working_time_counts_only_while_a_turn_is_open() {
    let session = after("given working\nafter 20\nagent done\nafter 500\nprompt hi\nafter 10\nagent done");
    assert_eq!(session.state().work_ms, 30_000);
}

#[test]
fn a_rate_limit_parks_the_session_and_ends_by_itself() {
    check(
        "given working
         queue add later
         agent limited 3600 five-hour limit reached
         agent fails limit
         after 3599
         timer rate_limit
         after 1
         timer rate_limit
         agent done",
        r#"queue_changed {"change":"added","entry":"q_1","prompt":"later"}
           rate_limited {"attempt":1,"reason":"five-hour limit reached","resumes_at":3600000000}
           disarm interrupt; turn 1 failed error "limit"; WORKING→RUNNING; arm rate_limit 20s
           arm rate_limit 1s
           rate_limit_ended {}; turn 2 by obey "Go on where you stopped."; RUNNING→WORKING
           ; tell prompt "Go on where you stopped."
           disarm interrupt; turn 2 completed; WORKING→RUNNING
           ; queue_changed {"change":"sent","entry":"q_1","turn":"turn_3"}
           ; turn 3 "later"; RUNNING→WORKING; tell prompt "later""#,
    );
}

#[test]
fn a_rate_limit_that_the_agent_outlasts_changes_nothing() {
    let session = after("given working\nagent limited 60 busy\nagent done");
    assert_eq!(session.state().rate_limit, None);
    assert_eq!(session.state().status, Status::Running);
}

#[test]
fn waiting_for_a_rate_limit_survives_the_daemon_and_ends_with_a_cancel() {
    let parked = "given working\nagent limited 100 busy\nagent fails limit";
    check(
        &format!("{parked}\nafter 40\nreattached\ncancel\ntimer rate_limit"),
        r#"rate_limited {"attempt":1,"reason":"busy","resumes_at":100000000}
           disarm interrupt; turn 1 failed error "limit"; WORKING→RUNNING; arm rate_limit 20s
           arm rate_limit 20s
           disarm rate_limit; rate_limit_ended {}
           nothing"#,
    );
}

#[test]
fn an_end_of_a_rate_limit_that_is_known_stays_known_and_one_that_is_over_is_not() {
    let resumes = |script: &str| after(script).state().rate_limit.clone().unwrap().resumes_at.0 / 1_000_000;
    let told_twice = "given working\nagent limited 3600 plan\nagent limited never busy\nagent fails limit";
    assert_eq!(resumes(told_twice), 3600);
    assert_eq!(resumes("given working\nafter 10\nagent limited 0 busy\nagent fails limit"), 70);
}

#[test]
fn a_rate_limit_without_an_end_is_waited_for_longer_each_time() {
    let wait = |script: &str| {
        let state = after(script).state().clone();
        state.rate_limit.unwrap().resumes_at.0 / 1_000_000
    };
    let once = "given working\nagent limited never busy\nagent fails limit";
    assert_eq!(wait(once), 60);
    let again = "after 60\ntimer rate_limit\nagent limited never busy\nagent fails limit";
    assert_eq!(wait(&format!("{once}\n{again}")), 60 + 120);
}
