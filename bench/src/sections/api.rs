//! Sessions of the agent inside the daemon, against an endpoint of our own: what a session costs while it waits, how
//! old a chunk is when a client has it, and whether any is lost when hundreds stream at once.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use wire::obey::local::v1 as local;

use crate::clock;
use crate::daemon::Home;
use crate::endpoint::Endpoint;
use crate::machine::status;
use crate::peer::Peer;
use crate::stats::{median, micros, millis, percentile, sorted};
use crate::table::{Goal, Table};

const IDLE: usize = 200;
const AT_ONCE: usize = 500;
const CHUNKS: u64 = 200;
const GAP: Duration = Duration::from_millis(5);
/// What the daemon may add to the age of a chunk.
const ADDED_MS: f64 = 2.0;
const SESSION_KIB: f64 = 200.0;

pub(crate) async fn run(table: &mut Table) -> Result<()> {
    let endpoint = Endpoint::start(CHUNKS, GAP)?;
    let mut home = Home::new("api")?;
    home.start()?;
    let peer = home.peer().await?;
    let campaign = home.campaign(&peer).await?;
    let (first, took) = create(&peer, &campaign, &endpoint).await?;
    let direct = sorted(ask_directly(&endpoint)?);
    let ours = sorted(ages(&peer, &first).await?);
    let words =
        |ages: &[f64]| format!("{} (p99 {})", micros(percentile(ages, 0.5)), micros(percentile(ages, 0.99)));
    let added = (percentile(&ours, 0.99) - percentile(&direct, 0.99)) / 1e6;
    let goal = Goal::AtMost(ADDED_MS, format!("{ADDED_MS} ms added at p99"));
    table.row("API: age of a chunk", words(&ours), words(&direct), added, goal);
    table.row("API: creating a session", format!("{took:.1} ms"), String::new(), took, Goal::None);
    idle(table, &home, &peer, &campaign, &endpoint).await?;
    at_once(table, &peer, &campaign, &endpoint).await
}

async fn create(peer: &Peer, campaign: &str, endpoint: &Endpoint) -> Result<(String, f64)> {
    let request = local::CreateSessionRequest {
        campaign_id: campaign.to_owned(),
        provider: local::SessionProvider::OpenaiApi.into(),
        provider_config: HashMap::from([("base_url".to_owned(), endpoint.url())]),
        ..local::CreateSessionRequest::default()
    };
    let began = Instant::now();
    let created = peer.daemon.clone().create_session(request).await?.into_inner();
    Ok((created.session.context("no session")?.id, millis(began.elapsed())))
}

/// Sends a prompt and returns how old each chunk was when it arrived, in nanoseconds.
async fn ages(peer: &Peer, session: &str) -> Result<Vec<f64>> {
    let mut events = peer.follow(session, 0).await?;
    peer.prompt(session, "go".to_owned()).await?;
    let mut ages = Vec::new();
    while let Some(event) = events.message().await? {
        let now = clock::monotonic_ns();
        match event.r#type.as_str() {
            "text_delta" => {
                let fields: serde_json::Value = serde_json::from_str(&event.json)?;
                let text = fields["text"].as_str().unwrap_or_default().to_owned();
                let sent = text.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
                ages.extend(sent.map(|sent| now.saturating_sub(sent) as f64));
            }
            "turn_ended" => break,
            _ => {}
        }
    }
    ensure!(ages.len() as u64 == CHUNKS, "{} of {CHUNKS} chunks arrived", ages.len());
    Ok(ages)
}

/// The floor: the same reply read from the endpoint without a daemon.
fn ask_directly(endpoint: &Endpoint) -> Result<Vec<f64>> {
    let mut stream = TcpStream::connect(endpoint.address())?;
    stream.write_all(b"POST /v1/responses HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}")?;
    let mut ages = Vec::new();
    for line in BufReader::new(stream).lines() {
        let line = line?;
        let now = clock::monotonic_ns();
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let event: serde_json::Value = serde_json::from_str(data)?;
        match event["delta"].as_str().and_then(|text| text.trim().parse::<u64>().ok()) {
            Some(sent) => ages.push(now.saturating_sub(sent) as f64),
            None => break,
        }
    }
    Ok(ages)
}

async fn idle(
    table: &mut Table,
    home: &Home,
    peer: &Peer,
    campaign: &str,
    endpoint: &Endpoint,
) -> Result<()> {
    let pid = home.pid()?;
    let before = status(pid, "VmRSS")?;
    let mut took = Vec::new();
    for _ in 0..IDLE {
        took.push(create(peer, campaign, endpoint).await?.1);
    }
    let each = status(pid, "VmRSS")?.saturating_sub(before) as f64 / IDLE as f64;
    let goal = Goal::AtMost(SESSION_KIB, format!("{SESSION_KIB} KiB"));
    table.row("API: memory of an idle session", format!("{each:.0} KiB"), String::new(), each, goal);
    table.row(
        "API: creating one of many",
        format!("{:.1} ms", median(&took)),
        String::new(),
        0.0,
        Goal::None,
    );
    Ok(())
}

async fn at_once(table: &mut Table, peer: &Peer, campaign: &str, endpoint: &Endpoint) -> Result<()> {
    let mut sessions = Vec::new();
    for _ in 0..AT_ONCE {
        sessions.push(create(peer, campaign, endpoint).await?.0);
    }
    let mut talking = tokio::task::JoinSet::new();
    for session in sessions {
        let peer = peer.clone();
        talking.spawn(async move { ages(&peer, &session).await });
    }
    let mut all = Vec::new();
    // A lost chunk is an error of its session.
    while let Some(ages) = talking.join_next().await {
        all.extend(ages??);
    }
    let all = sorted(all);
    let words = format!("{} chunks, p99 {}", all.len(), micros(percentile(&all, 0.99)));
    let whole = (AT_ONCE as u64 * CHUNKS) as f64;
    let goal = Goal::AtLeast(whole, format!("{whole} chunks"));
    table.row("API: 500 sessions stream at once", words, String::new(), all.len() as f64, goal);
    Ok(())
}
