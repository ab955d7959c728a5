//! The daemon's own MCP server: how it is passed to Codex, and the names of its tools.

use agent_port::{BridgeServer, Codec as _};
use domain::AgentEvent;
use serde_json::{Value, json};

use super::{began, hear, hear_all, note, prompt, running};
use crate::state::CodexState;
use crate::{CodexCodec, encode, launch};

fn bridged() -> CodexCodec {
    let mut codec = running();
    codec.state.bridged = true;
    codec
}

fn item(server: &str) -> Value {
    let item = json!({"type": "mcpToolCall", "id": "c1", "server": server, "tool": "lift", "arguments": {}});
    note("item/started", json!({"threadId": "t1", "turnId": "u1", "item": item}))
}

fn asks(server: &str) -> Value {
    let params = json!({
        "threadId": "t1",
        "serverName": server,
        "message": "Allow?",
        "_meta": {"codex_approval_kind": "mcp_tool_call", "tool_params": {}},
    });
    json!({"id": 7, "method": "mcpServer/elicitation/request", "params": params})
}

#[test]
fn tools_of_the_daemons_server_go_by_their_plain_names() {
    let name = |server: &str| {
        let mut codec = bridged();
        prompt(&mut codec);
        began(&mut codec, "u1");
        match hear(&mut codec, item(server)).pop() {
            Some(AgentEvent::ToolStarted { tool, .. }) => tool,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(name("obey"), "lift");
    assert_eq!(name("lab"), "mcp__lab__lift");
}

#[test]
fn the_daemon_asks_about_its_own_tools_itself() {
    let (events, replies) = hear_all(&mut bridged(), asks("obey"));
    assert!(events.is_empty(), "{events:?}");
    assert_eq!(replies, [json!({"id": 7, "result": {"action": "accept", "content": {}}})]);
    for (mut codec, server) in [(bridged(), "lab"), (running(), "obey")] {
        let events = hear(&mut codec, asks(server));
        assert!(matches!(&events[..], [AgentEvent::Asked { .. }]), "{server}: {events:?}");
    }
}

#[test]
fn the_server_and_its_changes_are_part_of_the_conversation() {
    let mut codec = bridged();
    let server = BridgeServer { command: "/usr/bin/obey".into(), args: vec!["mcp".into()] };
    codec.state.bridge = Some(launch::bridge(&server));
    // A daemon that restarts before the conversation has started still knows the server.
    codec.state = serde_json::from_str::<CodexState>(&codec.save()).unwrap().into();
    let mut wire = Vec::new();
    encode::begin_thread(&mut codec.state, &codec.settings, &mut wire);
    let told: Value = serde_json::from_slice(&wire).unwrap();
    let config = &told["params"]["config"];
    assert_eq!(config["mcp_servers.obey"]["command"], "/usr/bin/obey", "{config}");
    assert_eq!(config["features.mcp_tool_list_changed"], true, "{config}");
}
