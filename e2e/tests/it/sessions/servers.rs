//! MCP servers of `provider_config` reach every agent in its own way of configuration: their tools are really called.

use anyhow::Result;
use serde_json::json;
use wire::obey::local::v1::ActivityType;

use crate::stage::{Agent, contents, of_type, served_scenarios, stage};

// The scripted agent's tools are words of its script; it takes no servers.
served_scenarios!(a_tool_of_an_mcp_server_is_called);

async fn a_tool_of_an_mcp_server_is_called(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let server = e2e::tools::repository().join("e2e/tests/acp/mcp_server.py");
    // A gateway knows its own variables only.
    let secret = if agent == Agent::Openclaw { "the tool was here" } else { "${LAB_SECRET}" };
    let servers = json!({"lab": {"command": "python3", "args": [server], "env": {"SECRET": secret}}});
    let mut request = stage.new_session();
    request.environment.insert("LAB_SECRET".into(), "the tool was here".into());
    request.provider_config.insert("mcp_servers".into(), servers.to_string());
    request.provider_config.insert("permission_mode".into(), "autonomous".into());
    let id = stage.create_as(request).await?.id;
    let steps = json!([{"tool": "mcp__lab__secret", "input": {}}, {"text": "I asked"}]);
    let turn = stage.turn(&id, &stage.script(&id, "ask", &steps)).await?;
    let results = of_type(&turn, ActivityType::ToolResult);
    assert!(results.iter().any(|result| result.tool_success), "{turn:#?}");
    assert_eq!(contents(&turn, ActivityType::Completion), "I asked");
    let requests = stage.world.model().requests_for("ask");
    assert!(
        requests.iter().any(|sent| agent.history(&sent.body).contains("the tool was here")),
        "{requests:#?}"
    );
    stage.close().await
}
