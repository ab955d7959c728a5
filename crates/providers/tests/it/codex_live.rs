//! Conversations with the real Codex, against a scripted model. `OBEY_TEST_CODEX` names the program and
//! `OBEY_TEST_MODEL` the address of a model server that follows `SCRIPT:` prompts; `make test-all` sets both.
//! With `OBEY_RECORD=1` each conversation is written to `tests/transcripts`, for `codex_golden`.

mod driver;
mod servers;
mod trouble;

use std::path::Path;
use std::time::{Duration, Instant};

use domain::event::{Attachment, Level, TodoStatus};
use domain::request::RequestSubject;
use domain::turn::EndReason;
use domain::{AgentEvent, AgentInput, Decision, Mode};
use serde_json::{Value, json};

use driver::Live;

fn bash(command: &str) -> Value {
    json!({"tool": "Bash", "input": {"command": command}})
}

/// A command that is to run outside the sandbox.
fn outside(command: &str) -> Value {
    let input =
        json!({"command": command, "sandbox_permissions": "require_escalated", "justification": "to try"});
    json!({"tool": "Bash", "input": input})
}

fn write(path: &str) -> Value {
    json!({"tool": "Write", "input": {"file_path": path, "content": "hello\n"}})
}

/// Polls for a condition that no line announces.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns whether a process runs with this on its command line.
fn runs(word: &str) -> bool {
    let processes = Path::new("/proc").read_dir().unwrap().flatten();
    processes.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok()).any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.trim_end().ends_with(word)
    })
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn text_thinking_and_usage() {
    let mut live = Live::start("basic", json!({"model": "gpt-5.5"}));
    let usage = json!({"usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 3}});
    live.prompt("one", json!([[{"thinking": "let me see"}, {"text": "Hello, wörld."}, usage]]));
    assert_eq!(live.end(), (EndReason::Completed, "Hello, wörld.".into(), String::new()));
    live.prompt("two", json!([[{"text": "Again."}, usage]]));
    live.end();
    let usage = live.usage;
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.cache_read_tokens), (20, 10, 6));
    let (_, events) = live.leave();
    let joined =
        |wanted: fn(&AgentEvent) -> Option<&str>| events.iter().filter_map(wanted).collect::<String>();
    let said = joined(|event| match event {
        AgentEvent::Text { text, parent: None } => Some(text),
        _ => None,
    });
    let thought = joined(|event| match event {
        AgentEvent::Thinking { text, parent: None } => Some(text),
        _ => None,
    });
    assert_eq!((said.as_str(), thought.as_str()), ("Hello, wörld.Again.", "let me see"));
    let ready = |event: &AgentEvent| matches!(event, AgentEvent::Ready { model, version, .. } if model == "gpt-5.5" && version.starts_with("0."));
    assert!(events.iter().any(ready));
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn permissions() {
    let mut live = Live::start("permissions", json!({}));
    // Reading is allowed, writing is not.
    live.prompt("read", json!([bash("echo fine"), {"text": "Read."}]));
    assert_eq!(live.finished(), (true, "fine\n".into()));
    assert_eq!(live.end().0, EndReason::Completed);
    live.prompt("make", json!([outside("touch made"), write("patched.txt"), {"text": "Done."}]));
    assert_eq!(live.decide(Decision::AllowOnce, ""), "shell");
    assert_eq!(live.decide(Decision::AllowOnce, ""), "apply_patch");
    assert_eq!(live.end().1, "Done.");
    live.prompt("no", json!([outside("touch denied"), write("denied.txt"), {"text": "Denied."}]));
    live.decide(Decision::Deny, "");
    assert_eq!(live.finished(), (false, "declined".into()));
    live.decide(Decision::Deny, "");
    assert_eq!(live.end().1, "Denied.");
    live.prompt("why", json!([outside("touch denied"), {"text": "As you wish."}]));
    live.decide(Decision::Deny, "not this one");
    assert_eq!(live.finished(), (false, "declined: not this one".into()));
    assert_eq!(live.end().1, "As you wish.");
    live.prompt("stop", json!([outside("touch stopped"), {"text": "never"}]));
    live.decide(Decision::DenyAndStop, "stop it");
    assert_eq!(live.end().0, EndReason::Cancelled);
    live.prompt("last", json!([{"text": "Still here."}]));
    assert_eq!(live.end().1, "Still here.");
    let (base, _) = live.leave();
    let exists = |name: &str| base.path().join("repo").join(name).exists();
    assert_eq!((exists("made"), exists("patched.txt")), (true, true));
    assert_eq!((exists("denied"), exists("denied.txt"), exists("stopped")), (false, false, false));
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn a_changed_call_is_not_run_as_it_was() {
    let mut live = Live::start("changed", json!({}));
    live.prompt("make", json!([outside("touch wrong"), {"text": "I see."}]));
    let (native, ask) = live.asked();
    let updated_input = Some(json!({"command": "touch right"}));
    let decision = Decision::AllowOnce;
    live.tell(AgentInput::Decide { native, decision, message: String::new(), updated_input, ask });
    assert_eq!((live.finished().0, live.end().1.as_str()), (false, "I see."));
    let (base, _) = live.leave();
    assert!(!base.path().join("repo/wrong").exists());
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn modes() {
    let setup =
        json!({"mode": "accept_edits", "config": "[sandbox_workspace_write]\nexclude_slash_tmp = true"});
    let mut live = Live::start("modes", setup);
    live.prompt("in", json!([bash("touch inside"), write("patched.txt"), {"text": "In."}]));
    assert_eq!(live.end().1, "In.");
    let beyond = live.path("beyond.txt").display().to_string();
    live.prompt("out", json!([bash(&format!("touch {beyond} 2>/dev/null || echo kept out")), write(&beyond), {"text": "Out."}]));
    assert_eq!(live.finished(), (true, "kept out\n".into()));
    live.decide(Decision::AllowOnce, "");
    assert_eq!(live.end().1, "Out.");
    live.tell(AgentInput::SetMode(Mode::Supervised));
    live.prompt(
        "now",
        json!([bash("touch never 2>/dev/null || echo kept out"), write("asked.txt"), {"text": "Asked."}]),
    );
    assert_eq!(live.finished(), (true, "kept out\n".into()));
    live.decide(Decision::Deny, "");
    assert_eq!(live.end().1, "Asked.");
    // The configured sandbox settings outlast the change.
    live.tell(AgentInput::SetMode(Mode::Autonomous));
    live.prompt("again", json!([bash(&format!("touch again; touch {beyond}2 2>/dev/null || echo kept out")), {"text": "Again."}]));
    assert_eq!(live.finished(), (true, "kept out\n".into()));
    live.end();
    let (base, events) = live.leave();
    let exists = |name: &str| base.path().join(name).exists();
    assert_eq!((exists("repo/inside"), exists("repo/patched.txt"), exists("beyond.txt")), (true, true, true));
    assert_eq!((exists("repo/never"), exists("repo/asked.txt"), exists("repo/again")), (false, false, true));
    assert_eq!(events.iter().filter(|event| matches!(event, AgentEvent::Asked { .. })).count(), 2);
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn interrupts() {
    let mut live = Live::start("interrupt", json!({"mode": "autonomous"}));
    // At once: before the agent has reported its id of the turn.
    live.prompt("a", json!([[{"text": "x"}, {"hang": true}]]));
    live.tell(AgentInput::Interrupt);
    assert_eq!(live.end().0, EndReason::Cancelled);
    live.prompt("b", json!([[{"text": "some words here"}, {"hang": true}]]));
    live.until(|event| matches!(event, AgentEvent::Text { .. }));
    live.tell(AgentInput::Interrupt);
    assert_eq!(live.end().0, EndReason::Cancelled);
    live.prompt("c", json!([outside("touch asked"), {"text": "never"}]));
    let (native, _) = live.asked();
    live.tell(AgentInput::Interrupt);
    assert_eq!(live.end().0, EndReason::Cancelled);
    live.prompt("d", json!([{"text": "Fine."}]));
    assert_eq!(live.end().1, "Fine.");
    let (_, events) = live.leave();
    // The end of the turn already withdrew it; repeating that could name another request later.
    assert!(!events.contains(&AgentEvent::Withdrew { native }));
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn commands_left_by_an_interrupt_are_ended() {
    let setup = json!({"mode": "autonomous", "provider_config": {"sandbox": "danger-full-access"}});
    let mut live = Live::start("strays", setup);
    // One that an earlier turn left running on purpose.
    let mut server = bash("sleep 4711");
    server["input"]["yield_time_ms"] = 300.into();
    live.prompt("serve", json!([server, {"text": "Serving."}]));
    assert_eq!(live.end().1, "Serving.");
    assert!(live.events.iter().any(|event| matches!(event, AgentEvent::ToolFinished { ok: true, output, .. } if output.contains("background"))));
    live.prompt("long", json!([bash("sleep 4712 & sleep 4713"), {"text": "never"}]));
    live.until(|event| matches!(event, AgentEvent::ToolStarted { .. }));
    eventually("the command runs", || runs("sleep 4712") && runs("sleep 4713"));
    live.tell(AgentInput::Interrupt);
    assert_eq!(live.end().0, EndReason::Cancelled);
    live.prompt("next", json!([{"text": "Next."}]));
    assert_eq!(live.end().1, "Next.");
    eventually("what the interrupt left is ended", || !runs("sleep 4712") && !runs("sleep 4713"));
    assert!(runs("sleep 4711"), "what another turn left is its own");
    live.leave();
    eventually("nothing is left", || !runs("sleep 4711"));
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn an_interrupt_at_any_moment_ends_the_turn() {
    let mut live = Live::start("unrecorded", json!({"mode": "autonomous"}));
    for at in 0..24 {
        live.prompt("a", json!([bash("sleep 0.05"), [{"text": "some words"}, {"hang": true}]]));
        // Not a wait for something: these are the moments to try.
        std::thread::sleep(Duration::from_millis(at * 12));
        live.tell(AgentInput::Interrupt);
        let started = Instant::now();
        assert_eq!(live.end().0, EndReason::Cancelled, "after {} ms", at * 12);
        assert!(started.elapsed() < domain::limits::INTERRUPT_WAIT / 2);
    }
    live.prompt("b", json!([{"text": "Still here."}]));
    assert_eq!(live.end().1, "Still here.");
    live.leave();
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn questions_and_todos() {
    let mut live = Live::start("questions", json!({}));
    live.prompt(
        "ask",
        json!([{"question": {"text": "Which colour?", "options": ["Red", "Blue"], "header": "Colour"}}, {"todo": ["paint", "dry"]}, {"text": "Thanks."}]),
    );
    let (native, ask) = live.asked();
    assert!(
        matches!(&ask, RequestSubject::Question { questions, .. } if questions[0].options.len() == 2 && questions[0].text == "Which colour?")
    );
    let answers = [("question_1".to_owned(), "Blue".to_owned())].into();
    live.tell(AgentInput::Answer { native, answers, ask });
    let todos = live.until(|event| matches!(event, AgentEvent::Todos(_)));
    assert!(
        matches!(todos, AgentEvent::Todos(todos) if todos.len() == 2 && todos[0].text == "paint" && todos[0].status == TodoStatus::Pending)
    );
    assert_eq!(live.end().1, "Thanks.");
    live.prompt("skip", json!([{"question": {"text": "Sure?", "options": ["Yes"]}}, {"text": "Skipped."}]));
    let (native, ask) = live.asked();
    let (decision, message) = (Decision::Deny, String::new());
    live.tell(AgentInput::Decide { native, decision, message, updated_input: None, ask });
    assert_eq!(live.end().1, "Skipped.");
    live.leave();
}

const PLAN: &str = "Here it is:\n<proposed_plan>\n1. do it\n</proposed_plan>\n";

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn plans() {
    let mut live = Live::start("plans", json!({"mode": "plan"}));
    live.until(|event| *event == AgentEvent::PlanMode(true));
    live.prompt("plan", json!([{"text": PLAN}]));
    let (native, ask) = live.asked();
    assert!(
        matches!(&ask, RequestSubject::Permission(permission) if permission.tool == "ExitPlanMode" && permission.input["plan"] == "1. do it\n")
    );
    let tell = |decision: Decision, message: &str, native: String, ask: RequestSubject| AgentInput::Decide {
        native,
        decision,
        message: message.to_owned(),
        updated_input: None,
        ask,
    };
    // Denied without a message, the plan is dropped.
    live.tell(tell(Decision::Deny, "", native, ask));
    assert_eq!(live.end().0, EndReason::Completed);
    // Denied with a message, it is changed.
    live.prompt("plan", json!([{"text": PLAN}]));
    let (native, ask) = live.asked();
    let better = format!("better SCRIPT: {}", json!([{"text": PLAN}]));
    live.tell(tell(Decision::Deny, &better, native, ask));
    let (native, _) = live.asked();
    // Something else comes in between.
    live.tell(AgentInput::Steer { text: format!("wait SCRIPT: {}", json!([{"text": PLAN}])) });
    live.until(|event| *event == AgentEvent::Withdrew { native: native.clone() });
    let (_, _) = live.asked();
    live.tell(AgentInput::Interrupt);
    assert_eq!(live.end().0, EndReason::Cancelled);
    live.prompt("plan", json!([{"text": PLAN}]));
    let (native, ask) = live.asked();
    live.tell(tell(Decision::AllowOnce, "", native, ask));
    live.until(|event| *event == AgentEvent::Mode(Mode::Supervised));
    assert_eq!(live.end(), (EndReason::Completed, "You said: Implement the plan.".into(), String::new()));
    let (_, events) = live.leave();
    assert!(events.contains(&AgentEvent::PlanMode(false)));
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn messages_added_to_a_turn() {
    let mut live = Live::start("steer", json!({}));
    live.prompt("a", json!([[{"text": "first"}, {"hang": true}]]));
    live.until(|event| matches!(event, AgentEvent::Text { .. }));
    live.tell(AgentInput::Steer { text: "then SCRIPT: [{\"text\": \"second\"}]".into() });
    assert_eq!(live.end().1, "second");
    // Two at once, before the turn has an id.
    live.prompt("b", json!([[{"text": "fourth"}, {"hang": true}]]));
    live.tell(AgentInput::Steer { text: "and SCRIPT: [{\"text\": \"fifth\"}]".into() });
    assert_eq!(live.end().1, "fifth");
    live.leave();
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn what_comes_too_late_does_no_harm() {
    let mut live = Live::start("unrecorded", json!({}));
    live.prompt("a", json!([{"text": "first"}]));
    live.end();
    // The agent starts a new turn with it.
    live.tell(AgentInput::Steer { text: "late SCRIPT: [{\"text\": \"second\"}]".into() });
    live.until(|event| *event == AgentEvent::TurnStarted);
    assert_eq!(live.end().1, "second");
    // The rules interrupt after such a decision; by then the turn may have ended.
    live.prompt("stop", json!([outside("touch stopped"), {"text": "never"}]));
    live.decide(Decision::DenyAndStop, "");
    live.tell(AgentInput::Interrupt);
    assert_eq!(live.end().0, EndReason::Cancelled);
    live.prompt("b", json!([{"text": "third"}]));
    assert_eq!(live.end().1, "third");
    // A turn that the agent never received ends when it is interrupted.
    live.tell(AgentInput::Interrupt);
    assert_eq!(live.end().0, EndReason::Cancelled);
    live.leave();
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn a_conversation_is_taken_up_after_a_crash() {
    let mut live = Live::start("unrecorded", json!({"mode": "accept_edits"}));
    let usage = json!({"usage": {"input_tokens": 100, "output_tokens": 10}});
    live.prompt("one", json!([[{"text": "One."}, usage]]));
    live.end();
    live.prompt("two", json!([[{"text": "half a"}, {"hang": true}]]));
    live.until(|event| matches!(event, AgentEvent::Text { .. }));
    let thread = live.thread();
    let base = live.crash();
    let setup = json!({"mode": "supervised", "native_session": thread, "turns": 2});
    let mut live = Live::begin("resumed", setup, base);
    let ready = live.until(|event| matches!(event, AgentEvent::Ready { .. }));
    assert!(matches!(ready, AgentEvent::Ready { native_session, .. } if native_session == thread));
    // The mode is the new one, and the tokens of the past are not counted again.
    live.prompt(
        "three",
        json!([bash("touch never 2>/dev/null || echo kept out"), [{"text": "Three."}, usage]]),
    );
    assert_eq!(live.finished(), (true, "kept out\n".into()));
    assert_eq!(live.end().1, "Three.");
    assert_eq!(live.usage.input_tokens, 110);
    live.leave();
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn a_conversation_that_is_gone_is_begun_anew() {
    let thread = "01a1ddbf-0000-7000-8000-000000000000";
    let setup = json!({"native_session": thread, "turns": 1});
    let mut live = Live::start("anew", setup);
    assert_ne!(live.thread(), thread);
    let lost = |event: &AgentEvent| matches!(event, AgentEvent::Notice { level: Level::Warning, message } if message.contains("no longer has this conversation"));
    assert!(live.events.iter().any(lost));
    live.prompt("one", json!([{"text": "One."}]));
    assert_eq!(live.end().1, "One.");
    live.leave();
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn compaction() {
    let mut live = Live::start("compact", json!({}));
    live.prompt("one", json!([{"text": "One."}]));
    live.end();
    live.tell(AgentInput::Compact);
    live.until(|event| matches!(event, AgentEvent::Compacted { .. }));
    assert_eq!(live.end().0, EndReason::Completed);
    live.prompt("two", json!([{"text": "Two."}]));
    assert_eq!(live.end().1, "Two.");
    live.leave();
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn sub_agents() {
    let mut live = Live::start("subagent", json!({}));
    let inner = format!("inner SCRIPT: {}", json!([outside("touch inner"), {"text": "Found it."}]));
    let input = json!({"message": inner, "task_name": "look", "fork_turns": "none"});
    live.prompt("delegate", json!([{"tool": "spawn_agent", "input": input}, {"tool": "wait_agent", "input": {"timeout_ms": 20000}}, {"text": "All done."}]));
    let (native, ask) = live.asked();
    assert!(matches!(&ask, RequestSubject::Permission(permission) if permission.parent.is_some()));
    let (decision, message) = (Decision::AllowOnce, String::new());
    live.tell(AgentInput::Decide { native, decision, message, updated_input: None, ask });
    assert_eq!(live.end().1, "All done.");
    assert_eq!(live.usage.input_tokens, 50);
    let (base, events) = live.leave();
    assert!(base.path().join("repo/inner").exists());
    let inner = events.iter().filter(|event| matches!(event, AgentEvent::Text { parent: Some(_), .. }));
    assert!(inner.count() > 0);
    assert!(events.iter().any(|event| matches!(event, AgentEvent::WorkerFinished { ok: true, .. })));
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn attachments() {
    let mut live = Live::start("attachments", json!({}));
    let file = |name: &str, media_type: &str, content: &str| Attachment {
        name: name.into(),
        media_type: media_type.into(),
        content: content.into(),
    };
    let pixel =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let attachments = vec![file("a.txt", "text/plain", "aGVsbG8="), file("p.png", "image/png", pixel)];
    live.tell(AgentInput::Prompt { text: "look SCRIPT: [{\"text\": \"Seen.\"}]".into(), attachments });
    assert_eq!(live.end().1, "Seen.");
    live.leave();
}
