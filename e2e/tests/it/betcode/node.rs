//! A third, independent client: Node with messages compiled from the interface as it was published. Two clients of it
//! share a session of each agent.

use anyhow::{Context, Result, ensure};
use e2e::deadline::{deadline, within_time};
use e2e::tools;
use serde_json::json;

use super::talk::new_start;
use crate::stage::{Agent, scenarios, script, stage};

scenarios!(node_clients_share_a_session);

async fn node_clients_share_a_session(agent: Agent) -> Result<()> {
    let Some((node, packages)) = tools::node()? else { return Ok(()) };
    let stage = stage!(agent);
    let address = stage.daemon.listen().first().context("the daemon listens on no port")?.to_string();
    let start = new_start(&stage);
    let file = json!({"filename": "notes.txt", "mime_type": "text/plain", "text": "xylophone"});
    let plan = json!({
        "address": address,
        "proto": tools::repository().join("e2e/tests/published/betcode_v1.proto"),
        "project": start.working_directory,
        "provider": agent.name(),
        "model": start.model,
        "tool": agent.shell(),
        "command": "touch made",
        "asking": script(agent, "ask", &json!([agent.asking("touch made"), {"text": "made it"}])),
        "hanging": script(agent, "hang", &json!([[{"text": "hm"}, {"hang": true}]])),
        "reading": script(agent, "read this", &json!([{"text": "read"}])),
        "last": script(agent, "last", &json!([{"text": "alone"}])),
        "file": file,
    });
    let program = tools::repository().join("e2e/tests/node/betcode_v1.cjs");
    let mut command = tokio::process::Command::from(stage.world.command(node));
    command.arg(program).arg(plan.to_string()).env("NODE_PATH", packages).kill_on_drop(true);
    let output = within_time("the end of the program", deadline() * 4, command.output())
        .await?
        .context("running Node")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    ensure!(output.status.success(), "{said}\n{complained}\nthe daemon's log:\n{}", stage.daemon.log());
    if agent.is_real() {
        let asked = super::talk::asked_model(&stage, "read this");
        assert!(asked.contains("xylophone"), "the file never reached the model");
        assert!(stage.world.project().join("made").exists());
    }
    stage.close().await
}
