//! Maximum throughput: half a million chunks to one client, none lost; and reading the history.

use anyhow::{Context, Result, ensure};

use crate::daemon::{Floor, Home};
use crate::emitter::Script;
use crate::machine;
use crate::reader::{self, Follower, play};
use crate::stats::{least, median, mib, per_second};
use crate::table::{Goal, Table};

const ROUNDS: usize = 5;
const CHUNKS: u64 = 500_000;
const RATE_LEAST: f64 = 150_000.0;
const REPLAYED: u64 = 100_000;

pub(crate) async fn burst(table: &mut Table) -> Result<()> {
    let script = Script::burst(CHUNKS);
    let mut home = Home::new("burst")?;
    home.start()?;
    let peer = home.peer().await?;
    let campaign = home.campaign(&peer).await?;
    let pid = home.pid()?;
    let (mut floor_rates, mut rates, mut ages, mut costs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut peak = 0;
    for _ in 0..ROUNDS {
        let floor = Floor::start()?;
        let floor_peer = floor.peer().await?;
        let mut follower = Follower::new(&floor_peer, "").await?;
        floor_rates.push(play(&floor_peer, "", &mut follower, &script).await?.rate());
        drop(floor);
        let session = home.session(&peer, &campaign).await?;
        let mut follower = Follower::new(&peer, &session.id).await?;
        machine::reset_peak(pid)?;
        let used = machine::cpu(pid)?;
        let heard = play(&peer, &session.id, &mut follower, &script).await?;
        costs.push((machine::cpu(pid)? - used).as_secs_f64() * 1e6 / CHUNKS as f64);
        peak = peak.max(machine::status(pid, "VmHWM")?);
        rates.push(heard.rate());
        ages.push(heard.p50() / 1e3);
    }
    drop(peer);
    home.end()?;
    let stored: i64 = rusqlite::Connection::open(home.database())?.query_row(
        "SELECT count(*) FROM journal WHERE body LIKE '{\"type\":\"text_delta\"%'",
        [],
        |row| row.get(0),
    )?;
    ensure!(stored as u64 == CHUNKS * ROUNDS as u64, "the journal has {stored} chunks");
    let rate = median(&rates);
    let ours = format!("{} (least {})", per_second(rate), per_second(least(&rates)));
    let floor = per_second(median(&floor_rates));
    let goal = Goal::AtLeast(RATE_LEAST, per_second(RATE_LEAST));
    table.row("burst of 500,000 chunks, none lost", ours, floor, rate, goal);
    let ratios: Vec<f64> = floor_rates.iter().zip(&rates).map(|(floor, ours)| floor / ours).collect();
    table.ratio("burst, floor's rate to ours", String::new(), String::new(), &ratios, None);
    let age = median(&ages);
    table.row("burst, p50 age of a chunk", format!("{age:.0} ms"), String::new(), age, Goal::None);
    let cost = median(&costs);
    table.row("burst, daemon's CPU per chunk", format!("{cost:.1} µs"), String::new(), cost, Goal::None);
    // The goal says bounded; this is the sum of the buffers on the way.
    let goal = Goal::AtMost(96.0 * 1024.0, mib(96 * 1024));
    table.row("burst, daemon's peak RSS", mib(peak), String::new(), peak as f64, goal);
    Ok(())
}

pub(crate) async fn replay(table: &mut Table) -> Result<()> {
    let script = Script::burst(REPLAYED);
    let floor = Floor::start()?;
    let floor_peer = floor.peer().await?;
    let mut follower = Follower::new(&floor_peer, "").await?;
    play(&floor_peer, "", &mut follower, &script).await?;
    let (_home, peer, session) = Home::with_session("replay").await?;
    let mut follower = Follower::new(&peer, &session.id).await?;
    play(&peer, &session.id, &mut follower, &script).await?;
    let rate = |took: std::time::Duration| REPLAYED as f64 / took.as_secs_f64();
    let (mut floor_rates, mut rates, mut firsts) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        floor_rates.push(rate(reader::replay(&floor_peer, "", REPLAYED).await.context("floor")?.0));
        let (took, first) = reader::replay(&peer, &session.id, REPLAYED).await?;
        rates.push(rate(took));
        firsts.push(first.as_secs_f64() * 1e3);
    }
    let ratios: Vec<f64> = floor_rates.iter().zip(&rates).map(|(floor, ours)| floor / ours).collect();
    let (ours, low) = (per_second(median(&rates)), per_second(median(&floor_rates)));
    table.ratio("replay of 100,000 events, floor's rate to ours", ours, low, &ratios, None);
    let first = median(&firsts);
    table.row("replay, first event after", format!("{first:.1} ms"), String::new(), first, Goal::None);
    Ok(())
}
