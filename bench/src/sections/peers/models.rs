//! Servers that ask a model themselves: our `openai-api` sessions beside opencode and codex app-server, all with the same scripted
//! model.

use anyhow::{Context, Result};
use e2e::world::World;
use serde_json::json;

use super::super::provider::{API, PIECES, Stage, script, turn};
use super::{Rounds, lost};
use crate::direct::{Extras, Kind, Program};
use crate::http1;
use crate::rivals::Rival;
use crate::stats::{percentile, sorted};
use crate::table::Table;
use crate::tokens::{Tokens, read_until};

const ROUNDS: usize = 5;
const IDLE: &[u8] = b"\"type\":\"session.idle\"";

pub(super) fn run(table: &mut Table) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let world = World::with_openai()?;
    // Before our own connection: it may take a minute, in which nobody would answer on that.
    let opencode = Opencode::open(&world.model().openai_base_url());
    let stage = runtime.block_on(Stage::open(world, Extras::Tools))?;
    let session = runtime.block_on(stage.create(&API, ""))?;
    let mut last = 0;
    let mut ours = || -> Result<Vec<f64>> {
        let (heard, seq) = runtime.block_on(turn(&stage, &session, last))?;
        last = seq;
        Ok(sorted(heard.ages))
    };
    ours()?;
    match World::with_codex()? {
        None => println!("   codex is not installed, so P2 has no codex: scripts/setup-tests"),
        Some(world) => {
            let mut codex = Program::start(Kind::Codex, Extras::Nothing, &world)?;
            codex.turn(&script("codex", 1, 0))?;
            compare(table, "codex app-server", Some(0.2), &mut ours, || {
                let heard = codex.turn(&script("codex", PIECES, 0))?;
                Ok((sorted(heard.ages), 0))
            })?;
        }
    }
    match opencode {
        Err(error) => println!("   opencode cannot be run, so P2 has no opencode: {error:#}"),
        Ok(mut opencode) => compare(table, "opencode", Some(0.02), &mut ours, || {
            let tokens = opencode.turn(PIECES)?;
            let gone = tokens.lost(PIECES);
            Ok((sorted(tokens.ages), gone))
        })?,
    }
    runtime.block_on(stage.stop(&session, last))
}

/// P2: a chunk's way from the model's write to the client's read.
fn compare(
    table: &mut Table,
    name: &str,
    most: Option<f64>,
    ours: &mut dyn FnMut() -> Result<Vec<f64>>,
    mut theirs: impl FnMut() -> Result<(Vec<f64>, u64)>,
) -> Result<()> {
    let (mut figures, mut gone) = ([Rounds::default(), Rounds::default()], (0, 0));
    for _ in 0..ROUNDS {
        let (own, (beside, missing)) = (ours()?, theirs()?);
        gone.0 += PIECES - own.len() as u64;
        gone.1 += missing;
        for (figure, share) in figures.iter_mut().zip([0.5, 0.99]) {
            figure.ours.push(percentile(&own, share));
            figure.theirs.push(percentile(&beside, share));
        }
    }
    figures[0].lower(table, &format!("P2 model's chunk to client beside {name}, p50"), "µs", most);
    figures[1].lower(table, &format!("P2 model's chunk to client beside {name}, p99"), "µs", most);
    lost(table, &format!("P2 beside {name}"), gone.0, gone.1);
    Ok(())
}

/// opencode with one session.
struct Opencode {
    rival: Rival,
    session: String,
    stream: std::net::TcpStream,
}

impl Opencode {
    fn open(base_url: &str) -> Result<Self> {
        let rival = Rival::opencode(base_url)?;
        let made = http1::call(rival.port, "POST", "/session", Some(&json!({"title": "bench"})))?;
        let session = made["id"].as_str().context("no session")?.to_owned();
        let stream = http1::events(rival.port, "/event")?;
        let mut opencode = Self { rival, session, stream };
        // The first turn loads what all turns need.
        opencode.turn(1)?;
        Ok(opencode)
    }

    fn turn(&mut self, pieces: u64) -> Result<Tokens> {
        let parts = json!({"parts": [{"type": "text", "text": script("opencode", pieces, 0)}]});
        let path = format!("/session/{}/prompt_async", self.session);
        http1::call(self.rival.port, "POST", &path, Some(&parts))?;
        read_until(&mut self.stream, IDLE)
    }
}
