//! Certificates of machines and devices over the seasons, and an authority that is exchanged. Time passes by a clock that is moved
//! in every process.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use e2e::cli::Cli;
use e2e::daemon::Daemon;
use e2e::deadline::deadline;
use e2e::world::World;
use serde_json::Value;

use super::fault_proxy::{Break, FaultProxy, redirected};
use super::scene::{Machine, RelayScene, word};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// Moves the clock of the relay, the machine and a device, which are started again.
async fn travel(relay: &mut RelayScene, machine: &mut Machine, device: &World, seconds: i64) -> Result<()> {
    for world in [&relay.world, &machine.world, device] {
        world.set_env("OBEY_TEST_CLOCK_OFFSET", seconds.to_string());
    }
    machine.cli().ok(&["stop"]).await?;
    machine.daemon.wait().await?;
    relay.kill_and_serve().await?;
    machine.daemon = Daemon::start(&machine.world).await?;
    Ok(())
}

/// Returns what the device keeps of the machine.
fn kept(device: &World, machine: &Machine) -> Result<Value> {
    let folder = device.path("data/obey/machines");
    let path = folder.join(format!("{}.json", machine.id));
    Ok(serde_json::from_slice(&std::fs::read(&path).with_context(|| path.display().to_string())?)?)
}

#[tokio::test]
async fn certificates_are_renewed_before_their_end_and_for_a_season_after_it() -> Result<()> {
    let mut relay = RelayScene::start().await?;
    let mut machine = relay.machine("box", "off").await?;
    let device = machine.device("laptop", "viewer").await?;
    let cli = Cli::new(&device);
    let ping = ["--machine", "box", "ping"];
    cli.ok(&ping).await?;
    let first = kept(&device, &machine)?;
    let ends = |link: &Value| link["certificate_expires_at"].as_str().unwrap_or_default().to_owned();
    let of_machine = ends(&machine.link_until(|link| link["state"] == "online").await?);

    // A third of its time is left: both renew although nobody asked, with a new key.
    travel(&mut relay, &mut machine, &device, 17 * HOUR).await?;
    let link = machine.link_until(|link| link["state"] == "online" && ends(link) > of_machine).await?;
    let of_machine = ends(&link);
    cli.ok(&ping).await?;
    ensure!(kept(&device, &machine)? == first, "the device's is good for 30 days");
    travel(&mut relay, &mut machine, &device, 21 * DAY).await?;
    let link = machine.link_until(|link| link["state"] == "online" && ends(link) > of_machine).await?;
    let of_machine = ends(&link);
    cli.ok(&ping).await?;
    let second = kept(&device, &machine)?;
    ensure!(second["key_pem"] != first["key_pem"] && second["device_id"] == first["device_id"], "{second}");

    // Both have ended: the key proves who has them.
    travel(&mut relay, &mut machine, &device, (21 + 80) * DAY).await?;
    let link = machine.link_until(|link| link["state"] == "online" && ends(link) > of_machine).await?;
    ensure!(ends(&link) > of_machine, "{link}");
    cli.ok(&ping).await?;
    let third = kept(&device, &machine)?;
    ensure!(third["key_pem"] != second["key_pem"], "{third}");
    let listed = machine.cli().json(&["device", "list"]).await?;
    ensure!(listed["devices"].as_array().is_some_and(|devices| devices.len() == 1), "{listed}");
    // What was replaced and used no more is worth nothing.
    let path = device.path("data/obey/machines").join(format!("{}.json", machine.id));
    std::fs::write(&path, serde_json::to_vec(&second)?)?;
    let refused = cli.run(&ping).await?;
    ensure!(refused.code != Some(0), "{refused:?}");
    std::fs::write(&path, serde_json::to_vec(&third)?)?;
    cli.ok(&ping).await?;

    // Longer than a season: both are told what to do.
    travel(&mut relay, &mut machine, &device, (21 + 80 + 30 + 100) * DAY).await?;
    let link = machine
        .link_until(|link| link["problem"].as_str().is_some_and(|why| why.contains("join again")))
        .await?;
    ensure!(link["state"] == "offline", "{link}");
    Ok(())
}

#[tokio::test]
async fn an_authority_is_exchanged_while_machines_and_devices_stay() -> Result<()> {
    let mut relay = RelayScene::start().await?;
    let machine = relay.machine("box", "full").await?;
    let (device, late) =
        (machine.device("laptop", "viewer").await?, machine.device("drawer", "viewer").await?);
    let connected = machine.link_until(|link| link["state"] == "online").await?["connected_at"].clone();
    let old_ca = relay.world.path("old-ca.pem");
    std::fs::copy(&relay.ca, &old_ca)?;
    let pin = |device: &World| word(&kept(device, &machine)?, "relay_pin");
    let before = pin(&device)?;

    let rotated = relay.cli().json(&["relay", "rotate"]).await?;
    ensure!(
        rotated["former_authority"] == before.as_str() && rotated["former_until"].is_string(),
        "{rotated}"
    );
    let after = word(&rotated, "authority")?;
    let again = relay.cli().run(&["relay", "rotate"]).await?;
    ensure!(again.code != Some(0) && again.stderr.contains("--finish"), "{again:?}");
    status_until(&relay, |status| status["former_authority"] == before.as_str()).await?;
    // A device learns of it with its next call, a machine that joins now knows the new one alone, and old files still serve.
    Cli::new(&device).ok(&["--machine", "box", "ping"]).await?;
    ensure!(pin(&device)? == after, "the device has gone over");
    let joined = relay.machine("new", "full").await?;
    ensure!(
        curl(&relay, &old_ca.display().to_string(), &machine).await?,
        "an old ca.pem is good while both count"
    );
    ensure!(curl(&relay, &relay.ca, &joined).await?, "a new one, too");

    relay.cli().json(&["relay", "rotate", "--finish"]).await?;
    status_until(&relay, |status| status["former_authority"].is_null()).await?;
    let link = machine.link_until(|link| link["state"] == "online").await?;
    ensure!(link["connected_at"] == connected, "its tunnel was never cut: {link}");
    ensure!(
        !curl(&relay, &old_ca.display().to_string(), &machine).await?,
        "an old ca.pem is worth nothing now"
    );
    ensure!(curl(&relay, &relay.ca, &machine).await?, "the new one is");
    // Those who were away all the time are led to the new one: a device, and a machine whose certificate the former one signed.
    Cli::new(&late).ok(&["--machine", "box", "ping"]).await?;
    ensure!(pin(&late)? == after, "the late device has gone over");
    relay.kill_and_serve().await?;
    machine.link_until(|link| link["state"] == "online" && link["connected_at"] != connected).await?;
    ensure!(curl(&relay, &relay.ca, &machine).await?, "and is served");
    Ok(())
}

#[tokio::test]
async fn a_certificate_that_is_refused_without_a_word_is_renewed() -> Result<()> {
    let relay = RelayScene::start().await?;
    let proxy = FaultProxy::start(relay.address).await?;
    let code = redirected(&relay.code().await?, proxy.address)?;
    let machine = relay.machine_with("box", "full", &code).await?;
    let before = machine.link_until(|link| link["state"] == "online").await?;
    relay.cli().json(&["relay", "rotate"]).await?;
    status_until(&relay, |status| status["former_authority"].is_string()).await?;
    relay.cli().json(&["relay", "rotate", "--finish"]).await?;
    status_until(&relay, |status| status["former_authority"].is_null()).await?;
    // The relay now takes no certificate of the former authority, and its alert is lost with the connection.
    proxy.reset_alerts();
    proxy.break_all(Break::Reset);
    machine.online_after(&before).await?;
    ensure!(proxy.broken() > 0, "an alert was lost");
    ensure!(curl(&relay, &relay.ca, &machine).await?, "and is served");
    Ok(())
}

async fn status_until(relay: &RelayScene, is_good: impl Fn(&Value) -> bool) -> Result<()> {
    let began = Instant::now();
    loop {
        let status = relay.cli().json(&["relay", "status"]).await?;
        if is_good(&status) {
            return Ok(());
        }
        ensure!(began.elapsed() < deadline(), "{status}");
    }
}

/// Whether a client that trusts a file reaches a machine in the clear.
async fn curl(relay: &RelayScene, ca: &str, machine: &Machine) -> Result<bool> {
    let told = relay.post_trusting(ca, machine, "betcode.v1.AgentService/ListSessions", &[]).await?;
    Ok(told.contains("grpc-status: 0"))
}

#[tokio::test]
async fn a_machine_has_so_many_bytes_a_day_and_no_more() -> Result<()> {
    let relay = RelayScene::start().await?;
    let machine = relay.machine("box", "full").await?;
    let list = async || relay.post(&machine, "betcode.v1.AgentService/ListSessions", &[]).await;
    ensure!(list().await?.contains("grpc-status: 0"));
    let set = relay.cli().json(&["relay", "quota", "--bytes-per-day", "1"]).await?;
    ensure!(set["bytes_per_day"] == 1, "{set}");
    let began = Instant::now();
    loop {
        let told = list().await?;
        if told.contains("grpc-status: 8") {
            ensure!(told.contains("00:00%20utc") && told.contains("obey-1003"), "{told}");
            break;
        }
        ensure!(began.elapsed() < deadline(), "{told}");
    }
    status_until(&relay, |status| {
        status["bytes_per_day"] == 1 && status["calls_over_quota"].as_u64() > Some(0)
    })
    .await?;
    relay.cli().json(&["relay", "quota", "--bytes-per-day", "0"]).await?;
    status_until(&relay, |status| status["bytes_per_day"] == 0).await?;
    ensure!(list().await?.contains("grpc-status: 0"), "without a bound it goes on");
    // What was done is kept at the relay, the latest first.
    let audit = relay.cli().json(&["relay", "audit"]).await?;
    let events: Vec<&str> =
        audit["entries"].as_array().into_iter().flatten().filter_map(|one| one["event"].as_str()).collect();
    ensure!(events == ["quota_set", "quota_set", "machine_joined"], "{audit}");
    Ok(())
}

/// Starts a relay whose clock is ahead by this many seconds.
async fn relay_ahead(seconds: i64) -> Result<RelayScene> {
    let world = World::new()?;
    world.set_env("OBEY_TEST_CLOCK_OFFSET", seconds.to_string());
    RelayScene::start_in(world).await
}

#[tokio::test]
async fn clocks_may_differ_by_an_hour_and_more_than_a_day_is_told_with_both_times() -> Result<()> {
    for seconds in [-HOUR, HOUR] {
        let relay = relay_ahead(seconds).await?;
        let machine = relay.machine("box", "off").await?;
        let device = machine.device("laptop", "viewer").await?;
        Cli::new(&device).ok(&["--machine", "box", "ping"]).await?;
    }
    // What such a relay issues has ended before it is issued.
    let relay = relay_ahead(-DAY - HOUR).await?;
    let world = World::new()?;
    let daemon = Daemon::start(&world).await?;
    let code = relay.code().await?;
    let joined = Cli::new(&world).json(&["machine", "join", &code, "--name", "box"]).await?;
    let problem = word(&joined, "problem")?;
    ensure!(problem.contains("the clocks differ too much"), "{joined}\n{}", daemon.log());
    // As seconds since 1970.
    let is_time = |word: &&str| word.len() == 10 && word.bytes().all(|byte| byte.is_ascii_digit());
    let times = problem.split(|letter: char| !letter.is_alphanumeric()).filter(is_time).count();
    ensure!(times == 2, "both times are told: {problem}");
    Ok(())
}
