//! A real editor for agents, without a screen: Toad in a terminal of its own, with a person's keys.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::deadline::within_time;
use e2e::tools;
use serde_json::json;

use super::assert_no_agent;
use super::published::{check_records, recorder};
use crate::stage::{Agent, script, stage};

/// It waits a minute for each thing it does, and gives up with a picture of the screen.
const PATIENCE: Duration = Duration::from_secs(180);

async fn published_toad_is_typed_into(agent: Agent) -> Result<()> {
    let Some(toad) = tools::toad()? else { return Ok(()) };
    let stage = stage!(agent);
    let folder = tools::repository().join("e2e/tests/acp");
    let prompts = json!({
        // What is typed must not look like the answer.
        "say": r#"say SCRIPT: [{"text":"alpha\u002dbeta"}]"#,
        "answer": "alpha-beta",
        "ask": script(agent, "ask", &json!([agent.asking("touch made"), {"text": "done"}])),
    });
    let mut person = tokio::process::Command::from(stage.world.command(&toad));
    person
        .arg(folder.join("toad_terminal.py"))
        .arg(&toad)
        .arg(folder.join("run_toad.py"))
        .arg(recorder(&stage)?)
        .args([stage.world.project(), stage.world.path("records")])
        .arg(prompts.to_string())
        .kill_on_drop(true);
    let output = within_time("the person's leaving", PATIENCE, person.output()).await??;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    ensure!(text(&output.stdout).contains("\"answers\": 2"), "{output:?}");
    ensure!(check_records(&stage)? > 5);
    if agent.is_real() {
        ensure!(stage.world.project().join("made").exists());
    }
    assert_no_agent(&stage).await?;
    stage.close().await
}

mod scripted {
    #[tokio::test]
    #[ignore = "needs Python 3.13: make test-all"]
    async fn published_toad_is_typed_into() -> anyhow::Result<()> {
        super::published_toad_is_typed_into(super::Agent::Scripted).await
    }
}

mod real_claude {
    #[tokio::test]
    #[ignore = "needs Python 3.13: make test-all"]
    async fn published_toad_is_typed_into() -> anyhow::Result<()> {
        super::published_toad_is_typed_into(super::Agent::Claude).await
    }
}

mod real_codex {
    #[tokio::test]
    #[ignore = "needs Python 3.13: make test-all"]
    async fn published_toad_is_typed_into() -> anyhow::Result<()> {
        super::published_toad_is_typed_into(super::Agent::Codex).await
    }
}
