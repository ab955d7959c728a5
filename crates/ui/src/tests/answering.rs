//! Requests are answered by the card that has the keys, never by accident.

use domain::permission::{Decision, Proposal};
use domain::request::{PermissionSubject, Question, QuestionOption, RequestOutcome, RequestSubject};
use domain::{EventKind, RequestId};
use serde_json::json;
use view::SummaryState;

use super::stage::{Stage, summary, waiting};
use crate::app::Focus;
use crate::data::{Request, Update};

fn permission(id: u64, command: &str) -> EventKind {
    EventKind::RequestOpened {
        request: RequestId(id),
        native: String::new(),
        automatic: false,
        ask: RequestSubject::Permission(PermissionSubject {
            call: None,
            tool: "Bash".to_owned(),
            input: json!({"command": command}),
            title: String::new(),
            parent: None,
        }),
        proposals: vec![Proposal { id: "prefix".to_owned(), text: "`git push` in this session".to_owned() }],
        advice: domain::permission::PermissionAdvice::default(),
    }
}

fn question() -> EventKind {
    let option = |label: &str| QuestionOption { label: label.to_owned(), description: String::new() };
    let ask = |id: &str, text: &str, multi_select| Question {
        id: id.to_owned(),
        header: String::new(),
        text: text.to_owned(),
        options: vec![option("SQLite"), option("Postgres")],
        multi_select,
    };
    EventKind::RequestOpened {
        request: RequestId(9),
        native: String::new(),
        automatic: false,
        ask: RequestSubject::Question {
            questions: vec![ask("q1", "Which store?", false), ask("q2", "Which tests?", true)],
            call: None,
        },
        proposals: Vec::new(),
        advice: domain::permission::PermissionAdvice::default(),
    }
}

fn settled(id: u64, by: &str) -> EventKind {
    EventKind::RequestSettled {
        request: RequestId(id),
        outcome: RequestOutcome::Decided { decision: Decision::AllowOnce },
        by: by.to_owned(),
        message: String::new(),
        grant: None,
        used_grant: String::new(),
    }
}

fn with_card() -> Stage {
    let mut stage = Stage::with_journal(120, 40, "");
    stage.events(vec![permission(7, "git push --force")]);
    stage.requests();
    stage
}

fn decisions(stage: &mut Stage) -> Vec<(Decision, String)> {
    let requests = stage.requests().into_iter().filter_map(|request| match request {
        Request::Decide(answer) => Some((answer.decision, answer.message)),
        _ => None,
    });
    requests.collect()
}

#[test]
fn a_card_shows_what_would_run_and_what_a_grant_would_cover() {
    let mut stage = with_card();
    stage.shows("wants to run");
    stage.shows("git push --force");
    stage.shows("~/shop");
    stage.shows("a would allow `git push` in this session");
}

#[test]
fn keys_answer_only_a_focused_card_that_has_been_there_for_a_moment() {
    let mut stage = with_card();
    assert_eq!(stage.app.focus, Focus::Transcript, "a card never takes the keys");
    stage.press("y");
    assert_eq!(decisions(&mut stage), []);
    stage.press("tab");
    assert_eq!(stage.app.focus, Focus::Card);
    stage.wait(399);
    stage.press("y");
    assert_eq!(decisions(&mut stage), [], "too early");
    stage.wait(1);
    stage.press("y");
    assert_eq!(decisions(&mut stage), [(Decision::AllowOnce, String::new())]);
    stage.press("y");
    assert_eq!(decisions(&mut stage), [], "an answer is sent once");
}

#[test]
fn what_destroys_is_allowed_by_a_second_press_of_the_same_key() {
    let mut stage = Stage::with_journal(120, 40, "");
    let mut asked = permission(7, "rm -rf build");
    if let EventKind::RequestOpened { advice, .. } = &mut asked {
        advice.destructive = "removes files".to_owned();
        advice.not_covered = "no rule covers it; mode supervised asks".to_owned();
    }
    stage.events(vec![asked]);
    stage.requests();
    stage.shows("it removes files: allowing it needs a second press");
    stage.shows("asked because no rule covers it; mode supervised asks");
    stage.press("tab");
    stage.wait(1_000);
    stage.press("y");
    stage.press("y");
    assert_eq!(decisions(&mut stage), [], "a key that is held is one press");
    stage.shows("press again to allow it");
    stage.wait(500);
    stage.press("a");
    assert_eq!(decisions(&mut stage), [], "another key is a first press");
    stage.wait(11_000);
    stage.press("a");
    assert_eq!(decisions(&mut stage), [], "too late");
    stage.wait(500);
    stage.press("a");
    assert_eq!(decisions(&mut stage), [(Decision::AllowSession, String::new())]);
}

#[test]
fn typing_in_the_message_field_never_answers() {
    let mut stage = with_card();
    stage.wait(1_000);
    stage.press("i");
    stage.type_text("yans");
    assert_eq!(decisions(&mut stage), []);
    stage.shows("yans");
}

#[test]
fn a_session_grant_and_denials_with_words_are_sent_as_such() {
    for (key, decision) in [("n", Decision::Deny), ("s", Decision::DenyAndStop)] {
        let mut stage = with_card();
        stage.press("tab");
        stage.wait(500);
        stage.press(key);
        stage.type_text("not to main, y");
        assert_eq!(decisions(&mut stage), []);
        stage.press("enter");
        assert_eq!(decisions(&mut stage), [(decision, "not to main, y".to_owned())]);
    }
    let mut stage = with_card();
    stage.press("tab");
    stage.wait(500);
    stage.press("a");
    assert_eq!(decisions(&mut stage), [(Decision::AllowSession, String::new())]);
}

#[test]
fn the_whole_input_is_shown_and_scrolled() {
    let mut stage = Stage::with_journal(100, 30, "");
    let long: String = (0..200).map(|line| format!("echo {line}\n")).collect();
    stage.events(vec![permission(7, &long)]);
    stage.press("tab");
    stage.shows("more lines: ? shows all");
    stage.press("?");
    stage.shows("\"command\"");
    for _ in 0..50 {
        stage.press("pagedown");
    }
    stage.shows("in this session");
}

#[test]
fn an_edited_input_is_sent_only_if_it_is_an_object() {
    let mut stage = with_card();
    stage.press("tab");
    stage.wait(500);
    stage.press("E");
    stage.type_text("x");
    stage.press("ctrl+s");
    stage.shows("not JSON");
    stage.press("backspace");
    stage.press("ctrl+s");
    let sent = stage.requests();
    assert!(
        sent.iter().any(|request| matches!(request, Request::Decide(answer)
            if answer.input == r#"{"command":"git push --force"}"#)),
        "{sent:?}"
    );
}

#[test]
fn control_characters_of_a_command_are_visible() {
    let mut stage = Stage::with_journal(100, 30, "");
    stage.events(vec![permission(7, "ls\u{1b}[8m; rm -rf x\u{202e}")]);
    stage.shows("ls\u{241b}[8m; rm -rf x\u{fffd}");
}

#[test]
fn what_somebody_else_answered_leaves_one_line() {
    let mut stage = with_card();
    stage.press("tab");
    stage.wait(500);
    stage.events(vec![settled(7, "phone")]);
    stage.shows("allowed once by phone");
    stage.shows_not("wants to run");
    assert_eq!(stage.app.focus, Focus::Transcript);
    stage.press("y");
    assert_eq!(decisions(&mut stage), []);
}

#[test]
fn an_answer_that_came_second_says_who_was_first() {
    let mut stage = with_card();
    let text = "req_7 was settled before, by phone: allowed once".to_owned();
    stage.update(Update::Answered { text });
    stage.shows("was settled before, by phone");
}

#[test]
fn an_answer_that_failed_can_be_given_again() {
    let mut stage = with_card();
    stage.press("tab");
    stage.wait(500);
    stage.press("y");
    let why = "the daemon is not reachable".to_owned();
    stage.update(Update::AnswerFailed { session: "sess_cart".to_owned(), request: "req_7".to_owned(), why });
    stage.shows("the daemon is not reachable");
    stage.requests();
    stage.press("y");
    assert_eq!(decisions(&mut stage).len(), 1);
}

#[test]
fn all_open_requests_are_shown_one_after_the_other() {
    let mut stage = with_card();
    stage.events(vec![permission(8, "cargo publish")]);
    stage.shows("(1 of 2)");
    stage.press("tab");
    stage.wait(500);
    stage.events(vec![settled(7, "me")]);
    stage.shows("cargo publish");
    stage.press("y");
    assert_eq!(decisions(&mut stage), [], "the next card has just appeared");
    stage.wait(400);
    stage.press("y");
    assert_eq!(decisions(&mut stage).len(), 1);
}

#[test]
fn questions_are_answered_by_number_by_choice_and_in_words() {
    let mut stage = Stage::with_journal(120, 40, "");
    stage.events(vec![question()]);
    stage.requests();
    stage.press("tab");
    stage.shows("1 of 2: Which store?");
    stage.shows("? cart asks");
    stage.shows_not("allow once");
    stage.press("1");
    stage.shows("Which store?");
    stage.wait(500);
    stage.press("2");
    stage.shows("2 of 2: Which tests?");
    stage.press("1");
    stage.press("2");
    stage.shows("[x] SQLite");
    stage.press("enter");
    let sent = stage.requests();
    let Some(Request::Answer { answers, .. }) = sent.iter().find(|r| matches!(r, Request::Answer { .. }))
    else {
        panic!("{sent:?}")
    };
    assert_eq!(answers["q1"], "Postgres");
    assert_eq!(answers["q2"], "SQLite, Postgres");

    let mut stage = Stage::with_journal(120, 40, "");
    stage.events(vec![question()]);
    stage.press("tab");
    stage.wait(500);
    stage.press("3");
    stage.type_text("a file");
    stage.press("enter");
    stage.shows("2 of 2");
}

#[test]
fn braces_go_from_request_to_request_of_all_sessions() {
    let mut stage = Stage::with_sessions(120, 40);
    stage.press("}");
    assert_eq!(stage.app.open.as_ref().unwrap().id, "sess_docs-pass", "the longest wait is first");
    assert_eq!(stage.app.focus, Focus::Card);
    let sent = stage.requests();
    assert!(sent.contains(&Request::ListRequests { session: "sess_docs-pass".to_owned() }), "{sent:?}");
}

#[test]
fn a_request_that_is_older_than_what_was_read_is_on_the_card_too() {
    let mut stage = Stage::with_sessions(120, 40);
    stage.press("}");
    stage.press("}");
    let subject = RequestSubject::Permission(PermissionSubject {
        call: None,
        tool: "Bash".to_owned(),
        input: json!({"command": "git push origin old"}),
        title: String::new(),
        parent: None,
    });
    let id = stage.app.open.as_ref().unwrap().id.clone();
    let request = if id == "sess_fixer" { "req_7" } else { "req_2" };
    let requests =
        vec![view::request_row(request, &subject, &[], &domain::permission::PermissionAdvice::default())];
    stage.update(Update::Requests { session: id, requests });
    stage.shows("git push origin old");
    stage.wait(500);
    stage.press("y");
    assert_eq!(decisions(&mut stage).len(), 1);
}

#[test]
fn a_new_request_is_counted_at_once_and_announced_once() {
    let mut stage = Stage::with_sessions(120, 40);
    let mut needs = summary("lint", SummaryState::NeedsYou, 0);
    needs.requests = vec![waiting("req_1", "permission", "rm x", 0)];
    stage.overview(vec![needs.clone()]);
    stage.shows("▲3");
    assert_eq!(crate::draw::title(&stage.app), "(3) obey");
    let notices = |stage: &Stage| {
        let is_notice = |effect: &&crate::app::Effect| matches!(effect, crate::app::Effect::Notify(_));
        stage.effects.iter().filter(is_notice).count()
    };
    assert_eq!(notices(&stage), 1);
    needs.last_line = "something else changed".to_owned();
    stage.overview(vec![needs]);
    assert_eq!(notices(&stage), 1);
}

#[test]
fn a_call_that_waits_for_permission_says_so() {
    let mut stage = Stage::with_journal(120, 40, "");
    let call = domain::CallId::new("c1");
    let started = EventKind::ToolStarted {
        call: call.clone(),
        tool: "Bash".to_owned(),
        input: json!({"command": "git push"}),
        title: String::new(),
        parent: None,
    };
    let mut asked = permission(7, "git push");
    if let EventKind::RequestOpened { ask: RequestSubject::Permission(ask), .. } = &mut asked {
        ask.call = Some(call);
    }
    stage.events(vec![started, asked]);
    stage.shows("waiting for permission");
    stage.events(vec![settled(7, "phone")]);
    stage.shows_not("waiting for permission");
}

#[test]
fn who_answered_is_told_however_long_the_command_is() {
    let mut stage = Stage::with_journal(100, 40, "");
    stage.events(vec![permission(7, &"make everything ".repeat(20)), settled(7, "phone")]);
    stage.shows("allowed once by phone");
}
