//! The agent, run in a thread, through its codec.

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::thread::JoinHandle;

use agent_port::Decoded;
use domain::request::RequestSubject;
use domain::turn::EndReason;
use domain::{AgentEvent, AgentInput, Decision, Mode};
use serde_json::{Value, json};

use super::*;

struct Played {
    codec: ScriptedCodec,
    stdin: Option<PipeWriter>,
    stdout: BufReader<PipeReader>,
    agent: JoinHandle<i32>,
}

impl Played {
    fn start(mode: Mode) -> Self {
        let start = wire::StartMessage {
            session: "s1".into(),
            model: MODEL.into(),
            mode,
            ..wire::StartMessage::default()
        };
        Self::start_with(start)
    }

    fn start_with(start: wire::StartMessage) -> Self {
        let (input, stdin) = std::io::pipe().unwrap();
        let (stdout, output) = std::io::pipe().unwrap();
        let agent = std::thread::spawn(move || run_agent(input, output));
        let mut codec = ScriptedCodec::new(start, Vec::new());
        let mut wire = Vec::new();
        codec.open(&mut wire);
        let mut played = Self { codec, stdin: Some(stdin), stdout: BufReader::new(stdout), agent };
        played.write(&wire);
        played
    }

    fn write(&mut self, wire: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(wire).unwrap();
    }

    fn tell(&mut self, input: AgentInput) {
        let mut wire = Vec::new();
        self.codec.encode(&input, &mut wire).unwrap();
        self.write(&wire);
    }

    fn prompt(&mut self, script: Value) {
        self.tell(AgentInput::Prompt { text: format!("do it SCRIPT: {script}"), attachments: Vec::new() });
    }

    fn hear(&mut self) -> Option<AgentEvent> {
        let mut line = Vec::new();
        if self.stdout.read_until(b'\n', &mut line).unwrap() == 0 {
            return None;
        }
        let mut out = Decoded::default();
        self.codec.decode(line.trim_ascii_end(), &mut out);
        out.events.pop()
    }

    /// Reads up to and including the wanted event.
    fn until(&mut self, wanted: impl Fn(&AgentEvent) -> bool) -> Vec<AgentEvent> {
        let mut heard = Vec::new();
        while let Some(event) = self.hear() {
            let found = wanted(&event);
            heard.push(event);
            if found {
                return heard;
            }
        }
        panic!("the agent ended after {heard:?}")
    }

    fn turn(&mut self) -> Vec<AgentEvent> {
        self.until(|event| matches!(event, AgentEvent::TurnEnded { .. }))
    }

    fn decide(&mut self, decision: Decision) {
        let events = self.until(|event| matches!(event, AgentEvent::Asked { .. }));
        let Some(AgentEvent::Asked { native, ask }) = events.last().cloned() else { panic!() };
        let message = "why not".to_owned();
        self.tell(AgentInput::Decide { native, decision, message, updated_input: None, ask });
    }

    fn code(mut self) -> i32 {
        self.stdin.take();
        // Unread output must not keep it from ending.
        std::io::copy(&mut self.stdout, &mut std::io::sink()).unwrap();
        self.agent.join().unwrap()
    }
}

fn ended(reason: EndReason, text: &str, error: &str) -> AgentEvent {
    AgentEvent::TurnEnded { reason, text: text.into(), error: error.into() }
}

#[test]
fn a_script_is_played_step_by_step() {
    let mut played = Played::start(Mode::Autonomous);
    played.prompt(json!([
        {"thinking": "hm"},
        {"text": "Hello", "chunks": 2, "gap_ms": 1},
        {"tool": "Bash", "input": {"command": "ls"}, "result": "a"},
        {"tool": "Bash", "input": {"command": "no"}, "result": "b", "ok": false},
        {"todo": ["x", {"text": "y", "active_form": "doing y", "status": "in_progress", "priority": "high"}]},
        {"usage": {"input_tokens": 10, "output_tokens": 5}},
        {"plan_mode": true},
        {"compact": true},
        {"garbage": "{not json"},
        {"text": " world"},
    ]));
    let text: Vec<String> = played.turn().iter().map(|event| format!("{event:?}")).collect();
    insta::assert_snapshot!(text.join("\n"), @r#"
    Ready { native_session: "s1", model: "scripted-1", version: "0.1.0", resolved_model: "" }
    TurnStarted
    Thinking { text: "hm", parent: None }
    Text { text: "He", parent: None }
    Text { text: "llo", parent: None }
    ToolStarted { call: call-1, tool: "Bash", input: Object {"command": String("ls")}, title: "Bash: ls", parent: None }
    ToolFinished { call: call-1, ok: true, output: "a" }
    ToolStarted { call: call-2, tool: "Bash", input: Object {"command": String("no")}, title: "Bash: no", parent: None }
    ToolFinished { call: call-2, ok: false, output: "b" }
    Todos([Todo { id: "1", text: "x", description: "", active_form: "", status: Pending, priority: None }, Todo { id: "2", text: "y", description: "", active_form: "doing y", status: InProgress, priority: Some(High) }])
    Usage { usage: Usage { input_tokens: 10, output_tokens: 5, cache_read_tokens: 0, cache_write_tokens: 0, cost_micro_usd: 0, estimated_micro_usd: 0 }, context_tokens: None, context_window: None, parent: None }
    PlanMode(true)
    Compacted { tokens_before: Some(1000), tokens_after: Some(100), summary: "the script was compacted" }
    Unparsed { raw: "{not json", length: None }
    Text { text: " world", parent: None }
    TurnEnded { reason: Completed, text: " world", error: "" }
    "#);
    assert_eq!(played.code(), 0);
}

#[test]
fn a_tool_waits_for_its_permission() {
    let mut played = Played::start(Mode::Supervised);
    let tool = json!({"tool": "Bash", "input": {"command": "ls"}, "ask": true, "result": "a"});
    played.prompt(json!([tool, tool, {"text": "end"}, tool, {"text": "never"}]));
    played.decide(Decision::AllowOnce);
    played.decide(Decision::Deny);
    played.decide(Decision::DenyAndStop);
    let events = played.turn();
    assert!(matches!(&events[0], AgentEvent::ToolFinished { ok: false, output, .. } if output == "why not"));
    assert_eq!(events.last(), Some(&ended(EndReason::Cancelled, "", "")));
}

#[test]
fn a_question_is_answered_or_not() {
    let mut played = Played::start(Mode::Autonomous);
    let question = json!({"question": {"text": "Which?", "options": ["A", "B"]}});
    played.prompt(json!([question, question]));
    let events = played.until(|event| matches!(event, AgentEvent::Asked { .. }));
    let Some(AgentEvent::Asked { native, ask }) = events.last().cloned() else { panic!() };
    assert!(
        matches!(&ask, RequestSubject::Question { questions, .. } if questions[0].options[1].label == "B")
    );
    let answers = [("q1".to_owned(), "B".to_owned())].into();
    played.tell(AgentInput::Answer { native, answers, ask });
    played.decide(Decision::Deny);
    let text = "answered: Bnot answered: why not";
    assert_eq!(played.turn().last(), Some(&ended(EndReason::Completed, text, "")));
}

#[test]
fn an_interrupt_is_heard_in_the_middle_of_anything() {
    let mut played = Played::start(Mode::Supervised);
    played.until(|event| matches!(event, AgentEvent::Ready { .. }));
    let ask = json!({"tool": "Bash", "ask": true});
    for step in [
        json!({"hang": true}),
        json!({"wait_file": "/nowhere/at/all"}),
        json!({"text": "slow", "chunks": 4, "gap_ms": 100_000}),
        json!({"flood": {"lines": 10_000_000, "text": "x"}}),
        ask,
    ] {
        played.prompt(json!([{"text": "begin"}, step, {"text": "never"}]));
        let asks = step.get("ask").is_some();
        played.until(|event| match event {
            AgentEvent::Text { .. } => !asks,
            AgentEvent::Asked { .. } => true,
            _ => false,
        });
        played.tell(AgentInput::Interrupt);
        let events = played.turn();
        let Some(AgentEvent::TurnEnded { reason, .. }) = events.last() else { panic!() };
        assert_eq!(*reason, EndReason::Cancelled, "{step}");
        if asks {
            assert!(events.iter().any(|event| matches!(event, AgentEvent::Withdrew { .. })));
        }
    }
    played.prompt(json!([{"text": "fine"}]));
    assert_eq!(played.turn().last(), Some(&ended(EndReason::Completed, "fine", "")));
}

#[test]
fn a_flood_and_a_long_line_arrive_whole() {
    let mut played = Played::start(Mode::Autonomous);
    played.prompt(json!([{"flood": {"lines": 5_000, "text": "ab"}}, {"long_line": 300_000}]));
    let lengths: Vec<usize> = played
        .turn()
        .iter()
        .filter_map(|event| match event {
            AgentEvent::Text { text, .. } => Some(text.len()),
            _ => None,
        })
        .collect();
    assert_eq!((lengths.len(), lengths[4_999], lengths[5_000]), (5_001, 2, 300_000));
}

#[test]
fn words_added_to_a_turn_are_said() {
    let mut played = Played::start(Mode::Autonomous);
    played.prompt(json!([{"text": "begin\n"}, {"hang": true}]));
    played.until(|event| matches!(event, AgentEvent::Text { .. }));
    played.tell(AgentInput::Steer { text: "left".into() });
    played.until(|event| matches!(event, AgentEvent::Text { text, .. } if text == "steered: left\n"));
    played.tell(AgentInput::Interrupt);
    assert_eq!(played.turn().last(), Some(&ended(EndReason::Cancelled, "begin\nsteered: left\n", "")));
}

#[test]
fn a_turn_fails_with_the_scripts_or_the_readers_error() {
    let mut played = Played::start(Mode::Autonomous);
    played.prompt(json!([{"text": "a"}, {"error": "broken"}]));
    assert_eq!(played.turn().last(), Some(&ended(EndReason::Failed, "a", "broken")));
    played.prompt(json!([{"txt": "a"}]));
    let error = "step 1: has no verb; did you mean text?";
    assert_eq!(played.turn().last(), Some(&ended(EndReason::Failed, "", error)));
    played.tell(AgentInput::Compact);
    assert!(matches!(played.turn()[1], AgentEvent::Compacted { .. }));
    played.prompt(json!([{"crash": 3}]));
    assert_eq!(played.code(), 3);
}

#[test]
fn the_end_of_its_input_ends_it_after_its_turn() {
    let mut played = Played::start(Mode::Autonomous);
    played.prompt(json!([{"text": "a", "chunks": 1}, {"text": "bcd", "chunks": 3, "gap_ms": 5}]));
    played.stdin.take();
    assert_eq!(played.turn().last(), Some(&ended(EndReason::Completed, "abcd", "")));
    assert_eq!(played.code(), 0);
    let mut played = Played::start(Mode::Autonomous);
    played.prompt(json!([{"hang": true}]));
    assert_eq!(played.code(), 0);
}

#[test]
fn leaving_is_heard_within_a_turn() {
    let mut played = Played::start(Mode::Autonomous);
    played.prompt(json!([{"text": "a"}, {"hang": true}]));
    played.until(|event| matches!(event, AgentEvent::Text { .. }));
    played.tell(AgentInput::Leave);
    assert_eq!(played.hear(), None);
    assert_eq!(played.code(), 0);
}

#[test]
fn without_a_script_it_shows_what_an_agent_does() {
    let mut played = Played::start(Mode::Supervised);
    played.tell(AgentInput::Prompt { text: "hello".into(), attachments: Vec::new() });
    played.decide(Decision::AllowOnce);
    let events = played.turn();
    let Some(AgentEvent::TurnEnded { reason: EndReason::Completed, text, .. }) = events.last() else {
        panic!()
    };
    assert!(text.starts_with("There are ") && text.ends_with("You said: hello\n"), "{text}");
    played.tell(AgentInput::Prompt { text: "again".into(), attachments: Vec::new() });
    played.decide(Decision::Deny);
    assert!(
        matches!(played.turn().last(), Some(AgentEvent::TurnEnded { text, .. }) if text.contains("not allowed"))
    );
    // In autonomous mode it does not ask.
    played.tell(AgentInput::SetMode(Mode::Autonomous));
    played.tell(AgentInput::Prompt { text: "more".into(), attachments: Vec::new() });
    assert!(!played.turn().iter().any(|event| matches!(event, AgentEvent::Asked { .. })));
}

#[test]
fn a_start_can_be_slow_or_fail() {
    let slow =
        wire::StartMessage { session: "s1".into(), startup_delay_ms: 30, ..wire::StartMessage::default() };
    let mut played = Played::start_with(slow);
    assert!(matches!(played.hear(), Some(AgentEvent::Ready { .. })));
    let failing = wire::StartMessage { startup_fail: "no licence".into(), ..wire::StartMessage::default() };
    let mut played = Played::start_with(failing);
    assert_eq!(played.hear(), None);
    assert_eq!(played.code(), 1);
}

#[test]
fn other_models_and_keys_are_refused() {
    let check = |model: &str, config: &[(&str, &str)]| {
        let config: std::collections::BTreeMap<&str, &str> = config.iter().copied().collect();
        let spec = serde_json::from_value(json!({
            "id": "sess_x", "campaign_id": null, "provider": "scripted", "model": model, "name": "",
            "festival_id": "", "task_id": "", "parent": null, "working_dir": "/", "provider_config": config,
            "environment": {}, "max_tokens": 0, "timeout": null, "mode": "supervised", "launch": "now",
            "created_at": 0,
        }));
        Scripted::new("/bin/obey".into()).check(&spec.unwrap())
    };
    assert_eq!(check("", &[("startup_delay_ms", "5"), ("permission_mode", "plan")]), Ok(()));
    assert_eq!(check("scripted-1", &[]), Ok(()));
    let error = check("scripted-2", &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "OBEY-2003: model: scripted has no model \"scripted-2\"; did you mean scripted-1?"
    );
    assert!(check("", &[("startup_delay", "5")]).unwrap_err().message.contains("startup_delay_ms?"));
    assert!(check("", &[("startup_delay_ms", "soon")]).is_err());
}
