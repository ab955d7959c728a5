//! Sessions of the in-process agent: the cost of an idle one, and whether a chunk is lost when hundreds
//! stream concurrently to one client on one connection.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use e2e::world::World;

use super::provider::{API, Stage, script};
use crate::direct::Extras;
use crate::machine::status;
use crate::stats::{micros, percentile, sorted};
use crate::table::{Goal, Table};

const IDLE: usize = 300;
const SESSION_MOST_KIB: f64 = 200.0;
const AT_ONCE: usize = 500;
const PIECES: u64 = 100;

pub(crate) async fn idle(table: &mut Table) -> Result<()> {
    let stage = Stage::open(World::with_openai()?, Extras::Tools).await?;
    let pid = u32::try_from(stage.daemon.pid().context("no daemon")?)?;
    // What the first sessions load for all is not theirs, and a daemon releases the memory of its start.
    for _ in 0..20 {
        stage.create(&API, "").await?;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = status(pid, "VmRSS")?;
    for _ in 0..IDLE {
        stage.create(&API, "").await?;
    }
    let each = status(pid, "VmRSS")?.saturating_sub(before) as f64 / IDLE as f64;
    let goal = Goal::AtMost(SESSION_MOST_KIB, format!("{SESSION_MOST_KIB} KiB"));
    table.row("OpenAI API: memory of an idle session", format!("{each:.0} KiB"), String::new(), each, goal);
    Ok(())
}

pub(crate) async fn many(table: &mut Table) -> Result<()> {
    let stage = Arc::new(Stage::open(World::with_openai()?, Extras::Tools).await?);
    let mut sessions = Vec::new();
    for _ in 0..AT_ONCE {
        sessions.push(stage.create(&API, "").await?);
    }
    let mut reading = tokio::task::JoinSet::new();
    for session in &sessions {
        let (stage, session) = (Arc::clone(&stage), session.clone());
        reading.spawn(async move { stage.read(&session, 0).await?.0.check(PIECES) });
    }
    for session in &sessions {
        stage.prompt(session, &script("many", PIECES, 0)).await?;
    }
    let mut ages = Vec::new();
    // A lost chunk is an error of its session.
    while let Some(heard) = reading.join_next().await {
        ages.extend(heard??.ages);
    }
    let ages = sorted(ages);
    let words = format!("{} pieces, p99 {}", ages.len(), micros(percentile(&ages, 0.99)));
    let whole = (AT_ONCE as u64 * PIECES) as f64;
    let goal = Goal::AtLeast(whole, format!("{whole} pieces"));
    table.row("OpenAI API: 500 sessions stream at once", words, String::new(), ages.len() as f64, goal);
    Ok(())
}
