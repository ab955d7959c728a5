//! A conversation with MCP servers: registered at the gateway first, enabled for it alone, and called.

use super::*;

fn served(own: &[&str]) -> GatewayConversation {
    let servers = own.iter().map(|own| (format!("obey-m-{own}"), (*own).to_owned())).collect();
    GatewayConversation { servers, ..conversation() }
}

/// Greets the gateway and returns the effects of registering the servers.
fn registered(
    conversation: &mut GatewayConversation,
    told: Result<(), String>,
) -> (Vec<AgentEvent>, Vec<Value>) {
    let (_, challenge) =
        take(conversation, json!({"type": "event", "event": "connect.challenge", "payload": {"nonce": "n"}}));
    let hello = json!({"protocol": 4, "server": {"version": "2026.9.6"}});
    let mut out = FrameEffects::default();
    conversation.take(
        &json!({"type": "res", "id": challenge[0]["id"], "ok": true, "payload": hello}).to_string(),
        &mut out,
    );
    assert!(out.register && out.frames.is_empty(), "{out:?}");
    let mut out = FrameEffects::default();
    conversation.registered(told, &mut out);
    (out.events, out.frames.iter().map(|frame| serde_json::from_str(frame).unwrap()).collect())
}

#[test]
fn servers_are_switched_on_for_the_conversation_alone() {
    let mut conversation = served(&["obey", "lab"]);
    let (_, frames) = registered(&mut conversation, Ok(()));
    assert_eq!(frames[0]["method"], "sessions.create");
    let entry = json!({"toolOverrides": {"webSearch": false, "mcpServers": {"theirs": false}}});
    let (_, frames) = answer(&mut conversation, &frames[0], json!({"key": "agent:main:k", "entry": entry}));
    assert_eq!(frames[0]["method"], "sessions.patch");
    assert_eq!(
        frames[0]["params"],
        json!({"key": "agent:main:k", "toolOverrides": {
            "webSearch": false,
            "mcpServers": {"theirs": false, "obey-m-obey": true, "obey-m-lab": true},
        }})
    );
    let (_, frames) = answer(&mut conversation, &frames[0], json!({}));
    assert_eq!(frames[0]["method"], "sessions.messages.subscribe");
    let (events, _) = answer(&mut conversation, &frames[0], json!({}));
    assert!(matches!(&events[0], AgentEvent::Ready { .. }), "{events:?}");
}

#[test]
fn servers_that_were_asked_for_and_are_refused_end_the_session() {
    let mut conversation = served(&["obey", "lab"]);
    let (events, frames) = registered(&mut conversation, Err("its configuration is read-only".to_owned()));
    assert!(frames.is_empty());
    let [AgentEvent::Broken { code: Some(ErrorCode::ProviderNotReady), message }] = &events[..] else {
        panic!("{events:?}")
    };
    assert!(
        message.starts_with("provider_config.mcp_servers: ") && message.contains("read-only"),
        "{message}"
    );

    let mut conversation = served(&["lab"]);
    let (_, frames) = registered(&mut conversation, Ok(()));
    let (_, frames) = answer(&mut conversation, &frames[0], json!({}));
    let (events, frames) = refuse(&mut conversation, &frames[0], "no such field");
    assert!(frames.is_empty() && matches!(&events[0], AgentEvent::Broken { .. }), "{events:?}");
}

#[test]
fn without_the_daemons_own_tools_a_session_goes_on() {
    let mut conversation = served(&["obey"]);
    let (events, frames) = registered(&mut conversation, Err("its configuration is read-only".to_owned()));
    let [AgentEvent::Notice { level: Level::Warning, message }] = &events[..] else { panic!("{events:?}") };
    assert!(message.contains("read-only"), "{message}");
    assert_eq!(frames[0]["method"], "sessions.create");
    let (_, frames) = answer(&mut conversation, &frames[0], json!({}));
    assert_eq!(frames[0]["method"], "sessions.messages.subscribe");
}

fn begun(own: &[&str]) -> GatewayConversation {
    let mut conversation = served(own);
    let (_, mut frames) = registered(&mut conversation, Ok(()));
    for _ in 0..3 {
        (_, frames) = answer(&mut conversation, &frames[0], json!({}));
    }
    prompt(&mut conversation, "r");
    conversation
}

fn tool(conversation: &mut GatewayConversation, data: Value) -> Vec<AgentEvent> {
    let payload = json!({"sessionKey": "agent:main:k", "runId": "r", "stream": "tool", "data": data});
    take(conversation, json!({"type": "event", "event": "agent", "payload": payload})).0
}

#[test]
fn a_call_that_was_passed_on_is_one_call_with_the_name_sessions_know() {
    let mut conversation = begun(&["obey", "lab"]);
    let args = json!({"id": "obey-m-lab__secret", "args": {"a": 1}});
    let events = tool(
        &mut conversation,
        json!({"phase": "start", "name": "tool_call", "toolCallId": "c", "args": args}),
    );
    assert!(events.is_empty(), "{events:?}");
    let inner = json!({"name": "obey-m-lab__secret", "toolCallId": "c:1", "parentToolCallId": "c"});
    let with = |more: Value| {
        let mut data = inner.clone();
        data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        data
    };
    let events = tool(&mut conversation, with(json!({"phase": "start", "args": {"a": 1}})));
    assert!(
        matches!(&events[..], [AgentEvent::ToolStarted { call, tool, input, .. }]
            if call.as_str() == "c:1" && tool == "mcp__lab__secret" && input["a"] == 1),
        "{events:?}"
    );
    let result = json!({"content": [{"type": "text", "text": "told"}]});
    let events =
        tool(&mut conversation, with(json!({"phase": "result", "isError": false, "result": result})));
    assert!(
        matches!(&events[..], [AgentEvent::ToolFinished { call, ok: true, output }]
            if call.as_str() == "c:1" && output == "told"),
        "{events:?}"
    );
    let end = json!({"phase": "result", "name": "tool_call", "toolCallId": "c", "isError": false, "result": result});
    assert!(tool(&mut conversation, end).is_empty());
}

#[test]
fn a_call_that_was_not_passed_on_is_shown_with_what_went_wrong() {
    let mut conversation = begun(&["obey"]);
    let args = json!({"id": "obey-m-obey__gone", "args": {}});
    tool(&mut conversation, json!({"phase": "start", "name": "tool_call", "toolCallId": "c", "args": args}));
    let result = json!({"content": [{"type": "text", "text": "Unknown tool id"}]});
    let end =
        json!({"phase": "result", "name": "tool_call", "toolCallId": "c", "isError": true, "result": result});
    let events = tool(&mut conversation, end);
    assert!(
        matches!(&events[..], [AgentEvent::ToolStarted { tool, .. }, AgentEvent::ToolFinished { ok: false, output, .. }]
            if tool == "gone" && output == "Unknown tool id"),
        "{events:?}"
    );
}

#[test]
fn a_gateway_elsewhere_is_said_to_be_out_of_reach() {
    let mut conversation = GatewayConversation { is_remote: true, ..conversation() };
    let (_, mut frames) = greet(&mut conversation);
    (_, frames) = answer(&mut conversation, &frames[0], json!({}));
    let (events, _) = answer(&mut conversation, &frames[0], json!({}));
    assert!(
        matches!(&events[0], AgentEvent::Notice { level: Level::Info, message } if message.contains("another machine")),
        "{events:?}"
    );
}
