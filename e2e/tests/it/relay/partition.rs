//! Packets that vanish between a machine and its relay, in network namespaces.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use e2e::cli::{Cli, Running};
use e2e::clients::{Clients, collect, wait_event};
use e2e::deadline::within;
use e2e::world::World;
use serde_json::Value;
use wire::obey::v1 as own;

use super::cut::{say_more, speaking};
use super::network::{Direction, Network};
use super::scene::{Machine, RelayScene, word};

/// A machine and a relay with a network of their own between them, and a device that is beside the relay.
struct PartitionScene {
    relay: RelayScene,
    machine: Machine,
    /// A connection to the machine through the relay.
    remote: Clients,
    _connect: Running,
    _device: World,
    network: Network,
}

impl PartitionScene {
    /// Sets it up; nothing where this machine has no namespaces.
    async fn start() -> Result<Option<Self>> {
        let Some(network) = Network::new()? else { return Ok(None) };
        let (world, address) = network.relay_world()?;
        let words = ["relay", "init", "--listen", &address.to_string()];
        let relay = RelayScene::made_in(world, address, &words).await?;
        let code = relay.code().await?;
        let machine = relay.machine_in(network.machine_world()?, "box", "off", &code).await?;
        let line =
            word(&machine.cli().json(&["device", "add", "--role", "viewer", "--same-host"]).await?, "line")?;
        let (device, _) = network.relay_world()?;
        Cli::new(&device).json(&["device", "join", &line, "--name", "laptop"]).await?;
        let (_connect, remote) = connect(&device).await?;
        Ok(Some(Self { relay, machine, remote, _connect, _device: device, network }))
    }

    fn cut(&self, directions: &[Direction]) -> Result<()> {
        directions.iter().try_for_each(|direction| self.network.cut(*direction))
    }

    fn heal(&self, directions: &[Direction]) -> Result<()> {
        directions.iter().try_for_each(|direction| self.network.heal(*direction))
    }
}

/// Connects to the machine through a Unix socket, which is the same in every network namespace.
async fn connect(device: &World) -> Result<(Running, Clients)> {
    let socket = device.path("box.sock");
    let listen = format!("unix:{}", socket.display());
    let mut running = Cli::new(device).spawn(&["--json", "connect", "box", "--listen", &listen]).await?;
    running.wait_for_line("where it listens", |line| line.contains("\"listen\"")).await?;
    Ok((running, Clients::connect(&socket).await?))
}

#[tokio::test]
async fn a_short_partition_during_a_turn_costs_a_follower_nothing() -> Result<()> {
    let Some(mut scene) = PartitionScene::start().await? else { return Ok(()) };
    let (mut clients, session) = speaking(&scene.machine).await?;
    let follow =
        |follow| own::ReadEventsRequest { session_id: session.clone(), follow, ..Default::default() };
    let mut here = clients.events.read_events(follow(true)).await?.into_inner();
    let mut there = scene.remote.events.read_events(follow(true)).await?.into_inner();
    let mut seen = Vec::new();
    let is_end = |event: &own::Event| event.r#type == "turn_ended";
    let before = scene.machine.link_until(|link| link["state"] == "online").await?;

    // A whole turn happens while nothing gets through.
    wait_event(&mut here, "the first turn", is_end).await?;
    scene.cut(&Direction::BOTH)?;
    say_more(&mut clients, &session).await?;
    wait_event(&mut here, "the second turn", is_end).await?;
    scene.heal(&Direction::BOTH)?;
    let mut ends = 0;
    within("the end of the second turn", async {
        while ends < 2 {
            let event = there.message().await?.context("the stream ended")?;
            ends += usize::from(is_end(&event));
            seen.push(event);
        }
        anyhow::Ok(())
    })
    .await??;
    let journal = collect(clients.events.read_events(follow(false)).await?.into_inner()).await?;
    ensure!(
        seen == journal[..seen.len()],
        "{} events were seen, the journal has {}",
        seen.len(),
        journal.len()
    );
    let after = scene.machine.link_until(|link| link["state"] == "online").await?;
    ensure!(after["connected_at"] == before["connected_at"], "the tunnel stayed: {before} {after}");
    Ok(())
}

#[tokio::test]
#[ignore = "long, waits for the limit of silence: make test-all"]
async fn packets_that_vanish_in_both_directions_are_noticed_by_both_ends() -> Result<()> {
    silence(&Direction::BOTH).await
}

#[tokio::test]
#[ignore = "long, waits for the limit of silence: make test-all"]
async fn packets_that_vanish_on_their_way_to_the_relay_are_noticed_by_both_ends() -> Result<()> {
    silence(&[Direction::ToRelay]).await
}

#[tokio::test]
#[ignore = "long, waits for the limit of silence: make test-all"]
async fn packets_that_vanish_on_their_way_to_the_machine_are_noticed_by_both_ends() -> Result<()> {
    silence(&[Direction::ToMachine]).await
}

/// How long either end may take to notice: 25 s after the last packet that came through, which may be a heartbeat of 10 s later where
/// packets vanish in one direction only; and what a busy machine adds. Without any pings it would be a quarter of an hour.
const NOTICED_MAX_SECS: u64 = 60;

/// Lets packets vanish until both ends have given the connection up, and then through again.
async fn silence(directions: &[Direction]) -> Result<()> {
    let Some(mut scene) = PartitionScene::start().await? else { return Ok(()) };
    let (_clients, session) = speaking(&scene.machine).await?;
    let request = own::ReadEventsRequest { session_id: session, follow: true, ..Default::default() };
    let mut follower = scene.remote.events.read_events(request).await?.into_inner();
    wait_event(&mut follower, "the turn", |event| event.r#type == "turn_ended").await?;
    let before = scene.machine.link_until(|link| link["state"] == "online").await?;

    scene.cut(directions)?;
    let began = Instant::now();
    let at_machine = async {
        let link = scene.machine.link_until(|link| link["state"] != "online").await?;
        anyhow::Ok((link, began.elapsed()))
    };
    let at_relay = async {
        scene.relay.online_is(0).await?;
        anyhow::Ok(began.elapsed())
    };
    let of_call = async {
        let ended = within("the end of the call", async {
            loop {
                match follower.message().await {
                    // What came before the packets vanished.
                    Ok(Some(_)) => {}
                    ended => return ended.err(),
                }
            }
        })
        .await?;
        anyhow::Ok((ended, began.elapsed()))
    };
    let ((link, by_machine), by_relay, (ended, by_call)) = tokio::try_join!(at_machine, at_relay, of_call)?;
    println!(
        "{directions:?}: noticed by the machine after {by_machine:?}, by the relay after {by_relay:?}, by a call after {by_call:?}"
    );
    for noticed in [by_machine, by_relay, by_call] {
        ensure!(noticed.as_secs() <= NOTICED_MAX_SECS, "noticed after {noticed:?}");
    }
    ensure!(ended.is_some(), "the call was told that it was cut off");
    ensure!(link["problem"].as_str().is_some_and(|why| !why.is_empty()), "{link}");

    scene.heal(directions)?;
    let began = Instant::now();
    let after: Value = scene.machine.online_after(&before).await?;
    println!("online again {:?} after packets came through: {after}", began.elapsed());
    scene.relay.online_is(1).await?;
    Ok(())
}
