//! Who may not use this interface: an agent, on whichever way it finds to the daemon.

use anyhow::{Context, Result};
use e2e::tools;
use serde_json::json;

use super::talk::environment;
use crate::stage::{Agent, script, stage};

/// A real agent runs a real client from its shell, over the socket and over TCP.
#[tokio::test]
async fn real_claude_an_agent_starts_no_sessions_and_approves_nothing() -> Result<()> {
    let Some((node, packages)) = tools::node()? else { return Ok(()) };
    let agent = Agent::Claude;
    let stage = stage!(agent);
    let environment = environment(&stage).await?;
    let tcp = stage.daemon.listen().first().context("the daemon listens on no port")?.to_string();
    let socket = format!("unix:{}", stage.daemon.socket().display());
    let repository = tools::repository();
    let (client, proto) = (
        repository.join("e2e/tests/node/roz_refused.cjs"),
        repository.join("e2e/tests/published/roz_v1.proto"),
    );
    for address in [tcp, socket] {
        let session = stage.create().await?;
        let command = format!(
            "NODE_PATH={} {} {} {address} {} {environment} {environment}",
            packages.display(),
            node.display(),
            client.display(),
            proto.display(),
        );
        let steps = json!([{"tool": "Bash", "input": {"command": command}}, {"text": "tried"}]);
        let key = format!("try {address}");
        let _turn = stage.send(&session, &script(agent, &key, &steps)).await?;
        let request = stage.wait_for_request(&session).await?;
        stage.cli().ok(&["session", "approve", &session, &request.id]).await?;
        let finished = stage.wait_for(&session, "tool_finished", |_| true).await?;
        let refused = "StreamSession PERMISSION_DENIED\nWatchTeam PERMISSION_DENIED\nCreateTask PERMISSION_DENIED\n\
                       ApproveToolUse PERMISSION_DENIED";
        assert_eq!(finished["output"].as_str().unwrap_or_default().trim(), refused);
    }
    let sessions = stage.cli().json(&["session", "list", "--all"]).await?;
    assert_eq!(sessions["sessions"].as_array().map(Vec::len), Some(2), "{sessions}");
    stage.close().await
}
