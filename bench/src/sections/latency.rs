//! From an agent's write to a client's read at a thousand chunks per second: to one client, and to many.

use std::time::Duration;

use anyhow::Result;

use crate::daemon::{Floor, Home};
use crate::emitter::Script;
use crate::machine::cpu;
use crate::peer::Peer;
use crate::reader::{Follower, Heard, play};
use crate::stats::{median, micros, percentile};
use crate::table::{Goal, Table};

const ROUNDS: usize = 7;
const CHUNKS: u64 = 2_500;
const GAP: Duration = Duration::from_millis(1);
const SUBSCRIBERS: usize = 32;

/// The measurements of all rounds.
#[derive(Default)]
struct Rounds {
    floor: Vec<(f64, f64)>,
    ours: Vec<(f64, f64)>,
}

impl Rounds {
    fn report(&self, table: &mut Table, what: &str, p50_most: Option<f64>, p99_most: Option<f64>) {
        let of =
            |side: &[(f64, f64)], pick: fn(&(f64, f64)) -> f64| side.iter().map(pick).collect::<Vec<_>>();
        for (name, most, pick) in [
            ("p50", p50_most, (|round| round.0) as fn(&(f64, f64)) -> f64),
            ("p99", p99_most, |round| round.1),
        ] {
            let (ours, floor) = (of(&self.ours, pick), of(&self.floor, pick));
            let ratios: Vec<f64> = ours.iter().zip(&floor).map(|(ours, floor)| ours / floor).collect();
            let (ours, floor) = (micros(median(&ours)), micros(median(&floor)));
            table.ratio(&format!("{what}, {name}"), ours, floor, &ratios, most);
        }
    }
}

pub(crate) async fn one(table: &mut Table) -> Result<()> {
    let script = Script::paced(CHUNKS, GAP);
    let floor = Floor::start()?;
    let floor_peer = floor.peer().await?;
    let mut floor_reader = Follower::new(&floor_peer, "").await?;
    let (home, peer, session) = Home::with_session("latency").await?;
    let pid = home.pid()?;
    let mut reader = Follower::new(&peer, &session.id).await?;
    let mut rounds = Rounds::default();
    let (mut costs, mut floor_costs, mut shims) = (Vec::new(), Vec::new(), Vec::new());
    let per_chunk = |used: Duration| used.as_secs_f64() * 1e6 / CHUNKS as f64;
    // The first round is a warm-up and does not count.
    for round in 0..=ROUNDS {
        let before = cpu(floor.pid())?;
        let low = play(&floor_peer, "", &mut floor_reader, &script).await?;
        let between = cpu(floor.pid())?;
        let used = cpu(pid)?;
        let ours = play(&peer, &session.id, &mut reader, &script).await?;
        if round > 0 {
            rounds.floor.push((low.p50(), low.p99()));
            rounds.ours.push((ours.p50(), ours.p99()));
            shims.push((percentile(&ours.shim_ages, 0.5), percentile(&ours.shim_ages, 0.99)));
            costs.push(per_chunk(cpu(pid)? - used));
            floor_costs.push(per_chunk(between - before));
        }
    }
    rounds.report(table, "chunk latency at 1,000/s", Some(2.0), Some(4.0));
    let p50 = median(&shims.iter().map(|shim| shim.0).collect::<Vec<_>>());
    let p99 = median(&shims.iter().map(|shim| shim.1).collect::<Vec<_>>());
    let until = format!("{} (p99 {})", micros(p50), micros(p99));
    table.row("of it, until the shim has the chunk", until, String::new(), p50, Goal::None);
    let ratios: Vec<f64> = costs.iter().zip(&floor_costs).map(|(ours, floor)| ours / floor).collect();
    let (cost, low) = (micros(median(&costs)), micros(median(&floor_costs)));
    table.ratio("the same, CPU per chunk", cost, low, &ratios, None);
    Ok(())
}

pub(crate) async fn fan_out(table: &mut Table) -> Result<()> {
    let script = Script::paced(CHUNKS / 2, GAP);
    let floor = Floor::start()?;
    let (home, peer, session) = Home::with_session("fanout").await?;
    let mut floor_many = Many::new(floor.peer().await?, "").await?;
    let mut many = Many::new(home.peer().await?, &session.id).await?;
    let mut rounds = Rounds::default();
    for round in 0..=3 {
        let low = floor_many.play(&script).await?;
        let ours = many.play(&script).await?;
        if round > 0 {
            rounds.floor.push(low);
            rounds.ours.push(ours);
        }
    }
    drop(peer);
    rounds.report(table, &format!("fan-out to {SUBSCRIBERS} at 1,000/s"), None, None);
    Ok(())
}

/// Many readers of one session.
struct Many {
    peer: Peer,
    session: String,
    readers: Vec<Follower>,
}

impl Many {
    async fn new(peer: Peer, session: &str) -> Result<Self> {
        let mut readers = Vec::new();
        for _ in 0..SUBSCRIBERS {
            readers.push(Follower::new(&peer, session).await?);
        }
        Ok(Self { peer, session: session.to_owned(), readers })
    }

    /// Runs a turn for all readers; returns percentiles over all of them.
    async fn play(&mut self, script: &Script) -> Result<(f64, f64)> {
        self.peer.prompt(&self.session, script.prompt()).await?;
        let mut reading = tokio::task::JoinSet::new();
        for mut reader in self.readers.drain(..) {
            let script = *script;
            reading.spawn(async move { reader.turn(&script).await.map(|heard| (reader, heard)) });
        }
        let mut ages = Vec::new();
        while let Some(read) = reading.join_next().await {
            let (reader, heard) = read??;
            self.readers.push(reader);
            ages.extend(heard.ages);
        }
        let all = Heard { ages: crate::stats::sorted(ages), shim_ages: Vec::new(), span: Duration::ZERO };
        Ok((all.p50(), all.p99()))
    }
}
