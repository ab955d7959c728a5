//! Calls that the relay can read: only as far as the machine allows.

use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use e2e::cli::Cli;
use e2e::daemon::Daemon;
use e2e::deadline::poll;
use e2e::world::World;
use prost::Message as _;

use super::scene::{RelayScene, published, python, word};

#[tokio::test]
async fn python_calls_a_machine_in_the_clear_where_the_machine_allows_it() -> Result<()> {
    let relay = RelayScene::start().await?;
    let open = relay.machine("open", "full").await?;
    let sealed = relay.machine("sealed", "off").await?;
    let other = word(&relay.cli().json(&["relay", "users", "add", "bob"]).await?, "token")?;
    let arguments = [
        relay.address.to_string(),
        relay.ca.clone(),
        relay.token.clone(),
        other,
        open.id.clone(),
        sealed.id.clone(),
        published(),
    ];
    python(&relay.world, "relay_v1.py", &arguments).await?;
    let audit = sealed.cli().ok(&["audit", "tail"]).await?.stdout;
    ensure!(audit.contains("relay/owner"), "what was refused is in the audit: {audit}");
    Ok(())
}

#[tokio::test]
async fn python_converses_through_a_relay() -> Result<()> {
    let relay = RelayScene::start().await?;
    let mut machine = relay.machine("box", "full").await?;
    let socket = format!("unix:{}", machine.daemon.socket().display());
    let project = machine.world.project().display().to_string();
    let arguments = [relay.plain_address(&machine), socket, project];
    if python(&machine.world, "betcode_v1.py", &arguments).await? {
        machine.daemon.wait().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_relay_takes_as_many_connections_as_the_system_allows() -> Result<()> {
    let world = World::new()?;
    let program = world.path("obey-with-few-files");
    let script = format!("#!/bin/sh\nulimit -S -n 64\nexec {} \"$@\"\n", e2e::tools::obey()?.display());
    std::fs::write(&program, script)?;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
    world.use_obey(program);
    let relay = RelayScene::start_in(world).await?;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", relay.pid()?))?;
    let line = limits.lines().find(|line| line.starts_with("Max open files")).context("no limit")?;
    let words: Vec<&str> = line.split_whitespace().collect();
    ensure!(words.get(3) == words.get(4), "the soft limit is the hard one: {line}");
    Ok(())
}

#[tokio::test]
async fn a_machine_that_may_only_be_read_is_only_read() -> Result<()> {
    let relay = RelayScene::start().await?;
    let machine = relay.machine("box", "read").await?;
    let refused = relay.post(&machine, "betcode.v1.AgentService/DeleteSession", &[]).await?;
    ensure!(refused.contains("grpc-status: 7"), "{refused}");
    let get = async |path: &str| -> Result<String> {
        let url = format!("https://{}{path}", relay.address);
        let bearer = format!("authorization: Bearer {}", relay.token);
        let named = format!("x-machine-id: {}", machine.id);
        let mut command = tokio::process::Command::from(relay.world.command("curl"));
        command.args(["-sS", "--cacert", &relay.ca, "-H", &bearer, "-H", &named, &url]).kill_on_drop(true);
        Ok(String::from_utf8_lossy(&command.output().await?.stdout).into_owned())
    };
    let health = get("/health").await?;
    ensure!(health.contains("\"ok\""), "REST goes through, too: {health}");
    let metrics = get("/metrics").await?;
    for line in ["obey_relay_tunnels_active 1", "obey_relay_machines 1", "obey_relay_calls_waiting 0"] {
        ensure!(metrics.lines().any(|found| found == line), "{line} in {metrics}");
    }
    Ok(())
}

#[tokio::test]
async fn a_machine_that_is_removed_is_cut_off_and_says_why() -> Result<()> {
    let relay = RelayScene::start().await?;
    let machine = relay.machine("box", "off").await?;
    relay.cli().json(&["machine", "remove", "box"]).await?;
    let deadline = e2e::deadline::deadline();
    let began = std::time::Instant::now();
    loop {
        let status = machine.cli().json(&["machine", "status"]).await?;
        if status["state"] != "online"
            && status["problem"].as_str().is_some_and(|why| why.contains("join again"))
        {
            break;
        }
        ensure!(began.elapsed() < deadline, "{status}\n{}", machine.daemon.log());
    }
    // The code works once.
    let code = relay.code().await?;
    let second = relay.machine_with("again", "off", &code).await?;
    let refused = machine.cli().run(&["machine", "join", &code]).await?;
    ensure!(refused.code != Some(0), "{refused:?}");
    machine.cli().json(&["machine", "leave"]).await?;
    let refused = machine.cli().run(&["machine", "join", &code]).await?;
    ensure!(refused.stderr.contains("OBEY-1053"), "{refused:?}");
    poll("the second daemon", || second.daemon.pid()).await?;
    Ok(())
}

#[tokio::test]
async fn a_call_for_a_machine_that_is_away_is_delivered_when_it_is_back() -> Result<()> {
    let mut relay = RelayScene::start().await?;
    let mut machine = relay.machine("box", "full").await?;
    machine.daemon.terminate().await?;
    let request = wire::obey::v1::AddCampaignRequest {
        path: machine.world.project().display().to_string(),
        name: "kept".to_owned(),
        ..Default::default()
    };
    let told = relay.post(&machine, "obey.v1.CampaignService/AddCampaign", &request.encode_to_vec()).await?;
    ensure!(told.contains("grpc-status: 14") && told.contains("request%20buffered"), "{told}");
    let told = relay.post(&machine, "obey.v1.CampaignService/ListCampaigns", &[]).await?;
    ensure!(
        told.contains("grpc-status: 14") && !told.contains("buffered"),
        "what only reads does not wait: {told}"
    );
    relay.kill_and_serve().await?;
    machine.daemon.restart().await?;
    let began = std::time::Instant::now();
    loop {
        let campaigns = machine.cli().json(&["campaigns"]).await?;
        if campaigns.to_string().contains("kept") {
            break;
        }
        ensure!(began.elapsed() < e2e::deadline::deadline(), "{campaigns}\n{}", machine.daemon.log());
    }
    let status = relay.cli().json(&["relay", "status"]).await?;
    ensure!(status["buffered_messages"] == 0, "{status}");
    Ok(())
}

/// Returns where a file of this name is below a folder.
fn find(folder: &Path, name: &str) -> Result<Option<PathBuf>> {
    for entry in std::fs::read_dir(folder)?.flatten() {
        let path = entry.path();
        if entry.file_name() == name {
            return Ok(Some(path));
        }
        if entry.file_type()?.is_dir()
            && let Some(found) = find(&path, name)?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

#[tokio::test]
async fn another_daemon_with_the_same_certificate_is_refused_and_the_first_stays() -> Result<()> {
    let relay = RelayScene::start().await?;
    let machine = relay.machine("box", "off").await?;
    let before = machine.cli().json(&["machine", "status"]).await?;
    let copied = World::new()?;
    let file = find(machine.world.root(), "relay.json")?.context("no relay.json")?;
    let target = copied.root().join(file.strip_prefix(machine.world.root())?);
    let folder = target.parent().context("no folder")?;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    std::fs::copy(&file, &target)?;
    let clone = Daemon::start(&copied).await?;
    let began = std::time::Instant::now();
    loop {
        let status = Cli::new(&copied).json(&["machine", "status"]).await?;
        if status["problem"].as_str().is_some_and(|why| why.contains("another daemon")) {
            break;
        }
        ensure!(began.elapsed() < e2e::deadline::deadline(), "{status}\n{}", clone.log());
    }
    let after = machine.cli().json(&["machine", "status"]).await?;
    ensure!(
        after["state"] == "online" && after["connected_at"] == before["connected_at"],
        "the first was not disturbed: {before} {after}"
    );
    Ok(())
}
