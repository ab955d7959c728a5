//! A device whose key is kept on the machine itself: an agent that finds the key must not answer its own request with it.

use anyhow::{Context, Result, ensure};
use e2e::acp::Editor;
use e2e::cli::Cli;
use e2e::deadline::{deadline, within};
use serde_json::{Value, json};

use super::scene::{Machine, RelayScene, word};

/// Starts a session whose agent asks for a permission, and waits until it does.
pub(super) async fn asking(machine: &Machine) -> Result<String> {
    let project = machine.world.project().display().to_string();
    machine.cli().ok(&["campaign", "add", &project, "--name", "demo"]).await?;
    let steps =
        json!([{"tool": "Bash", "input": {"command": "touch made"}, "ask": true}, {"text": "the end"}]);
    let message = format!("go SCRIPT: {steps}");
    let words =
        ["session", "create", "-c", "demo", "-p", "scripted", "--name", "asks", "--message", &message, "-q"];
    machine.cli().ok(&words).await?;
    let began = std::time::Instant::now();
    loop {
        let rows = machine.cli().ok(&["--json", "ps"]).await?.json_lines()?;
        let is_asking = |row: &&Value| row["state"] == "needs_you";
        if let Some(row) = rows.iter().find(is_asking) {
            return row["session_id"].as_str().map(str::to_owned).context("no id");
        }
        ensure!(began.elapsed() < deadline(), "{rows:?}");
    }
}

#[tokio::test]
async fn a_device_kept_on_the_machine_itself_prompts_and_answers_nothing() -> Result<()> {
    let relay = RelayScene::start().await?;
    let machine = relay.machine("box", "off").await?;
    let session = asking(&machine).await?;
    let kept = machine.device_here("kept", "owner", &[]).await?;
    let cli = Cli::new(&kept);

    let rows = cli.ok(&["--machine", "box", "--json", "ps"]).await?.json_lines()?;
    ensure!(rows[0]["state"] == "needs_you" && rows[0]["machine"] == "box", "it reads: {rows:?}");
    for words in [
        &["session", "approve", session.as_str()][..],
        &["session", "deny", session.as_str()],
        &["session", "mode", session.as_str(), "autonomous"],
        &["session", "create", "-c", "demo", "-p", "scripted", "--mode", "autonomous"],
        &["stop"],
    ] {
        let all: Vec<&str> = ["--machine", "box"].iter().chain(words).copied().collect();
        let refused = cli.run(&all).await?;
        ensure!(refused.code != Some(0) && refused.stderr.contains("OBEY-1002"), "{refused:?}");
    }
    let refused = cli.run(&["--machine", "box", "session", "approve", &session]).await?;
    ensure!(refused.stderr.contains("--same-host"), "the remedy is named: {refused:?}");
    let rows = machine.cli().ok(&["--json", "ps"]).await?.json_lines()?;
    ensure!(rows[0]["state"] == "needs_you", "nothing was decided: {rows:?}");
    let audit = machine.cli().ok(&["audit", "tail"]).await?.stdout;
    ensure!(audit.contains("kept"), "what was refused is in the audit: {audit}");
    cli.ok(&[
        "--machine",
        "box",
        "session",
        "create",
        "-c",
        "demo",
        "-p",
        "scripted",
        "--message",
        "hello",
        "-q",
    ])
    .await?;

    // An editor there asks nobody who may not answer.
    let mut editor = editor(&kept).await?;
    let opened = editor.open(&machine.world.project()).await?;
    let said = editor.turn(&opened, "hello SCRIPT: [{\"text\": \"said there\"}]").await?;
    ensure!(said == "end_turn" && editor.said(&opened).contains("said there"), "it prompts");
    editor.close().await?;

    // Doctor is silent about danger until somebody allows it.
    let listed = machine.cli().json(&["device", "list"]).await?;
    ensure!(listed["devices"][0]["may_answer"] == false, "{listed}");
    let allowed = machine.device_here("allowed", "operator", &["--same-host"]).await?;
    let report = machine.cli().run(&["--json", "doctor"]).await?.stdout;
    ensure!(report.contains("allowed") && report.contains("same-host"), "{report}");
    let machine_report = machine.cli().json(&["machine", "doctor"]).await?;
    ensure!(machine_report["devices_kept_here"].to_string().contains("allowed"), "{machine_report}");
    Cli::new(&allowed).ok(&["--machine", "box", "session", "approve", &session]).await?;
    Ok(())
}

/// Starts an editor whose agent runs on the machine.
async fn editor(device: &e2e::world::World) -> Result<Editor> {
    let mut editor = Editor::start(device, &["--machine", "box", "--provider", "scripted"]).await?;
    within("the greeting", editor.initialize()).await??;
    Ok(editor)
}

#[tokio::test]
async fn an_editor_goes_on_with_its_machine_when_that_was_away() -> Result<()> {
    let relay = RelayScene::start().await?;
    let mut machine = relay.machine("box", "off").await?;
    let device = machine.device("laptop", "operator").await?;
    let mut editor = editor(&device).await?;
    let session = editor.open(&machine.world.project()).await?;
    ensure!(editor.turn(&session, "one SCRIPT: [{\"text\": \"first\"}]").await? == "end_turn");
    machine.daemon.kill9().await?;
    machine.daemon.restart().await?;
    let ended =
        within("the second turn", editor.turn(&session, "two SCRIPT: [{\"text\": \"second\"}]")).await??;
    ensure!(ended == "end_turn" && editor.said(&session).contains("second"), "{:?}", editor.seen);
    let here = Cli::new(&device).run(&["--no-autostart", "ping"]).await?;
    ensure!(here.code != Some(0), "no daemon was started where the editor is: {here:?}");
    editor.close().await?;
    Ok(())
}

#[tokio::test]
async fn one_list_shows_the_sessions_of_all_machines_and_one_that_is_gone_holds_up_none() -> Result<()> {
    let relay = RelayScene::start().await?;
    let here = relay.machine("here", "off").await?;
    let away = relay.machine("away", "off").await?;
    let session = asking(&here).await?;
    let line = word(&here.cli().json(&["device", "add", "--role", "viewer"]).await?, "line")?;
    let device = e2e::world::World::new()?;
    let cli = Cli::new(&device);
    cli.json(&["device", "join", &line, "--name", "laptop"]).await?;
    let line = word(&away.cli().json(&["device", "add", "--role", "viewer"]).await?, "line")?;
    cli.json(&["device", "join", &line, "--name", "laptop"]).await?;
    drop(away);
    let rows = cli.ok(&["--json", "ps"]).await?.json_lines()?;
    let of = |name: &str| rows.iter().find(|row| row["machine"] == name).cloned().unwrap_or_default();
    ensure!(of("here")["session_id"] == session.as_str() && of("here")["state"] == "needs_you", "{rows:?}");
    ensure!(of("away")["state"] == "unreachable", "{rows:?}");
    let shown = cli.ok(&["ps", "--machines"]).await?;
    ensure!(shown.stdout.contains("here: demo") && shown.stderr.contains("away"), "{shown:?}");
    let rows = cli.ok(&["--machine", "here", "--json", "ps"]).await?.json_lines()?;
    ensure!(rows.len() == 1, "one that was named is the only one: {rows:?}");
    Ok(())
}
