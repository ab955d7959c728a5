//! Readers that stand still beside readers that keep up. Nobody slows the agent or another reader, a reader that stands
//! still costs next to nothing, and when it wakes up it finds everything.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use tokio_stream::StreamExt;
use wire::obey::v1 as own;

use super::crew::Crew;
use super::figures::{Figures, grouped, mebibytes, millis, percentile};
use super::memory::{self, MIB};
use super::random::Random;
use super::story::Story;
use super::view::{Faults, View};
use crate::deadline::within_time;
use crate::world::World;

/// How many of each.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    pub lines: usize,
    pub gap_ms: u64,
    pub healthy: usize,
    pub stuck: usize,
}

/// What was seen.
#[derive(Debug, Default)]
pub struct Outcome {
    pub options: Option<Options>,
    pub events: u64,
    pub faults: Faults,
    pub first_fault: Option<String>,
    /// From the agent's output to a healthy reader.
    pub latency: Vec<Duration>,
    pub growth: u64,
}

/// What a reader that stands still may cost, at most.
const STUCK_COST_MAX: u64 = MIB;
/// What everything else of a run may cost.
const REST_COST_MAX: u64 = 48 * MIB;
/// The slowest a healthy reader may be (p99), if its machine is not busy with something else.
const LATENCY_MAX: Duration = Duration::from_millis(150);

/// The longest any of this may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// Runs it.
pub async fn run(options: &Options) -> Result<Outcome> {
    let mut random = Random::new(options.seed);
    let crew = Crew::start(World::new()?).await?;
    let id = crew.create().await?.id;
    let story = Story::new("read", options.lines, options.gap_ms, &mut random);
    let pid = crew.daemon.pid().context("no daemon")?;
    let mut outcome = Outcome { options: Some(options.clone()), ..Outcome::default() };
    let follow = || async {
        let mut clients = crew.daemon.clients().await?;
        let request = own::ReadEventsRequest { session_id: id.clone(), follow: true, ..Default::default() };
        anyhow::Ok(clients.events.read_events(request).await?.into_inner())
    };
    let mut stuck = Vec::new();
    for _ in 0..options.stuck {
        stuck.push(follow().await?);
    }
    let mut healthy = Vec::new();
    for _ in 0..options.healthy {
        healthy.push(tokio::spawn(read(follow().await?, story.clone(), true)));
    }
    let before = memory::now(pid)?;
    crew.prompt(&id, &story.prompt()).await?;
    for reader in healthy {
        let (view, latency) = within_time("the end of a healthy reader", PATIENCE, reader).await???;
        outcome.take(&view, "a healthy reader");
        outcome.latency.extend(latency);
    }
    outcome.growth = memory::most(pid)?.saturating_sub(before);
    for stream in stuck {
        let waking = read(stream, story.clone(), false);
        let (view, _) = within_time("the end of a reader that woke up", PATIENCE, waking).await??;
        outcome.take(&view, "a reader that woke up");
    }
    crew.close().await?;
    Ok(outcome)
}

/// Reads to the end of the turn.
async fn read(
    mut events: tonic::Streaming<own::Event>,
    story: Story,
    timed: bool,
) -> Result<(View, Vec<Duration>)> {
    let mut view = View::default();
    view.expect(story);
    let mut latency = Vec::new();
    while view.ended().is_empty() {
        let event = events.next().await.context("the stream ended")??;
        if timed && event.r#type == "text_delta" {
            latency.extend(age(&event));
        }
        view.take(&event);
    }
    Ok((view, latency))
}

/// How long ago the agent wrote this.
fn age(event: &own::Event) -> Option<Duration> {
    let at = SystemTime::try_from(event.at?).ok()?;
    SystemTime::now().duration_since(at).ok()
}

impl Outcome {
    fn take(&mut self, view: &View, who: &str) {
        self.events += view.events();
        self.faults.add(view.faults());
        if let Some(fault) = view.first_fault() {
            self.first_fault.get_or_insert_with(|| format!("{who}: {fault}"));
        }
    }

    /// What is told of it. Speed is a promise only where nothing else runs, as in a release run.
    pub fn figures(&self, judges_speed: bool) -> Figures {
        let mut figures = Figures::of("readers");
        let (healthy, stuck) =
            self.options.as_ref().map_or((0, 0), |options| (options.healthy as u64, options.stuck as u64));
        figures.tell("readers that keep up", grouped(healthy));
        figures.tell("readers that stand still", grouped(stuck));
        figures.tell("events read by all", grouped(self.events));
        figures.demand_none("events lost", self.faults.lost);
        let other = self.faults.duplicated + self.faults.reordered + self.faults.foreign;
        figures.demand_none("events doubled, reordered or foreign", other);
        figures.tell("agent to reader, median", millis(percentile(&self.latency, 50)));
        let worst = percentile(&self.latency, 99);
        let bound = format!("at most {}", millis(LATENCY_MAX));
        let in_time = !judges_speed || worst <= LATENCY_MAX;
        figures.demand("agent to reader, p99", millis(worst), &bound, in_time);
        let most = REST_COST_MAX + stuck * STUCK_COST_MAX;
        let bound = format!("at most {}", mebibytes(most));
        figures.demand("growth of the daemon", mebibytes(self.growth), &bound, self.growth <= most);
        figures.remarks.extend(self.first_fault.iter().map(|fault| format!("first fault: {fault}")));
        figures
    }
}
