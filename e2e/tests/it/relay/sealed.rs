//! Connections that the relay cannot read: devices, their roles, and clients that know no relay.

use anyhow::{Result, ensure};
use e2e::cli::Cli;
use serde_json::Value;

use super::scene::{RelayScene, connect, published, python, word};

#[tokio::test]
async fn a_device_reaches_a_machine_that_the_relay_cannot_read() -> Result<()> {
    let relay = RelayScene::start().await?;
    let machine = relay.machine("box", "off").await?;
    let device = machine.device("laptop", "operator").await?;
    let cli = Cli::new(&device);

    let listed = cli.json(&["machine", "list"]).await?;
    let shown = &listed["machines"][0];
    ensure!(shown["name"] == "box" && shown["status"] == "online" && shown["role"] == "operator", "{listed}");
    let doctor = cli.json(&["machine", "doctor", "box"]).await?;
    ensure!(
        doctor["ok"] == true && doctor["hops"].as_array().is_some_and(|hops| hops.len() == 3),
        "{doctor}"
    );
    cli.ok(&["--machine", "box", "ping"]).await?;

    // What is done there is there, and not here.
    let project = machine.world.project().display().to_string();
    machine.cli().ok(&["campaign", "add", &project, "--name", "demo"]).await?;
    let campaigns = cli.json(&["--machine", "box", "campaigns"]).await?;
    ensure!(campaigns.to_string().contains("demo"), "{campaigns}");
    cli.json(&["machine", "switch", "box"]).await?;
    let campaigns = cli.json(&["campaigns"]).await?;
    ensure!(campaigns.to_string().contains("demo"), "a machine that was switched to is used: {campaigns}");
    cli.json(&["machine", "switch", "this"]).await?;

    // An operator does not administer, and nobody ends a daemon through a relay.
    let refused = cli.run(&["--machine", "box", "stop"]).await?;
    ensure!(refused.stderr.contains("OBEY-1002"), "{refused:?}");
    let status = relay.cli().json(&["relay", "status"]).await?;
    ensure!(status["state"] == "serving" && status["machines_online"] == 1, "{status}");

    // Who is revoked is gone.
    machine.cli().ok(&["device", "revoke", "laptop"]).await?;
    let refused = cli.run(&["--machine", "box", "campaigns"]).await?;
    ensure!(
        refused.code != Some(0) && refused.stderr.contains("obey device add"),
        "it says what to do: {refused:?}"
    );
    let listed = cli.run(&["ps", "--machines"]).await?;
    let told = [listed.stdout.as_str(), listed.stderr.as_str()].concat();
    ensure!(told.contains("box is not reached") && told.contains("obey machine doctor box"), "{listed:?}");
    Ok(())
}

#[tokio::test]
async fn a_viewer_sees_everything_and_changes_nothing() -> Result<()> {
    let relay = RelayScene::start().await?;
    let machine = relay.machine("box", "full").await?;
    let (_clients, session) = super::cut::speaking(&machine).await?;
    let device = machine.device("laptop", "viewer").await?;
    let cli = Cli::new(&device);
    let listed = cli.ok(&["--machine", "box", "ps", "--json"]).await?;
    ensure!(listed.stdout.contains(&session), "{listed:?}");
    let project = machine.world.project().display().to_string();
    let acts: [&[&str]; 7] = [
        &["send", &session, "do more"],
        &["session", "stop", &session],
        &["session", "mode", &session, "autonomous"],
        &["campaign", "add", &project, "--name", "mine"],
        &["device", "list"],
        &["exec", "--", "true"],
        &["session", "delete", "--yes", &session],
    ];
    for act in acts {
        let words: Vec<&str> = ["--machine", "box"].iter().chain(act).copied().collect();
        let refused = cli.run(&words).await?;
        ensure!(refused.code != Some(0), "{act:?}: {refused:?}");
    }
    // Nothing of it happened.
    let after = machine.cli().ok(&["session", "info", &session, "--json"]).await?;
    ensure!(!after.stdout.contains("autonomous") && !after.stdout.contains("do more"), "{after:?}");
    let campaigns = machine.cli().json(&["campaigns"]).await?.to_string();
    ensure!(!campaigns.contains("\"mine\""), "{campaigns}");
    Ok(())
}

#[tokio::test]
async fn a_pairing_line_works_once() -> Result<()> {
    let relay = RelayScene::start().await?;
    let machine = relay.machine("box", "off").await?;
    let invited = machine.cli().json(&["device", "add", "--role", "viewer"]).await?;
    let line = word(&invited, "line")?;
    let device = e2e::world::World::new()?;
    let cli = Cli::new(&device);
    let joined = cli.json(&["device", "join", &line, "--name", "phone"]).await?;
    ensure!(joined["role"] == "viewer", "{joined}");
    let refused = cli.run(&["device", "join", &line, "--name", "other"]).await?;
    ensure!(refused.code != Some(0) && refused.stderr.contains("was used"), "{refused:?}");
    let damaged = cli.run(&["device", "join", &line[..line.len() - 9]]).await?;
    ensure!(damaged.stderr.contains("line"), "{damaged:?}");
    Ok(())
}

#[tokio::test]
async fn python_converses_sealed_through_a_listener_of_its_own() -> Result<()> {
    let relay = RelayScene::start().await?;
    let mut machine = relay.machine("box", "off").await?;
    let device = machine.device("laptop", "operator").await?;
    let (_connect, address) = connect(&device, "box").await?;
    let socket = format!("unix:{}", machine.daemon.socket().display());
    let project = machine.world.project().display().to_string();
    let arguments = [address, socket, project, published()];
    if python(&machine.world, "betcode_v1.py", &arguments).await? {
        machine.daemon.wait().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_web_page_cannot_use_what_a_device_opened() -> Result<()> {
    let relay = RelayScene::start().await?;
    let machine = relay.machine("box", "off").await?;
    let device = machine.device("laptop", "operator").await?;
    let (_connect, address) = connect(&device, "box").await?;
    let curl = async |extra: &[&str]| -> Result<String> {
        let mut command = tokio::process::Command::from(device.command("curl"));
        command.args(["-sS", "-o", "/dev/null", "-w", "%{http_code}"]).args(extra);
        command.arg(format!("http://{address}/health")).kill_on_drop(true);
        Ok(String::from_utf8_lossy(&command.output().await?.stdout).into_owned())
    };
    ensure!(curl(&[]).await? == "200", "a program may");
    ensure!(curl(&["-H", "Host: evil.example"]).await? == "403");
    ensure!(curl(&["-H", "Origin: https://evil.example"]).await? == "403");
    let seen: Value = machine.cli().json(&["device", "list"]).await?;
    ensure!(seen.to_string().contains("laptop"), "{seen}");
    Ok(())
}
