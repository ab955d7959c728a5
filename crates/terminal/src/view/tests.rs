//! What a person and a pipe see of a turn.

use serde_json::{Value, json};
use wire::obey::v1 as pb;

use super::*;
use crate::output::test::Buffer;
use cli_args::Global;

fn event(name: &str, fields: Value) -> LogEvent {
    LogEvent::read(pb::Event { r#type: name.to_owned(), json: fields.to_string(), ..pb::Event::default() })
}

/// Shows events and returns the output of both streams, without durations.
fn shown(global: &Global, events: &[(&str, Value)]) -> (String, String) {
    let (out, err) = (Buffer::default(), Buffer::default());
    let mut output = Output::to_buffers(out.clone(), err.clone(), global, false);
    let mut view = LiveView::default();
    view.begin_turn();
    for (name, fields) in events {
        view.show(&mut output, &event(name, fields.clone())).unwrap();
    }
    let told = err.text();
    let words: Vec<&str> =
        told.split(' ').map(|word| if word.ends_with("ms") { "0ms" } else { word }).collect();
    (out.text(), words.join(" "))
}

fn turn() -> Vec<(&'static str, Value)> {
    vec![
        ("thinking_delta", json!({"text": "let me\nsee"})),
        ("text_delta", json!({"text": "I look "})),
        ("text_delta", json!({"text": "at it."})),
        ("tool_started", json!({"call": "c1", "tool": "Bash", "input": {"command": "ls"}})),
        ("tool_finished", json!({"call": "c1", "tool": "Bash", "ok": true, "output": "a\nb\nc"})),
        ("text_delta", json!({"text": "Done: a, b, c."})),
        ("usage_reported", json!({"input_tokens": 10, "output_tokens": 20})),
    ]
}

fn ended(reason: &str, text: &str) -> (&'static str, Value) {
    ("turn_ended", json!({"turn": "turn_1", "reason": reason, "text": text}))
}

#[test]
fn words_go_to_standard_output_and_the_rest_beside_it() {
    let mut events = turn();
    events.push(ended("completed", "Done: a, b, c."));
    let (out, err) = shown(&Global::default(), &events);
    assert_eq!(out, "I look at it.\nDone: a, b, c.\n");
    let expected = ["thinking: let me see", "● Bash: ls", "  ✓ 0ms a (+2 lines)", "✓ 0ms · 10 in, 20 out"];
    assert_eq!(err.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn quiet_prints_the_last_words_only() {
    let quiet = Global { quiet: true, ..Global::default() };
    let mut events = turn();
    events.push(ended("completed", ""));
    assert_eq!(shown(&quiet, &events), ("Done: a, b, c.\n".to_owned(), String::new()));
    let mut events = turn();
    events.push(ended("completed", "The agent's own last word."));
    assert_eq!(shown(&quiet, &events).0, "The agent's own last word.\n");
}

#[test]
fn an_answer_that_did_not_stream_is_printed_at_the_end() {
    assert_eq!(shown(&Global::default(), &[ended("completed", "Whole.")]).0, "Whole.\n");
}

#[test]
fn a_failed_turn_says_why_even_when_quiet() {
    let quiet = Global { quiet: true, ..Global::default() };
    let failed = ("turn_ended", json!({"turn": "turn_1", "reason": "failed", "error": "no credit"}));
    let (_, err) = shown(&quiet, &[failed]);
    assert!(err.starts_with("✗ the turn failed: no credit"), "{err}");
}

#[test]
fn words_of_sub_agents_do_not_mix_with_the_answer() {
    let nested = ("text_delta", json!({"text": "inner", "parent": "c1"}));
    assert_eq!(shown(&Global::default(), &[nested, ended("completed", "")]).0, "");
}

#[test]
fn json_is_one_event_per_line() {
    let global = Global { json: true, ..Global::default() };
    let (out, err) = shown(&global, &[("text_delta", json!({"text": "x"}))]);
    assert_eq!(out, "{\"seq\":0,\"at\":\"\",\"type\":\"text_delta\",\"text\":\"x\"}\n");
    assert_eq!(err, "");
}

#[test]
fn a_notice_does_not_break_words_in_a_pipe() {
    let notice = ("notice", json!({"level": "warning", "message": "trying again"}));
    let piece = |text: &str| ("text_delta", json!({"text": text}));
    let (out, err) =
        shown(&Global::default(), &[piece("one "), notice, piece("two"), ended("completed", "")]);
    assert_eq!(out, "one two\n");
    assert!(err.starts_with("notice: trying again\n"), "{err}");
}
