//! A relay that ends in order, and a machine that sleeps: both are back soon after, and no call waits for nothing.

use anyhow::{Context, Result, ensure};
use e2e::clients::{Clients, wait_event};
use e2e::deadline::within;
use e2e::processes;
use rustix::process::Signal;
use serde_json::json;
use tokio::net::TcpStream;
use tonic::transport::Endpoint;
use tonic::{Status, Streaming};
use wire::obey::local::v1 as pb;
use wire::obey::local::v1::local_daemon_service_client::LocalDaemonServiceClient;
use wire::obey::v1 as own;
use wire::obey::v1::event_service_client::EventServiceClient;

use super::fault_proxy::{Break, FaultProxy, redirected};
use super::scene::{Machine, RelayScene, connect};

/// Starts a session without a turn.
pub(super) async fn session_of(machine: &Machine, clients: &mut Clients) -> Result<String> {
    let project = machine.world.project().display().to_string();
    machine.cli().ok(&["campaign", "add", &project, "--name", "demo"]).await?;
    let request = pb::CreateSessionRequest {
        campaign_id: "demo".into(),
        provider: pb::SessionProvider::Scripted.into(),
        ..Default::default()
    };
    let session = clients.local.create_session(request).await?.into_inner().session;
    Ok(session.context("no session")?.id)
}

/// Reads a stream to its end. Returns the last message and how it ended.
async fn to_end<T>(what: &str, stream: &mut Streaming<T>) -> Result<(Option<T>, Result<(), Status>)> {
    within(what, async {
        let mut last = None;
        loop {
            match stream.message().await {
                Ok(Some(message)) => last = Some(message),
                Ok(None) => return (last, Ok(())),
                Err(status) => return (last, Err(status)),
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_relay_that_ends_tells_its_machines_and_calls_end_by_themselves_or_in_bounded_time() -> Result<()> {
    let mut relay = RelayScene::start().await?;
    let machine = relay.machine("box", "off").await?;
    let before = machine.link_until(|link| link["state"] == "online").await?;
    let device = machine.device("laptop", "operator").await?;
    let mut clients = machine.daemon.clients().await?;
    let session = session_of(&machine, &mut clients).await?;
    let (_connect, address) = connect(&device, "box").await?;
    let channel = async || Endpoint::from_shared(format!("http://{address}"))?.connect().await;

    // One call ends with its turn, which waits for a file; the other one follows for ever.
    let file = machine.world.path("go-on");
    let steps = json!([{"text": "first"}, {"wait_file": file}, {"text": "the end"}]);
    let message = format!("go SCRIPT: {steps}");
    let request = pb::SendMessageRequest { session_id: session.clone(), message };
    let mut turn = LocalDaemonServiceClient::new(channel().await?).send_message(request).await?.into_inner();
    let request = own::ReadEventsRequest { session_id: session, follow: true, ..Default::default() };
    let mut follower = EventServiceClient::new(channel().await?).read_events(request).await?.into_inner();
    wait_event(&mut follower, "the turn", |event| event.r#type == "turn_started").await?;

    relay.signal(Signal::TERM);
    within("the end of listening", async {
        while TcpStream::connect(relay.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await?;
    std::fs::write(&file, "")?;
    let (last, ended) = to_end("the end of the turn", &mut turn).await?;
    let is_whole = last.as_ref().is_some_and(|last| last.r#type() == pb::ActivityType::Completion);
    ensure!(ended.is_ok() && is_whole, "the call was cut off: {ended:?} after {last:?}");
    let (_, ended) = to_end("the end of the follower", &mut follower).await?;
    ensure!(ended.is_err(), "a stream that was cut off says so");

    let output = relay.terminate().await?;
    ensure!(output.code == Some(0), "{output:?}");
    ensure!(machine.daemon.log().contains("the relay ends"), "it was told: {}", machine.daemon.log());
    relay.serve_again().await?;
    machine.online_after(&before).await?;
    Ok(())
}

#[tokio::test]
async fn a_machine_that_was_stopped_for_a_moment_is_reached_again() -> Result<()> {
    let relay = RelayScene::start().await?;
    let proxy = FaultProxy::start(relay.address).await?;
    let machine =
        relay.machine_with("box", "full", &redirected(&relay.code().await?, proxy.address)?).await?;
    let before = machine.link_until(|link| link["state"] == "online").await?;
    let pid = machine.daemon.pid().context("no daemon")?;
    processes::signal(pid, Signal::STOP);
    // The network forgets its connection meanwhile.
    proxy.break_all(Break::Reset);
    relay.online_is(0).await?;
    let told = relay.post(&machine, "betcode.v1.AgentService/ListSessions", &[]).await?;
    ensure!(told.contains("grpc-status: 14"), "it sleeps: {told}");
    processes::signal(pid, Signal::CONT);
    machine.online_after(&before).await?;
    let told = relay.post(&machine, "betcode.v1.AgentService/ListSessions", &[]).await?;
    ensure!(told.contains("grpc-status: 0"), "{told}");
    Ok(())
}

#[tokio::test]
#[ignore = "long, half a minute of sleep: make test-all"]
async fn a_machine_that_slept_probes_its_connection_and_is_online_again() -> Result<()> {
    let relay = RelayScene::start().await?;
    let proxy = FaultProxy::start(relay.address).await?;
    let machine =
        relay.machine_with("box", "full", &redirected(&relay.code().await?, proxy.address)?).await?;
    let before = machine.link_until(|link| link["state"] == "online").await?;
    let pid = machine.daemon.pid().context("no daemon")?;
    processes::signal(pid, Signal::STOP);
    // Neither end is told; the relay gives up by itself.
    proxy.break_all(Break::Silence);
    relay.online_is(0).await?;
    processes::signal(pid, Signal::CONT);
    let began = std::time::Instant::now();
    machine.online_after(&before).await?;
    println!("online again {:?} after it woke", began.elapsed());
    ensure!(machine.daemon.log().contains("was asleep"), "{}", machine.daemon.log());
    Ok(())
}
