//! `obey acp`: chunks to an editor compared with a bare pipe, bursts, many concurrent prompts, start and
//! memory.

use std::collections::HashSet;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;

use crate::daemon::{self, Home};
use crate::editor::{Editor, Heard};
use crate::emitter::Script;
use crate::machine;
use crate::stats::{median, mib, micros, millis, per_second, percentile};
use crate::table::{Goal, Table};

const ROUNDS: usize = 7;
const CHUNKS: u64 = 2_500;
const GAP: Duration = Duration::from_millis(1);
/// The latency a chunk may have beyond a bare pipe; the contract's own goal is 150 ms.
const OVER_MOST_US: f64 = 2_000.0;
const BURST: u64 = 100_000;
const SIDE_BY_SIDE: usize = 50;
const STARTS: usize = 20;
const SESSION_MOST_KIB: f64 = 100.0 * 1024.0;

pub(crate) async fn run(table: &mut Table) -> Result<()> {
    let mut home = Home::new("acp")?;
    home.start()?;
    chunk_latency(table, &home)?;
    burst(table, &home)?;
    memory_per_session(table, &home)?;
    starts(table, &home)?;
    home.end()
}

/// Only the latency, for the guard.
pub(super) fn latency_alone(table: &mut Table) -> Result<()> {
    let mut home = Home::new("acp-latency")?;
    home.start()?;
    chunk_latency(table, &home)?;
    home.end()
}

fn connect(home: &Home) -> Result<Editor> {
    let mut editor = Editor::start(home.acp())?;
    editor.initialize(Instant::now())?;
    Ok(editor)
}

/// The agent alone on a pipe.
fn bare() -> Result<Editor> {
    let mut editor = Editor::start(daemon::agent_alone()?)?;
    editor.send(&json!({"do": "start", "session": "s"}))?;
    Ok(editor)
}

fn bare_turn(pipe: &mut Editor, script: &Script) -> Result<Heard> {
    pipe.send(&json!({"do": "prompt", "text": script.prompt()}))?;
    pipe.turn(script.chunks, |line| line.contains("turn_ended"))
}

fn turn(editor: &mut Editor, session: &str, script: &Script) -> Result<Heard> {
    editor.prompt(session, script)?;
    editor.turn(script.chunks, |line| line.contains("stopReason"))
}

fn chunk_latency(table: &mut Table, home: &Home) -> Result<()> {
    let script = Script::paced(CHUNKS, GAP);
    let mut pipe = bare()?;
    let mut editor = connect(home)?;
    let session = editor.open(&home.project())?;
    let (mut floors, mut ours, mut over) = (Vec::new(), Vec::new(), Vec::new());
    let mut halves: [Vec<f64>; 3] = Default::default();
    for round in 0..=ROUNDS {
        let low_ages = bare_turn(&mut pipe, &script)?.ages;
        let high_ages = turn(&mut editor, &session, &script)?.ages;
        let (low, high) = (percentile(&low_ages, 0.99), percentile(&high_ages, 0.99));
        let half = (percentile(&low_ages, 0.5), percentile(&high_ages, 0.5));
        // The first round is a warm-up and does not count.
        if round > 0 {
            floors.push(low);
            ours.push(high);
            over.push(high - low);
            halves[0].push(half.1);
            halves[1].push(half.0);
            halves[2].push(half.1 / half.0);
        }
    }
    let [own, floor, ratios] = &halves;
    table.ratio("chunk to editor, p50", micros(median(own)), micros(median(floor)), ratios, None);
    let judged = median(&over);
    let words = format!("{} (over a bare pipe: {})", micros(median(&ours)), micros(judged));
    let goal = Goal::AtMost(OVER_MOST_US, format!("{} over", micros(OVER_MOST_US)));
    table.row("chunk to editor, p99", words, micros(median(&floors)), judged, goal);
    Ok(())
}

fn burst(table: &mut Table, home: &Home) -> Result<()> {
    let script = Script::burst(BURST);
    let mut pipe = bare()?;
    let low = bare_turn(&mut pipe, &script)?;
    let mut editor = connect(home)?;
    let session = editor.open(&home.project())?;
    let heard = turn(&mut editor, &session, &script)?;
    let rate = |heard: &Heard| BURST as f64 / heard.span.as_secs_f64();
    let (ours, floor) = (rate(&heard), rate(&low));
    table.row(
        "burst of 100,000 chunks to an editor, none lost",
        per_second(ours),
        per_second(floor),
        ours,
        Goal::None,
    );
    Ok(())
}

fn memory_per_session(table: &mut Table, home: &Home) -> Result<()> {
    let script = Script::paced(200, GAP);
    let mut editor = connect(home)?;
    let before = machine::smaps(home.pid()?, "Pss")?;
    let mut sessions = Vec::new();
    for _ in 0..SIDE_BY_SIDE {
        sessions.push(editor.open(&home.project())?);
    }
    let began = Instant::now();
    let mut waiting = HashSet::new();
    for session in &sessions {
        waiting.insert(editor.prompt(session, &script)?);
    }
    let chunks = editor.finish(waiting)?;
    anyhow::ensure!(chunks == script.chunks * SIDE_BY_SIDE as u64, "{chunks} chunks came");
    let took = millis(began.elapsed());
    table.row("50 prompts at once", format!("{took:.0} ms"), String::new(), took, Goal::None);
    let daemon = machine::smaps(home.pid()?, "Pss")?.saturating_sub(before);
    let own = machine::smaps(editor.pid(), "Pss")?;
    let each = (daemon + own) as f64 / SIDE_BY_SIDE as f64;
    let words = format!("{} (and its shim)", mib(each as u64));
    let goal = Goal::AtMost(SESSION_MOST_KIB, "100 MiB".to_owned());
    table.row("our memory per session", words, String::new(), each, goal);
    Ok(())
}

fn starts(table: &mut Table, home: &Home) -> Result<()> {
    let (took, memory) = start_to_initialize(|| Ok(home.acp()))?;
    let words = format!("{took:.0} ms, {}", mib(memory));
    table.row("start to initialize, memory", words, String::new(), took, Goal::None);
    Ok(())
}

/// Starts a program repeatedly; returns the median time to its answer in milliseconds, and its memory in KiB.
pub(super) fn start_to_initialize(command: impl Fn() -> Result<Command>) -> Result<(f64, u64)> {
    let (mut times, mut sizes) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let began = Instant::now();
        let mut editor = Editor::start(command()?)?;
        times.push(millis(editor.initialize(began)?));
        sizes.push(machine::smaps(editor.pid(), "Pss")? as f64);
    }
    Ok((median(&times), median(&sizes) as u64))
}
