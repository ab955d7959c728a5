//! Floods from another user of the machine leave everybody else alone. No speed is asserted; the ratio to quiet is printed.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use e2e::clients::Clients;
use e2e::daemon::Daemon;
use e2e::deadline::within;
use e2e::http;
use e2e::world::World;
use wire::obey::local::v1 as pb;

/// How long the flood lasts, and how many connections are left half open.
const FLOOD: Duration = Duration::from_secs(5);
const HALF_OPEN: usize = 800;

/// A user of this machine that is neither root nor ours.
const NOBODY: u32 = 65_534;

/// Does something with sockets as another user: only this thread becomes one.
fn as_nobody<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> JoinHandle<Result<T>> {
    std::thread::spawn(move || {
        let nobody = rustix::process::Uid::from_raw(NOBODY);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody)?;
        Ok(act())
    })
}

/// Connects, asks and closes, as fast as it can for some seconds; returns how often.
fn flood(to: SocketAddr) -> usize {
    let (until, mut made) = (Instant::now() + FLOOD, 0);
    while Instant::now() < until {
        if let Ok(mut stream) = TcpStream::connect(to) {
            // Cut off by then, perhaps.
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
            made += 1;
        }
    }
    made
}

/// Opens connections and says half a request on each.
fn half_open(to: SocketAddr) -> Vec<TcpStream> {
    let open = |_| {
        let mut stream = TcpStream::connect(to).ok()?;
        let _ = stream.write_all(b"GET / HTTP/1.1\r\n");
        Some(stream)
    };
    (0..HALF_OPEN).filter_map(open).collect()
}

/// Calls over a new connection to the Unix socket; returns how long that took.
async fn ping(daemon: &Daemon) -> Result<Duration> {
    let began = Instant::now();
    let mut clients = within("a connection", Clients::connect(daemon.socket())).await??;
    within("an answer", clients.local.ping(pb::PingRequest::default())).await??;
    Ok(began.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

async fn quiet(daemon: &Daemon) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..30 {
        times.push(ping(daemon).await?);
    }
    Ok(median(times))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_unix_socket_answers_during_and_after_a_flood_of_another_user() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: being another user needs root");
        return Ok(());
    }
    let world = World::new()?;
    let mut daemon = Daemon::start(&world).await?;
    let to = *daemon.listen().first().context("no port")?;
    let before = quiet(&daemon).await?;
    let flooding = as_nobody(move || flood(to));
    let mut during = Vec::new();
    while !flooding.is_finished() {
        during.push(ping(&daemon).await?);
    }
    let made = flooding.join().map_err(|_| anyhow!("the flood broke down"))??;
    let (calls, during) = (during.len(), median(during));
    let after = quiet(&daemon).await?;
    println!(
        "{made} connections; {calls} calls meanwhile; quiet {before:?}, during {during:?}, after {after:?}"
    );
    println!("ratio: {:.1}", during.as_secs_f64() / before.as_secs_f64());
    ensure!(calls > 0, "no call was made during the flood");
    let health = http::send(to, "GET", "/health", None).await?;
    ensure!(health.status == 200, "our own user is served on the port: {health:?}");
    daemon.terminate().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_open_connections_of_another_user_keep_nobody_out() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: being another user needs root");
        return Ok(());
    }
    let world = World::new()?;
    let mut daemon = Daemon::start(&world).await?;
    let to = *daemon.listen().first().context("no port")?;
    let before = quiet(&daemon).await?;
    let held = as_nobody(move || half_open(to)).join().map_err(|_| anyhow!("it broke down"))??;
    let during = quiet(&daemon).await?;
    let health = http::send(to, "GET", "/health", None).await?;
    ensure!(health.status == 200, "our own user is served on the port: {health:?}");
    println!("{} half open; quiet {before:?}, during {during:?}", held.len());
    ensure!(!held.is_empty(), "no connection was made");
    drop(held);
    daemon.terminate().await?;
    Ok(())
}
