//! What an overview says of sessions that scripts have brought somewhere, and what it says of any session.

use std::time::Duration;

use proptest::prelude::*;

use super::properties::{config, scripts};
use super::script::Play;
use crate::limits;
use crate::overview::{
    Assessment, Evidence, LastLine, SessionFacts, SessionState, StateCause, assess, changes_at,
};
use crate::session::Status;
use crate::time::Timestamp;

/// A script, then a look at the session.
fn play(script: &str) -> Play {
    let mut play = Play::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(Err(error)) = play.line(line) {
            panic!("{line}: {error}");
        }
    }
    play
}

fn facts(play: &Play) -> SessionFacts {
    SessionFacts::of(play.machine.spec(), play.machine.state())
}

fn look(play: &Play, evidence: &Evidence, seen_at: Option<Timestamp>) -> Assessment {
    let evidence = Evidence { last_event_at: play.machine.state().last_activity_at, ..*evidence };
    assess(&facts(play), &evidence, seen_at, play.now)
}

/// Returns state, cause and reason after a script that nobody has looked at.
fn told(script: &str) -> (SessionState, StateCause, String) {
    let found = look(&play(script), &Evidence::default(), None);
    (found.state, found.cause, found.reason)
}

#[track_caller]
fn check(script: &str, state: SessionState, cause: StateCause, reason: &str) {
    assert_eq!(told(script), (state, cause, reason.to_owned()));
}

#[test]
fn a_permission_needs_a_person_and_names_the_command() {
    check(
        r#"given working
           agent tool c1 Bash
           agent ask n1 Bash {"command":"git push origin main"}"#,
        SessionState::NeedsYou,
        StateCause::Permission,
        "wants: Bash git push origin main",
    );
}

#[test]
fn a_question_needs_a_person() {
    let (state, cause, reason) = told("given working\nagent question n3 q1");
    assert_eq!((state, cause), (SessionState::NeedsYou, StateCause::Question));
    assert!(reason.starts_with("asks: "), "{reason}");
}

#[test]
fn the_oldest_request_is_named_and_the_others_are_counted() {
    let session = play(
        r#"given working
           after 5
           agent ask n1 Bash {"command":"ls"}
           after 60
           agent ask n2 Edit"#,
    );
    let found = look(&session, &Evidence::default(), None);
    assert_eq!(found.reason, "wants: Bash ls (and 1 more)");
    assert_eq!(found.since, Timestamp(5_000_000));
}

#[test]
fn an_answered_request_no_longer_needs_a_person() {
    check(
        r#"given working
           agent ask n1 Bash {"command":"ls"}
           decide 1 allow_once by anna"#,
        SessionState::Working,
        StateCause::Turn,
        "works on turn 1",
    );
}

#[test]
fn a_failed_turn_is_told_with_its_error_until_somebody_looks() {
    let session = play("given working\nafter 3\nagent fails Invalid API key\nafter 60");
    let found = look(&session, &Evidence::default(), None);
    assert_eq!((found.state, found.cause), (SessionState::Failed, StateCause::TurnFailed));
    assert_eq!(found.reason, "turn 1 failed: Invalid API key");
    assert_eq!(found.since, Timestamp(3_000_000));
    let seen = look(&session, &Evidence::default(), Some(Timestamp(3_000_000)));
    assert_eq!(seen.state, SessionState::Idle);
    assert_eq!(seen.reason, "its last turn failed: Invalid API key");
}

#[test]
fn an_idle_session_without_budget_does_not_claim_to_wait_for_a_prompt() {
    let session =
        play("spec max_tokens=100\ngiven working\nagent usage 100 0\nafter 3\nagent done\nafter 60");
    let found = look(&session, &Evidence::default(), Some(Timestamp(3_000_000)));
    assert_eq!((found.state, found.cause), (SessionState::Idle, StateCause::BudgetExceeded));
    assert_eq!(found.reason, "has used 100 of its 100 tokens and refuses prompts; raise the budget");
    assert_eq!(found.since, Timestamp(3_000_000));
}

#[test]
fn an_agent_that_died_is_told_from_one_that_could_not_start() {
    let (state, cause, reason) = told("given working\nexit signal 9");
    assert_eq!((state, cause), (SessionState::Failed, StateCause::AgentDied));
    assert!(reason.contains("killed by signal 9"), "{reason}");
    let (state, cause, _) = told("start\nlaunched 42\nexit 1 no such model");
    assert_eq!((state, cause), (SessionState::Failed, StateCause::StartFailed));
    let (state, cause, _) = told("given working\nexit oom 1");
    assert_eq!((state, cause), (SessionState::Failed, StateCause::OutOfMemory));
}

#[test]
fn a_finished_turn_is_done_until_somebody_looks_and_then_idle() {
    let session = play("given working\nafter 3\nagent done\nafter 60");
    assert_eq!(look(&session, &Evidence::default(), None).state, SessionState::Done);
    let before = look(&session, &Evidence::default(), Some(Timestamp(2_999_999)));
    assert_eq!(before.state, SessionState::Done, "what was looked at came before its end");
    let seen = look(&session, &Evidence::default(), Some(Timestamp(3_000_000)));
    assert_eq!((seen.state, seen.cause), (SessionState::Idle, StateCause::NoTurn));
}

#[test]
fn a_cancelled_turn_needs_no_look() {
    let (state, ..) = told("given working\ncancel\nagent fails aborted");
    assert_eq!(state, SessionState::Idle);
}

#[test]
fn a_restart_forgets_how_the_run_before_it_ended() {
    let (state, ..) = told("given working\nrestart\nexit 0\nlaunched 43\nagent ready");
    assert_eq!(state, SessionState::Idle);
}

#[test]
fn a_stopped_session_has_ended_unless_a_prompt_would_wake_it_with_something_unseen() {
    check("given stopped", SessionState::Ended, StateCause::Stopped, "stopped");
    let woken = "spec launch=on_prompt idle=900
                 prompt hi
                 launched 42
                 agent ready
                 agent done
                 timer idle
                 exit 0";
    assert_eq!(told(woken).0, SessionState::Done);
    let session = play(woken);
    let seen = look(&session, &Evidence::default(), Some(session.now));
    assert_eq!(seen.state, SessionState::Ended);
}

#[test]
fn a_rate_limit_and_a_lost_connection_are_told_from_work() {
    check(
        "given working\nagent waits OBEY-2034 rate limit (429); retry 2 of 10 in 20 s",
        SessionState::Quiet,
        StateCause::RateLimit,
        "rate limit (429); retry 2 of 10 in 20 s",
    );
    check(
        "given working\nagent waits OBEY-2032 the connection failed; retry 1 of 10 in 1 s",
        SessionState::Quiet,
        StateCause::ConnectionLost,
        "the connection failed; retry 1 of 10 in 1 s",
    );
    check(
        "given working\nagent limited 7200 the five hour limit is used up\nagent fails limit",
        SessionState::Quiet,
        StateCause::RateLimit,
        "goes on at 1970-01-01 02:00 UTC: the five hour limit is used up",
    );
    let (state, ..) = told("given working\nagent limited 7200 x\nagent fails limit\ncancel");
    assert_eq!(state, SessionState::Failed, "nobody waits any more");
    let (state, ..) = told("given working\nagent waits OBEY-2034 wait\nagent text hello");
    assert_eq!(state, SessionState::Working, "the model answers again");
}

fn silent_for(seconds: u64, script: &str, evidence: &Evidence) -> Assessment {
    let mut session = play(script);
    session.now = session.now.after(Duration::from_secs(seconds));
    look(&session, evidence, None)
}

#[test]
fn a_silent_agent_is_quiet_after_the_limit_and_its_process_tells_why() {
    let alive = Evidence { is_process_alive: Some(true), ..Evidence::default() };
    let limit = limits::QUIET_WAIT.as_secs();
    assert_eq!(silent_for(limit - 1, "given working", &alive).state, SessionState::Working);
    let quiet =
        |cpu_ms, script| silent_for(limit, script, &Evidence { cpu_ms_in_silence: cpu_ms, ..alive }).cause;
    assert_eq!(quiet(Some(10), "given working"), StateCause::Hangs);
    assert_eq!(quiet(Some(9_000), "given working"), StateCause::Silent);
    assert_eq!(quiet(None, "given working"), StateCause::Silent);
    assert_eq!(quiet(Some(10), "given working\nagent tool c1 Bash"), StateCause::LongCall);
    let hangs = silent_for(600, "given working", &Evidence { cpu_ms_in_silence: Some(0), ..alive });
    assert_eq!(
        hangs.reason,
        "no word for 10 min, and its process does nothing: it may hang or wait for its model"
    );
}

#[test]
fn a_process_that_is_gone_without_a_word_has_failed() {
    let gone = Evidence { is_process_alive: Some(false), ..Evidence::default() };
    let limit = limits::LOST_PROCESS_WAIT.as_secs();
    assert_eq!(silent_for(limit - 1, "given working", &gone).state, SessionState::Working);
    let lost = silent_for(limit, "given working", &gone);
    assert_eq!((lost.state, lost.cause), (SessionState::Failed, StateCause::AgentDied));
}

#[test]
fn a_request_that_waits_is_never_quiet() {
    let alive = Evidence { is_process_alive: Some(true), ..Evidence::default() };
    let found = silent_for(86_400, "given working\nagent ask n2 Edit", &alive);
    assert_eq!(found.state, SessionState::NeedsYou);
}

#[test]
fn the_last_line_is_the_last_that_is_not_blank() {
    let mut line = LastLine::default();
    for piece in ["Hel", "lo\nwor", "ld\n", "\n  \n"] {
        line.append(piece);
    }
    assert_eq!(line.text, "world");
    line.append("next");
    assert_eq!(line.text, "next");
    line.replace_with_end("a\nb\n\n");
    assert_eq!(line.text, "b");
    line.append(&"x".repeat(10_000));
    assert_eq!(line.text.chars().count(), limits::LAST_LINE_MAX_CHARS);
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_session_has_one_state_that_its_facts_prove(script in scripts(), silence in 0_u64..100_000, alive in proptest::option::of(any::<bool>())) {
        let mut session = Play::new();
        for line in &script {
            // A refusal changes nothing.
            let _ = session.line(line);
        }
        session.now = session.now.after(Duration::from_secs(silence));
        let (facts, state) = (facts(&session), session.machine.state());
        let evidence = Evidence {
            is_process_alive: alive,
            last_event_at: state.last_activity_at,
            cpu_ms: None,
            cpu_ms_in_silence: None,
        };
        let found = assess(&facts, &evidence, None, session.now);
        prop_assert!(!found.reason.is_empty() && !found.reason.contains('\n'));
        prop_assert!(found.reason.chars().count() <= limits::REASON_MAX_CHARS);
        prop_assert!(found.since <= session.now);
        prop_assert_eq!(found.state == SessionState::NeedsYou, !facts.requests.is_empty());
        let has_workers = state.status == Status::Running && !state.workers.is_empty();
        let is_parked = state.status == Status::Running && state.rate_limit.is_some();
        let is_open = has_workers
            || is_parked
            || matches!(state.status, Status::Starting | Status::Working | Status::Stopping);
        if found.state == SessionState::Working || found.state == SessionState::Quiet {
            prop_assert!(is_open);
        }
        if found.state == SessionState::Done || found.state == SessionState::Idle {
            prop_assert!(state.turn.is_none());
        }
        prop_assert!(state.status != Status::Failed || found.state == SessionState::Failed);
        // A look leaves nothing to be looked at, and nothing else changes by it.
        let seen = assess(&facts, &evidence, Some(session.now), session.now);
        prop_assert!(seen.state != SessionState::Done);
        if !matches!(found.state, SessionState::Done | SessionState::Failed) {
            prop_assert_eq!(&seen, &found);
        }
        // Before the announced time, silence alone changes nothing.
        if let Some(at) = changes_at(&facts, &evidence).filter(|at| *at > session.now)
            && alive != Some(false)
        {
            let just_before = Timestamp(at.0 - 1);
            prop_assert_eq!(assess(&facts, &evidence, None, just_before).state, found.state);
        }
        // What is stored proves the same.
        let kept: crate::State = serde_json::from_str(&serde_json::to_string(state).unwrap()).unwrap();
        prop_assert_eq!(SessionFacts::of(session.machine.spec(), &kept), facts);
    }
}
