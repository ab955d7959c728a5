//! Commands that the workbench runs for a session are the session's: within its limits, in its control group, gone with it.

use anyhow::{Context, Result, ensure};
use e2e::deadline::poll;
use serde_json::{Value, json};

use super::{hostile_session, hostile_stage, hostile_stage_with};
use crate::stage::Stage;

/// Calls the workbench as the user does, with curl over the socket.
fn bash(stage: &Stage, session: &str, command: &str) -> tokio::process::Command {
    let body = json!({"session_id": session, "cmd": command, "timeout": 100}).to_string();
    let mut curl = tokio::process::Command::new("curl");
    curl.args(["-sS", "-H", "content-type: application/json", "-d", &body, "--unix-socket"])
        .arg(stage.daemon.socket())
        .arg("http://localhost/api/v1/safeexec/bash")
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true);
    curl
}

async fn answer(curl: tokio::process::Child) -> Result<Value> {
    let said = curl.wait_with_output().await?.stdout;
    serde_json::from_slice(&said).with_context(|| String::from_utf8_lossy(&said).into_owned())
}

async fn has_groups(stage: &Stage, session: &str) -> Result<bool> {
    let info = stage.cli().json(&["session", "info", session]).await?;
    let enforcement = info["resources"]["enforcement"].as_str().unwrap_or_default().to_owned();
    // Without a limit nothing is enforced, and there are groups all the same.
    let pid = stage.info(session).await?.pid;
    let is_grouped = std::fs::read_to_string(format!("/proc/{pid}/cgroup"))?.contains(session);
    if !is_grouped {
        println!("SKIPPED: no control groups here ({enforcement})");
    }
    Ok(is_grouped)
}

#[tokio::test]
async fn a_command_of_the_workbench_is_held_to_the_limits_of_its_session() -> Result<()> {
    let stage = hostile_stage_with(|world| {
        world.set_env("OBEY_LIMITS_MEMORY", "200M");
        Ok(())
    });
    let stage = stage.await?;
    let session = hostile_session(&stage, "autonomous").await?;
    if has_groups(&stage, &session).await? {
        let hog = "head -c 800M /dev/zero | tail -n 1 > /dev/null; echo ${PIPESTATUS[1]}";
        let said = answer(bash(&stage, &session, hog).spawn()?).await?;
        ensure!(said["stdout_preview"].as_str().is_some_and(|text| text.trim() == "137"), "{said}");
        let told = |event: &Value| event["code"] == "OBEY-2033";
        stage.wait_for(&session, "notice", told).await?;
        ensure!(stage.info(&session).await?.pid > 0, "the agent goes on");
    }
    stage.close().await
}

#[tokio::test]
async fn a_command_of_the_workbench_ends_with_its_session() -> Result<()> {
    let stage = hostile_stage().await?;
    let session = hostile_session(&stage, "autonomous").await?;
    if has_groups(&stage, &session).await? {
        let project = stage.world.project();
        let command = bash(&stage, &session, "echo begun > begun; sleep 90").spawn()?;
        poll("the command runs", || project.join("begun").exists().then_some(())).await?;
        stage.stop(&session, true).await?;
        let said = answer(command).await?;
        ensure!(said["exit_code"] == 137 || said["code"].is_string(), "{said}");
        let left = || {
            let members = std::fs::read_dir("/proc").ok()?.flatten().filter(|entry| {
                let groups = std::fs::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
                groups.contains(&session)
            });
            (members.count() == 0).then_some(())
        };
        poll("nothing of the session is left", left).await?;
    }
    stage.close().await
}
