//! Machines behind a relay: calls and streams through one relay, sealed, and through two over NATS, beside the daemon's own socket;
//! what a relay takes for a call and for a machine that waits, and how soon a machine is back.

use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::cli::{Cli, Running};
use e2e::daemon::Daemon;
use e2e::world::World;
use hyper_util::rt::TokioIo;
use rustix::process::Signal;
use serde_json::Value;
use tokio::net::TcpStream;
use tonic::transport::{Channel, Endpoint};
use tunnel::pinned::TlsIdentity;
use tunnel::{dial, pinned, pipe};
use wire::obey::local::v1 as local;
use wire::obey::local::v1::local_daemon_service_client::LocalDaemonServiceClient;
use wire::obey::v1 as pb;
use wire::obey::v1::event_service_client::EventServiceClient;
use wire::obey::v1::turn_service_client::TurnServiceClient;

use crate::machine;
use crate::peer::Peer;
use crate::stats::{median, micros, millis, per_second, percentile, sorted, worst};
use crate::table::{Goal, Table};

mod machines;

const ROUNDS: usize = 7;
const CALLS: usize = 1_000;
/// Turns of the session that is read, the pieces of each, and how often a round reads it.
const TURNS: u64 = 10;
const PIECES: u64 = 1_000;
const READS: usize = 5;
/// Calls that go on at once while the relay's own time is measured, and how many there are.
const AT_ONCE: usize = 64;
const MANY: usize = 20_000;

/// What a relay may take of one processor for a call, if two are to carry 10,000 in a second.
const CALL_MOST_MICROS: f64 = 200.0;

/// A relay that serves.
struct Relay {
    world: World,
    url: String,
    serving: Running,
}

impl Relay {
    async fn made(words: &[&str]) -> Result<Self> {
        let world = World::new()?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let words: Vec<&str> = words.iter().copied().chain(["--listen", &address]).collect();
        let made = Cli::new(&world).json(&words).await?;
        let serving = serve(&world).await?;
        Ok(Self { world, url: word(&made, "url")?, serving })
    }

    fn pid(&self) -> Result<u32> {
        Ok(u32::try_from(self.serving.pid().context("the relay does not run")?)?)
    }

    async fn code(&self, more: &[&str]) -> Result<String> {
        let words: Vec<&str> = ["relay", "code"].iter().chain(more).copied().collect();
        word(&Cli::new(&self.world).json(&words).await?, "code")
    }
}

async fn serve(world: &World) -> Result<Running> {
    let mut serving = Cli::new(world).spawn(&["relay", "serve"]).await?;
    serving.wait_for_line("the ready line", |line| line.starts_with("ready relay=")).await?;
    Ok(serving)
}

fn word(value: &Value, key: &str) -> Result<String> {
    Ok(value[key].as_str().with_context(|| format!("no {key} in {value}"))?.to_owned())
}

/// A machine that joined a relay, and a device that is paired with it.
struct Paired {
    world: World,
    daemon: Daemon,
    device: Value,
}

impl Paired {
    async fn join(relay: &Relay) -> Result<Self> {
        let world = World::new()?;
        let daemon = Daemon::start(&world).await?;
        let joined =
            Cli::new(&world).json(&["machine", "join", &relay.code(&[]).await?, "--name", "box"]).await?;
        ensure!(joined["state"] == "online", "{joined}");
        let invited = Cli::new(&world).json(&["device", "add", "--role", "owner", "--same-host"]).await?;
        let device = World::new()?;
        Cli::new(&device).json(&["device", "join", &word(&invited, "line")?, "--name", "laptop"]).await?;
        let device = device_file(&device.path("data"))?;
        Ok(Self { world, daemon, device })
    }

    /// Connects as the paired device does, sealed, through a relay.
    async fn through(&self, url: &str) -> Result<Channel> {
        let of = |key: &str| word(&self.device, key);
        let relay =
            dial::connect(url, &of("relay_pin")?, None).await.map_err(|error| anyhow::anyhow!("{error}"))?;
        let identity = TlsIdentity { certificate_pem: of("certificate_pem")?, key_pem: of("key_pem")? };
        let (token, machine, pin) = (of("token")?, of("machine_id")?, of("machine_pin")?);
        let connector = tower::service_fn(move |_| {
            let (relay, token, machine) = (relay.clone(), token.clone(), machine.clone());
            let config = pinned::client_config(&pin, Some(&identity), &[b"h2"]);
            async move {
                let config = config.map_err(|error| std::io::Error::other(error.message))?;
                let io = pipe::open(relay, &token, &machine).await.map_err(std::io::Error::other)?;
                pipe::seal(io, config).await.map(TokioIo::new)
            }
        });
        let endpoint = Endpoint::from_static("http://localhost");
        Ok(endpoint.connect_with_connector(connector).await?)
    }

    /// Makes a session whose journal has many events of about 200 bytes, and returns it with the number of its last event.
    async fn session(&self) -> Result<(String, u64)> {
        let project = self.world.project().display().to_string();
        Cli::new(&self.world).ok(&["campaign", "add", &project, "--name", "demo"]).await?;
        let channel = Peer::connect(self.daemon.socket()).await?.channel;
        let request = local::CreateSessionRequest {
            campaign_id: "demo".to_owned(),
            provider: local::SessionProvider::Scripted.into(),
            ..Default::default()
        };
        let created = LocalDaemonServiceClient::new(channel.clone()).create_session(request).await?;
        let session = created.into_inner().session.context("no session")?.id;
        let words = "about forty bytes of an agent's answer.".repeat(usize::try_from(PIECES)?);
        for number in 0..TURNS {
            let steps = serde_json::json!([{"text": words, "chunks": PIECES, "gap_ms": 0}]);
            let text = format!("turn {number} SCRIPT: {steps}");
            let prompt =
                pb::PromptRequest { session_id: session.clone(), text, queue: true, ..Default::default() };
            TurnServiceClient::new(channel.clone()).prompt(prompt).await?;
        }
        let mut events = read(&channel, &session, true).await?;
        let (mut ends, mut last) = (0, 0);
        while ends < TURNS {
            let event = events.message().await?.context("the stream ended")?;
            ends += u64::from(event.r#type == "turn_ended");
            last = event.seq;
        }
        Ok((session, last))
    }
}

/// Returns what a device keeps of the only machine it has joined.
fn device_file(data: &Path) -> Result<Value> {
    let mut folders = vec![data.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if folder.ends_with("machines") && path.extension().is_some_and(|kind| kind == "json") {
                return Ok(serde_json::from_slice(&std::fs::read(path)?)?);
            }
        }
    }
    anyhow::bail!("no machine below {}", data.display())
}

async fn read(channel: &Channel, session: &str, follow: bool) -> Result<tonic::Streaming<pb::Event>> {
    let request = pb::ReadEventsRequest { session_id: session.to_owned(), follow, ..Default::default() };
    Ok(EventServiceClient::new(channel.clone()).read_events(request).await?.into_inner())
}

/// Returns the median time of a small call, in microseconds.
async fn unary(channel: &Channel) -> Result<f64> {
    let mut daemon = LocalDaemonServiceClient::new(channel.clone());
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let began = Instant::now();
        daemon.ping(local::PingRequest {}).await?;
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(percentile(&sorted(times), 0.5))
}

/// Returns how many stored events come in a second. One that is missing is an error.
async fn stream(channel: &Channel, session: &str, last: u64) -> Result<f64> {
    let began = Instant::now();
    for _ in 0..READS {
        let mut events = read(channel, session, false).await?;
        let mut next = 1;
        while let Some(event) = events.message().await? {
            ensure!(event.seq == next, "event {} came in the place of {next}", event.seq);
            next += 1;
        }
        ensure!(next > last, "{next} of {last} events came");
    }
    Ok(READS as f64 * last as f64 / began.elapsed().as_secs_f64())
}

pub(crate) async fn run(table: &mut Table) -> Result<()> {
    let relay = Relay::made(&["relay", "init"]).await?;
    let paired = Paired::join(&relay).await?;
    let (session, last) = paired.session().await?;
    let direct = Peer::connect(paired.daemon.socket()).await?.channel;
    let sealed = paired.through(&relay.url).await?;
    compare(table, "one relay", &direct, &sealed, (&session, last), (4.0, 0.45)).await?;
    load(table, &relay, &sealed).await?;
    back(table, relay, &paired).await?;
    match e2e::tools::nats_server()? {
        Some(program) => over_nats(table, &program).await?,
        None => println!("   no NATS server: two relays are not measured"),
    }
    machines::run(table).await
}

async fn over_nats(table: &mut Table, program: &Path) -> Result<()> {
    let world = World::new()?;
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let config = world.path("nats.conf");
    let store = world.path("jetstream").display().to_string();
    std::fs::write(
        &config,
        format!("host: 127.0.0.1\nport: {}\njetstream {{ store_dir: {store:?} }}\n", address.port()),
    )?;
    let mut command = tokio::process::Command::from(world.command(program));
    command.arg("-c").arg(&config).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let _server = command.spawn()?;
    while TcpStream::connect(address).await.is_err() {
        tokio::task::yield_now().await;
    }
    let nats = format!("nats://{address}");
    let first = Relay::made(&["relay", "init", "--nats", &nats]).await?;
    let paired = Paired::join(&first).await?;
    let second = Relay::made(&["relay", "join", &first.code(&["--relay"]).await?, "--nats", &nats]).await?;
    let (session, last) = paired.session().await?;
    let direct = Peer::connect(paired.daemon.socket()).await?.channel;
    let began = Instant::now();
    let sealed = loop {
        // The other relay hears of the device a moment later.
        match paired.through(&second.url).await {
            Ok(channel) => break channel,
            Err(error) => ensure!(began.elapsed() < Duration::from_secs(30), "{error:#}"),
        }
    };
    compare(table, "two relays over NATS", &direct, &sealed, (&session, last), (7.0, 0.35)).await
}

/// Compares calls and streams with those on the daemon's own socket, in turns.
async fn compare(
    table: &mut Table,
    what: &str,
    direct: &Channel,
    sealed: &Channel,
    (session, last): (&str, u64),
    (slower, share): (f64, f64),
) -> Result<()> {
    let (mut near, mut far, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let (mut near_rates, mut far_rates, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (one, other) = (unary(direct).await?, unary(sealed).await?);
        let (one_rate, other_rate) =
            (stream(direct, session, last).await?, stream(sealed, session, last).await?);
        // The first round warms up.
        if round > 0 {
            near.push(one);
            far.push(other);
            ratios.push(other / one);
            near_rates.push(one_rate);
            far_rates.push(other_rate);
            shares.push(other_rate / one_rate);
        }
    }
    let call = format!("a call through {what}, sealed, p50 beside the socket's");
    table.ratio(&call, micros(median(&far)), micros(median(&near)), &ratios, Some(slower));
    let rate = format!("stored events through {what}, sealed, share of the socket's rate");
    let worst_share = shares.iter().copied().fold(f64::INFINITY, f64::min);
    let ours =
        format!("{} = {:.2} (worst {worst_share:.2})", per_second(median(&far_rates)), median(&shares));
    let goal = Goal::AtLeast(share, format!("{share}"));
    table.row(&rate, ours, per_second(median(&near_rates)), median(&shares), goal);
    Ok(())
}

/// Makes many calls at once, and says what the relay took for each.
async fn load(table: &mut Table, relay: &Relay, sealed: &Channel) -> Result<()> {
    let before = machine::cpu(relay.pid()?)?;
    let began = Instant::now();
    let mut calling = tokio::task::JoinSet::new();
    for _ in 0..AT_ONCE {
        let mut daemon = LocalDaemonServiceClient::new(sealed.clone());
        calling.spawn(async move {
            for _ in 0..MANY / AT_ONCE {
                daemon.ping(local::PingRequest {}).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(called) = calling.join_next().await {
        called??;
    }
    let count = (MANY / AT_ONCE * AT_ONCE) as f64;
    let rate = count / began.elapsed().as_secs_f64();
    let each = machine::cpu(relay.pid()?)?.saturating_sub(before).as_secs_f64() * 1e6 / count;
    let ours = format!("{} ({} calls/s, client and daemon beside it)", micros(each), per_second(rate));
    let goal = Goal::AtMost(CALL_MOST_MICROS, "200 µs: 10,000/s on two cores".to_owned());
    table.row("the relay's own time per sealed call, 64 at once", ours, String::new(), each, goal);
    Ok(())
}

/// Kills the relay, serves it again, and waits for the machine.
async fn back(table: &mut Table, relay: Relay, paired: &Paired) -> Result<()> {
    let cli = Cli::new(&paired.world);
    let mut relay = relay;
    let mut times = Vec::new();
    for _ in 0..2 {
        // A connection that was good for so long is dialled at once again.
        tokio::time::sleep(Duration::from_secs(61)).await;
        let before = cli.json(&["machine", "status"]).await?["connected_at"].clone();
        relay.serving.signal(Signal::KILL);
        let Relay { world, url, serving } = relay;
        serving.finish().await?;
        let serving = serve(&world).await?;
        let began = Instant::now();
        loop {
            let link = cli.json(&["machine", "status"]).await?;
            if link["state"] == "online" && link["connected_at"] != before {
                break;
            }
            ensure!(began.elapsed() < Duration::from_secs(90), "the machine did not come back");
        }
        times.push(millis(began.elapsed()));
        relay = Relay { world, url, serving };
    }
    let ours = format!("{:.0} ms (worst {:.0})", median(&times), worst(&times));
    let goal = Goal::AtMost(2_000.0, "2 s".to_owned());
    table.row(
        "a machine is back after its relay was killed and serves again",
        ours,
        String::new(),
        median(&times),
        goal,
    );
    Ok(())
}
