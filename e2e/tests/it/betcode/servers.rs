//! Servers of tools that agents use: listed with their state and their tools, whatever the agent.

use anyhow::{Context, Result};
use e2e::deadline::within;
use serde_json::json;
use wire::betcode::v1 as pb;
use wire::betcode::v1::config_service_client::ConfigServiceClient;

use crate::stage::{Agent, Stage, script, stage};

/// A server with one tool, in the few words of the protocol that every agent says.
const LAB: &str = r#"
import json, sys
for line in sys.stdin:
    call = json.loads(line)
    id, method = call.get("id"), call.get("method")
    if id is None: continue
    result = {}
    if method == "initialize":
        result = {"protocolVersion": call["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "lab", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "ping", "description": "ping", "inputSchema": {"type": "object"}}]}
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
"#;

async fn listed(stage: &Stage, session: &str) -> Result<Vec<pb::McpServerInfo>> {
    let request = pb::ListMcpServersRequest { session_id: session.into() };
    let mut config = ConfigServiceClient::new(stage.clients.channel.clone());
    let mut servers = config.list_mcp_servers(request).await?.into_inner().servers;
    // The daemon's own, which every agent has that is a process.
    servers.retain(|server| server.name != "obey");
    servers.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(servers)
}

async fn servers_are_listed(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let servers = json!({
        "lab": {"command": "python3", "args": ["-c", LAB]},
        "none": {"command": "/nowhere/none"},
    });
    let mut request = stage.new_session();
    request.provider_config.insert("mcp_servers".into(), servers.to_string());
    let id = stage.create_as(request).await?.id;
    stage.turn(&id, &script(agent, "go", &json!([{"text": "hello"}]))).await?;
    let is_known = |event: &serde_json::Value| {
        let servers = event["servers"].as_array().into_iter().flatten();
        let known = |name: &str, status: &str| {
            servers.clone().any(|server| server["name"] == name && server["status"] == status)
        };
        known("lab", "running") && known("none", "failed") && event.to_string().contains("ping")
    };
    within("both servers", async {
        // Some agents only look at their servers again when a turn begins.
        let mut turn = 0;
        loop {
            let journal = stage.journal(&id).await?;
            let known = |event: &wire::obey::v1::Event| is_known(&crate::stage::fields(event));
            if journal.iter().filter(|event| event.r#type == "servers_changed").any(known) {
                return anyhow::Ok(());
            }
            turn += 1;
            stage.turn(&id, &script(agent, &format!("again {turn}"), &json!([{"text": "hello"}]))).await?;
        }
    })
    .await??;
    let servers = listed(&stage, &id).await?;
    let shown: Vec<(&str, pb::McpServerStatus)> =
        servers.iter().map(|server| (server.name.as_str(), server.status())).collect();
    assert_eq!(shown, [("lab", pb::McpServerStatus::Running), ("none", pb::McpServerStatus::Error)]);
    assert_eq!(servers[0].tools, ["ping"]);
    assert!(!servers[1].error_message.is_empty(), "{servers:?}");
    assert_eq!(listed(&stage, "").await?, servers, "those of all sessions that run");
    stage.stop(&id, false).await?;
    let stopped = listed(&stage, &id).await?;
    let status = stopped.first().context("a session that rests is forgotten")?.status();
    assert_eq!(status, pb::McpServerStatus::Stopped);
    assert!(listed(&stage, "").await?.is_empty());
    stage.close().await
}

#[tokio::test]
async fn real_claude_servers_of_its_own_configuration_have_a_type_and_an_endpoint() -> Result<()> {
    let stage = stage!(Agent::Claude);
    let servers = json!({"mcpServers": {
        "mine": {"command": "/nowhere/mine", "args": ["--key", "secret"]},
        "web": {"type": "http", "url": "http://127.0.0.1:1/mcp?key=secret"},
    }});
    std::fs::write(stage.world.project().join(".mcp.json"), servers.to_string())?;
    let id = stage.create().await?;
    stage.turn(&id, &script(Agent::Claude, "go", &json!([{"text": "hello"}]))).await?;
    let known = stage.wait_for(&id, "servers_changed", |event| event.to_string().contains("mine")).await;
    let shown: Vec<(String, String, String)> = listed(&stage, &id)
        .await?
        .into_iter()
        .map(|server| (server.name, server.server_type, server.endpoint))
        .collect();
    let is = |name: &str, kind: &str, at: &str| (name.to_owned(), kind.to_owned(), at.to_owned());
    assert_eq!(
        shown,
        [is("mine", "stdio", "/nowhere/mine"), is("web", "http", "http://127.0.0.1:1/mcp")],
        "{known:?}"
    );
    stage.close().await
}

mod real_claude {
    #[tokio::test]
    async fn servers_are_listed() -> anyhow::Result<()> {
        super::servers_are_listed(crate::stage::Agent::Claude).await
    }
}

mod real_codex {
    #[tokio::test]
    async fn servers_are_listed() -> anyhow::Result<()> {
        super::servers_are_listed(crate::stage::Agent::Codex).await
    }
}

mod openai {
    #[tokio::test]
    async fn servers_are_listed() -> anyhow::Result<()> {
        super::servers_are_listed(crate::stage::Agent::Openai).await
    }
}
