//! A stranger: a client in Node with messages compiled from the interface as it was published, for every agent.

use anyhow::{Context, Result, ensure};
use e2e::deadline::{deadline, within_time};
use e2e::tools;
use serde_json::{Value, json};

use super::talk::{call, environment, heeds_changes};
use crate::stage::{Agent, Stage, script, stage, usual_scenarios};

usual_scenarios!(node_brings_its_own_tools);

/// What a program must know of the agent it drives.
async fn plan(stage: &Stage) -> Result<Value> {
    let agent = stage.agent;
    let play = |key: &str, steps: Value| script(agent, key, &steps);
    let address = stage.daemon.listen().first().context("the daemon listens on no port")?.to_string();
    Ok(json!({
        "address": address,
        "proto": tools::repository().join("e2e/tests/published/roz_v1.proto"),
        "environment": environment(stage).await?,
        "heeds_changes": heeds_changes(agent),
        "unknown": "00000000-0000-4000-8000-000000000000",
        "looking": play("look", json!([call("look", json!({"where": "left"})), {"text": "seen it"}])),
        "lifting": play("lift", json!([
            call("lift", json!({"n": 1})),
            call("lift", json!({"n": 2})),
            {"text": "did what I could"},
        ])),
        "stepping": play("step", json!([call("sim__step", json!({})), {"text": "stepped"}])),
        "once": play("once", json!([call("once", json!({})), {"text": "done"}])),
        "hanging": play("hang", json!([[{"text": "hm"}, {"hang": true}]])),
        "last": play("last", json!([{"text": "the end"}])),
        "asking": play("lead", json!([agent.asking("touch made"), {"text": "led"}])),
        "working": play("work", json!([{"text": "worked"}])),
    }))
}

async fn node_brings_its_own_tools(agent: Agent) -> Result<()> {
    let Some((node, packages)) = tools::node()? else { return Ok(()) };
    let stage = stage!(agent);
    let mut command = tokio::process::Command::from(stage.world.command(node));
    command.arg(tools::repository().join("e2e/tests/node/roz_v1.cjs")).env("NODE_PATH", packages);
    command.arg(plan(&stage).await?.to_string()).kill_on_drop(true);
    let output = within_time("the end of the program", deadline() * 6, command.output())
        .await?
        .context("running the program")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    ensure!(output.status.success(), "{said}\n{complained}\nthe daemon's log:\n{}", stage.daemon.log());
    if agent.is_real() {
        let requests = stage.world.model().requests_for("look");
        let sent: String = requests.iter().map(|request| request.body.to_string()).collect();
        for words in ["Ottoline", "always use tabs", "a red door", "observe again"] {
            assert!(sent.contains(words), "the model was not sent {words:?}");
        }
    }
    stage.close().await
}
