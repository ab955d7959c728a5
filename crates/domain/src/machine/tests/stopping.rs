//! Stopping: at once, gracefully, by force, twice; and agents that end on their own.

use super::script::{after, check};
use crate::error::ErrorCode;
use crate::session::Status;

#[test]
fn an_agent_that_the_kernel_killed_for_memory_fails_with_that_reason() {
    check(
        "given working
         oom 2
         exit oom 1",
        r#"warning OBEY-2033 "out of memory (limit 64M, peak 64M): 2 processes that the agent started were killed by the kernel"
           disarm all; agent killed 9; turn 1 interrupted error "OBEY-2033: out of memory (limit 64M, peak 64M): the kernel killed the agent"
           ; error OBEY-2033 "out of memory (limit 64M, peak 64M): the kernel killed the agent"
           ; WORKING→FAILED "OBEY-2033: out of memory (limit 64M, peak 64M): the kernel killed the agent""#,
    );
}

#[test]
fn an_agent_that_could_have_changed_a_protected_file_fails_with_that_reason_also_while_it_is_stopped() {
    check(
        "given working
         exit unprotected /p/.git/config was replaced",
        r#"disarm all; agent killed 9; turn 1 interrupted error "OBEY-2006: /p/.git/config was replaced"
           ; error OBEY-2006 "/p/.git/config was replaced"
           ; WORKING→FAILED "OBEY-2006: /p/.git/config was replaced""#,
    );
    check(
        "given running
         stop now
         exit unprotected /p/.git/config was replaced",
        r#"disarm start; disarm deadline; RUNNING→STOPPING; ask to leave; arm ask 1.3s
           disarm all; agent killed 9; error OBEY-2006 "/p/.git/config was replaced"; STOPPING→STOPPED"#,
    );
}

#[test]
fn a_stop_asks_then_terminates_then_kills() {
    check(
        "given running
         stop now
         timer ask
         timer term
         exit signal 9",
        "disarm start; disarm deadline; RUNNING→STOPPING; ask to leave; arm ask 1.3s
         term; arm term 2s
         kill
         disarm all; agent killed 9; STOPPING→STOPPED",
    );
}

#[test]
fn an_idle_session_stops_gracefully_at_once() {
    check(
        "given running
         stop graceful
         exit 0",
        "disarm start; disarm deadline; RUNNING→STOPPING; ask to leave; arm ask 1.3s
         disarm all; agent exited 0; STOPPING→STOPPED",
    );
}

#[test]
fn a_graceful_stop_lets_the_turn_end() {
    check(
        "given working
         stop graceful
         agent text almost
         agent done bye
         exit 0",
        r#"disarm start; disarm deadline; WORKING→STOPPING; arm grace 30s
           text "almost"
           disarm interrupt; turn 1 completed "bye"; disarm grace; ask to leave; arm ask 1.3s
           disarm all; agent exited 0; STOPPING→STOPPED"#,
    );
    assert!(!after("given grace\nagent done\nexit 0").grace_ran_out());
}

#[test]
fn a_graceful_stop_that_takes_too_long_becomes_a_forced_one() {
    check(
        "given grace
         timer grace
         exit 0",
        r#"warning OBEY-2021 "the turn did not end within 30 s; the session is ended by force"
           ; ask to leave; arm ask 1.3s
           disarm all; agent exited 0; turn 1 interrupted error "the session was stopped"; STOPPING→STOPPED"#,
    );
    assert!(after("given grace\ntimer grace\nexit 0").grace_ran_out());
    assert!(!after("given grace\ntimer grace\nexit 0\nrestart").grace_ran_out());
}

#[test]
fn a_second_harder_stop_overtakes_a_graceful_one() {
    check(
        "given grace
         stop now
         stop now
         exit 0",
        r#"disarm grace; ask to leave; arm ask 1.3s
           nothing
           disarm all; agent exited 0; turn 1 interrupted error "the session was stopped"; STOPPING→STOPPED"#,
    );
    check("given grace\nstop graceful", "nothing");
}

#[test]
fn a_stop_during_the_start_ends_it() {
    check(
        "given starting
         stop now
         exit signal 15",
        "disarm start; disarm deadline; STARTING→STOPPING; ask to leave; arm ask 1.3s
         disarm all; agent killed 15; STOPPING→STOPPED",
    );
}

#[test]
fn a_graceful_stop_does_not_wait_for_a_prompt_that_was_not_told() {
    check(
        "prompt hi
         stop graceful
         agent ready
         exit 0",
        r#"turn 1 "hi"; CREATED→STARTING; launch; arm start 60s
           disarm start; disarm deadline; STARTING→STOPPING; ask to leave; arm ask 1.3s
           disarm start; agent ready
           disarm all; agent exited 0; turn 1 interrupted error "the session was stopped"; STOPPING→STOPPED"#,
    );
}

#[test]
fn a_session_that_never_started_stops_at_once() {
    check("stop now", "CREATED→STOPPED");
    check("stop graceful", "CREATED→STOPPED");
}

#[test]
fn an_ended_session_cannot_be_stopped() {
    check("given stopped\nstop now", "refused OBEY-2020: session sess_1 is STOPPED already");
    check("given failed\nstop graceful", "refused OBEY-2020: session sess_1 is FAILED already");
}

#[test]
fn output_that_arrives_while_stopping_is_kept() {
    check("given stopping\nagent text bye", r#"text "bye""#);
}

#[test]
fn nothing_is_heard_of_an_agent_that_is_gone() {
    for status in ["created", "stopped", "failed"] {
        check(&format!("given {status}\nagent text bye\nexit 0"), "nothing\nnothing");
    }
}

#[test]
fn an_idle_agent_may_leave_by_itself() {
    check("given running\nexit 0", "disarm all; agent exited 0; RUNNING→STOPPED");
    check(
        "given running
         agent ask n1 Bash
         exit 0",
        "request 1 permission Bash
         disarm all; agent exited 0; request 1 withdrawn by agent; RUNNING→STOPPED",
    );
}

#[test]
fn an_idle_agent_that_dies_fails_the_session() {
    check(
        "given running\nexit signal 11",
        r#"disarm all; agent killed 11; error OBEY-2031 "the agent's process ended: killed by signal 11"
           ; RUNNING→FAILED "OBEY-2031: the agent's process ended: killed by signal 11""#,
    );
}

#[test]
fn an_agent_that_ends_while_working_crashed_whatever_its_exit_says() {
    check(
        "given working
         agent tool c1 Bash
         agent ask n1 Bash
         exit 0",
        r#"call c1 Bash
           request 1 permission Bash
           disarm all; agent exited 0; request 1 withdrawn by agent
           ; call c1 Bash failed "not finished when the turn ended"
           ; turn 1 interrupted error "OBEY-2031: the agent's process ended: exited with code 0"
           ; error OBEY-2031 "the agent's process ended: exited with code 0"
           ; WORKING→FAILED "OBEY-2031: the agent's process ended: exited with code 0""#,
    );
}

#[test]
fn an_agent_that_dies_while_it_is_stopped_was_stopped() {
    for status in ["stopping", "grace"] {
        let session = after(&format!("given {status}\nexit signal 11"));
        assert_eq!(session.state().status, Status::Stopped, "while {status}");
        assert_eq!(session.state().error, "");
        assert_eq!(session.state().turn, None);
    }
}

#[test]
fn the_last_words_of_a_dead_agent_are_quoted() {
    let session = after("given running\nagent log one\nagent log two\nexit 3 out of memory");
    assert_eq!(session.state().status, Status::Failed);
    assert_eq!(
        session.state().error,
        "OBEY-2031: the agent's process ended: exited with code 3; out of memory; last lines: one | two"
    );
    assert_eq!(session.state().pid, 0);
}

#[test]
fn an_agent_that_cannot_go_on_is_killed() {
    check(
        "given working
         agent broken its output makes no sense",
        "WORKING→STOPPING; kill",
    );
    let session = after("given working\nagent broken its output makes no sense\nexit signal 9");
    assert_eq!(session.state().error, "OBEY-2031: its output makes no sense");
}

#[test]
fn timers_of_a_stop_mean_nothing_outside_of_one() {
    for status in ["created", "starting", "running", "working", "stopped", "failed"] {
        check(&format!("given {status}\ntimer grace\ntimer ask\ntimer term"), "nothing\nnothing\nnothing");
    }
}

#[test]
fn a_grace_that_runs_out_as_the_turn_ends_did_not_run_out() {
    check(
        "given grace\nagent done\ntimer grace",
        r#"disarm interrupt; turn 1 completed; disarm grace; ask to leave; arm ask 1.3s
           nothing"#,
    );
    assert!(!after("given grace\nagent done\ntimer grace").grace_ran_out());
}

#[test]
fn harder_steps_wait_until_the_agent_was_asked() {
    check("given grace\ntimer ask\ntimer term", "nothing\nnothing");
}

#[test]
fn a_stop_during_a_restart_wins() {
    check(
        "given running
         restart
         stop graceful
         exit 0",
        "disarm start; disarm deadline; RUNNING→STOPPING; ask to leave; arm ask 1.3s
         nothing
         disarm all; agent exited 0; STOPPING→STOPPED",
    );
}

#[test]
fn an_agent_that_breaks_during_a_stop_does_not_turn_it_into_a_failure() {
    check(
        "given grace
         agent broken the stream ended
         timer grace
         exit signal 9",
        r#"warning "the stream ended"; kill
           nothing
           disarm all; agent killed 9; turn 1 interrupted error "the session was stopped"; STOPPING→STOPPED"#,
    );
    let session = after("given running\nrestart\nagent broken the stream ended\nexit signal 9");
    assert_eq!(session.state().status, Status::Starting);
}

#[test]
fn an_agent_that_breaks_at_start_fails_the_creation() {
    let session = after("given starting\nagent broken not logged in\nexit signal 9");
    assert_eq!(session.state().error, "OBEY-2004: not logged in");
}

#[test]
fn an_agent_without_work_is_stopped_and_comes_back_with_the_next_prompt() {
    check(
        r#"spec launch=on_prompt idle=900
           prompt hi
           launched 42
           agent ready
           agent done
           prompt more
           agent done
           timer idle
           exit 0
           prompt again"#,
        r#"turn 1 "hi"; CREATED→STARTING; launch; arm start 60s
           agent started 42
           disarm start; agent ready; STARTING→WORKING; tell prompt "hi"
           disarm interrupt; turn 1 completed; WORKING→RUNNING; arm idle 900s
           turn 2 "more"; RUNNING→WORKING; disarm idle; tell prompt "more"
           disarm interrupt; turn 2 completed; WORKING→RUNNING; arm idle 900s
           disarm start; disarm deadline; RUNNING→STOPPING; disarm idle; ask to leave; arm ask 1.3s
           disarm all; agent exited 0; STOPPING→STOPPED
           turn 3 "again"; STOPPED→STARTING; launch and resume; arm start 60s"#,
    );
}

#[test]
fn an_agent_that_knows_why_it_cannot_start_says_so() {
    let session = after("given starting\nagent broken OBEY-2003 no model x\nexit signal 9");
    assert_eq!(session.state().error, "OBEY-2003: no model x");
    assert_eq!(session.state().error_code, Some(ErrorCode::ModelUnsupported));
}

#[test]
fn a_graceful_stop_waits_for_no_answer() {
    check(
        "given working
         agent ask n1 Bash
         stop graceful",
        "request 1 permission Bash
         disarm start; disarm deadline; WORKING→STOPPING; ask to leave; arm ask 1.3s",
    );
    check(
        "given grace
         agent ask n1 Bash",
        "request 1 permission Bash; disarm grace; ask to leave; arm ask 1.3s",
    );
    // A turn that is being ended is waited for.
    check(
        "given working
         agent ask n1 Bash
         cancel
         stop graceful",
        "request 1 permission Bash
         interrupt 1 cancelled; tell interrupt; arm interrupt 10s
         disarm start; disarm deadline; WORKING→STOPPING; arm grace 30s",
    );
}
