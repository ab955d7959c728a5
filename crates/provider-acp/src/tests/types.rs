//! The protocol's types in one conversation: what they refuse and is used all the same, what they have no
//! field for, and that what we write can be read with them.

use agent_client_protocol_schema::v1;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::*;

/// A conversation that is about to start, with an agent that has these capabilities.
fn met(state: AcpState, can: Value) -> Talk {
    let mut talk = Talk::new(AcpState { cwd: "/repo".to_owned(), ..state });
    talk.answer("initialize", json!({"protocolVersion": 1, "agentCapabilities": can}));
    talk
}

#[test]
fn what_the_types_refuse_costs_the_field_and_not_the_line() {
    let notice = |events: &[AgentEvent], wanted: &str| match events {
        [AgentEvent::Notice { message, .. }] => assert!(message.contains(wanted), "{message}"),
        other => panic!("{other:?}"),
    };
    let mut talk = Talk::new(AcpState { resume: "old".to_owned(), ..AcpState::default() });
    let said = json!({"protocolVersion": "one", "agentInfo": {"name": "mine"},
        "agentCapabilities": {"loadSession": {}, "sessionCapabilities": {"resume": true}}});
    assert!(serde_json::from_value::<v1::InitializeResponse>(said.clone()).is_err());
    notice(&talk.answer("initialize", said), "no version");
    assert_eq!((talk.codec.state.version.as_str(), talk.codec.state.can.load), ("mine", true));
    let modes = json!({"availableModes": [{"id": "default"}, {"id": "plan"}]});
    talk.answer("session/resume", json!({"modes": modes}));
    assert_eq!(talk.codec.state.modes.names, ["default", "plan"]);

    let mut talk = Talk::at_work();
    let events = talk
        .update(json!({"sessionUpdate": "tool_call", "toolCallId": "c1", "status": "unheard of",
        "content": [{"type": "diff", "path": "/repo/a"}], "locations": 3}));
    assert!(
        matches!(&events[0], AgentEvent::ToolStarted { input, .. } if input["file_path"] == "/repo/a"),
        "{events:?}"
    );
    let entries =
        json!([{"content": "look", "status": "some day"}, {"content": "leap", "status": "completed"}]);
    let events = talk.update(json!({"sessionUpdate": "plan", "entries": entries}));
    let [AgentEvent::Todos(todos)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!([todos[0].status, todos[1].status], [TodoStatus::Pending, TodoStatus::Completed]);
    let chunk = |content: Value| json!({"sessionUpdate": "agent_message_chunk", "content": content});
    for (content, shown) in [
        (json!({"type": "hologram", "data": "x"}), "[hologram]"),
        (json!({"type": "image"}), "[image]"),
        (json!({"type": "resource_link", "uri": "file:///a"}), "file:///a"),
    ] {
        let text = AgentEvent::Text { text: shown.to_owned(), parent: None };
        assert_eq!(talk.update(chunk(content)), [text]);
    }
    let events = talk.update(json!({"sessionUpdate": "usage_update", "used": 7.0}));
    let [AgentEvent::Usage { context_tokens: Some(7), context_window: None, .. }] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert!(matches!(talk.update(json!({"sessionUpdate": "dream"}))[0], AgentEvent::Unparsed { .. }));
}

#[test]
fn a_request_the_types_refuse_is_met_as_far_as_it_can_be_read() {
    let mut talk = Talk::at_work();
    let options = json!([{"kind": "allow_twice", "optionId": "a"}, {"kind": "reject_once", "optionId": "b"}]);
    let ask = json!({"toolCall": {"toolCallId": "c", "kind": "execute"}, "options": options});
    let events = talk.request(json!(1), "session/request_permission", ask);
    // No known option allows it.
    talk.decide(&events[1], Decision::AllowOnce, "");
    assert_eq!(talk.answered(&json!(1))["result"]["outcome"], json!({"outcome": "cancelled"}));
    let read = json!({"path": "/repo/a", "limit": 9_007_199_254_740_991u64});
    let events = talk.request(json!(3), "fs/read_text_file", read);
    talk.decide(&events[0], Decision::AllowOnce, "");
    let what = &talk.codec.take_client_requests()[0].what;
    assert_eq!((&what["path"], &what["limit"]), (&json!("/repo/a"), &json!(u32::MAX)));
    talk.tell(AgentInput::SetMode(Mode::AcceptEdits));
    let events = talk.request(json!(4), "fs/write_text_file", json!({"path": "/repo/a"}));
    talk.decide(&events[0], Decision::AllowOnce, "");
    assert_eq!(talk.codec.take_client_requests()[0].what["content"], "");
}

#[test]
fn tokens_of_a_turn_are_read_with_the_type() {
    let used = |result: Value| {
        let mut talk = Talk::at_work();
        match talk.answer("session/prompt", result).remove(0) {
            AgentEvent::Usage { usage, .. } => {
                [usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens]
            }
            other => panic!("{other:?}"),
        }
    };
    let usage = json!({"totalTokens": 115, "inputTokens": 90, "outputTokens": 20, "thoughtTokens": 5,
        "cachedReadTokens": 10, "cachedWriteTokens": 3});
    let typed: v1::PromptResponse =
        serde_json::from_value(json!({"stopReason": "end_turn", "usage": usage})).unwrap();
    assert_eq!(serde_json::to_value(typed.usage).unwrap(), usage);
    assert_eq!(used(json!({"stopReason": "end_turn", "usage": usage})), [90, 20, 10, 3]);
    // The sum is missing, or the reason is of another version.
    let usage = json!({"inputTokens": 9, "outputTokens": 2});
    assert_eq!(used(json!({"stopReason": "tired", "usage": usage})), [9, 2, 0, 0]);
    let quota = json!({"quota": {"token_count": {"input_tokens": 4, "output_tokens": 1}}});
    assert_eq!(used(json!({"stopReason": "end_turn", "_meta": quota})), [4, 1, 0, 0]);
}

#[test]
fn models_are_read_beside_the_type_and_chosen_as_they_are_offered() {
    let state = || AcpState { asked_model: "m2".to_owned(), ..AcpState::default() };
    let models = json!({"currentModelId": "m1", "availableModels": [{"modelId": "m1"}, {"modelId": "m2"}]});
    let mut talk = met(state(), json!({}));
    talk.answer("session/new", json!({"sessionId": "s1", "models": models}));
    assert_eq!(talk.sent("session/set_model")["params"], json!({"sessionId": "s1", "modelId": "m2"}));
    let values = json!([{"value": "m1", "name": "One"}, {"value": "m2", "name": "Two"}]);
    let option =
        json!({"id": "model", "name": "Model", "type": "select", "currentValue": "m1", "options": values});
    let mut talk = met(state(), json!({}));
    talk.answer("session/new", json!({"sessionId": "s1", "configOptions": [option]}));
    let chosen = json!({"sessionId": "s1", "configId": "model", "value": "m2"});
    assert_eq!(talk.sent("session/set_config_option")["params"], chosen);
}

#[test]
fn a_notice_is_told_with_all_it_says() {
    let mut talk = Talk::at_work();
    let said =
        json!({"sessionUpdate": "notice", "severity": "warning", "title": "Slow", "description": "busy"});
    let message = "Slow\nbusy".to_owned();
    assert_eq!(talk.update(said), [AgentEvent::Notice { level: domain::event::Level::Info, message }]);
}

/// Reads what we wrote with a type, which loses nothing of it.
fn fits<T: Serialize + DeserializeOwned>(written: &Value) {
    let read: T =
        serde_json::from_value(written.clone()).unwrap_or_else(|error| panic!("{written}: {error}"));
    assert_eq!(serde_json::to_value(read).unwrap(), *written);
}

#[test]
fn what_we_write_is_what_the_types_read() {
    let servers = json!({"a": {"command": "x", "args": ["y"], "env": {"K": 8080}},
        "b": {"url": "http://127.0.0.1/mcp", "headers": {"h": "v"}}, "c": {"type": "sse", "url": "http://x"}});
    let can = json!({"loadSession": true, "promptCapabilities": {"image": true},
        "sessionCapabilities": {"resume": {}}, "mcpCapabilities": {"http": true, "sse": true}});
    let mut talk = Talk::new(AcpState { cwd: "/repo".to_owned(), mode: Mode::Plan, ..AcpState::default() });
    fits::<v1::InitializeRequest>(&talk.written[0]["params"]);
    talk.codec.settings.mcp_servers = servers.as_object().unwrap().clone();
    talk.answer("initialize", json!({"protocolVersion": 1, "agentCapabilities": can}));
    fits::<v1::NewSessionRequest>(&talk.written[0]["params"]);
    let servers = talk.written[0]["params"]["mcpServers"].as_array().unwrap();
    assert_eq!((servers.len(), &servers[0]["env"][0]["value"]), (3, &json!("8080")));
    let modes = json!({"currentModeId": "default", "availableModes": [{"id": "default"}, {"id": "plan"}]});
    talk.answer("session/new", json!({"sessionId": "s1", "modes": modes}));
    fits::<v1::SetSessionModeRequest>(&talk.written[0]["params"]);
    talk.answer("session/set_mode", json!({}));
    let file = |name: &str, media_type: &str| domain::event::Attachment {
        name: name.to_owned(),
        media_type: media_type.to_owned(),
        content: "aGk=".to_owned(),
    };
    let attachments = vec![file("a.png", "image/png"), file("a.txt", "text/plain")];
    talk.tell(AgentInput::Prompt { text: "look".to_owned(), attachments });
    fits::<v1::PromptRequest>(&talk.written[0]["params"]);
    talk.codec.state.modes.option = "mode".to_owned();
    talk.tell(AgentInput::SetMode(Mode::Supervised));
    fits::<v1::SetSessionConfigOptionRequest>(&talk.sent("session/set_config_option")["params"]);

    let options = json!([{"kind": "allow_once", "optionId": "yes"}]);
    let ask = json!({"toolCall": {"toolCallId": "c", "kind": "execute"}, "options": options});
    let events = talk.request(json!(1), "session/request_permission", ask.clone());
    talk.decide(&events[1], Decision::AllowOnce, "");
    fits::<v1::RequestPermissionResponse>(&talk.answered(&json!(1))["result"]);
    talk.request(json!(2), "session/request_permission", ask);
    talk.request(json!(3), "fs/write_text_file", json!({"path": "/repo/a", "content": "x"}));
    talk.tell(AgentInput::Interrupt);
    fits::<v1::CancelNotification>(&talk.sent("session/cancel")["params"]);
    fits::<v1::RequestPermissionResponse>(&talk.answered(&json!(2))["result"]);
    fits::<v1::Error>(&talk.answered(&json!(3))["error"]);

    let taken_up = || AcpState { resume: "old".to_owned(), ..AcpState::default() };
    let mut talk = met(taken_up(), json!({"loadSession": true}));
    fits::<v1::LoadSessionRequest>(&talk.sent("session/load")["params"]);
    let mut talk = met(taken_up(), json!({"sessionCapabilities": {"resume": {}}}));
    let written = talk.sent("session/resume")["params"].clone();
    let read: v1::ResumeSessionRequest = serde_json::from_value(written.clone()).unwrap();
    // The type would omit the empty list.
    assert_eq!((read.mcp_servers, &written["mcpServers"]), (Vec::new(), &json!([])));
}
