//! The daemon's own MCP server: how it is passed to Claude Code, and the names of its tools.

use serde_json::json;

use agent_port::BridgeServer;

use super::*;

fn bridged() -> ClaudeCodec {
    let mut codec = running();
    codec.state.bridged = true;
    codec
}

fn call(name: &str) -> Value {
    let block = json!({"type": "tool_use", "id": "c1", "name": name, "input": {"x": 1}});
    json!({"type": "assistant", "message": {"id": "m", "content": [block]}})
}

fn asks(name: &str) -> Value {
    let request =
        json!({"subtype": "can_use_tool", "tool_name": name, "input": {"x": 1}, "tool_use_id": "c1"});
    json!({"type": "control_request", "request_id": "r1", "request": request})
}

#[test]
fn tools_of_the_daemons_server_go_by_their_plain_names() {
    let name = |codec: &mut ClaudeCodec, tool: &str| match hear(codec, call(tool)).pop() {
        Some(AgentEvent::ToolStarted { tool, .. }) => tool,
        other => panic!("{other:?}"),
    };
    assert_eq!(name(&mut bridged(), "mcp__obey__sim__lift"), "sim__lift");
    assert_eq!(name(&mut bridged(), "mcp__lab__lift"), "mcp__lab__lift");
    // Without our bridge, a server of this name belongs to the user.
    assert_eq!(name(&mut running(), "mcp__obey__lift"), "mcp__obey__lift");
}

#[test]
fn the_daemon_asks_about_its_own_tools_itself() {
    let mut out = Decoded::default();
    bridged().decode(asks("mcp__obey__lift").to_string().as_bytes(), &mut out);
    assert!(out.events.is_empty(), "{:?}", out.events);
    let reply: Value = serde_json::from_slice(&out.replies).unwrap();
    assert_eq!(reply["response"]["response"], json!({"behavior": "allow", "updatedInput": {"x": 1}}));
    for (mut codec, tool) in [(bridged(), "mcp__lab__lift"), (running(), "mcp__obey__lift")] {
        assert!(matches!(&hear(&mut codec, asks(tool))[..], [AgentEvent::Asked { .. }]), "{tool}");
    }
}

#[test]
fn the_server_is_named_on_the_command_line() {
    let server = BridgeServer { command: "/usr/bin/obey".into(), args: vec!["mcp".into()] };
    let option = launch::bridge(&server).into_string().unwrap();
    let config: Value = serde_json::from_str(option.strip_prefix("--mcp-config=").unwrap()).unwrap();
    let told = &config["mcpServers"]["obey"];
    assert_eq!((&told["command"], &told["alwaysLoad"]), (&json!("/usr/bin/obey"), &json!(true)), "{told}");
}
