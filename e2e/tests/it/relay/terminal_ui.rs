//! The terminal UI with several machines: their sessions are in one list with a column for the machine, and are answered
//! where they are; a machine that is gone holds up none of the others.

use anyhow::{Result, ensure};
use e2e::cli::Cli;
use e2e::daemon::Daemon;
use e2e::tmux::Tmux;
use e2e::tools;

use super::hairpin::asking;
use super::scene::{RelayScene, word};

#[tokio::test]
async fn the_terminal_ui_lists_all_machines_and_answers_where_the_session_is() -> Result<()> {
    if tools::tmux()?.is_none() {
        return Ok(());
    }
    let relay = RelayScene::start().await?;
    let here = relay.machine("here", "off").await?;
    let away = relay.machine("away", "off").await?;
    let session = asking(&here).await?;
    let device = here.device("laptop", "operator").await?;
    let line = word(&away.cli().json(&["device", "add", "--role", "viewer"]).await?, "line")?;
    Cli::new(&device).json(&["device", "join", &line, "--name", "laptop"]).await?;
    drop(away);
    let mut daemon = Daemon::start(&device).await?;
    let tmux = Tmux::start(&device, 140, 40, &["ui", "--no-autostart"])?;
    tmux.wait_for("3 machines").await?;
    tmux.wait_for("here     asks").await?;
    tmux.wait_for("away not reached").await?;
    tmux.press_until("}", "the request", |screen| screen.contains("wants to run")).await?;
    ensure!(tmux.screen()?.contains("touch made"));
    tmux.press_until("y", "the answer", |screen| !screen.contains("wants to run")).await?;
    tmux.wait_for("the end").await?;
    here.cli().ok(&["wait", &session]).await?;
    ensure!(tmux.press_until_ended("q").await? == 0);
    drop(tmux);
    daemon.terminate().await?;
    Ok(())
}
