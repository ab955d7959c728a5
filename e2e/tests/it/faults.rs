//! Things that break on purpose: daemons, shims and agents are killed and stopped, disks fill up, clocks jump. Agents
//! must not notice what does not concern them, and clients must find everything that happened. The long runs of the
//! same (`make faults`) are made of `e2e::faults`.

mod clock;
mod deaths;
mod disk;
mod eio;
mod failpoints;
mod fences;
mod kills;
mod output;
mod readers;
mod refusals;
mod waiting;

use std::path::PathBuf;

use anyhow::{Context, Result};
use e2e::deadline::poll;
use e2e::faults::crew;
use e2e::faults::random::Random;
use e2e::processes;
use wire::obey::v1::Event;

use crate::stage::{Stage, fields};

/// The seed of a test's random moments: the one asked for, or any. Printed, so that a failure can be repeated.
#[allow(clippy::print_stdout, reason = "a failed test must say how to repeat it")]
fn seed() -> u64 {
    let asked = std::env::var("OBEY_FAULTS_SEED").ok().and_then(|text| text.parse().ok());
    let seed = asked.unwrap_or_else(Random::any_seed);
    println!("OBEY_FAULTS_SEED={seed}");
    seed
}

/// Starts the daemon again and connects anew.
async fn revive(stage: &mut Stage) -> Result<()> {
    stage.daemon.restart().await?;
    stage.clients = stage.daemon.clients().await?;
    Ok(())
}

/// Ends the daemon as a crash would, starts it again, and connects anew.
async fn crash(stage: &mut Stage) -> Result<()> {
    stage.daemon.kill9().await?;
    revive(stage).await
}

/// Where the folders of running agents are.
fn agents_dir(stage: &Stage) -> PathBuf {
    stage.world.path("data/obey/agents")
}

/// The process that holds a session's agent.
fn shim_of(stage: &Stage, id: &str) -> Result<i32> {
    crew::shim_pid(&agents_dir(stage), id).with_context(|| format!("nobody holds {id}"))
}

/// Waits until nothing at all is left of a process, not even an unreaped status.
async fn gone(pid: i32) -> Result<()> {
    poll(&format!("the end of {pid}"), || {
        (!std::fs::exists(format!("/proc/{pid}")).unwrap_or(true)).then_some(())
    })
    .await
    .with_context(|| format!("alive: {}", processes::alive(pid)))
}

/// Waits until no agent has a folder.
async fn no_folder_left(stage: &Stage) -> Result<()> {
    let dir = agents_dir(stage);
    let none = poll("the end of every agent's folder", || crew::folders(&dir).is_empty().then_some(())).await;
    none.with_context(|| format!("left: {:?}", crew::folders(&dir)))
}

/// What the agent said, joined.
fn said(journal: &[Event]) -> String {
    let deltas = journal.iter().filter(|event| event.r#type == "text_delta");
    deltas.filter_map(|event| Some(fields(event)["text"].as_str()?.to_owned())).collect()
}

/// Asserts that a journal is numbered from 1 without gaps.
fn assert_numbered(journal: &[Event]) {
    let numbers: Vec<u64> = journal.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=journal.len() as u64).collect::<Vec<_>>());
}
