//! Servers of tools that say in the middle of a session that their tools are others now: only they are asked again, and one
//! that does not answer holds nobody up.

use anyhow::Result;
use e2e::clients::collect;
use e2e::deadline::poll;
use serde_json::{Value, json};
use wire::obey::local::v1::ActivityType;

use super::session;
use crate::stage::{Agent, Stage, contents, script, stage};

/// Writes a line for each time it is asked for its tools. `grow` adds a tool; `sulk` says that there are others and then
/// names none.
const SERVER: &str = r#"
import json, sys
name, sulks = sys.argv[1], False
tools = ["ping", "grow", "sulk"]
def say(message): print(json.dumps(message), flush=True)
def changed(): say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
for line in sys.stdin:
    call = json.loads(line)
    id, method = call.get("id"), call.get("method")
    if id is None: continue
    result = {}
    if method == "initialize":
        result = {"protocolVersion": call["params"]["protocolVersion"], "capabilities": {"tools": {"listChanged": True}},
                  "serverInfo": {"name": name, "version": "1"}}
    elif method == "tools/list":
        with open(name + ".lists", "a") as lists: print("asked", file=lists)
        if sulks: continue
        result = {"tools": [{"name": tool, "description": tool, "inputSchema": {"type": "object"}} for tool in tools]}
    elif method == "tools/call":
        if call["params"]["name"] == "grow":
            tools.append("grown")
            changed()
        if call["params"]["name"] == "sulk":
            sulks = True
            changed()
        result = {"content": [{"type": "text", "text": "pong"}]}
    say({"jsonrpc": "2.0", "id": id, "result": result})
"#;

async fn two_servers(stage: &Stage) -> Result<String> {
    let server =
        |name: &str| json!({"command": "python3", "args": ["-c", SERVER, name], "startup_timeout_sec": 50});
    let servers = json!({"one": server("one"), "two": server("two")}).to_string();
    let request = session(stage, &[("permission_mode", "autonomous"), ("mcp_servers", &servers)]);
    Ok(stage.create_as(request).await?.id)
}

/// How often a server was asked for its tools.
fn asked(stage: &Stage, server: &str) -> usize {
    let lists = std::fs::read_to_string(stage.world.project().join(format!("{server}.lists")));
    lists.unwrap_or_default().lines().count()
}

fn calls(tool: &str) -> Value {
    json!([{"tool": tool, "input": {}}, {"text": "done"}])
}

#[tokio::test]
async fn only_the_server_that_changed_is_asked_again() -> Result<()> {
    let stage = stage!(Agent::Openai);
    let id = two_servers(&stage).await?;
    stage.turn(&id, &script(Agent::Openai, "grow", &calls("mcp__one__grow"))).await?;
    let turn = stage.turn(&id, &script(Agent::Openai, "grown", &calls("mcp__one__grown"))).await?;
    assert_eq!(contents(&turn, ActivityType::ToolResult), "pong");
    assert_eq!((asked(&stage, "one"), asked(&stage, "two")), (2, 1));
    let has_grown = |event: &Value| event["servers"][0]["tools"].to_string().contains("grown");
    let listed = stage.wait_for(&id, "servers_changed", has_grown).await?;
    assert_eq!(listed["servers"][1]["status"], "running", "both are told of: {listed}");
    let turn = stage.turn(&id, &script(Agent::Openai, "other", &calls("mcp__two__ping"))).await?;
    assert_eq!(contents(&turn, ActivityType::ToolResult), "pong");
    stage.close().await
}

#[tokio::test]
async fn an_interrupt_does_not_wait_for_a_servers_list() -> Result<()> {
    let stage = stage!(Agent::Openai);
    let id = two_servers(&stage).await?;
    let turn = stage.send(&id, &script(Agent::Openai, "sulk", &calls("mcp__one__sulk"))).await?;
    poll("the question for the list", || (asked(&stage, "one") == 2).then_some(())).await?;
    assert!(stage.cancel(&id).await?);
    collect(turn).await?;
    let end = stage.wait_for(&id, "turn_ended", |_| true).await?;
    assert_eq!(end["reason"], "cancelled", "{end}");
    let forced = stage.journal(&id).await?.iter().any(|event| event.json.contains("OBEY-2031"));
    assert!(!forced, "the agent was ended by force");
    // What was not answered is asked again.
    let turn = stage.send(&id, &script(Agent::Openai, "next", &calls("mcp__two__ping"))).await?;
    poll("the second question for the list", || (asked(&stage, "one") == 3).then_some(())).await?;
    assert!(stage.cancel(&id).await?);
    collect(turn).await?;
    stage.close().await
}
