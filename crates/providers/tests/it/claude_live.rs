//! Conversations with the real Claude Code, against a scripted model. `OBEY_TEST_CLAUDE` names the program
//! and `OBEY_TEST_MODEL` the address of a model server that follows `SCRIPT:` prompts; `make test-all` sets
//! both. With `OBEY_RECORD=1` each conversation is written to `tests/transcripts`, for `claude_golden`.

mod driver;

use std::path::Path;
use std::time::{Duration, Instant};

use domain::event::{Attachment, TodoStatus};
use domain::request::RequestSubject;
use domain::turn::EndReason;
use domain::{AgentEvent, AgentInput, Decision, Mode};
use serde_json::{Value, json};

use driver::Live;

fn bash(command: &str) -> Value {
    json!({"tool": "Bash", "input": {"command": command, "description": "a step"}})
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn text_thinking_and_usage() {
    let mut live = Live::start("basic", json!({"model": "sonnet"}));
    live.prompt("one", json!([[{"thinking": "let me see"}, {"text": "Hello, wörld."}]]));
    assert_eq!(live.end(), (EndReason::Completed, "Hello, wörld.".into(), String::new()));
    live.prompt("two", json!([{"text": "Again."}]));
    live.end();
    assert_eq!((live.usage.input_tokens, live.usage.cost_micro_usd > 0), (20, true));
    let (_, events) = live.leave();
    let said: String = events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::Text { text, parent: None } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(said, "Hello, wörld.Again.");
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn permissions() {
    let mut live = Live::start("permissions", json!({}));
    live.prompt("make", json!([bash("touch made"), bash("touch denied"), {"text": "Done."}]));
    live.decide(Decision::AllowOnce, "");
    live.decide(Decision::Deny, "not this one");
    assert_eq!(live.end().0, EndReason::Completed);
    live.prompt("stop", json!([bash("touch stopped"), {"text": "never"}]));
    live.decide(Decision::DenyAndStop, "stop it");
    assert_eq!(live.end().0, EndReason::Cancelled);
    // A message added meanwhile ends with the turn that is stopped.
    live.prompt("stop", json!([bash("touch stopped"), {"text": "never"}]));
    let (native, ask) = live.asked();
    live.tell(AgentInput::Steer { text: "and this SCRIPT: [{\"text\": \"never\"}]".into() });
    let (decision, message) = (Decision::DenyAndStop, "stop it".to_owned());
    live.tell(AgentInput::Decide { native, decision, message, updated_input: None, ask });
    assert_eq!(live.end().0, EndReason::Cancelled);
    live.prompt("last", json!([{"text": "Still here."}]));
    assert_eq!(live.end().1, "Still here.");
    let (base, _) = live.leave();
    let exists = |name: &str| base.path().join("repo").join(name).exists();
    assert_eq!((exists("made"), exists("denied"), exists("stopped")), (true, false, false));
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn interrupts() {
    let mut live = Live::start("interrupt", json!({}));
    // At once: the prompt is cancelled before its turn starts.
    live.prompt("a", json!([[{"hang": true}]]));
    live.tell(AgentInput::Interrupt);
    assert_eq!(live.end().0, EndReason::Cancelled);
    live.prompt("b", json!([[{"text": "some words here"}, {"hang": true}]]));
    live.until(|event| matches!(event, AgentEvent::Text { .. }));
    live.tell(AgentInput::Interrupt);
    assert_eq!(live.end().0, EndReason::Cancelled);
    live.prompt("c", json!([bash("touch asked"), {"text": "never"}]));
    let (native, _) = live.asked();
    live.tell(AgentInput::Interrupt);
    live.until(|event| matches!(event, AgentEvent::Withdrew { native: gone } if *gone == native));
    assert_eq!(live.end().0, EndReason::Cancelled);
    live.prompt("d", json!([{"text": "Fine."}]));
    assert_eq!(live.end().1, "Fine.");
    live.leave();
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn an_interrupt_at_any_moment_ends_the_turn() {
    let mut live = Live::start("unrecorded", json!({}));
    for at in 0..24 {
        live.prompt("a", json!([[{"text": "some words"}, {"hang": true}]]));
        // Not a wait for something: these are the moments to try.
        std::thread::sleep(Duration::from_millis(at * 4));
        live.tell(AgentInput::Interrupt);
        let started = Instant::now();
        assert_eq!(live.end().0, EndReason::Cancelled, "after {} ms", at * 4);
        assert!(started.elapsed() < domain::limits::INTERRUPT_WAIT / 2);
    }
    live.prompt("b", json!([{"text": "Still here."}]));
    assert_eq!(live.end().1, "Still here.");
    live.leave();
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn questions_and_plans() {
    let mut live = Live::start("questions", json!({"mode": "plan"}));
    let question = json!({
        "question": "Which colour?", "header": "Colour", "multiSelect": false,
        "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
    });
    live.prompt(
        "ask",
        json!([{"tool": "AskUserQuestion", "input": {"questions": [question]}}, {"text": "Thanks."}]),
    );
    let (native, ask) = live.asked();
    assert!(matches!(&ask, RequestSubject::Question { questions, .. } if questions[0].options.len() == 2));
    let answers = [("q1".to_owned(), "Blue".to_owned())].into();
    live.tell(AgentInput::Answer { native, answers, ask });
    let finished = live.until(|event| matches!(event, AgentEvent::ToolFinished { .. }));
    assert!(
        matches!(finished, AgentEvent::ToolFinished { ok: true, output, .. } if output.contains("\"Blue\""))
    );
    assert_eq!(live.end().1, "Thanks.");
    live.prompt("plan", json!([{"tool": "ExitPlanMode", "input": {"plan": "1. do it"}}, {"text": "Begun."}]));
    live.decide(Decision::AllowOnce, "");
    live.until(|event| *event == AgentEvent::Mode(Mode::Supervised));
    assert_eq!(live.end().1, "Begun.");
    let (_, events) = live.leave();
    assert!(events.contains(&AgentEvent::PlanMode(false)));
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn sub_agents() {
    let mut live = Live::start("subagent", json!({}));
    let inner =
        format!("SCRIPT: {}", json!([[{"text": "Looking."}, bash("touch inner")], {"text": "Found it."}]));
    let input = json!({"description": "look", "prompt": inner, "subagent_type": "general-purpose", "run_in_background": false});
    live.prompt("delegate", json!([{"tool": "Agent", "input": input}, {"text": "All done."}]));
    let (native, ask) = live.asked();
    assert!(matches!(&ask, RequestSubject::Permission(permission) if permission.parent.is_some()));
    let message = String::new();
    live.tell(AgentInput::Decide {
        native,
        decision: Decision::AllowOnce,
        message,
        updated_input: None,
        ask,
    });
    assert_eq!(live.end().1, "All done.");
    assert_eq!(live.usage.input_tokens, 40);
    let (_, events) = live.leave();
    let inner = events.iter().filter(|event| matches!(event, AgentEvent::Text { parent: Some(_), .. }));
    assert_eq!(inner.count(), 2);
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn turns_of_its_own() {
    let mut live = Live::start("background", json!({"provider_config": {"allowed_tools": "Bash"}}));
    let mut step = bash("timeout 1 tail -f /dev/null; echo over");
    step["input"]["run_in_background"] = true.into();
    live.prompt("start", json!([step.clone(), {"text": "Started."}]));
    assert_eq!(live.end().1, "Started.");
    // The command ends: a turn without a prompt.
    live.until(|event| *event == AgentEvent::TurnStarted);
    assert_eq!(live.end().0, EndReason::Completed);
    // The same, but a prompt comes in between and must outlast it.
    live.prompt("start", json!([step, {"text": "Started again."}]));
    live.end();
    live.until(|event| matches!(event, AgentEvent::WorkerFinished { .. }));
    live.prompt("mine", json!([[{"text": "my own answer", "gap_ms": 100}]]));
    assert_eq!(live.end().1, "my own answer");
    live.leave();
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn messages_added_to_a_turn() {
    let mut live = Live::start("steer", json!({"provider_config": {"allowed_tools": "Bash"}}));
    // Folded into the turn between two steps.
    live.prompt("a", json!([bash("timeout 1 tail -f /dev/null; echo x"), {"text": "Both answered."}]));
    live.until(|event| matches!(event, AgentEvent::ToolStarted { .. }));
    live.tell(AgentInput::Steer { text: "also this".into() });
    assert_eq!(live.end().1, "Both answered.");
    // Too late to be folded: answered afterwards, within the same turn of ours.
    live.prompt("b", json!([[{"text": "first", "gap_ms": 200}]]));
    live.until(|event| matches!(event, AgentEvent::Text { .. }));
    live.tell(AgentInput::Steer { text: "then SCRIPT: [{\"text\": \"second\"}]".into() });
    assert_eq!(live.end().1, "second");
    live.leave();
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn commands_of_the_agent() {
    let mut live = Live::start("commands", json!({}));
    live.prompt("one", json!([{"text": "One."}]));
    live.end();
    live.tell(AgentInput::Compact);
    live.until(|event| matches!(event, AgentEvent::Compacted { summary, .. } if !summary.is_empty()));
    assert_eq!(live.end().0, EndReason::Completed);
    live.tell(AgentInput::Prompt { text: "/clear".into(), attachments: Vec::new() });
    // The conversation to resume is a different one now.
    live.until(|event| matches!(event, AgentEvent::Ready { .. }));
    assert_eq!(live.end().0, EndReason::Completed);
    live.tell(AgentInput::SetModel("haiku".into()));
    live.tell(AgentInput::SetMode(Mode::AcceptEdits));
    live.prompt("two", json!([{"text": "Two."}]));
    live.end();
    live.leave();
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn failures_of_the_model() {
    let mut live = Live::start("failures", json!({"provider_config": {"max_turns": "2"}}));
    live.prompt("a", json!([{"status": 500, "message": "out of order"}]));
    let (reason, text, error) = live.end();
    assert_eq!((reason, text.as_str()), (EndReason::Failed, ""));
    assert!(error.contains("out of order"), "{error}");
    // How much of an answer it has received when it retries depends on the chunks, so every attempt is cut
    // off.
    let cut = json!([{"text": "cut off here"}, {"drop": true}]);
    live.prompt("b", json!([cut, cut, cut, cut, cut, cut, cut, cut, cut, cut, cut, cut]));
    let (reason, text, error) = live.end();
    assert_eq!((reason, text.as_str()), (EndReason::Failed, ""));
    assert!(error.contains("Connection to the API was lost"), "{error}");
    live.prompt("c", json!([{"tool": "Read", "input": {"file_path": "/example/none"}}, {"tool": "Read", "input": {"file_path": "none"}}, {"tool": "Read", "input": {"file_path": "none"}}, {"text": "never"}]));
    live.decide(Decision::Deny, "no");
    assert_eq!(live.end().0, EndReason::LimitReached);
    live.leave();
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn refusals_and_answers_that_are_too_long() {
    let mut live = Live::start("refusals", json!({}));
    let no = json!([{"text": "no", "stop_reason": "refusal"}]);
    live.prompt("a", json!([no, no, no]));
    let (reason, _, error) = live.end();
    assert_eq!((reason, error.contains("safeguards")), (EndReason::Refused, true));
    let cut = json!([{"text": "and on", "stop_reason": "max_tokens"}]);
    live.prompt("b", json!([cut, cut, cut, cut, cut, cut]));
    let (reason, _, error) = live.end();
    assert_eq!((reason, error.contains("maximum")), (EndReason::LimitReached, true));
    live.leave();
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn servers_of_the_session() {
    let server = r#"
import json, os, sys
for line in sys.stdin:
    call = json.loads(line)
    if call.get("method") == "initialize":
        result = {"protocolVersion": call["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "lab", "version": "1"}}
    elif call.get("method") == "tools/list":
        result = {"tools": [{"name": "ping", "description": "answers", "inputSchema": {"type": "object"}}]}
    elif call.get("method") == "tools/call":
        result = {"content": [{"type": "text", "text": "pong " + os.environ["LAB_KEY"]}]}
    else:
        result = {}
    if "id" in call:
        print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}), flush=True)
"#;
    let servers = json!({
        "lab": {"command": "python3", "args": ["-c", server], "env": {"LAB_KEY": "open sesame"}},
        "gone": {"command": "/nowhere/at/all"},
    });
    let config = json!({"mcp_servers": servers.to_string(), "strict_mcp": "true"});
    let mut live = Live::start("unrecorded", json!({"provider_config": config}));
    assert!(!live.command_line().contains("sesame"));
    live.prompt("a", json!([{"tool": "mcp__lab__ping", "input": {}}, {"text": "Done."}]));
    live.decide(Decision::AllowOnce, "");
    let finished = live.until(|event| matches!(event, AgentEvent::ToolFinished { .. }));
    assert!(matches!(finished, AgentEvent::ToolFinished { output, .. } if output == "pong open sesame"));
    live.end();
    let (_, events) = live.leave();
    let told =
        |event: &AgentEvent| matches!(event, AgentEvent::Notice { message, .. } if message.contains("gone"));
    assert!(events.iter().any(told), "{events:?}");
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn things_to_do() {
    let setup = json!({"environment": {"CLAUDE_CODE_ENABLE_TODO_TOOLS": "1"}});
    let mut live = Live::start("todos", setup);
    live.prompt(
        "list",
        json!([
            {"tool": "TaskCreate", "input": {"subject": "write it", "description": "d"}},
            {"tool": "TaskCreate", "input": {"subject": "test it", "description": "d"}},
            {"tool": "TaskUpdate", "input": {"taskId": "1", "status": "completed"}},
            {"tool": "TaskUpdate", "input": {"taskId": "2", "status": "deleted"}},
            {"text": "Listed."},
        ]),
    );
    live.end();
    let (_, events) = live.leave();
    let last = events.iter().rev().find_map(|event| match event {
        AgentEvent::Todos(todos) => Some(todos.clone()),
        _ => None,
    });
    let last: Vec<_> = last.unwrap().into_iter().map(|todo| (todo.text, todo.status)).collect();
    assert_eq!(last, [("write it".to_owned(), TodoStatus::Completed)]);
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn files_sent_along() {
    let setup = json!({"provider_config": {"append_system_prompt": "Be brief."}});
    let mut live = Live::start("attachments", setup);
    let file = |name: &str, media_type: &str, content: &str| Attachment {
        name: name.to_owned(),
        media_type: media_type.to_owned(),
        content: content.to_owned(),
    };
    let dot =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let attachments = vec![file("dot.png", "image/png", dot), file("note.txt", "text/plain", "aGVsbG8=")];
    live.tell(AgentInput::Prompt { text: "see SCRIPT: [{\"text\": \"Seen.\"}]".into(), attachments });
    assert_eq!(live.end().1, "Seen.");
    live.leave();
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn a_conversation_taken_up_again() {
    let mut live = Live::start("first_run", json!({}));
    live.prompt("one", json!([{"text": "One."}]));
    live.end();
    let native = match &live.events[0] {
        AgentEvent::Ready { native_session, .. } => native_session.clone(),
        other => panic!("{other:?}"),
    };
    let (base, _) = live.leave();
    assert!(has_conversation(base.path(), &native));
    let mut live = Live::start_in("resumed", json!({"turns": 1}), base, &native);
    live.prompt("two", json!([{"text": "Two."}]));
    assert_eq!(live.end().1, "Two.");
    // The usage of the first run is not counted again, though the agent's own total continues.
    assert_eq!(live.usage.input_tokens, 10);
    live.leave();
}

fn has_conversation(base: &Path, native: &str) -> bool {
    let projects = base.join("home/.claude/projects");
    projects
        .read_dir()
        .unwrap()
        .flatten()
        .any(|folder| folder.path().join(format!("{native}.jsonl")).exists())
}
