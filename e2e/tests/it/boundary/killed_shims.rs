//! An agent that kills what stands above it, its shim or the daemon, does not become the user and costs no other session
//! anything.

use anyhow::{Context, Result, ensure};
use e2e::cli::Cli;
use e2e::daemon::Daemon;
use e2e::deadline::{poll, within};
use e2e::world::World;

use super::{hostile_session, hostile_stage};

/// Calls the daemon again and again, and writes down what it answers, until `stop` exists.
fn caller(obey: &str) -> String {
    format!("#!/bin/sh\nwhile [ ! -e stop ]; do {obey} session list >> said 2>&1; echo round >> said; done\n")
}

/// An ordinary user to whom nobody delegates a control group: only their age tells orphans of an agent from the user's.
#[tokio::test]
async fn what_outlives_a_killed_shim_is_not_the_user_where_there_are_no_groups() -> Result<()> {
    let Some(world) = World::of_user(61_236)? else { return Ok(()) };
    let agent = e2e::tools::repository().join("e2e/tests/acp/shell_agent.py");
    world.set_env("OBEY_ACP_AGENTS", format!("hostile=python3 {}", agent.display()));
    let mut daemon = Daemon::start(&world).await?;
    let cli = Cli::new(&world);
    let folder = world.project();
    cli.ok(&["campaign", "add", &folder.display().to_string(), "--name", "demo"]).await?;
    let words = [
        "session",
        "create",
        "-c",
        "demo",
        "-p",
        "acp",
        "--config",
        r#"{"agent":"hostile"}"#,
        "--mode",
        "autonomous",
    ];
    let (other, session) = (cli.json(&words).await?, cli.json(&words).await?);
    let other = other["id"].as_str().context("no id")?;
    let session = session["id"].as_str().context("no id")?;
    let obey = format!("{} --socket {} --no-autostart", world.obey()?.display(), daemon.socket().display());
    std::fs::write(folder.join("caller"), caller(&obey))?;
    let escape = "touch said; chmod 666 said; (setsid env -i PATH=$PATH sh ./caller > /dev/null 2>&1 &); \
                  while ! grep -q OBEY-1002 said; do sleep 0.05; done; kill -9 $(awk '{print $4}' /proc/$PPID/stat)";
    cli.ok(&["session", "send", session, "--no-wait", escape]).await?;
    within("the end of the agent", async {
        while cli.json(&["session", "info", session]).await?["status"] != "FAILED" {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        anyhow::Ok(())
    })
    .await??;
    let rounds = || Some(std::fs::read_to_string(folder.join("said")).ok()?.matches("round").count());
    let before = rounds().context("nothing was said")?;
    // What the daemon finds of an agent it kills. What is left asks on; a daemon that was restarted knows it too.
    let is_left = poll("rounds", || rounds().filter(|now| *now >= before + 3)).await.is_ok();
    daemon.kill9().await?;
    daemon.restart().await?;
    if is_left {
        let before = rounds().context("nothing was said")?;
        poll("rounds after a restart", || rounds().filter(|now| *now >= before + 6)).await?;
    }
    std::fs::write(folder.join("stop"), "")?;
    let said = std::fs::read_to_string(folder.join("said"))?;
    ensure!(is_left, "nothing of the agent was left to ask; this shows nothing");
    ensure!(!said.contains(other), "it spoke for the user: {said}");
    let listed = cli.json(&["session", "list"]).await?;
    ensure!(listed.to_string().contains(other), "the user still is the user: {listed}");
    daemon.terminate().await?;
    Ok(())
}

#[tokio::test]
async fn a_daemon_that_an_agent_starts_costs_no_session_anything() -> Result<()> {
    let mut stage = hostile_stage().await?;
    let (first, second) =
        (hostile_session(&stage, "autonomous").await?, hostile_session(&stage, "autonomous").await?);
    let folder = stage.world.project();
    let starts = format!(
        "touch waits; until [ -e go ]; do sleep 0.05; done; {} --socket {} ping > answer 2>&1; touch asked; \
         until [ -e end ]; do sleep 0.05; done; echo survived",
        stage.world.obey()?.display(),
        stage.daemon.socket().display()
    );
    let _streams = (
        stage.send(&first, &starts).await?,
        stage.send(&second, "touch waits2; until [ -e end ]; do sleep 0.05; done; echo survived").await?,
    );
    poll("both agents", || (folder.join("waits").exists() && folder.join("waits2").exists()).then_some(()))
        .await?;
    stage.daemon.kill9().await?;
    std::fs::write(folder.join("go"), "")?;
    poll("the agent's command", || folder.join("asked").exists().then_some(())).await?;
    let answer = std::fs::read_to_string(folder.join("answer"))?;
    ensure!(answer.contains("OBEY-1002") && answer.contains("from a terminal of yours"), "{answer}");
    stage.daemon.restart().await?;
    std::fs::write(folder.join("end"), "")?;
    for session in [&first, &second] {
        within("the end of a turn", async {
            while !stage.cli().ok(&["session", "log", session]).await?.stdout.contains("survived") {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            anyhow::Ok(())
        })
        .await??;
    }
    stage.close().await
}
