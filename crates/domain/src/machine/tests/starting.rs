//! Starting an agent: at once, with the first prompt, and what can go wrong before it is ready.

use super::script::{after, check};
use crate::session::Status;

#[test]
fn a_session_starts_and_becomes_idle() {
    check(
        "start
         launched 42
         agent ready",
        "CREATED→STARTING; launch; arm start 60s
         agent started 42
         disarm start; agent ready; STARTING→RUNNING",
    );
    let session = after("given running");
    assert_eq!(session.state().pid, 42);
    assert_eq!(session.state().native_session, "native");
}

#[test]
fn only_a_created_session_can_be_started() {
    for status in ["starting", "running", "working", "stopping", "stopped", "failed"] {
        let name = after(&format!("given {status}")).state().status.name();
        check(
            &format!("given {status}\nstart"),
            &format!("refused OBEY-2011: session sess_1 is {name}, only a created session can be started"),
        );
    }
}

#[test]
fn a_timeout_counts_from_the_start() {
    check("spec timeout=90\nstart", "CREATED→STARTING; launch; arm start 60s; arm deadline 90s");
}

#[test]
fn the_initial_prompt_is_accepted_before_the_agent_is_ready() {
    check(
        "prompt hi by anna
         launched 42
         agent ready",
        r#"turn 1 by anna "hi"; CREATED→STARTING; launch; arm start 60s
           agent started 42
           disarm start; agent ready; STARTING→WORKING; tell prompt "hi""#,
    );
}

#[test]
fn a_prompt_launches_a_session_that_waits_for_one() {
    check(
        "spec launch=on_prompt
         prompt hi by anna
         launched 42
         agent ready
         agent done",
        r#"turn 1 by anna "hi"; CREATED→STARTING; launch; arm start 60s
           agent started 42
           disarm start; agent ready; STARTING→WORKING; tell prompt "hi"
           disarm interrupt; turn 1 completed; WORKING→RUNNING"#,
    );
}

#[test]
fn a_stopped_session_that_waits_for_prompts_resumes_with_the_next_one() {
    check(
        "spec launch=on_prompt
         given stopped
         prompt again
         launched 43
         agent ready",
        r#"turn 1 "again"; STOPPED→STARTING; launch and resume; arm start 60s
           agent started 43
           disarm start; agent ready; STARTING→WORKING; tell prompt "again""#,
    );
}

#[test]
fn a_second_prompt_waits_for_nobody() {
    check(
        "spec launch=on_prompt
         prompt hi
         prompt ho",
        r#"turn 1 "hi"; CREATED→STARTING; launch; arm start 60s
           refused OBEY-2011: session sess_1 is STARTING, a prompt needs a RUNNING one"#,
    );
}

#[test]
fn a_failed_session_is_restarted_not_prompted() {
    check(
        "given failed
         prompt hi",
        "refused OBEY-2011: session sess_1 is FAILED, a prompt needs a RUNNING one",
    );
}

#[test]
fn a_launch_that_fails_ends_the_session() {
    check(
        "start
         launch_failed no such program",
        r#"CREATED→STARTING; launch; arm start 60s
           disarm all; error OBEY-2030 "no such program"
           ; STARTING→FAILED "OBEY-2030: no such program""#,
    );
}

#[test]
fn a_launch_that_fails_ends_the_turn_it_was_for() {
    check(
        "spec launch=on_prompt
         prompt hi
         launch_failed no such program",
        r#"turn 1 "hi"; CREATED→STARTING; launch; arm start 60s
           disarm all; turn 1 interrupted error "OBEY-2030: no such program"
           ; error OBEY-2030 "no such program"; STARTING→FAILED "OBEY-2030: no such program""#,
    );
}

#[test]
fn a_launch_that_fails_during_a_stop_completes_the_stop() {
    check(
        "start
         stop now
         launch_failed no such program",
        "CREATED→STARTING; launch; arm start 60s
         disarm start; disarm deadline; STARTING→STOPPING; ask to leave; arm ask 1.3s
         disarm all; STOPPING→STOPPED",
    );
}

#[test]
fn a_launch_that_fails_late_changes_nothing_any_more() {
    for status in ["created", "stopped", "failed"] {
        check(&format!("given {status}\nlaunch_failed no such program"), "nothing");
    }
}

#[test]
fn an_agent_that_comes_when_nobody_waits_is_killed() {
    for status in ["created", "stopped", "failed"] {
        check(&format!("given {status}\nlaunched 43"), "kill");
    }
    check(
        "start\nstop now\nlaunched 42",
        "CREATED→STARTING; launch; arm start 60s
         disarm start; disarm deadline; STARTING→STOPPING; ask to leave; arm ask 1.3s
         agent started 42",
    );
}

#[test]
fn an_agent_that_ends_at_start_fails_the_creation() {
    check(
        "given starting
         agent log bad flag --x
         exit 2",
        r#"agent_logged {"line":"bad flag --x"}
           disarm all; agent exited 2
           ; error OBEY-2004 "the agent ended at start: exited with code 2; last lines: bad flag --x"
           ; STARTING→FAILED "OBEY-2004: the agent ended at start: exited with code 2; last lines: bad flag --x""#,
    );
}

#[test]
fn an_agent_that_is_never_ready_is_killed() {
    check(
        "given starting
         agent log waiting for login
         timer start
         exit signal 9",
        r#"agent_logged {"line":"waiting for login"}
           STARTING→STOPPING; kill
           disarm all; agent killed 9
           ; error OBEY-2004 "the agent was not ready within 60 s; last lines: waiting for login"
           ; STOPPING→FAILED "OBEY-2004: the agent was not ready within 60 s; last lines: waiting for login""#,
    );
}

#[test]
fn the_start_timer_means_nothing_once_the_agent_is_ready() {
    check("given running\ntimer start", "nothing");
}

#[test]
fn a_ready_agent_may_say_so_again() {
    check("given working\nagent ready native2 opus", "disarm start; agent ready");
    let session = after("given working\nagent ready native2 opus");
    assert_eq!(session.state().native_session, "native2");
    assert_eq!(session.state().model, "opus");
}

#[test]
fn what_changes_during_the_start_is_told_when_the_agent_is_ready() {
    check(
        "prompt hi
         mode plan
         tools editor open
         agent ready
         mode supervised",
        r#"turn 1 "hi"; CREATED→STARTING; launch; arm start 60s
           mode_changed {"mode":"plan"}
           tools_registered {"source":"editor","tools":[{"description":"","exclusive":false,"input_schema":{},"name":"open"}]}
           disarm start; agent ready; tell mode plan; tell tools open; STARTING→WORKING; tell prompt "hi"
           mode_changed {"mode":"supervised"}; tell mode supervised"#,
    );
    check(
        "mode plan\nstart\nagent ready",
        r#"mode_changed {"mode":"plan"}
           CREATED→STARTING; launch; arm start 60s
           disarm start; agent ready; STARTING→RUNNING"#,
    );
}

#[test]
fn a_restart_launches_from_every_status_at_rest() {
    check("restart", "restarted 1; CREATED→STARTING; launch; arm start 60s");
    check("given stopped\nrestart", "restarted 1; STOPPED→STARTING; launch and resume; arm start 60s");
    check("given failed\nrestart", "restarted 1; FAILED→STARTING; launch and resume; arm start 60s");
}

#[test]
fn a_restart_stops_a_living_agent_first() {
    for status in ["starting", "running"] {
        let session = after(&format!("given {status}\nrestart\nexit 0"));
        assert_eq!(session.state().status, Status::Starting, "from {status}");
        assert_eq!(session.state().restart_count, 1);
    }
    check(
        "given working
         restart
         exit 0
         launched 43
         agent ready",
        r#"disarm start; disarm deadline; WORKING→STOPPING; ask to leave; arm ask 1.3s
           disarm all; agent exited 0; turn 1 interrupted error "the session was restarted"
           ; STOPPING→STOPPED; restarted 1; STOPPED→STARTING; launch and resume; arm start 60s
           agent started 43
           disarm start; agent ready; STARTING→RUNNING"#,
    );
}

#[test]
fn a_restart_waits_for_a_stop_that_is_under_way() {
    for status in ["stopping", "grace"] {
        check(
            &format!("given {status}\nrestart"),
            "refused OBEY-2011: session sess_1 is STOPPING, wait until it has stopped, then restart it",
        );
    }
}

#[test]
fn a_restart_may_change_the_provider_config() {
    let session = after("given stopped\nrestart effort=high tools=none");
    let config = &session.spec().provider_config;
    assert_eq!(config.get("effort").map(String::as_str), Some("high"));
    assert_eq!(config.get("tools").map(String::as_str), Some("none"));
    assert_eq!(after("given stopping\nrestart effort=high").spec().provider_config.len(), 0);
}

#[test]
fn a_restart_forgets_the_error_and_counts_on() {
    let session = after("given failed\nrestart\nlaunched 43\nagent ready\nexit 1\nrestart");
    assert_eq!(session.state().restart_count, 2);
    assert_eq!(session.state().error, "");
    assert_eq!(session.state().error_code, None);
    assert_eq!(session.state().ended_at, None);
    assert!(session.state().stderr_tail.is_empty());
}

#[test]
fn what_an_agent_is_started_with_is_changed_while_there_is_none() {
    check(
        "spec launch=on_prompt
         configure sandbox=read-only",
        r#"info "the agent's settings were changed: sandbox""#,
    );
    check(
        "given running
         configure sandbox=read-only",
        "refused OBEY-2011: session sess_1 is RUNNING, its agent must be stopped before it is started differently",
    );
}
