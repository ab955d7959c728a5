//! Agents that do not want to go: they ignore SIGTERM, stand still, and leave children in sessions of their own. A stop
//! ends all of it in time and leaves nothing.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use serde_json::json;
use wire::obey::local::v1 as pb;

use super::crew::{self, Crew};
use super::figures::{Figures, grouped, millis, percentile};
use super::output::texts;
use super::random::Random;
use crate::deadline::{poll, within};
use crate::processes;
use crate::world::World;

/// How often, and how many at once.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    pub stops: usize,
    pub at_once: usize,
}

/// What was seen.
#[derive(Debug, Default)]
pub struct Outcome {
    pub stops: u64,
    pub took: Vec<Duration>,
    pub processes: u64,
    pub left: u64,
    pub folders_left: u64,
}

/// A stop must be over after this long.
const STOP_MAX: Duration = Duration::from_secs(5);

/// Runs it. `told` hears about the progress.
pub async fn run(options: &Options, mut told: impl FnMut(usize)) -> Result<Outcome> {
    let mut random = Random::new(options.seed);
    let crew = Crew::start(World::new()?).await?;
    let mut outcome = Outcome::default();
    while (outcome.stops as usize) < options.stops {
        let mut sessions = Vec::new();
        for _ in 0..options.at_once {
            sessions.push(stubborn(&crew, &mut random).await?);
        }
        let mut stopping = Vec::new();
        for (id, _) in &sessions {
            let request = pb::StopSessionRequest { session_id: id.clone(), graceful: false };
            let mut local = crew.clients().local;
            stopping.push(tokio::spawn(async move {
                let began = Instant::now();
                local.stop_session(request).await.map(|_| began.elapsed())
            }));
        }
        for stop in stopping {
            outcome.took.push(within("a stop", stop).await???);
            outcome.stops += 1;
        }
        for pid in sessions.iter().flat_map(|(_, pids)| pids) {
            outcome.processes += 1;
            let is_gone = poll("its end", || (!exists(*pid)).then_some(())).await;
            outcome.left += u64::from(is_gone.is_err());
        }
        told(outcome.stops as usize);
    }
    let dir = crew.agents_dir();
    // The last folders go a moment after the answer.
    let _ = poll("the end of every folder", || crew::folders(&dir).is_empty().then_some(())).await;
    outcome.folders_left = crew::folders(&dir).len() as u64;
    crew.close().await?;
    Ok(outcome)
}

/// A session whose agent is in a turn, with a child in a session of its own. Returns its processes.
async fn stubborn(crew: &Crew, random: &mut Random) -> Result<(String, Vec<i32>)> {
    let info = crew.create().await?;
    let mut steps = vec![json!({"spawn_child": true})];
    if random.once_in(2) {
        steps.push(json!({"ignore_term": true}));
    }
    steps.extend([json!({"text": " and on"}), json!({"hang": true})]);
    crew.prompt(&info.id, &format!("stubborn SCRIPT: {}", json!(steps))).await?;
    let said = within("its child", async {
        loop {
            let said = texts(&crew.journal(&info.id).await?);
            if said.ends_with("on") {
                return anyhow::Ok(said);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await??;
    let child: i32 = said.split_whitespace().next().context("no child")?.parse()?;
    let shim = crew::shim_pid(&crew.agents_dir(), &info.id).context("no shim")?;
    let pids = vec![info.pid, child, shim];
    ensure!(pids.iter().all(|pid| processes::alive(*pid)), "not all of {pids:?} are there");
    if random.once_in(3) {
        processes::signal(info.pid, Signal::STOP);
    }
    Ok((info.id, pids))
}

fn exists(pid: i32) -> bool {
    std::fs::exists(format!("/proc/{pid}")).unwrap_or(true)
}

impl Outcome {
    pub fn figures(&self) -> Figures {
        let mut figures = Figures::of("stops");
        figures.tell("stops of agents that resist", grouped(self.stops));
        figures.tell("processes that had to end", grouped(self.processes));
        figures.demand_none("processes left", self.left);
        figures.demand_none("folders left", self.folders_left);
        figures.tell("a stop took, median", millis(percentile(&self.took, 50)));
        let worst = percentile(&self.took, 100);
        let bound = format!("at most {}", millis(STOP_MAX));
        figures.demand("a stop took, at most", millis(worst), &bound, worst <= STOP_MAX);
        figures
    }
}
