//! Events in, lines out.

use domain::event::{EventKind, Todo, TodoPriority, TodoStatus};
use domain::{CallId, Event, LaunchPolicy, ProviderKind, SessionId, SessionSpec, Timestamp, TurnId};
use serde_json::{Value, json};

use super::*;

pub(crate) fn spec(provider: ProviderKind) -> SessionSpec {
    SessionSpec {
        name: "n".into(),
        launch: LaunchPolicy::OnPrompt,
        ..SessionSpec::new(SessionId::new("sess_1"), provider, "/w".into())
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
            "status": "pending", "rawInput": input})],
        "nobody has allowed it yet"
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
    let urgent = Todo {
        description: "all of it".into(),
        active_form: "doing".into(),
        priority: Some(TodoPriority::High),
        ..Todo::new("2", "do more", TodoStatus::Pending)
    };
    let todos = vec![Todo::new("1", "do", TodoStatus::InProgress), urgent];
    assert_eq!(
        ours(&mut projector, EventKind::TodosChanged { todos }),
        [json!({"sessionUpdate": "plan",
            "entries": [{"content": "do", "priority": "medium", "status": "in_progress"},
                {"content": "do more", "priority": "high", "status": "pending",
                    "_meta": {"obey": {"description": "all of it", "activeForm": "doing"}}}]})]
    );
    let told = ours(&mut projector, EventKind::ModeChanged { mode: Mode::Autonomous });
    assert_eq!(told[0], json!({"sessionUpdate": "current_mode_update", "currentModeId": "autonomous"}));
    assert_eq!(told[1]["configOptions"][0]["currentValue"], "autonomous");
    let told = ours(&mut projector, EventKind::ModelChanged { model: "gpt-5.5".into() });
    assert_eq!(told[0]["configOptions"][1]["currentValue"], "gpt-5.5");
    let command = |name: &str, hint: &str| AgentCommand {
        name: name.into(),
        description: "d".into(),
        hint: hint.into(),
    };
    let commands = vec![command("/compact", ""), command("review", "[branch]")];
    let told = ours(&mut projector, EventKind::CommandsChanged { commands });
    assert_eq!(told[0]["availableCommands"][0], json!({"name": "compact", "description": "d"}));
    assert_eq!(told[0]["availableCommands"][1]["input"], json!({"hint": "[branch]"}));
    let usage = Usage { cost_micro_usd: 1_500_000, ..Usage::default() };
    let report =
        EventKind::UsageReported { usage, context_tokens: Some(10), context_window: Some(100), parent: None };
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

fn asked(call: &str, automatic: bool) -> EventKind {
    EventKind::RequestOpened {
        request: domain::RequestId(1),
        native: "n".into(),
        automatic,
        ask: domain::request::RequestSubject::Permission(domain::request::PermissionSubject {
            call: Some(CallId::new(call)),
            tool: "Bash".into(),
            input: json!({}),
            title: String::new(),
            parent: None,
        }),
        proposals: Vec::new(),
        advice: domain::permission::PermissionAdvice::default(),
    }
}

fn decided(decision: domain::Decision) -> EventKind {
    EventKind::RequestSettled {
        request: domain::RequestId(1),
        outcome: domain::request::RequestOutcome::Decided { decision },
        by: "me".into(),
        message: String::new(),
        grant: None,
        used_grant: String::new(),
    }
}

fn started(call: &str, tool: &str) -> EventKind {
    EventKind::ToolStarted {
        call: CallId::new(call),
        tool: tool.into(),
        input: json!({}),
        title: String::new(),
        parent: None,
    }
}

#[test]
fn a_call_is_pending_until_it_is_permitted() {
    let mut claude =
        UpdateProjector::new(&spec(ProviderKind::ClaudeCode), &ClientCapabilities::default(), Vec::new());
    assert_eq!(ours(&mut claude, started("c1", "Bash"))[0]["status"], "pending");
    assert!(ours(&mut claude, asked("c1", false)).is_empty());
    let told = ours(&mut claude, decided(domain::Decision::AllowOnce));
    assert_eq!(
        told,
        [json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "in_progress"})]
    );
    assert_eq!(ours(&mut claude, started("c2", "Read"))[0]["status"], "in_progress", "reading asks nobody");
    ours(&mut claude, started("c3", "Bash"));
    ours(&mut claude, asked("c3", false));
    assert!(ours(&mut claude, decided(domain::Decision::Deny)).is_empty(), "its end tells of a denial");
    ours(&mut claude, EventKind::ModeChanged { mode: Mode::Autonomous });
    assert_eq!(ours(&mut claude, started("c4", "Bash"))[0]["status"], "in_progress", "autonomy asks nobody");
}

#[test]
fn plan_mode_is_told_as_mode_and_as_option() {
    let mut claude =
        UpdateProjector::new(&spec(ProviderKind::ClaudeCode), &ClientCapabilities::default(), Vec::new());
    let shown = |told: &[Value]| {
        (told[0]["currentModeId"].clone(), told[1]["configOptions"][0]["currentValue"].clone())
    };
    let told = ours(&mut claude, EventKind::PlanModeChanged { on: true });
    assert_eq!(shown(&told), (json!("plan"), json!("plan")));
    let told = ours(&mut claude, EventKind::ModelChanged { model: "opus".into() });
    assert_eq!(told[0]["configOptions"][0]["currentValue"], "plan", "the options stay of one mind");
    let told = ours(&mut claude, EventKind::PlanModeChanged { on: false });
    assert_eq!(shown(&told), (json!("supervised"), json!("supervised")));
    assert!(ours(&mut claude, EventKind::PlanModeChanged { on: false }).is_empty());
}

#[test]
fn the_first_prompt_is_the_title_until_somebody_renames() {
    let named = SessionSpec { name: "claude-code-ss_1".into(), ..spec(ProviderKind::ClaudeCode) };
    let mut claude = UpdateProjector::new(&named, &ClientCapabilities::default(), Vec::new());
    let prompt = |text: &str| EventKind::TurnStarted {
        turn: TurnId(1),
        origin: TurnOrigin::Client,
        prompt: text.into(),
        attachments: Vec::new(),
        by: String::new(),
    };
    let title = |told: &[Value]| told.iter().find_map(|update| update["title"].as_str().map(str::to_owned));
    let told = ours(&mut claude, prompt("Fix the login\nIt fails with 500."));
    assert_eq!(title(&told).as_deref(), Some("Fix the login"));
    assert_eq!(title(&ours(&mut claude, prompt("and now this"))), None);
    let told = ours(&mut claude, EventKind::Renamed { name: "Login".into() });
    assert_eq!(title(&told).as_deref(), Some("Login"));
    assert_eq!(title(&ours(&mut claude, prompt("more"))), None);
}
