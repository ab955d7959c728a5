//! Real agents in the sandbox beside the same agents without it, behind the same daemon, on the same model: from the start
//! of a session to the first piece of its answer. Both with their tools, as people have them.

use anyhow::Result;
use e2e::world::World;
use wire::obey::local::v1 as local;

use super::provider::{Agent, Stage, start, started};
use crate::direct::Extras;
use crate::table::Table;

/// Starts of each kind: a single one takes a tenth more or less than the one before.
const STARTS: usize = 40;
/// How much longer an agent may take to start in the sandbox.
const START_MOST: f64 = 1.03;

type Config = &'static [(&'static str, &'static str)];
const FREE: Config = &[];
const FULL: Config = &[("agent_sandbox", "true"), ("agent_network", "full")];
const MODEL: Config = &[("agent_sandbox", "true"), ("agent_network", "model")];

pub(crate) async fn claude(table: &mut Table) -> Result<()> {
    let Some(world) = World::with_claude()? else { return Ok(()) };
    let agent = |config| Agent {
        name: "Claude Code",
        provider: local::SessionProvider::ClaudeCode,
        model: "sonnet",
        config,
    };
    beside(table, world, agent).await
}

pub(crate) async fn codex(table: &mut Table) -> Result<()> {
    let Some(world) = World::with_codex()? else { return Ok(()) };
    let agent =
        |config| Agent { name: "Codex", provider: local::SessionProvider::Codex, model: "gpt-5.5", config };
    beside(table, world, agent).await
}

async fn beside(table: &mut Table, world: World, agent: impl Fn(Config) -> Agent) -> Result<()> {
    let stage = Stage::open(world, Extras::Tools).await?;
    let agents = [FREE, FULL, MODEL].map(&agent);
    let mut took = [(); 3].map(|()| Vec::new());
    for round in 0..=STARTS {
        // Each comes first in turn: what one leaves in the caches is the next one's gain.
        for at in (0..agents.len()).map(|at| (at + round) % agents.len()) {
            let time = start(&stage, &agents[at]).await?;
            // The first round warms all up and does not count.
            if round > 0 {
                took[at].push(time as f64 / 1e6);
            }
        }
    }
    let [free, full, model] = &took;
    started(table, &agents[1], " in the sandbox, network full", full, free, Some(START_MOST));
    started(table, &agents[2], " in the sandbox, network model", model, free, Some(START_MOST));
    Ok(())
}
