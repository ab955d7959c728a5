//! `obey acp` compared with the published adapters of the same agents, with the same scripted model behind
//! both: a chunk's latency from the model to the editor, the memory of all processes of one session, and the
//! start. Agents and model are those of the tests (`scripts/setup-tests`); missing adapters are left out by
//! name.

use std::process::Command;

use anyhow::{Context, Result};
use e2e::{tools, world::World};
use serde_json::json;

use super::acp::start_to_initialize;
use crate::daemon;
use crate::editor::Editor;
use crate::machine;
use crate::stats::{median, mib, micros, percentile};
use crate::table::{Goal, Table};

const ROUNDS: usize = 3;
const PIECES: u64 = 400;
const GAP_MS: u64 = 5;

/// Command lines of adapters, `NAME=COMMAND` separated by `;`: `codex` and `claude`.
const ADAPTERS: &str = "OBEY_BENCH_ACP_ADAPTERS";

pub(crate) async fn run(table: &mut Table) -> Result<()> {
    let codex = adapter("codex").or(tools::codex_acp()?.map(|path| path.display().to_string()));
    compare(table, "codex", "codex", World::with_codex, codex)?;
    compare(table, "claude", "claude-code", World::with_claude, adapter("claude"))
}

/// The command line from the environment.
fn adapter(name: &str) -> Option<String> {
    let all = std::env::var(ADAPTERS).ok()?;
    all.split(';')
        .find_map(|entry| Some(entry.split_once('=')?).filter(|(key, _)| *key == name))
        .map(|(_, line)| line.to_owned())
}

fn compare(
    table: &mut Table,
    name: &str,
    provider: &str,
    world: impl Fn() -> Result<Option<World>>,
    adapter: Option<String>,
) -> Result<()> {
    let (Some(near), Some(far)) = (world()?, world()?) else {
        println!("   {name} is not installed: scripts/setup-tests");
        return Ok(());
    };
    let obey = || -> Result<Command> {
        let mut command = near.command(near.obey()?);
        command.args(["acp", "--provider", provider, "--mode", "autonomous"]);
        Ok(command)
    };
    let ours = measure(&near, &obey)?;
    // The daemon it started is not part of the following measurements.
    near.command(near.obey()?).args(["stop", "--sessions"]).output()?;
    let theirs = match &adapter {
        Some(line) => Some(measure(&far, &|| Ok(in_world(&far, line)))?),
        None => {
            println!("   no adapter for {name}: set {ADAPTERS}");
            None
        }
    };
    let beside = |words: fn(&Measured) -> String| theirs.as_ref().map(words).unwrap_or_default();
    let latency = |measured: &Measured| format!("{} (p50 {})", micros(measured.p99), micros(measured.p50));
    let what = |figure: &str| format!("{name} through obey acp, its published adapter as floor: {figure}");
    table.row(&what("model's chunk to editor, p99"), latency(&ours), beside(latency), ours.p99, Goal::None);
    let memory = |measured: &Measured| mib(measured.memory);
    table.row(&what("memory of all processes"), memory(&ours), beside(memory), 0.0, Goal::None);
    let start = |measured: &Measured| format!("{:.0} ms, {}", measured.start_ms, mib(measured.start_memory));
    table.row(&what("start to initialize, memory then"), start(&ours), beside(start), 0.0, Goal::None);
    Ok(())
}

/// A command line in a world's environment.
fn in_world(world: &World, line: &str) -> Command {
    let plain = daemon::command_line(line);
    let mut command = world.command(plain.get_program());
    command.args(plain.get_args());
    command
}

struct Measured {
    p50: f64,
    p99: f64,
    /// KiB of all processes in the world.
    memory: u64,
    start_ms: f64,
    start_memory: u64,
}

fn measure(world: &World, command: &dyn Fn() -> Result<Command>) -> Result<Measured> {
    let mut editor = Editor::start(command()?)?;
    editor.initialize(std::time::Instant::now())?;
    let session = editor.open(&world.project()).context("opening a session")?;
    let script = json!([{"stamped": PIECES, "gap_ms": GAP_MS}]);
    let (mut halves, mut worst) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        editor.say(&session, &format!("round {round} SCRIPT: {script}"))?;
        let ages = editor.stamped(PIECES)?;
        // The first round starts the agent and does not count.
        if round > 0 {
            halves.push(percentile(&ages, 0.5));
            worst.push(percentile(&ages, 0.99));
        }
    }
    let mut memory = 0;
    for process in world.processes() {
        // A process that ended meanwhile has none.
        memory += machine::smaps(u32::try_from(process.pid)?, "Pss").unwrap_or(0);
    }
    drop(editor);
    let (start_ms, start_memory) = start_to_initialize(command)?;
    Ok(Measured { p50: median(&halves), p99: median(&worst), memory, start_ms, start_memory })
}
