//! Lines that are in no recording: other versions and other orders; nonsense is in `nonsense`.

mod bridge;
mod history;
mod nonsense;

use domain::event::Level;
use domain::turn::EndReason;
use domain::{AgentEvent, CallId};
use serde_json::json;

use super::*;

fn with(state: CodexState) -> CodexCodec {
    CodexCodec { state: state.into(), settings: CodexSettings::default() }
}

fn running() -> CodexCodec {
    with(CodexState {
        thread: "t1".into(),
        version: TESTED_VERSION.into(),
        counted: Some(domain::Usage::default()),
        ..CodexState::default()
    })
}

fn hear(codec: &mut CodexCodec, line: Value) -> Vec<AgentEvent> {
    hear_all(codec, line).0
}

fn hear_all(codec: &mut CodexCodec, line: Value) -> (Vec<AgentEvent>, Vec<Value>) {
    let mut out = Decoded::default();
    codec.decode(line.to_string().as_bytes(), &mut out);
    let replies = std::str::from_utf8(&out.replies).unwrap().lines();
    (out.events, replies.map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn note(method: &str, params: Value) -> Value {
    json!({"method": method, "params": params})
}

fn began(codec: &mut CodexCodec, id: &str) {
    hear(codec, note("turn/started", json!({"threadId": "t1", "turn": {"id": id}})));
}

fn ended(codec: &mut CodexCodec, id: &str, status: &str) -> Vec<AgentEvent> {
    let turn = json!({"id": id, "status": status, "items": []});
    hear(codec, note("turn/completed", json!({"threadId": "t1", "turn": turn})))
}

fn tell(codec: &mut CodexCodec, input: AgentInput) -> String {
    let mut wire = Vec::new();
    codec.encode(&input, &mut wire).unwrap();
    String::from_utf8(wire).unwrap()
}

fn prompt(codec: &mut CodexCodec) {
    tell(codec, AgentInput::Prompt { text: "x".into(), attachments: Vec::new() });
}

fn command(id: &str, turn: &str) -> Value {
    let item =
        json!({"type": "commandExecution", "id": id, "command": "x", "cwd": "/", "status": "inProgress"});
    json!({"threadId": "t1", "turnId": turn, "item": item})
}

#[test]
fn a_version_that_was_not_tested_is_named_with_the_range() {
    let mut codec = with(CodexState::default());
    let notice = |codec: &mut CodexCodec, agent: &str| {
        let result = json!({"userAgent": agent});
        hear(codec, json!({"id": "obey-initialize-1", "result": result})).pop()
    };
    let warning = |message: &str| Some(AgentEvent::Notice { level: Level::Warning, message: message.into() });
    assert_eq!(notice(&mut codec, "obey/0.166.3 (Debian 12.0.0; x86_64)"), None);
    assert_eq!(codec.state.version, "0.166.3");
    assert_eq!(
        notice(&mut codec, "obey/0.170.1 (x)"),
        warning("this Codex is 0.170.1; obey is tested with 0.166.0 up to, but not including, 0.167.0")
    );
    assert_eq!(
        notice(&mut codec, ""),
        warning(
            "this Codex is of unknown version; obey is tested with 0.166.0 up to, but not including, 0.167.0"
        )
    );
}

#[test]
fn a_start_that_is_refused_breaks_the_session() {
    for (id, words) in [
        ("obey-initialize-1", "does not speak the protocol"),
        ("obey-start-1", "cannot begin a conversation: no"),
        ("obey-resume-1", "cannot begin a conversation: no"),
    ] {
        let mut codec = with(CodexState::default());
        let events = hear(&mut codec, json!({"id": id, "error": {"code": 1, "message": "no"}}));
        let [AgentEvent::Broken { code: None, message }] = &events[..] else { panic!("{events:?}") };
        assert!(message.contains(words), "{message}");
    }
    let mut codec = with(CodexState::default());
    let events = hear(&mut codec, json!({"id": "obey-start-1", "result": {}}));
    assert!(matches!(&events[..], [AgentEvent::Broken { .. }]));
}

#[test]
fn a_model_that_nobody_knows_breaks_the_session() {
    let asked = |model: &str, wanted: bool| {
        let mut codec =
            with(CodexState { asked_model: model.into(), model_is_wanted: wanted, ..CodexState::default() });
        let result = json!({"userAgent": "obey/0.166.0 (x)"});
        let (_, greeted) = hear_all(&mut codec, json!({"id": "obey-initialize-1", "result": result}));
        let begins = greeted.iter().any(|line| line["method"] == "thread/start");
        assert_eq!(begins, wanted || model.is_empty(), "{model}: nothing that could change is waited for");
        if begins {
            // It has started, but accepts no prompt before its model is known.
            let begun = json!({"thread": {"id": "t1"}, "model": model});
            assert_eq!(hear(&mut codec, json!({"id": "obey-start-2", "result": begun})), []);
        }
        let page = json!({"data": [{"model": "gpt-5.5"}], "nextCursor": "2"});
        let (_, more) = hear_all(&mut codec, json!({"id": "obey-models-3", "result": page}));
        assert_eq!(more[0]["params"]["cursor"], "2");
        let page = json!({"data": [{"model": "gpt-6"}], "nextCursor": null});
        let (_, config) = hear_all(&mut codec, json!({"id": "obey-models-4", "result": page}));
        assert_eq!(config[0]["method"], "config/read");
        let config = json!({"config": {"model": "own"}});
        hear_all(&mut codec, json!({"id": "obey-config-5", "result": config}))
    };
    for model in ["", "gpt-5.5", "gpt-6", "own"] {
        let (events, replies) = asked(model, true);
        assert!(matches!(&events[..], [AgentEvent::Ready { .. }]), "{model}: {events:?}");
        assert!(replies.is_empty(), "{model}: {replies:?}");
    }
    let (events, replies) = asked("gpt-7", true);
    assert!(matches!(
        &events[..],
        [AgentEvent::Broken { code: Some(domain::ErrorCode::ModelUnsupported), .. }]
    ));
    assert!(replies.is_empty(), "nothing is begun with it");
    // Last time's model, which the agent no longer has, is no reason to fail.
    let (events, replies) = asked("gpt-7", false);
    assert!(matches!(&events[..], [AgentEvent::Notice { .. }]));
    assert_eq!(replies[0]["params"].get("model"), None);
}

#[test]
fn an_agent_without_a_list_of_models_is_believed() {
    let mut codec =
        with(CodexState { asked_model: "x".into(), model_is_wanted: true, ..CodexState::default() });
    let refused = json!({"id": "obey-models-1", "error": {"code": -32600, "message": "unknown method"}});
    hear(&mut codec, refused);
    let refused = json!({"id": "obey-config-1", "error": {"code": -32600, "message": "unknown method"}});
    assert_eq!(hear(&mut codec, refused), []);
    let begun = json!({"thread": {"id": "t1"}, "model": "x"});
    let ready = hear(&mut codec, json!({"id": "obey-start-2", "result": begun}));
    assert!(matches!(&ready[..], [AgentEvent::Ready { model, .. }] if model == "x"), "{ready:?}");
}

#[test]
fn a_login_that_is_missing_is_said_at_once() {
    let hear_account = |account: Value, requires: bool| {
        let result = json!({"account": account, "requiresOpenaiAuth": requires});
        hear(&mut running(), json!({"id": "obey-account-1", "result": result})).len()
    };
    assert_eq!(hear_account(Value::Null, true), 1);
    assert_eq!(hear_account(json!({"type": "apiKey"}), true), 0);
    assert_eq!(hear_account(Value::Null, false), 0);
}

#[test]
fn the_end_of_another_turn_ends_nothing() {
    let mut codec = running();
    prompt(&mut codec);
    assert!(ended(&mut codec, "old", "completed").is_empty());
    began(&mut codec, "new");
    assert!(ended(&mut codec, "old", "completed").is_empty());
    let other =
        note("turn/completed", json!({"threadId": "t2", "turn": {"id": "new", "status": "completed"}}));
    assert!(hear(&mut codec, other).is_empty());
    assert_eq!(ended(&mut codec, "new", "completed").len(), 1);
    assert!(ended(&mut codec, "new", "completed").is_empty());
}

#[test]
fn a_turn_that_is_refused_fails() {
    let mut codec = running();
    prompt(&mut codec);
    let refused = json!({"id": "obey-turn-1", "error": {"code": -32600, "message": "thread not found"}});
    assert_eq!(
        hear(&mut codec, refused),
        [AgentEvent::TurnEnded {
            reason: EndReason::Failed,
            text: String::new(),
            error: "thread not found".into()
        }]
    );
    assert_eq!(codec.state.turn, None);
    // A message that is refused while a turn runs does not end that turn.
    prompt(&mut codec);
    began(&mut codec, "a");
    let refused = json!({"id": "obey-steer-2", "error": {"code": -32600, "message": "not now"}});
    assert!(matches!(&hear(&mut codec, refused)[..], [AgentEvent::Notice { level: Level::Error, .. }]));
    assert_eq!(ended(&mut codec, "a", "completed").len(), 1);
}

#[test]
fn an_interrupt_waits_for_the_turns_name_and_is_sent_once() {
    let mut codec = running();
    prompt(&mut codec);
    assert_eq!(tell(&mut codec, AgentInput::Interrupt), "");
    let started = note("turn/started", json!({"threadId": "t1", "turn": {"id": "a"}}));
    let (_, replies) = hear_all(&mut codec, started.clone());
    assert_eq!(replies[0]["params"], json!({"threadId": "t1", "turnId": "a"}));
    assert!(hear_all(&mut codec, started).1.is_empty());
    assert!(matches!(
        &ended(&mut codec, "a", "interrupted")[..],
        [AgentEvent::TurnEnded { reason: EndReason::Cancelled, .. }]
    ));
    assert!(!tell(&mut codec, AgentInput::Interrupt).contains("turn/interrupt"));
}

#[test]
fn an_interrupt_right_after_a_plan_was_approved_ends_what_it_began() {
    let mut codec = running();
    codec.state.mode = domain::Mode::Plan;
    prompt(&mut codec);
    began(&mut codec, "a");
    let item = json!({"type": "plan", "id": "p1", "text": "1. do it"});
    hear(&mut codec, note("item/completed", json!({"threadId": "t1", "turnId": "a", "item": item})));
    let events = ended(&mut codec, "a", "completed");
    let Some(AgentEvent::Asked { native, ask }) = events.last() else { panic!("{events:?}") };
    let (native, ask, decision) = (native.clone(), ask.clone(), domain::Decision::AllowOnce);
    let (message, updated_input) = (String::new(), None);
    let told = tell(&mut codec, AgentInput::Decide { native, decision, message, updated_input, ask });
    assert!(told.contains("turn/start"), "{told}");
    // The turn that carries it out has no id yet.
    assert_eq!(tell(&mut codec, AgentInput::Interrupt), "");
    let started = note("turn/started", json!({"threadId": "t1", "turn": {"id": "b"}}));
    let (_, replies) = hear_all(&mut codec, started);
    assert_eq!(
        (&replies[0]["method"], &replies[0]["params"]["turnId"]),
        (&json!("turn/interrupt"), &json!("b"))
    );
}

#[test]
fn a_session_that_plans_takes_its_first_prompt_when_the_agent_plans() {
    let start = |codec: &mut CodexCodec| {
        codec.state.mode = domain::Mode::Plan;
        codec.state.checked = true;
        hear_all(codec, json!({"id": "obey-start-2", "result": {"thread": {"id": "t1"}, "model": "m"}}))
    };
    let mut codec = with(CodexState::default());
    let (events, replies) = start(&mut codec);
    assert!(events.is_empty(), "{events:?}");
    assert_eq!(replies[0]["params"]["collaborationMode"]["mode"], "plan");
    let events = hear(&mut codec, json!({"id": replies[0]["id"], "result": {}}));
    assert!(matches!(&events[..], [AgentEvent::Ready { .. }]), "{events:?}");
    // Without that it would do what it is not allowed to.
    let mut codec = with(CodexState::default());
    let (_, replies) = start(&mut codec);
    let events =
        hear(&mut codec, json!({"id": replies[0]["id"], "error": {"code": 1, "message": "no such mode"}}));
    assert!(
        matches!(&events[..], [AgentEvent::Broken { message, .. }] if message.contains("no such mode")),
        "{events:?}"
    );
}

#[test]
fn only_commands_of_the_turn_that_was_cut_short_are_ended() {
    let mut codec = running();
    prompt(&mut codec);
    began(&mut codec, "a");
    hear(&mut codec, note("item/started", command("c1", "a")));
    let turn = json!({"id": "a", "status": "interrupted", "items": []});
    let (events, replies) =
        hear_all(&mut codec, note("turn/completed", json!({"threadId": "t1", "turn": turn})));
    assert_eq!(
        events[0],
        AgentEvent::ToolFinished { call: CallId::new("c1"), ok: false, output: "interrupted".into() }
    );
    assert_eq!(replies[0]["method"], "thread/backgroundTerminals/list");
    let data = json!([{"itemId": "c0", "processId": "1"}, {"itemId": "c1", "processId": "2"}]);
    let (_, replies) = hear_all(&mut codec, json!({"id": replies[0]["id"], "result": {"data": data}}));
    assert_eq!(replies.len(), 1);
    assert_eq!(replies[0]["params"], json!({"threadId": "t1", "processId": "2"}));
    // It reports its end in the next turn, where it no longer matters.
    prompt(&mut codec);
    began(&mut codec, "b");
    assert!(hear(&mut codec, note("item/completed", command("c1", "a"))).is_empty());
}

#[test]
fn a_sub_agent_of_a_turn_that_was_cut_short_is_ended_with_its_commands() {
    let mut codec = running();
    for (thread, call) in [("w0", "first"), ("w1", "second"), ("w2", "third")] {
        codec.state.remember_worker(thread, CallId::new(call));
    }
    let worker =
        |method: &str, thread: &str, turn: Value| note(method, json!({"threadId": thread, "turn": turn}));
    prompt(&mut codec);
    began(&mut codec, "a");
    // One has finished, one is working, one was just started.
    hear(&mut codec, worker("turn/started", "w0", json!({"id": "w0a"})));
    hear(&mut codec, worker("turn/completed", "w0", json!({"id": "w0a", "status": "completed"})));
    assert!(hear_all(&mut codec, worker("turn/started", "w1", json!({"id": "w1a"}))).1.is_empty());
    let turn = json!({"id": "a", "status": "interrupted", "items": []});
    let (_, replies) = hear_all(&mut codec, note("turn/completed", json!({"threadId": "t1", "turn": turn})));
    assert_eq!(replies.len(), 1);
    assert_eq!(replies[0]["params"], json!({"threadId": "w1", "turnId": "w1a"}));
    // A prompt that follows at once does not keep them from being ended.
    prompt(&mut codec);
    began(&mut codec, "b");
    // What it started at the last moment is found, and is not shown.
    let item =
        json!({"type": "commandExecution", "id": "c1", "command": "x", "cwd": "/", "status": "inProgress"});
    let late = note("item/started", json!({"threadId": "w1", "turnId": "w1a", "item": item}));
    assert!(hear(&mut codec, late).is_empty());
    let ended = worker("turn/completed", "w1", json!({"id": "w1a", "status": "interrupted"}));
    let (_, replies) = hear_all(&mut codec, ended);
    assert_eq!(
        (&replies[0]["method"], &replies[0]["params"]),
        (&json!("thread/backgroundTerminals/list"), &json!({"threadId": "w1"}))
    );
    let data = json!([{"itemId": "c1", "processId": "2"}]);
    let (_, replies) = hear_all(&mut codec, json!({"id": replies[0]["id"], "result": {"data": data}}));
    assert_eq!(replies[0]["params"], json!({"threadId": "w1", "processId": "2"}));
    let (_, replies) = hear_all(&mut codec, worker("turn/started", "w2", json!({"id": "w2a"})));
    assert_eq!(replies[0]["params"], json!({"threadId": "w2", "turnId": "w2a"}));
    // Those that get work in the next turn may do it.
    for thread in ["w0", "w1"] {
        assert!(hear_all(&mut codec, worker("turn/started", thread, json!({"id": "x"}))).1.is_empty());
    }
}

/// The turn that started a sub-agent ends while that waits for a permission.
#[test]
fn a_call_of_a_sub_agent_outlives_the_turn_and_ends_once() {
    let mut codec = running();
    codec.state.remember_worker("w1", CallId::new("spawn"));
    prompt(&mut codec);
    began(&mut codec, "a");
    hear(&mut codec, note("turn/started", json!({"threadId": "w1", "turn": {"id": "w1a"}})));
    let item = |id: &str, status: &str| {
        let item = json!({
            "type": "commandExecution", "id": id, "command": "touch x", "cwd": "/", "status": status, "exitCode": 0,
        });
        json!({"threadId": "w1", "turnId": "w1a", "item": item})
    };
    let begun = hear(&mut codec, note("item/started", item("c1", "inProgress")));
    assert!(matches!(begun.as_slice(), [AgentEvent::ToolStarted { parent: Some(_), .. }]), "{begun:?}");
    let turn = json!({"id": "a", "status": "completed", "items": []});
    let ended = hear(&mut codec, note("turn/completed", json!({"threadId": "t1", "turn": turn})));
    assert!(matches!(ended.as_slice(), [AgentEvent::TurnEnded { .. }]), "its call goes on: {ended:?}");
    let finished = hear(&mut codec, note("item/completed", item("c1", "completed")));
    assert!(matches!(finished.as_slice(), [AgentEvent::ToolFinished { ok: true, .. }]), "{finished:?}");
    // What it leaves open ends with it.
    hear(&mut codec, note("item/started", item("c2", "inProgress")));
    let turn = json!({"id": "w1a", "status": "completed", "items": []});
    let left = hear(&mut codec, note("turn/completed", json!({"threadId": "w1", "turn": turn})));
    assert!(matches!(left.as_slice(), [AgentEvent::ToolFinished { ok: true, .. }]), "{left:?}");
}

#[test]
fn requests_that_were_taken_back_are_withdrawn_once() {
    let mut codec = running();
    prompt(&mut codec);
    began(&mut codec, "a");
    let ask = json!({"id": 3, "method": "item/commandExecution/requestApproval",
        "params": {"threadId": "t1", "turnId": "a", "itemId": "c", "command": "x"}});
    assert!(
        matches!(&hear(&mut codec, ask.clone())[..], [AgentEvent::Asked { native, .. }] if native == "3")
    );
    let resolved = note("serverRequest/resolved", json!({"threadId": "t1", "requestId": 3}));
    assert_eq!(hear(&mut codec, resolved.clone()), [AgentEvent::Withdrew { native: "3".into() }]);
    assert!(hear(&mut codec, resolved.clone()).is_empty());
    let events = hear(&mut codec, ask);
    let [AgentEvent::Asked { native, ask }] = &events[..] else { panic!("{events:?}") };
    let (native, ask, decision) = (native.clone(), ask.clone(), domain::Decision::Deny);
    let (message, updated_input) = (String::new(), None);
    tell(&mut codec, AgentInput::Decide { native, decision, message, updated_input, ask });
    assert!(hear(&mut codec, resolved).is_empty());
}

#[test]
fn what_only_a_program_could_answer_is_refused() {
    for method in ["attestation/generate", "currentTime/read", "account/chatgptAuthTokens/refresh"] {
        let (events, replies) = hear_all(&mut running(), json!({"id": 1, "method": method, "params": {}}));
        assert_eq!((events.len(), replies[0]["error"]["code"].as_i64()), (0, Some(-32601)), "{method}");
    }
    let (events, replies) = hear_all(&mut running(), json!({"id": "x", "method": "new/ask", "params": {}}));
    assert!(matches!(&events[..], [AgentEvent::Unparsed { .. }]));
    assert_eq!(replies[0]["id"], "x");
    let call = json!({"id": 1, "method": "item/tool/call", "params": {"tool": "t"}});
    assert_eq!(hear_all(&mut running(), call).1[0]["result"]["success"], false);
}

#[test]
fn a_servers_tool_is_asked_about_by_its_own_name_whatever_else_is_open() {
    let call = |id: &str, thread: &str, tool: &str| {
        let item = json!({"type": "mcpToolCall", "id": id, "server": "lab", "tool": tool, "arguments": {}});
        note("item/started", json!({"threadId": thread, "turnId": "u1", "item": item}))
    };
    let asked = |codec: &mut CodexCodec, id: u64, message: &str| {
        let meta = json!({"codex_approval_kind": "mcp_tool_call", "tool_params": {"a": 1}});
        let params = json!({"threadId": "t1", "serverName": "lab", "message": message, "_meta": meta});
        let line = json!({"id": id, "method": "mcpServer/elicitation/request", "params": params});
        match hear(codec, line).pop() {
            Some(AgentEvent::Asked { ask: domain::request::RequestSubject::Permission(ask), .. }) => {
                (ask.tool, ask.call.map(|call| call.to_string()))
            }
            other => panic!("{other:?}"),
        }
    };
    let says = |tool: &str| format!("Allow the lab MCP server to run tool \"{tool}\"?");
    let is = |tool: &str, call: Option<&str>| (tool.to_owned(), call.map(str::to_owned));
    let mut codec = running();
    prompt(&mut codec);
    began(&mut codec, "u1");
    codec.state.remember_worker("t2", domain::CallId::new("w"));
    for line in [call("c1", "t1", "nuke"), call("c2", "t1", "echo"), call("c3", "t2", "nuke")] {
        hear(&mut codec, line);
    }
    assert_eq!(asked(&mut codec, 1, &says("nuke")), is("mcp__lab__nuke", Some("c1")));
    // That call was asked about; another one of the same name belongs to a sub-agent.
    assert_eq!(asked(&mut codec, 2, &says("nuke")), is("mcp__lab__nuke", None));
    // With another text, the only call that was not asked about is meant.
    assert_eq!(asked(&mut codec, 3, "May it?"), is("mcp__lab__echo", Some("c2")));
    assert_eq!(asked(&mut codec, 4, "May it?"), is("mcp__lab__tool", None));
    // A name that imitates another one is used as it is.
    let sly = says("nuke\"? Allow the lab MCP server to run tool \"echo");
    assert!(asked(&mut codec, 5, &sly).0.starts_with("mcp__lab__nuke\"?"));
}

#[test]
fn leaving_the_sandbox_is_another_permission_than_staying_in_it() {
    let asked = |policy: &str, reason: Value| {
        let mut codec = running();
        codec.settings.approval_policy = policy.to_owned();
        let params =
            json!({"threadId": "t1", "itemId": "c", "command": "/bin/bash -lc ls", "reason": reason});
        let ask = json!({"id": 1, "method": "item/commandExecution/requestApproval", "params": params});
        match hear(&mut codec, ask).pop() {
            Some(AgentEvent::Asked { ask: domain::request::RequestSubject::Permission(ask), .. }) => ask.tool,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(asked("untrusted", Value::Null), "shell");
    assert_eq!(asked("untrusted", json!("network")), "shell_unsandboxed");
    assert_eq!(asked("on-request", json!("network")), "shell");
}

#[test]
fn tokens_are_told_as_differences() {
    let mut codec = running();
    let said = |turn: &str, total: (u64, u64, u64), last: u64| {
        let counted = json!({"inputTokens": total.0, "cachedInputTokens": total.1, "outputTokens": total.2, "totalTokens": 1});
        let last = json!({"inputTokens": last, "outputTokens": 1, "totalTokens": 50});
        note(
            "thread/tokenUsage/updated",
            json!({"threadId": "t1", "turnId": turn, "tokenUsage": {"total": counted, "last": last, "modelContextWindow": 100}}),
        )
    };
    let told = |codec: &mut CodexCodec, line: Value| match hear(codec, line).pop() {
        Some(AgentEvent::Usage { usage, .. }) => {
            (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(told(&mut codec, said("a", (100, 40, 10), 100)), (60, 40, 10));
    assert_eq!(told(&mut codec, said("a", (150, 50, 12), 50)), (40, 10, 2));
    assert!(hear(&mut codec, said("a", (150, 50, 12), 50)).is_empty(), "nothing new");
    // A resumed conversation reports its past first, or the first thing that is new.
    codec.state.counted = None;
    assert!(hear(&mut codec, said("old", (500, 0, 50), 50)).is_empty());
    codec.state.counted = None;
    prompt(&mut codec);
    began(&mut codec, "b");
    assert_eq!(told(&mut codec, said("b", (500, 0, 50), 30)), (30, 0, 1));
}

#[test]
fn the_reasons_of_failures() {
    let failed = |error: Value| {
        let mut codec = running();
        prompt(&mut codec);
        began(&mut codec, "a");
        let turn = json!({"id": "a", "status": "failed", "error": error, "items": []});
        match hear(&mut codec, note("turn/completed", json!({"threadId": "t1", "turn": turn}))).pop() {
            Some(AgentEvent::TurnEnded { reason, error, .. }) => (reason, error),
            other => panic!("{other:?}"),
        }
    };
    let is = |reason: EndReason, text: &str| (reason, text.to_owned());
    assert_eq!(failed(json!({"message": "x"})), is(EndReason::Failed, "x"));
    assert_eq!(failed(Value::Null), is(EndReason::Failed, "the agent gave no reason"));
    assert_eq!(
        failed(json!({"message": "a", "codexErrorInfo": "contextWindowExceeded", "additionalDetails": "b"})),
        is(EndReason::LimitReached, "a (b)")
    );
    assert_eq!(failed(json!({"message": "a", "codexErrorInfo": "cyberPolicy"})).0, EndReason::Refused);
    assert!(failed(json!({"message": "a", "codexErrorInfo": "unauthorized"})).1.contains("codex login"));
    let down = json!({"message": "a.", "codexErrorInfo": {"httpConnectionFailed": {"httpStatusCode": null}}});
    assert_eq!(failed(down), is(EndReason::Failed, "a; is the model's endpoint up?"));
}

#[test]
fn a_rate_limit_is_told_from_a_lost_connection() {
    let mut codec = running();
    let mut code = |info: Value| {
        let params =
            json!({"threadId": "t1", "willRetry": true, "error": {"message": "x", "codexErrorInfo": info}});
        match hear(&mut codec, note("error", params)).pop() {
            Some(AgentEvent::Waits { code, .. }) => code,
            other => panic!("{other:?}"),
        }
    };
    let limited = json!({"responseStreamConnectionFailed": {"httpStatusCode": 429}});
    assert_eq!(code(limited), domain::ErrorCode::RateLimited);
    assert_eq!(code(json!("usageLimitExceeded")), domain::ErrorCode::RateLimited);
    let down = json!({"httpConnectionFailed": {"httpStatusCode": null}});
    assert_eq!(code(down), domain::ErrorCode::ConnectionLost);
}

#[test]
fn a_turn_that_a_rate_limit_failed_says_when_it_is_over() {
    let plan = |primary: u64, secondary: u64| {
        let window = |used: u64, at: u64| json!({"usedPercent": used, "resetsAt": at});
        let limits = json!({"primary": window(primary, 500), "secondary": window(secondary, 900)});
        note("account/rateLimits/updated", json!({"rateLimits": limits}))
    };
    let limit = |plan: Option<Value>, message: &str, info: Value| {
        let mut codec = running();
        hear(&mut codec, note("turn/started", json!({"threadId": "t1", "turn": {"id": "u1"}})));
        if let Some(plan) = plan {
            assert_eq!(hear(&mut codec, plan), []);
        }
        let turn =
            json!({"id": "u1", "status": "failed", "error": {"message": message, "codexErrorInfo": info}});
        let events = hear(&mut codec, note("turn/completed", json!({"threadId": "t1", "turn": turn})));
        events.into_iter().find_map(|event| match event {
            AgentEvent::RateLimited { resumes_at, .. } => Some(resumes_at.map(|at| at.0 / 1_000_000)),
            _ => None,
        })
    };
    let used_up = json!("usageLimitExceeded");
    assert_eq!(limit(Some(plan(100, 10)), "used up", used_up.clone()), Some(Some(500)));
    assert_eq!(limit(Some(plan(100, 100)), "used up", used_up.clone()), Some(Some(900)));
    assert_eq!(limit(None, "Try again later.", used_up.clone()), Some(None));
    assert_eq!(limit(Some(plan(5, 5)), "Quota exceeded. Check your plan.", used_up), None);
    let many = json!({"responseTooManyFailedAttempts": {"httpStatusCode": 429}});
    assert_eq!(limit(None, "exceeded retry limit", many), Some(None));
    let broken = json!({"responseTooManyFailedAttempts": {"httpStatusCode": 500}});
    assert_eq!(limit(None, "exceeded retry limit", broken), None);
}

#[test]
fn retries_warnings_and_servers_are_told() {
    let mut codec = running();
    let mut said = |method: &str, params: Value| match hear(&mut codec, note(method, params)).pop() {
        Some(AgentEvent::Notice { message, .. } | AgentEvent::Waits { message, .. }) => message,
        other => format!("{other:?}"),
    };
    let retry = json!({"threadId": "t1", "willRetry": true, "error": {"message": "Reconnecting... 1/5", "additionalDetails": "refused"}});
    assert_eq!(said("error", retry), "the model did not answer: Reconnecting... 1/5 (refused)");
    let lost = json!({"threadId": "t1", "willRetry": false, "error": {"message": "no"}});
    assert_eq!(said("error", lost), "no");
    assert_eq!(said("warning", json!({"message": "careful"})), "careful");
    let server = json!({"name": "lab", "status": "failed", "error": "no such file"});
    assert_eq!(said("mcpServer/startupStatus/updated", server), "MCP server lab did not start: no such file");
    let wrapped = json!({"summary": "Codex will use the bundled bubblewrap in the meantime."});
    assert_eq!(said("configWarning", wrapped), "None");
    assert_eq!(said("configWarning", json!({"summary": "a", "details": "b"})), "Codex's configuration: a: b");
    let hook = json!({"run": {"eventName": "preToolUse", "status": "blocked", "entries": [{"text": "no"}]}});
    assert_eq!(said("hook/completed", hook), "hook preToolUse blocked what the agent wanted to do: no");
}

#[test]
fn what_nobody_knows_is_kept_as_it_came() {
    let mut codec = running();
    for line in ["garbage", "{}", r#"{"method":"brand/new","params":{}}"#, r#"{"id":"x","result":{}}"#] {
        let mut out = Decoded::default();
        codec.decode(line.as_bytes(), &mut out);
        assert_eq!(out.events, [AgentEvent::Unparsed { raw: line.to_owned(), length: None }]);
    }
    let mut out = Decoded::default();
    codec.decode(b"  \r\n", &mut out);
    assert!(out.events.is_empty());
}

#[test]
fn a_program_that_only_says_nonsense_is_given_up() {
    let mut codec = with(CodexState::default());
    let mut broken = 0;
    for at in 1..=40 {
        let mut out = Decoded::default();
        codec.decode(format!("garbage {at}").as_bytes(), &mut out);
        assert!(matches!(&out.events[0], AgentEvent::Unparsed { .. }));
        if let Some(AgentEvent::Broken { message, .. }) = out.events.get(1) {
            assert_eq!(message, "what runs as codex does not speak its protocol; it says \"garbage 20\"");
            broken += 1;
        }
    }
    assert_eq!(broken, 1);
}

#[test]
fn the_version_is_read_from_where_npm_put_it() {
    let temp = tempfile::tempdir().unwrap();
    let package = temp.path().join("node_modules/@openai/codex-linux-x64");
    let program = package.join("vendor/x86_64-unknown-linux-musl/bin/codex");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::write(&program, "").unwrap();
    std::fs::write(package.join("package.json"), r#"{"name":"@openai/codex","version":"0.166.0-linux-x64"}"#)
        .unwrap();
    assert_eq!(installed_version(&program).as_deref(), Some("0.166.0"));
    std::fs::write(package.join("package.json"), r#"{"name":"other","version":"1.0.0"}"#).unwrap();
    assert_eq!(installed_version(&program), None);
}
