//! Lines that are in no recording: other versions, other orders, and nonsense.

mod bridge;

use domain::event::Level;
use domain::turn::EndReason;
use domain::{AgentEvent, CallId, Mode};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn running() -> ClaudeCodec {
    let state = ClaudeState {
        session: "s1".into(),
        run: "1".into(),
        ready: true,
        native_mode: "default".into(),
        ..ClaudeState::default()
    };
    ClaudeCodec { state: state.into(), first: First::default() }
}

fn hear(codec: &mut ClaudeCodec, line: Value) -> Vec<AgentEvent> {
    let mut out = Decoded::default();
    codec.decode(line.to_string().as_bytes(), &mut out);
    out.events
}

fn prompt(codec: &mut ClaudeCodec) -> String {
    let input = AgentInput::Prompt { text: "x".into(), attachments: Vec::new() };
    codec.encode(&input, &mut Vec::new()).unwrap();
    codec.state.outstanding.back().unwrap().clone()
}

fn init() -> Value {
    json!({"type": "system", "subtype": "init", "session_id": "s1", "model": "m", "permissionMode": "default"})
}

fn result(uuids: &[&str]) -> Value {
    let mut line = json!({"type": "result", "subtype": "success", "is_error": false, "result": "done"});
    if let Some(last) = uuids.last() {
        line["user_message_uuid"] = (*last).into();
        line["user_message_uuids"] = uuids.into();
    }
    line
}

fn ended(events: &[AgentEvent]) -> Option<EndReason> {
    events.iter().find_map(|event| match event {
        AgentEvent::TurnEnded { reason, .. } => Some(*reason),
        _ => None,
    })
}

#[test]
fn a_turn_of_the_agents_own_does_not_end_ours() {
    let mut codec = running();
    hear(&mut codec, init());
    let ours = prompt(&mut codec);
    let mut unasked = result(&[]);
    unasked["origin"] = json!({"kind": "task-notification"});
    assert_eq!(ended(&hear(&mut codec, unasked)), None);
    assert_eq!(ended(&hear(&mut codec, result(&["another"]))), None);
    hear(&mut codec, init());
    assert_eq!(ended(&hear(&mut codec, result(&[&ours]))), Some(EndReason::Completed));
}

#[test]
fn an_agent_that_names_no_messages_ends_the_turn_all_the_same() {
    let mut codec = running();
    prompt(&mut codec);
    hear(&mut codec, init());
    assert_eq!(ended(&hear(&mut codec, result(&[]))), Some(EndReason::Completed));
    assert!(codec.state.outstanding.is_empty());
}

#[test]
fn a_failure_within_a_turn_that_goes_on_is_told() {
    let mut codec = running();
    let ours = prompt(&mut codec);
    codec.encode(&AgentInput::Steer { text: "y".into() }, &mut Vec::new()).unwrap();
    hear(&mut codec, init());
    let mut failed = result(&[&ours]);
    failed["is_error"] = true.into();
    failed["result"] = "API Error: 500".into();
    let events = hear(&mut codec, failed);
    assert_eq!(events, [AgentEvent::Notice { level: Level::Error, message: "API Error: 500".into() }]);
    let added = codec.state.outstanding.back().unwrap().clone();
    assert_eq!(ended(&hear(&mut codec, result(&[&added]))), Some(EndReason::Completed));
}

#[test]
fn an_interrupted_turn_ends_whatever_still_waits() {
    let mut codec = running();
    let ours = prompt(&mut codec);
    codec.encode(&AgentInput::Steer { text: "y".into() }, &mut Vec::new()).unwrap();
    hear(&mut codec, init());
    codec.encode(&AgentInput::Interrupt, &mut Vec::new()).unwrap();
    // An older agent: cancels nothing and does not say so.
    let answer = json!({"type": "control_response", "response": {"subtype": "success", "request_id": "obey-interrupt-3"}});
    assert!(hear(&mut codec, answer).is_empty());
    let mut aborted = result(&[&ours]);
    aborted["terminal_reason"] = "aborted_streaming".into();
    assert_eq!(ended(&hear(&mut codec, aborted)), Some(EndReason::Cancelled));
}

#[test]
fn an_interrupt_of_nothing_ends_nothing_twice() {
    let mut codec = running();
    codec.encode(&AgentInput::Interrupt, &mut Vec::new()).unwrap();
    let answer = json!({"type": "control_response", "response": {
        "subtype": "success", "request_id": "obey-interrupt-1", "response": {"still_queued": [], "cancelled": []}}});
    assert_eq!(ended(&hear(&mut codec, answer.clone())), Some(EndReason::Cancelled));
    assert_eq!(ended(&hear(&mut codec, answer)), None);
}

#[test]
fn every_ending_has_its_reason() {
    let ending = |changes: Value| {
        let mut line = result(&[]);
        for (key, value) in changes.as_object().unwrap() {
            line[key] = value.clone();
        }
        let mut codec = running();
        match hear(&mut codec, line).pop().unwrap() {
            AgentEvent::TurnEnded { reason, text, error } => (reason, text, error),
            other => panic!("{other:?}"),
        }
    };
    let failed = |text: &str| (EndReason::Failed, String::new(), text.to_owned());
    assert_eq!(ending(json!({})), (EndReason::Completed, "done".into(), String::new()));
    assert_eq!(ending(json!({"is_error": true, "terminal_reason": "api_error"})), failed("done"));
    assert_eq!(ending(json!({"stop_reason": "refusal"})).0, EndReason::Refused);
    assert_eq!(ending(json!({"stop_reason": "max_tokens"})).0, EndReason::LimitReached);
    assert_eq!(
        ending(json!({"terminal_reason": "blocking_limit", "is_error": true})).0,
        EndReason::LimitReached
    );
    let error = json!({"subtype": "error_during_execution", "is_error": true, "result": null,
        "errors": ["[ede_diagnostic] x", "it broke"]});
    assert_eq!(ending(error), failed("it broke"));
    let error = json!({"subtype": "error_during_execution", "is_error": true, "result": null});
    assert_eq!(ending(error), failed("the agent ended the turn with error_during_execution"));
    let limit =
        json!({"subtype": "error_max_turns", "is_error": true, "result": null, "errors": ["too many"]});
    assert_eq!(ending(limit), (EndReason::LimitReached, String::new(), "too many".into()));
}

#[test]
fn a_start_that_fails_is_said_on_the_way_out() {
    let mut codec = running();
    codec.state.ready = false;
    let line = json!({"type": "result", "subtype": "error_during_execution", "is_error": true,
        "errors": ["No conversation found"]});
    assert_eq!(hear(&mut codec, line), [AgentEvent::Logged("No conversation found".into())]);
}

#[test]
fn messages_without_a_name_are_told_once() {
    let mut codec = running();
    let piece = |text: &str| {
        json!({"type": "stream_event", "parent_tool_use_id": null, "event":
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}})
    };
    hear(&mut codec, piece("Hel"));
    hear(&mut codec, piece("lo"));
    let whole =
        json!({"type": "assistant", "message": {"id": "m1", "content": [{"type": "text", "text": "Hello"}]}});
    assert!(hear(&mut codec, whole).is_empty());
}

#[test]
fn a_rate_limit_is_told_from_a_lost_connection() {
    let mut codec = running();
    let mut code = |error: &str, status: Value| {
        let line = json!({
            "type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 10, "retry_delay_ms": 500,
            "error": error, "error_status": status,
        });
        match &hear(&mut codec, line)[..] {
            [AgentEvent::Waits { code, .. }] => *code,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(code("rate_limit", json!(429)), domain::ErrorCode::RateLimited);
    assert_eq!(code("overloaded", json!(529)), domain::ErrorCode::RateLimited);
    assert_eq!(code("unknown", json!(null)), domain::ErrorCode::ConnectionLost);
}

#[test]
fn a_turn_that_a_rate_limit_failed_says_so() {
    let limited = |status: Value| {
        let mut codec = running();
        let mut line = result(&[&prompt(&mut codec)]);
        line["is_error"] = true.into();
        line["result"] = "API Error: Request rejected (429)".into();
        line["api_error_status"] = status;
        let events = hear(&mut codec, line);
        assert_eq!(ended(&events), Some(EndReason::Failed));
        let is_limit = |event: &AgentEvent| matches!(event, AgentEvent::RateLimited { resumes_at: None, reason } if reason.contains("429"));
        events.first().is_some_and(is_limit)
    };
    assert!(limited(json!(429)) && limited(json!(529)));
    assert!(!limited(json!(500)) && !limited(json!(null)));
}

#[test]
fn the_agent_cannot_make_itself_autonomous() {
    let mut codec = running();
    let line = json!({"type": "system", "subtype": "status", "permissionMode": "bypassPermissions"});
    let events = hear(&mut codec, line);
    assert!(matches!(&events[..], [AgentEvent::Notice { level: Level::Warning, .. }]), "{events:?}");
    assert_eq!(codec.state.mode, Mode::Supervised);
}

#[test]
fn planning_of_its_own_leaves_the_sessions_mode() {
    let mut codec = running();
    codec.state.mode = Mode::Autonomous;
    let status = |mode: &str| json!({"type": "system", "subtype": "status", "permissionMode": mode});
    assert_eq!(hear(&mut codec, status("plan")), [AgentEvent::PlanMode(true)]);
    assert_eq!(hear(&mut codec, status("plan")), []);
    assert_eq!(hear(&mut codec, status("default")), [AgentEvent::PlanMode(false)]);
}

#[test]
fn what_only_a_program_can_answer_is_answered() {
    let mut codec = running();
    for (request, answer) in [
        (json!({"subtype": "hook_callback"}), "success"),
        (json!({"subtype": "elicitation", "mcp_server_name": "s"}), "success"),
        (json!({"subtype": "from_the_future"}), "error"),
    ] {
        let line = json!({"type": "control_request", "request_id": "r1", "request": request});
        let mut out = Decoded::default();
        codec.decode(line.to_string().as_bytes(), &mut out);
        let reply: Value = serde_json::from_slice(&out.replies).unwrap();
        assert_eq!(
            (&reply["response"]["subtype"], &reply["response"]["request_id"]),
            (&json!(answer), &json!("r1"))
        );
    }
}

#[test]
fn refused_requests_are_told() {
    let mut codec = running();
    let response = |id: &str| {
        let body = json!({"subtype": "error", "request_id": id, "error": "no"});
        json!({"type": "control_response", "response": body})
    };
    let events = hear(&mut codec, response("obey-mode-4"));
    let message = "the agent refused to change its mode: no".to_owned();
    assert_eq!(events, [AgentEvent::Notice { level: Level::Error, message }]);
    assert!(matches!(&hear(&mut codec, response("obey-initialize-1"))[..], [AgentEvent::Broken { .. }]));
    assert!(hear(&mut codec, response("somebody-elses")).is_empty());
}

#[test]
fn a_program_that_speaks_something_else_is_given_up() {
    let mut codec = running();
    codec.state.ready = false;
    for at in 1..=crate::limits::GARBAGE_MAX_LINES + 1 {
        let mut out = Decoded::default();
        codec.decode(format!("garbage {at}").as_bytes(), &mut out);
        let events = out.events;
        let broken = events.iter().any(|event| matches!(event, AgentEvent::Broken { .. }));
        assert_eq!(broken, at == crate::limits::GARBAGE_MAX_LINES, "{events:?}");
    }
}

#[test]
fn another_version_is_said_once() {
    let mut codec = running();
    codec.state.ready = false;
    let line = |version: &str| {
        let answer = json!({"claude_code_version": version, "commands": [], "models": []});
        let body = json!({"subtype": "success", "request_id": "obey-initialize-1", "response": answer});
        json!({"type": "control_response", "response": body})
    };
    assert_eq!(hear(&mut codec, line("2.1.999")).len(), 1);
    let events = hear(&mut codec, line("3.0.0"));
    assert!(matches!(&events[..], [AgentEvent::Ready { .. }, AgentEvent::Notice { .. }]), "{events:?}");
}

#[test]
fn a_whole_list_of_things_to_do_replaces_the_last() {
    let mut codec = running();
    let call = |id: &str| {
        let block = json!({"type": "tool_use", "id": id, "name": "TodoWrite", "input": {"todos": []}});
        json!({"type": "assistant", "message": {"id": "m", "content": [block]}})
    };
    let done = |id: &str, todos: Value| {
        let block = json!({"type": "tool_result", "tool_use_id": id, "content": "ok"});
        json!({"type": "user", "message": {"content": [block]}, "tool_use_result": {"oldTodos": [], "newTodos": todos}})
    };
    hear(&mut codec, call("c1"));
    let events = hear(&mut codec, done("c1", json!([{"content": "a", "status": "in_progress"}])));
    assert!(matches!(&events[1], AgentEvent::Todos(todos) if todos[0].text == "a"));
    hear(&mut codec, call("c2"));
    let events = hear(&mut codec, done("c2", json!([])));
    assert_eq!(events[1], AgentEvent::Todos(Vec::new()));
    // The result of a call that is not open closes nothing.
    assert_eq!(hear(&mut codec, done("c2", json!([]))), []);
}

#[test]
fn tools_of_the_models_own_side_are_calls_too() {
    let mut codec = running();
    let line = json!({"type": "assistant", "message": {"id": "m", "content": [
        {"type": "server_tool_use", "id": "c1", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "c1", "content": [
            {"type": "web_search_result", "title": "T", "url": "https://e"}]},
    ]}});
    let events = hear(&mut codec, line);
    let call = CallId::new("c1");
    assert!(matches!(&events[0], AgentEvent::ToolStarted { title, .. } if title == "web_search: q"));
    assert_eq!(events[1], AgentEvent::ToolFinished { call, ok: true, output: "T https://e".into() });
}

#[test]
fn the_saved_state_stays_small() {
    let mut codec = running();
    let long = "x".repeat(3_000);
    for at in 0..400 {
        let tool = json!({"type": "tool_use", "id": format!("toolu_{at}"), "name": "TaskUpdate",
            "input": {"taskId": format!("{at}"), "subject": long, "status": "pending"}});
        hear(
            &mut codec,
            json!({"type": "assistant", "message": {"id": format!("m{at}"), "content": [tool],
            "usage": {"input_tokens": 1, "output_tokens": 1}}}),
        );
        if at % 2 == 0 {
            let block = json!({"type": "tool_result", "tool_use_id": format!("toolu_{at}"), "content": "ok"});
            hear(&mut codec, json!({"type": "user", "message": {"content": [block]}}));
        }
        prompt(&mut codec);
        hear(
            &mut codec,
            json!({"type": "assistant", "error": "e", "message": {"id": "e", "content": [
            {"type": "text", "text": long}]}}),
        );
    }
    assert!(codec.save().len() < 256 * 1024, "{}", codec.save().len());
}

#[test]
fn a_saved_state_that_cannot_be_read_is_an_error() {
    let spec = serde_json::from_value::<SessionSpec>(json!({
        "id": "sess_x", "campaign_id": null, "provider": "claude-code", "model": "", "name": "", "festival_id": "",
        "task_id": "", "parent": null, "working_dir": "/", "provider_config": {}, "environment": {}, "max_tokens": 0,
        "timeout": null, "mode": "supervised", "launch": "now", "created_at": 0,
    }))
    .unwrap();
    assert!(ClaudeCode::new(None).codec(&spec, "nonsense").is_err());
    // State saved by an older version is read, with defaults for missing fields.
    assert!(ClaudeCode::new(None).codec(&spec, r#"{"session":"s","from_the_future":1}"#).is_ok());
}

#[test]
fn versions_are_read_from_where_a_program_is_installed() {
    let temp = tempfile::tempdir().unwrap();
    let npm = temp.path().join("node_modules/@anthropic-ai/claude-code");
    std::fs::create_dir_all(npm.join("bin")).unwrap();
    std::fs::write(npm.join("package.json"), r#"{"name":"@anthropic-ai/claude-code","version":"2.1.3"}"#)
        .unwrap();
    std::fs::write(npm.join("bin/claude.exe"), "").unwrap();
    assert_eq!(installed_version(&npm.join("bin/claude.exe")).as_deref(), Some("2.1.3"));
    let own = temp.path().join("claude/versions");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("2.1.4"), "").unwrap();
    std::os::unix::fs::symlink(own.join("2.1.4"), temp.path().join("claude-link")).unwrap();
    assert_eq!(installed_version(&temp.path().join("claude-link")).as_deref(), Some("2.1.4"));
    assert!(is_tested("2.1.4") && !is_tested("2.10.0") && !is_tested("") && !is_tested("2.1"));
    let line = TESTED_VERSION.rsplit_once('.').unwrap().0;
    assert!(TESTED_RANGE.starts_with(&format!("{line}.0 ")), "{TESTED_RANGE}");
}

/// Values with the names the agent uses, in unexpected places.
fn nonsense() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop_oneof![
            "[a-z_]{0,8}",
            Just("text".to_owned()),
            Just("tool_use".to_owned()),
            Just("tool_result".to_owned()),
            Just("init".to_owned()),
            Just("can_use_tool".to_owned()),
            Just("obey-initialize-1".to_owned()),
            Just("message_start".to_owned()),
            Just("content_block_delta".to_owned()),
        ]
        .prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("type"),
        Just("subtype"),
        Just("message"),
        Just("content"),
        Just("event"),
        Just("request"),
        Just("response"),
        Just("request_id"),
        Just("id"),
        Just("usage"),
        Just("delta"),
        Just("text"),
        Just("modelUsage"),
        Just("user_message_uuids"),
        Just("tool_use_id"),
        Just("input"),
        Just("questions"),
    ];
    leaf.prop_recursive(4, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|map| map.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_line_breaks_the_codec(kind in prop::sample::select(vec![
        "stream_event", "assistant", "user", "result", "system", "control_request", "control_response",
        "command_lifecycle", "rate_limit_event", "auth_status", "control_cancel_request", "x",
    ]), lines in prop::collection::vec(nonsense(), 1..6)) {
        let mut codec = running();
        for mut line in lines {
            if let Some(map) = line.as_object_mut() {
                map.insert("type".to_owned(), kind.into());
            }
            let mut twin = ClaudeCodec {
                state: serde_json::from_str::<ClaudeState>(&codec.save()).unwrap().into(),
                first: First::default(),
            };
            let events = hear(&mut codec, line.clone());
            prop_assert_eq!(&events, &hear(&mut twin, line));
            prop_assert_eq!(codec.save(), twin.save());
        }
    }

    #[test]
    fn no_bytes_break_the_codec(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut out = Decoded::default();
        running().decode(&bytes, &mut out);
        prop_assert!(out.events.len() <= 1);
    }
}
