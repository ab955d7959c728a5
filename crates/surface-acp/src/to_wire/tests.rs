//! Events in, lines out.

use domain::event::{EventKind, Todo, TodoStatus};
use domain::{
    CallId, Event, LaunchPolicy, ProviderKind, SessionId, SessionSpec, Timeouts, Timestamp, TurnId,
};
use serde_json::{Value, json};

use super::*;

pub(crate) fn spec(provider: ProviderKind) -> SessionSpec {
    SessionSpec {
        id: SessionId::new("sess_1"),
        campaign_id: None,
        provider,
        model: String::new(),
        name: "n".into(),
        festival_id: String::new(),
        task_id: String::new(),
        parent: None,
        root: "/w".into(),
        working_dir: "/w".into(),
        provider_config: Default::default(),
        environment: Default::default(),
        max_tokens: 0,
        timeout: None,
        mode: Mode::Supervised,
        launch: LaunchPolicy::OnPrompt,
        upkeep: Timeouts::default(),
        containment: domain::Containment::default(),
        scrub: None,
        created_at: Timestamp::default(),
    }
}

fn projector() -> UpdateProjector {
    let client =
        ClientCapabilities { takes_notices: true, takes_compaction: true, ..ClientCapabilities::default() };
    UpdateProjector::new(&spec(ProviderKind::Codex), &client, vec!["gpt-5.5".into()])
}

fn tell(projector: &mut UpdateProjector, kind: EventKind, whose: PromptOwner) -> Vec<Value> {
    let event = Event { session: SessionId::new("sess_1"), seq: 1, at: Timestamp::default(), kind };
    let mut out = Vec::new();
    projector.take(&event, whose, &mut out);
    let lines = out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let line: Value = serde_json::from_slice(line).unwrap();
            assert_eq!((&line["method"], &line["params"]["sessionId"]), (&json!(UPDATE), &json!("sess_1")));
            line["params"]["update"].clone()
        })
        .collect()
}

fn ours(projector: &mut UpdateProjector, kind: EventKind) -> Vec<Value> {
    tell(projector, kind, PromptOwner::Ours)
}

#[test]
fn a_piece_of_text_is_one_line_in_a_fixed_form() {
    let event = Event {
        session: SessionId::new("sess_1"),
        seq: 1,
        at: Timestamp::default(),
        kind: EventKind::TextDelta { text: "a\n\"b\"".into(), parent: None },
    };
    let mut out = Vec::new();
    projector().take(&event, PromptOwner::Ours, &mut out);
    let line = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"sess_1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a\n\"b\""}}}}"#;
    assert_eq!(String::from_utf8(out).unwrap(), format!("{line}\n"));
}

#[test]
fn thoughts_and_sub_agents_are_thoughts() {
    let thought = ours(&mut projector(), EventKind::ThinkingDelta { text: "hm".into(), parent: None });
    assert_eq!(thought[0]["sessionUpdate"], "agent_thought_chunk");
    let parent = Some(CallId::new("c"));
    let below = ours(&mut projector(), EventKind::TextDelta { text: "hm".into(), parent });
    assert_eq!(below[0]["sessionUpdate"], "agent_thought_chunk");
}

#[test]
fn only_the_words_of_others_are_told() {
    let prompt = EventKind::TurnStarted {
        turn: TurnId(1),
        origin: TurnOrigin::Client,
        prompt: "hi".into(),
        attachments: Vec::new(),
        by: "x".into(),
    };
    assert_eq!(ours(&mut projector(), prompt.clone()), Vec::<Value>::new());
    let told = tell(&mut projector(), prompt, PromptOwner::Others);
    assert_eq!(
        told,
        [json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "hi"}})]
    );
}

#[test]
fn a_call_begins_grows_and_ends() {
    let mut projector = projector();
    let call = CallId::new("c1");
    let input = json!({"command": "ls", "cwd": "/w"});
    let begun = ours(
        &mut projector,
        EventKind::ToolStarted {
            call: call.clone(),
            tool: "shell".into(),
            input: input.clone(),
            title: "shell: ls".into(),
            parent: None,
        },
    );
    assert_eq!(
        begun,
        [json!({"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "shell: ls", "kind": "execute",
            "status": "in_progress", "rawInput": input})]
    );
    let progress = |text: &str| EventKind::ToolProgress { call: call.clone(), output: text.into() };
    assert_eq!(ours(&mut projector, progress("a"))[0]["content"][0]["content"]["text"], "a");
    assert_eq!(ours(&mut projector, progress("b"))[0]["content"][0]["content"]["text"], "ab");
    assert!(ours(&mut projector, progress("c")).is_empty(), "told again when it has doubled");
    let ended = ours(
        &mut projector,
        EventKind::ToolFinished { call: call.clone(), tool: "shell".into(), ok: false, output: "no".into() },
    );
    assert_eq!(
        (&ended[0]["status"], &ended[0]["content"][0]["content"]["text"]),
        (&json!("failed"), &json!("no"))
    );
}

#[test]
fn a_turn_leaves_no_call_open() {
    let mut projector = projector();
    let start = EventKind::ToolStarted {
        call: CallId::new("c1"),
        tool: "Read".into(),
        input: json!({"file_path": "a.rs"}),
        title: String::new(),
        parent: None,
    };
    assert_eq!(ours(&mut projector, start)[0]["locations"], json!([{"path": "/w/a.rs"}]));
    let ended = EventKind::TurnEnded {
        turn: TurnId(1),
        reason: EndReason::Cancelled,
        text: String::new(),
        error: String::new(),
    };
    assert_eq!(ours(&mut projector, ended)[0]["status"], "failed");
}

#[test]
fn plans_modes_models_commands_and_usage_are_told() {
    let mut projector = projector();
    let todos = vec![Todo { id: "1".into(), text: "do".into(), status: TodoStatus::InProgress }];
    assert_eq!(
        ours(&mut projector, EventKind::TodosChanged { todos }),
        [json!({"sessionUpdate": "plan",
            "entries": [{"content": "do", "priority": "medium", "status": "in_progress"}]})]
    );
    let told = ours(&mut projector, EventKind::ModeChanged { mode: Mode::Autonomous });
    assert_eq!(told[0], json!({"sessionUpdate": "current_mode_update", "currentModeId": "autonomous"}));
    assert_eq!(told[1]["configOptions"][0]["currentValue"], "autonomous");
    let told = ours(&mut projector, EventKind::ModelChanged { model: "gpt-5.5".into() });
    assert_eq!(told[0]["configOptions"][1]["currentValue"], "gpt-5.5");
    let commands = vec![AgentCommand { name: "/compact".into(), description: "d".into() }];
    let told = ours(&mut projector, EventKind::CommandsChanged { commands });
    assert_eq!(told[0]["availableCommands"][0]["name"], "compact");
    let usage = Usage { cost_micro_usd: 1_500_000, ..Usage::default() };
    let report = EventKind::UsageReported { usage, context_tokens: Some(10), context_window: Some(100) };
    let used = json!({"sessionUpdate": "usage_update", "used": 10, "size": 100,
        "cost": {"amount": 1.5, "currency": "USD"}});
    assert_eq!(ours(&mut projector, report), [used]);
    let mut out = Vec::new();
    projector.standing(&mut out);
    assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 3);
}

#[test]
fn every_end_of_a_turn_is_a_stop_reason_or_an_error() {
    assert_eq!(stop_reason(EndReason::Completed, ""), Ok("end_turn"));
    assert_eq!(stop_reason(EndReason::Cancelled, ""), Ok("cancelled"));
    assert_eq!(stop_reason(EndReason::Refused, ""), Ok("refusal"));
    assert_eq!(stop_reason(EndReason::LimitReached, ""), Ok("max_tokens"));
    let fault = stop_reason(EndReason::Failed, "model said 500").unwrap_err();
    assert_eq!((fault.code, fault.message.as_str()), (INTERNAL_ERROR, "model said 500"));
}
