//! Servers of tools at a gateway that serves several sessions, and somebody else: each session has its own and no other's,
//! and nothing stays behind.

use anyhow::{Context, Result, ensure};
use e2e::deadline;
use serde_json::{Value, json};

use super::{GATEWAY, START_LOOK};
use crate::stage::{Agent, Scenario, Stage, server_at_gateway, stage};

pub(super) const ALL: &[Scenario] = &[
    ("tools_of_one_session_are_no_other_sessions", |agent| {
        Box::pin(tools_of_one_session_are_no_other_sessions(agent))
    }),
    ("a_server_that_the_gateway_cannot_have_is_named", |agent| {
        Box::pin(a_server_that_the_gateway_cannot_have_is_named(agent))
    }),
];

/// The servers in the gateway's configuration as it is on disk.
fn configured() -> Result<Value> {
    let gateway = GATEWAY.get().and_then(Option::as_ref).context("no gateway")?;
    let text = std::fs::read_to_string(gateway.world.path("openclaw/openclaw.json"))?;
    Ok(serde_json::from_str::<Value>(&text)?["mcp"]["servers"].clone())
}

/// Waits until the gateway's configuration has no server of a session.
async fn gone(session: &str) -> Result<()> {
    let mark = server_at_gateway(session, "obey");
    let gone = async {
        while configured().is_ok_and(|servers| servers.to_string().contains(&mark)) {
            tokio::time::sleep(START_LOOK).await;
        }
    };
    deadline::within("the servers' end", gone).await
}

/// How the calls of a session's last turn ended.
async fn ends(stage: &Stage, session: &str, after: usize) -> Result<Vec<Value>> {
    let journal = stage.journal(session).await?;
    let ended = journal[after..].iter().filter(|event| event.r#type == "tool_finished");
    Ok(ended.map(crate::stage::fields).collect())
}

async fn tools_of_one_session_are_no_other_sessions(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let server = e2e::tools::repository().join("e2e/tests/acp/mcp_server.py");
    let servers = json!({"lab": {"command": "python3", "args": [server], "env": {"SECRET": "of the first"}}});
    let mut request = stage.new_session();
    request.provider_config.insert("mcp_servers".into(), servers.to_string());
    let first = stage.create_as(request).await?.id;
    let second = stage.create().await?;

    // What is defined is defined for nobody; what the user has defined stays.
    let all = configured()?;
    for (session, server) in [(&first, "obey"), (&first, "lab"), (&second, "obey")] {
        let name = server_at_gateway(session, server);
        ensure!(all[&name]["enabled"] == false, "{name}: {all:#}");
    }
    ensure!(all["theirs"]["args"][0] == "of the user", "{all:#}");

    let steps = json!([
        {"tool": "mcp__lab__secret", "input": {}},
        {"tool": "mcp__obey__memory_search", "input": {"query": "kettle"}},
        {"text": "done"},
    ]);
    stage.turn(&first, &stage.script(&first, "own", &steps)).await?;
    let ended = ends(&stage, &first, 0).await?;
    ensure!(ended.len() == 2 && ended.iter().all(|end| end["ok"] == true), "{ended:#?}");
    ensure!(ended[0]["output"] == "of the first", "{ended:#?}");

    // The same names in the other session: nobody answers to them.
    stage.turn(&second, &stage.script(&first, "others", &steps)).await?;
    let ended = ends(&stage, &second, 0).await?;
    ensure!(ended.len() == 2 && ended.iter().all(|end| end["ok"] == false), "{ended:#?}");
    ensure!(!format!("{ended:?}").contains("of the first"), "{ended:#?}");
    let mut rows = stage.cli().ok(&["audit", "tail", "-n", "0", "--json"]).await?.json_lines()?;
    rows.retain(|row| row["caller"].as_str().is_some_and(|caller| caller.starts_with("agent ")));
    ensure!(rows.len() == 1 && rows[0]["caller"] == format!("agent {first}"), "{rows:#?}");

    // Whoever stops takes its servers along, and nobody else's.
    stage.stop(&first, false).await?;
    gone(&first).await?;
    let own = json!([{"tool": "mcp__obey__memory_search", "input": {"query": "kettle"}}, {"text": "done"}]);
    let after = stage.journal(&second).await?.len();
    stage.turn(&second, &stage.script(&second, "still", &own)).await?;
    let ended = ends(&stage, &second, after).await?;
    ensure!(ended.len() == 1 && ended[0]["ok"] == true, "{ended:#?}");
    stage.close().await?;
    gone(&second).await?;
    ensure!(configured()?["theirs"]["args"][0] == "of the user", "{:#}", configured()?);
    Ok(())
}

async fn a_server_that_the_gateway_cannot_have_is_named(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut request = stage.new_session();
    // Taken by us, not by the gateway's own rules.
    let servers = json!({"far": {"url": "http://["}});
    request.provider_config.insert("mcp_servers".into(), servers.to_string());
    let status = stage.clients.local.clone().create_session(request).await.err().context("created")?;
    ensure!(e2e::clients::mentions(&status, "provider_config.mcp_servers"), "{status:?}");
    // The daemon's own tools reach the next session all the same.
    stage.create().await?;
    stage.close().await
}
