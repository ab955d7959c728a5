//! Conversations over `betcode.v1`: many idle ones, the replay of one, one with many clients of which one is
//! stuck, and the time an agent waits for a permission.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use wire::betcode::v1 as betcode;
use wire::obey::v1 as pb;

use crate::daemon::{Floor, Home};
use crate::emitter::Script;
use crate::machine::status;
use crate::reader::{Follower, chunk_of, play};
use crate::stats::{median, mib, micros, per_second, percentile, sorted};
use crate::table::{Goal, Table};
use crate::talk::Talk;

const STREAMS: usize = 1_000;
/// A client has one connection with a few conversations on it.
const STREAMS_PER_CONNECTION: usize = 10;
const REPLAYED: u64 = 100_000;
const REPLAY_RATE_LEAST: f64 = 200_000.0;
const ROUNDS: usize = 5;
const CLIENTS: usize = 100;
const CHUNKS: u64 = 1_000;
const ASKS: u64 = 500;

/// A thousand idle conversations.
pub(crate) async fn idle(table: &mut Table) -> Result<()> {
    let mut home = Home::new("converse-idle")?;
    home.start()?;
    let folder = home.project().display().to_string();
    let (mut peers, mut talks) = (Vec::new(), Vec::new());
    let began = Instant::now();
    while talks.len() < STREAMS {
        if talks.len() % STREAMS_PER_CONNECTION == 0 {
            peers.push(home.peer().await?);
        }
        let peer = peers.last().context("no connection")?;
        talks.push(Talk::begin(peer, &folder).await?);
    }
    let each = began.elapsed().as_secs_f64() * 1e3 / STREAMS as f64;
    table.row("beginning a conversation", format!("{each:.1} ms"), String::new(), each, Goal::None);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let rss = status(home.pid()?, "VmRSS")?;
    let goal = Goal::AtMost(100.0 * 1024.0, mib(100 * 1024));
    table.row("1,000 idle Converse streams, daemon's RSS", mib(rss), String::new(), rss as f64, goal);
    Ok(())
}

/// A long history, read from its beginning.
pub(crate) async fn replay(table: &mut Table) -> Result<()> {
    let script = Script::burst(REPLAYED);
    let (_home, peer, session) = Home::with_session("converse-replay").await?;
    let mut follower = Follower::new(&peer, &session.id).await?;
    play(&peer, &session.id, &mut follower, &script).await?;
    let (mut resumed, mut joined) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let request = betcode::ResumeSessionRequest { session_id: session.id.clone(), from_sequence: 0 };
        let mut stream = peer.agents.clone().resume_session(request).await?.into_inner();
        let (mut count, mut last) = (0_u64, 0);
        while let Some(event) = stream.message().await? {
            ensure!(event.sequence > last, "after event {last} came {}", event.sequence);
            last = event.sequence;
            count += 1;
        }
        ensure!(count >= REPLAYED, "{count} of {REPLAYED} events came");
        resumed.push(count as f64 / began.elapsed().as_secs_f64());
        let began = Instant::now();
        Talk::join(&peer, &session.id).await?.read(REPLAYED).await?;
        joined.push(REPLAYED as f64 / began.elapsed().as_secs_f64());
    }
    for (what, rates) in [("ResumeSession", resumed), ("Converse", joined)] {
        let rate = median(&rates);
        let goal = Goal::AtLeast(REPLAY_RATE_LEAST, per_second(REPLAY_RATE_LEAST));
        let what = format!("replay of 100,000 events by {what}");
        table.row(&what, per_second(rate), String::new(), rate, goal);
    }
    Ok(())
}

/// One session with a hundred clients, one of which never reads.
pub(crate) async fn fan_out(table: &mut Table) -> Result<()> {
    let script = Script::paced(CHUNKS, std::time::Duration::from_millis(2));
    let (home, peer, session) = Home::with_session("converse-fanout").await?;
    let mut alone = Talk::join(&peer, &session.id).await?;
    let mut single = Vec::new();
    for round in 0..=ROUNDS {
        peer.prompt(&session.id, script.prompt()).await?;
        let ages = sorted(alone.turn(CHUNKS).await?);
        if round > 0 {
            single.push(percentile(&ages, 0.99));
        }
    }
    drop(alone);
    // A client that reads nothing: its window fills up, which must not affect the daemon.
    let stuck_peer = home.peer().await?;
    let _stuck = Talk::join(&stuck_peer, &session.id).await?;
    let mut healthy = Vec::new();
    for _ in 0..CLIENTS - 1 {
        let peer = home.peer().await?;
        let mut talk = Talk::join(&peer, &session.id).await?;
        talk.skip_turns(ROUNDS + 1).await?;
        healthy.push(talk);
    }
    let mut shared = Vec::new();
    for round in 0..=ROUNDS {
        peer.prompt(&session.id, script.prompt()).await?;
        let mut reading = tokio::task::JoinSet::new();
        for mut talk in healthy.drain(..) {
            reading.spawn(async move { talk.turn(CHUNKS).await.map(|ages| (talk, ages)) });
        }
        let mut ages = Vec::new();
        while let Some(read) = reading.join_next().await {
            let (talk, own) = read??;
            healthy.push(talk);
            ages.extend(own);
        }
        if round > 0 {
            shared.push(percentile(&sorted(ages), 0.99));
        }
    }
    let (one, many) = (median(&single), median(&shared));
    let over = (many - one) / 1e3;
    let ours = format!("{over:.1} ms over ({} to {})", micros(one), micros(many));
    let goal = Goal::AtMost(10.0, "10 ms".to_owned());
    table.row("fan-out to 100, one stuck: healthy p99 over one client's", ours, String::new(), over, goal);
    Ok(())
}

/// From an agent's question to its answer, with a client that answers at once.
pub(crate) async fn permission(table: &mut Table) -> Result<()> {
    let script = Script::asking(ASKS);
    let floor = Floor::start()?;
    let floor_peer = floor.peer().await?;
    let mut floor_reader = Follower::new(&floor_peer, "").await?;
    let (_home, peer, session) = Home::with_session("converse-permission").await?;
    let mut talk = Talk::join(&peer, &session.id).await?;
    let (mut low, mut ours) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        floor_peer.prompt("", script.prompt()).await?;
        let floor_waits = sorted(floor_allow(&floor_peer, &mut floor_reader).await?);
        peer.prompt(&session.id, script.prompt()).await?;
        let waits = sorted(talk.allow(ASKS).await?);
        if round > 0 {
            low.push((percentile(&floor_waits, 0.5), percentile(&floor_waits, 0.99)));
            ours.push((percentile(&waits, 0.5), percentile(&waits, 0.99)));
        }
    }
    let of = |side: &[(f64, f64)], pick: fn(&(f64, f64)) -> f64| {
        median(&side.iter().map(pick).collect::<Vec<_>>())
    };
    for (name, pick, most) in
        [("p50", (|round| round.0) as fn(&(f64, f64)) -> f64, None), ("p99", |round| round.1, Some(2.0))]
    {
        let ratios: Vec<f64> = ours.iter().zip(&low).map(|(ours, low)| pick(ours) / pick(low)).collect();
        let (low, ours) = (of(&low, pick), of(&ours, pick));
        let over = (ours - low) / 1e3;
        let goal = most.map_or(Goal::None, |most| Goal::AtMost(most, format!("{most} ms over the floor")));
        table.row(&format!("permission round trip, {name}"), micros(ours), micros(low), over, goal);
        let what = format!("permission round trip to the floor's, {name}");
        table.ratio(&what, String::new(), String::new(), &ratios, None);
    }
    Ok(())
}

/// The same on the floor, whose client has no conversation.
async fn floor_allow(peer: &crate::peer::Peer, reader: &mut Follower) -> Result<Vec<f64>> {
    let mut waits = Vec::new();
    loop {
        let event: serde_json::Value = serde_json::from_str(&reader.next().await?.json)?;
        match event["say"].as_str() {
            Some("asked") => {
                let request_id = event["id"].as_str().unwrap_or_default().to_owned();
                let answer = pb::AnswerPermissionRequest { request_id, ..Default::default() };
                peer.requests.clone().answer_permission(answer).await?;
            }
            Some("text") => {
                let text = event["text"].as_str().unwrap_or_default();
                let (_, took) = chunk_of(text).context("a harmed chunk")?;
                waits.push(took as f64 / 1e3);
            }
            Some("turn_ended") => break,
            _ => {}
        }
    }
    ensure!(waits.len() as u64 == ASKS, "{} of {ASKS} answers came", waits.len());
    Ok(waits)
}
