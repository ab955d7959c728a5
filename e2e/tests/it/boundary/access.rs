//! What an agent may call: its own session and the workbench in it, and nothing that makes it its user.

use anyhow::{Result, ensure};
use wire::obey::v1 as own;

use super::{hostile_session, hostile_stage, obey, run_as_agent};
use crate::stage::CAMPAIGN;

/// `Execute` starts a child of the daemon, which nobody could tell from the user's own programs.
#[tokio::test]
async fn an_agent_may_not_execute_commands_that_speak_for_its_user() -> Result<()> {
    let stage = hostile_stage().await?;
    let (session, other) = (hostile_session(&stage, "supervised").await?, stage.create().await?);
    let obey = obey(&stage)?;
    let alias = format!("!{obey} session list; {obey} session approve {session}; {obey} session log {other}");
    let command = format!(
        "#ask\ngit config alias.pwn \"{}\"\n{obey} exec -c {CAMPAIGN} -- git pwn 2>&1",
        alias.replace('"', "\\\"")
    );
    let _turn = stage.send(&session, &command).await?;
    let said = stage.wait_for(&session, "text_delta", |_| true).await?;
    let said = said["text"].as_str().unwrap_or_default().to_owned();
    ensure!(said.contains("OBEY-1002") && said.contains("exit 6"), "{said}");
    let waiting = stage.requests(&session, false).await?;
    ensure!(waiting.len() == 1, "the agent's own request still waits: {waiting:#?}");
    stage.decide(&session, &waiting[0].id, own::Decision::Deny).await?;
    stage.wait_for(&session, "turn_ended", |_| true).await?;
    stage.close().await
}

/// What the daemon knows beyond the agent's own session is the user's.
#[tokio::test]
async fn an_agent_may_not_list_campaigns_or_sessions() -> Result<()> {
    let stage = hostile_stage().await?;
    let session = hostile_session(&stage, "autonomous").await?;
    let obey = obey(&stage)?;
    for what in ["campaign list", "session list"] {
        let said = run_as_agent(&stage, &session, &format!("{obey} {what} 2>&1")).await?;
        ensure!(said.contains("OBEY-1002") && said.contains("exit 6"), "{what}: {said}");
    }
    stage.close().await
}
