//! Strangers: clients in Node and in Python with messages compiled from the interface as it was published. Two of a kind
//! share a session of each agent.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::deadline::{deadline, within_time};
use e2e::tools;
use serde_json::{Value, json};

use super::talk::new_start;
use crate::stage::{Agent, Stage, process_scenarios, script, stage};

process_scenarios!(node_clients_share_a_session, python_clients_share_a_session);
crate::stage::scenarios_of!(openai, Openai, node_clients_share_a_session, python_clients_share_a_session);

async fn node_clients_share_a_session(agent: Agent) -> Result<()> {
    let Some((node, packages)) = tools::node()? else { return Ok(()) };
    let stage = stage!(agent);
    let mut command = stage.world.command(node);
    command.arg(tools::repository().join("e2e/tests/node/betcode_v1.cjs")).env("NODE_PATH", packages);
    share(stage, command).await
}

async fn python_clients_share_a_session(agent: Agent) -> Result<()> {
    let Some((python, _)) = tools::python()? else { return Ok(()) };
    let stage = stage!(agent);
    let mut command = stage.world.command(python);
    command.arg(tools::repository().join("e2e/tests/python/betcode_shared.py"));
    share(stage, command).await
}

/// What a program must know of the agent whose session it shares.
fn plan(stage: &Stage) -> Result<Value> {
    let agent = stage.agent;
    let address = stage.daemon.listen().first().context("the daemon listens on no port")?.to_string();
    let start = new_start(stage);
    Ok(json!({
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
        "file": {"filename": "notes.txt", "mime_type": "text/plain", "text": "xylophone"},
    }))
}

async fn share(stage: Stage, command: Command) -> Result<()> {
    let mut command = tokio::process::Command::from(command);
    command.arg(plan(&stage)?.to_string()).kill_on_drop(true);
    let output = within_time("the end of the program", deadline() * 4, command.output())
        .await?
        .context("running the program")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    ensure!(output.status.success(), "{said}\n{complained}\nthe daemon's log:\n{}", stage.daemon.log());
    if stage.agent.is_real() {
        let asked = super::talk::asked_model(&stage, "read this");
        assert!(asked.contains("xylophone"), "the file never reached the model");
        assert!(stage.world.project().join("made").exists());
    }
    stage.close().await
}
