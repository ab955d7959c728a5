//! Several relays over NATS: any client at any relay reaches any machine.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Result, ensure};
use e2e::cli::Cli;
use e2e::deadline::{deadline, within};
use e2e::tools;
use e2e::world::World;
use prost::Message as _;
use rustix::process::Signal;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use super::fault_proxy::{Break, FaultProxy, redirected};
use super::scene::{RelayScene, python};

/// A NATS server of its own.
pub(super) struct NatsServer {
    program: PathBuf,
    pub(super) world: World,
    address: SocketAddr,
    pub(super) child: Child,
}

impl NatsServer {
    /// Starts one; nothing where there is none to start.
    pub(super) async fn start() -> Result<Option<Self>> {
        let Some(program) = tools::nats_server()? else { return Ok(None) };
        let world = World::new()?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let child = Self::spawn(&program, &world, address).await?;
        Ok(Some(Self { program, world, address, child }))
    }

    async fn spawn(program: &PathBuf, world: &World, address: SocketAddr) -> Result<Child> {
        let (config, store) = (world.path("nats.conf"), world.path("jetstream"));
        let text = format!(
            "host: 127.0.0.1\nport: {}\njetstream {{ store_dir: {:?}, max_mem: 64MB, max_file: 256MB }}\n",
            address.port(),
            store.display().to_string()
        );
        std::fs::write(&config, text)?;
        let mut command = Command::from(world.command(program));
        command.arg("-c").arg(config).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.kill_on_drop(true).spawn()?;
        within("the NATS server", async {
            while TcpStream::connect(address).await.is_err() {
                tokio::task::yield_now().await;
            }
        })
        .await?;
        Ok(child)
    }

    async fn start_again(&mut self) -> Result<()> {
        self.child = Self::spawn(&self.program, &self.world, self.address).await?;
        Ok(())
    }

    pub(super) fn url(&self) -> String {
        format!("nats://{}", self.address)
    }
}

/// Waits until a device reaches its machine through another relay, which hears of the device a moment later. Returns its address.
pub(super) async fn reach_through(relay: &RelayScene, device: &World) -> Result<String> {
    let url = format!("https://{}", relay.address);
    let began = std::time::Instant::now();
    loop {
        let ping = Cli::new(device).run(&["--relay", &url, "--machine", "box", "ping"]).await?;
        if ping.code == Some(0) {
            return Ok(url);
        }
        ensure!(began.elapsed() < deadline(), "{ping:?}");
    }
}

#[tokio::test]
async fn a_client_at_one_relay_reaches_a_machine_at_another() -> Result<()> {
    let Some(mut nats) = NatsServer::start().await? else { return Ok(()) };
    let mut first = RelayScene::start_with(&["--nats", &nats.url()]).await?;
    let second = RelayScene::join(&first, &nats.url()).await?;
    let mut machine = first.machine("box", "full").await?;
    let other = second.machine("other", "full").await?;

    // Both relays know both machines, whichever they joined, and both owners are one.
    ensure!(first.token == second.token, "one owner");
    second.until(&machine, "grpc-status: 0").await?;
    first.until(&other, "grpc-status: 0").await?;
    let status = second.cli().json(&["relay", "status"]).await?;
    ensure!(status["nats"] == "connected" && status["relays"] == 1, "{status}");
    ensure!(status["machines_online"] == 1 && status["machines_elsewhere"] == 1, "{status}");

    // Sealed, by a device that paired through the other relay.
    let device = machine.device("laptop", "operator").await?;
    reach_through(&second, &device).await?;

    // A relay that dies and a bus that dies are both got over.
    first.kill_and_serve().await?;
    second.until(&machine, "grpc-status: 0").await?;
    nats.child.kill().await?;
    // Its own machine is served; for one at the other relay the client is told at once, and not by its deadline.
    second.until(&other, "grpc-status: 0").await?;
    second.until(&machine, "nats,%20over%20which%20the%20relays").await?;
    let told = second.post(&machine, "betcode.v1.AgentService/ListSessions", &[]).await?;
    ensure!(told.contains("grpc-status: 14") && told.contains("obey-1051"), "{told}");
    nats.start_again().await?;
    second.until(&other, "grpc-status: 0").await?;
    second.until(&machine, "grpc-status: 0").await?;

    // The published client's own test, from one relay to the other.
    let socket = format!("unix:{}", machine.daemon.socket().display());
    let project = machine.world.project().display().to_string();
    let arguments = [second.plain_address(&machine), socket, project];
    if python(&machine.world, "betcode_v1.py", &arguments).await? {
        machine.daemon.wait().await?;
    }

    // What is removed at one is gone at both.
    second.cli().json(&["machine", "remove", "other"]).await?;
    first.until(&other, "grpc-status: 5").await?;
    Ok(())
}

#[tokio::test]
async fn a_code_for_a_relay_works_once_and_only_where_there_is_a_bus() -> Result<()> {
    let alone = RelayScene::start().await?;
    let refused = alone.cli().run(&["relay", "code", "--relay"]).await?;
    ensure!(refused.code != Some(0) && refused.stderr.contains("--nats"), "{refused:?}");
    let refused = alone.cli().run(&["--relay", "--machine", "box", "ping"]).await?;
    ensure!(refused.code != Some(0) && refused.stderr.contains("--relay"), "{refused:?}");
    let Some(nats) = NatsServer::start().await? else { return Ok(()) };
    let first = RelayScene::start_with(&["--nats", &nats.url()]).await?;
    let code = super::scene::word(&first.cli().json(&["relay", "code", "--relay"]).await?, "code")?;
    let world = World::new()?;
    let words = ["relay", "join", &code, "--listen", "127.0.0.1:0", "--nats", &nats.url()];
    let joined = Cli::new(&world).json(&words).await?;
    ensure!(joined["token"] == first.token.as_str() && joined["ca"].is_string(), "{joined}");
    let refused = Cli::new(&World::new()?).run(&words).await?;
    ensure!(refused.stderr.contains("OBEY-1053"), "{refused:?}");
    // A machine's code is none for a relay.
    let code = first.code().await?;
    let words = ["relay", "join", &code, "--listen", "127.0.0.1:0", "--nats", &nats.url()];
    let refused = Cli::new(&World::new()?).run(&words).await?;
    ensure!(refused.code != Some(0), "{refused:?}");
    Ok(())
}

#[tokio::test]
async fn a_relay_that_was_paused_while_another_took_its_machine_lets_go_of_it() -> Result<()> {
    let Some(nats) = NatsServer::start().await? else { return Ok(()) };
    let first = RelayScene::start_with(&["--nats", &nats.url()]).await?;
    let second = RelayScene::join(&first, &nats.url()).await?;
    let proxy = FaultProxy::start(first.address).await?;
    let machine =
        first.machine_with("box", "full", &redirected(&first.code().await?, proxy.address)?).await?;
    let before = machine.link_until(|link| link["state"] == "online").await?;
    second.until(&machine, "grpc-status: 0").await?;

    // The machine's network leads to the other relay, and nobody tells the first one, which is paused.
    first.signal(Signal::STOP);
    proxy.retarget(second.address);
    proxy.break_all(Break::CloseNear);
    let moved = machine.online_after(&before).await?;
    second.until(&machine, "grpc-status: 0").await?;
    first.signal(Signal::CONT);

    // What it sends by its old claim has no effect, and it learns of the new one.
    let mut answered = 0;
    let began = std::time::Instant::now();
    loop {
        let request = wire::obey::v1::AddCampaignRequest {
            path: machine.world.project().display().to_string(),
            name: format!("made-{answered}"),
            ..Default::default()
        };
        let told =
            first.post(&machine, "obey.v1.CampaignService/AddCampaign", &request.encode_to_vec()).await?;
        answered += usize::from(told.contains("grpc-status: 0"));
        let status = first.cli().json(&["relay", "status"]).await?;
        let is_elsewhere = status["machines_online"] == 0 && status["machines_elsewhere"] == 1;
        if answered > 0 && is_elsewhere {
            break;
        }
        ensure!(began.elapsed() < deadline(), "{told}\n{status}");
    }
    let after = machine.link_until(|link| link["state"] == "online").await?;
    ensure!(after["connected_at"] == moved["connected_at"], "it was not disturbed: {moved} {after}");
    let status = second.cli().json(&["relay", "status"]).await?;
    ensure!(status["machines_online"] == 1, "{status}");
    Ok(())
}
