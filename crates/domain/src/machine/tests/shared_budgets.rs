//! Budgets that sessions share (OBEY-2013): a used-up one stops every session that has a share in it, and raising it lets
//! those go on that it stopped.

use super::script::{Play, after, check};
use crate::command::Command;
use crate::id::RequestId;
use crate::machine::{Effect, Input};
use crate::session::Status;

#[test]
fn a_used_up_shared_budget_stops_the_turn_asks_and_goes_on_when_anybody_raises_it() {
    check(
        "given working
         shared campaign
         shared_changed
         agent fails aborted
         prompt more
         shared none
         shared_changed by anna",
        r#"error OBEY-2013 "the campaign has used 5 of its 5 tokens; the turn is ended"
           ; interrupt 1 budget; tell interrupt; arm interrupt 10s
           disarm interrupt; turn 1 budget_exceeded error "aborted"; WORKING→RUNNING; request 1 question budget-campaign
           refused OBEY-2013: the campaign has used 5 of its 5 tokens; raise it with `obey budget`
           request 1 answered by anna
           ; turn 2 by anna "Go on where you stopped."; RUNNING→WORKING; tell prompt "Go on where you stopped.""#,
    );
}

#[test]
fn an_answer_raises_the_budget_for_everybody_even_after_the_daemon_was_killed() {
    let mut play = Play::new();
    for line in
        ["given working", "shared day", "shared_changed", "agent fails aborted", "reattached", "shared day"]
    {
        play.line(line);
    }
    let answers = |answer: &str| {
        let answers = std::collections::BTreeMap::from([("budget-day".to_owned(), answer.to_owned())]);
        Input::Command(Command::Answer { request: RequestId(1), answers, by: "anna".to_owned() })
    };
    let now = play.now;
    let mut left = play.machine.clone();
    left.apply(now, answers("Leave it")).unwrap();
    assert_eq!(left.state().status, Status::Running);
    let effects = play.machine.apply(now, answers("Raise it and go on")).unwrap();
    assert!(
        matches!(effects.last(), Some(Effect::RaiseSharedBudget { by, .. }) if by == "anna"),
        "{effects:?}"
    );
    assert_eq!(play.machine.state().status, Status::Running, "it goes on once the budget is raised");
    play.line("shared none");
    play.line("shared_changed by anna");
    assert_eq!(play.machine.state().status, Status::Working);
}

const STOPPED_BY_THE_DAY: &str = "given working\nshared day\nshared_changed\nagent fails aborted";

#[test]
fn a_new_day_lets_a_session_go_on_that_the_budget_of_a_day_stopped() {
    check(
        &format!("{STOPPED_BY_THE_DAY}\nqueue add later\nshared none\nshared_changed\nagent done"),
        r#"error OBEY-2013 "the day has used 5 of its 5 tokens; the turn is ended"
           ; interrupt 1 budget; tell interrupt; arm interrupt 10s
           disarm interrupt; turn 1 budget_exceeded error "aborted"; WORKING→RUNNING; request 1 question budget-day
           queue_changed {"change":"added","entry":"q_1","prompt":"later"}
           ; queue_changed {"change":"paused","reason":"the day has used 5 of its 5 tokens; raise it with `obey budget`"}
           request 1 answered by obey
           ; turn 2 by obey "Go on where you stopped."; RUNNING→WORKING; tell prompt "Go on where you stopped."
           disarm interrupt; turn 2 completed; queue_changed {"change":"resumed"}; WORKING→RUNNING
           ; queue_changed {"change":"sent","entry":"q_1","turn":"turn_3"}
           ; turn 3 "later"; RUNNING→WORKING; tell prompt "later""#,
    );
}

#[test]
fn a_new_day_changes_nothing_for_a_session_that_was_left_or_that_a_budget_without_a_day_stopped() {
    let mut play = Play::new();
    STOPPED_BY_THE_DAY.lines().for_each(|line| drop(play.line(line)));
    let answers = std::collections::BTreeMap::from([("budget-day".to_owned(), "Leave it".to_owned())]);
    let answer = Command::Answer { request: RequestId(1), answers, by: "anna".to_owned() };
    play.machine.apply(play.now, Input::Command(answer)).unwrap();
    play.line("shared none");
    play.line("shared_changed");
    assert_eq!(play.machine.state().status, Status::Running);
    let campaign =
        "given working\nshared campaign\nshared_changed\nagent fails aborted\nshared none\nshared_changed";
    assert_eq!(after(campaign).state().status, Status::Running);
    assert_eq!(after(campaign).state().requests.len(), 1);
}

#[test]
fn prompts_that_waited_for_a_new_day_are_sent_when_it_begins() {
    let waiting = "given running\nshared day\nqueue add later\nshared none\nshared_changed";
    assert_eq!(after(waiting).state().status, Status::Working);
    let failed = "given working\nqueue add later\nagent fails x\nshared_changed";
    assert_eq!(after(failed).state().status, Status::Running, "a queue that waits for another reason");
}

#[test]
fn a_session_that_its_own_budget_stopped_does_not_go_on_with_a_shared_one() {
    let stopped =
        "spec max_tokens=100\ngiven working\nagent usage 100 0\nagent fails aborted\nshared_changed by anna";
    let session = after(stopped);
    assert_eq!(session.state().status, Status::Running);
    assert_eq!(session.state().requests.len(), 1);
}

#[test]
fn both_budgets_are_asked_about_one_after_the_other() {
    check(
        "spec max_tokens=100
         given working
         shared campaign
         agent usage 100 0
         agent fails aborted
         budget tokens=300 by anna
         shared none
         shared_changed by anna",
        r#"usage_reported {"input_tokens":100,"output_tokens":0}
           ; error OBEY-2013 "the session has used 100 of its 100 tokens; the turn is ended"
           ; interrupt 1 budget; tell interrupt; arm interrupt 10s
           disarm interrupt; turn 1 budget_exceeded error "aborted"; WORKING→RUNNING; request 1 question budget
           budget_changed {"budget":{"tokens":300},"by":"anna"}; request 1 answered by anna
           ; request 2 question budget-campaign
           request 2 answered by anna
           ; turn 2 by anna "Go on where you stopped."; RUNNING→WORKING; tell prompt "Go on where you stopped.""#,
    );
}

#[test]
fn prompts_that_waited_for_a_shared_budget_are_sent_when_it_is_raised() {
    let waiting = "given running\nshared day\nqueue add later";
    assert_eq!(after(waiting).state().queue.entries.len(), 1);
    let raised = after(&format!("{waiting}\nshared none\nshared_changed by anna"));
    assert!(raised.state().queue.entries.is_empty());
    assert_eq!(raised.state().status, Status::Working);
}
