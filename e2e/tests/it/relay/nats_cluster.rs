//! Three NATS servers as one: relays go on when any of them dies or stops to answer, and what they share is the same afterwards.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use e2e::deadline::{deadline, within};
use e2e::tools;
use e2e::world::World;
use prost::Message as _;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use super::scene::{Machine, RelayScene};

const SERVERS: usize = 3;

/// The servers, each with its own folder.
struct NatsCluster {
    world: World,
    program: PathBuf,
    servers: Vec<Server>,
}

struct Server {
    clients: SocketAddr,
    routes: SocketAddr,
    monitor: SocketAddr,
    child: Option<Child>,
}

impl NatsCluster {
    /// Starts them; nothing where there is none to start.
    async fn start() -> Result<Option<Self>> {
        let Some(program) = tools::nats_server()? else { return Ok(None) };
        let free = || -> Result<SocketAddr> { Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?) };
        let server = || Ok(Server { clients: free()?, routes: free()?, monitor: free()?, child: None });
        let servers = (0..SERVERS).map(|_| server()).collect::<Result<Vec<_>>>()?;
        let mut cluster = Self { world: World::new()?, program, servers };
        for number in 0..SERVERS {
            cluster.spawn(number).await?;
        }
        Ok(Some(cluster))
    }

    async fn spawn(&mut self, number: usize) -> Result<()> {
        let server = self.servers.get(number).context("no such server")?;
        let routes: Vec<String> =
            self.servers.iter().map(|server| format!("nats-route://{}", server.routes)).collect();
        let (config, store) =
            (self.world.path(&format!("nats-{number}.conf")), self.world.path(&format!("store-{number}")));
        let text = format!(
            "server_name: s{number}\nhost: 127.0.0.1\nport: {}\nhttp: \"{}\"\n\
             jetstream {{ store_dir: {:?}, max_mem: 64MB, max_file: 256MB }}\n\
             cluster {{ name: obey, listen: \"{}\", routes: [{}] }}\n",
            server.clients.port(),
            server.monitor,
            store.display().to_string(),
            server.routes,
            routes.join(", "),
        );
        std::fs::write(&config, text)?;
        let mut command = Command::from(self.world.command(&self.program));
        command.arg("-c").arg(config).stdout(Stdio::null()).stderr(Stdio::null());
        let (child, address) = (command.kill_on_drop(true).spawn()?, server.clients);
        self.servers.get_mut(number).context("no such server")?.child = Some(child);
        within("the NATS server", async {
            while TcpStream::connect(address).await.is_err() {
                tokio::task::yield_now().await;
            }
        })
        .await
    }

    fn url(&self) -> String {
        let urls: Vec<String> =
            self.servers.iter().map(|server| format!("nats://{}", server.clients)).collect();
        urls.join(",")
    }

    async fn kill(&mut self, number: usize) -> Result<()> {
        let child = self.servers.get_mut(number).and_then(|server| server.child.take());
        Ok(child.context("it does not run")?.kill().await?)
    }

    fn signal(&self, number: usize, signal: Signal) -> Result<()> {
        let child = self.servers.get(number).and_then(|server| server.child.as_ref());
        let id = child.and_then(Child::id).context("it does not run")?;
        Ok(kill_process(Pid::from_raw(i32::try_from(id)?).context("no process")?, signal)?)
    }

    /// Returns which server leads a bucket, and on how many servers it is; nothing while there is no leader.
    async fn leader(&self, bucket: &str) -> Result<Option<(usize, u64)>> {
        for server in self.servers.iter().filter(|server| server.child.is_some()) {
            let url = format!("http://{}/jsz?streams=1&config=1", server.monitor);
            let mut command = Command::from(self.world.command("curl"));
            let output = command.args(["-s", "--max-time", "2", &url]).kill_on_drop(true).output().await?;
            let Ok(told) = serde_json::from_slice::<Value>(&output.stdout) else { continue };
            let streams = told["account_details"].as_array().into_iter().flatten();
            let found = streams.flat_map(|account| account["stream_detail"].as_array().into_iter().flatten());
            let named = |stream: &&Value| stream["name"].as_str().is_some_and(|name| name.ends_with(bucket));
            let Some(stream) = found.into_iter().find(named) else { continue };
            let leader = stream["cluster"]["leader"].as_str().and_then(|name| name.strip_prefix('s'));
            if let Some(leader) = leader.and_then(|number| number.parse().ok()) {
                return Ok(Some((leader, stream["config"]["num_replicas"].as_u64().unwrap_or(0))));
            }
        }
        Ok(None)
    }

    /// Waits until a bucket has a leader and is on all servers. Returns the leader.
    async fn settled(&self, bucket: &str) -> Result<usize> {
        let began = Instant::now();
        loop {
            let found = self.leader(bucket).await?;
            if let Some((leader, replicas)) = found
                && replicas == SERVERS as u64
            {
                return Ok(leader);
            }
            ensure!(began.elapsed() < deadline() * 2, "{bucket}: {found:?}");
        }
    }
}

/// Calls a machine through a relay until the answer has these words; longer than other tests wait, because servers and relays each take some
/// seconds to give another one up.
async fn until(relay: &RelayScene, machine: &Machine, words: &str) -> Result<()> {
    let began = Instant::now();
    loop {
        let told = relay.post(machine, "betcode.v1.AgentService/ListSessions", &[]).await?;
        if told.contains(words) {
            return Ok(());
        }
        ensure!(
            began.elapsed() < deadline() * 3,
            "{told}\n{}",
            relay.cli().run(&["relay", "status"]).await?.stdout
        );
    }
}

/// Looks whether machines at both relays are reached from both, and whether who joins and who is removed is known at both.
async fn check(first: &RelayScene, second: &RelayScene, machine: &Machine, name: &str) -> Result<()> {
    until(first, machine, "grpc-status: 0").await?;
    until(second, machine, "grpc-status: 0").await?;
    let new = second.machine(name, "full").await?;
    until(first, &new, "grpc-status: 0").await?;
    first.cli().json(&["machine", "remove", name]).await?;
    until(second, &new, "grpc-status: 5").await
}

#[tokio::test]
async fn any_of_three_servers_may_die_and_relays_still_know_the_same() -> Result<()> {
    let Some(mut cluster) = NatsCluster::start().await? else { return Ok(()) };
    let first = RelayScene::start_with(&["--nats", &cluster.url()]).await?;
    let second = RelayScene::join(&first, &cluster.url()).await?;
    let mut machine = first.machine("box", "full").await?;
    until(&second, &machine, "grpc-status: 0").await?;
    let leader = cluster.settled("_routes").await?;
    cluster.settled("_directory").await?;

    // What waits for a machine is kept by the relay that was called, whatever becomes of the servers.
    machine.daemon.terminate().await?;
    first.online_is(0).await?;
    cluster.kill(leader).await?;
    let request = wire::obey::v1::AddCampaignRequest {
        path: machine.world.project().display().to_string(),
        name: "kept".to_owned(),
        ..Default::default()
    };
    let message = request.encode_to_vec();
    let began = Instant::now();
    loop {
        // A route that is not forgotten yet says that the machine is there.
        let told = second.post(&machine, "obey.v1.CampaignService/AddCampaign", &message).await?;
        if told.contains("request%20buffered") {
            break;
        }
        ensure!(began.elapsed() < deadline() * 3, "{told}");
    }
    machine.daemon.restart().await?;
    check(&first, &second, &machine, "new-one").await?;
    let began = Instant::now();
    loop {
        let waiting = second.cli().json(&["relay", "status"]).await?["buffered_messages"].clone();
        let campaigns = machine.cli().json(&["campaign", "list"]).await?.to_string();
        if waiting == 0 && campaigns.contains("\"kept\"") {
            break;
        }
        ensure!(began.elapsed() < deadline() * 3, "{waiting} {campaigns}");
    }

    // It comes back, and the next one goes.
    cluster.spawn(leader).await?;
    let next = cluster.settled("_routes").await?;
    cluster.kill(next).await?;
    check(&first, &second, &machine, "new-two").await
}

#[tokio::test]
async fn a_server_that_stops_to_answer_is_left_and_comes_back_without_harm() -> Result<()> {
    let Some(cluster) = NatsCluster::start().await? else { return Ok(()) };
    let first = RelayScene::start_with(&["--nats", &cluster.url()]).await?;
    let second = RelayScene::join(&first, &cluster.url()).await?;
    let machine = first.machine("box", "full").await?;
    until(&second, &machine, "grpc-status: 0").await?;
    let leader = cluster.settled("_routes").await?;
    cluster.signal(leader, Signal::STOP)?;
    check(&first, &second, &machine, "new-one").await?;
    cluster.signal(leader, Signal::CONT)?;
    cluster.settled("_routes").await?;
    check(&first, &second, &machine, "new-two").await
}
