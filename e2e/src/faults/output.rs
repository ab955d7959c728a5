//! Agents that say too much: one endless line, a hundred thousand lines at once. Everything arrives or is accounted
//! for, memory stays bounded, and other sessions hardly notice.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio_stream::StreamExt;
use wire::obey::v1 as own;

use super::crew::Crew;
use super::figures::{Figures, grouped, mebibytes, millis, percentile};
use super::memory::{self, MIB};
use super::story::Story;
use super::view::View;
use crate::deadline::within_time;
use crate::world::World;

/// How much the daemon may grow for one line, however long it is.
pub const LINE_GROWTH_MAX: u64 = 64 * MIB;

/// The longest any of this may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// What one long line cost.
#[derive(Debug)]
pub struct LongLine {
    pub bytes: u64,
    pub took: Duration,
    pub growth: u64,
    /// How long the daemon says the line was.
    pub told: u64,
}

/// Has an agent write one line of so many bytes, then go on as if nothing had happened.
pub async fn long_line(bytes: u64) -> Result<LongLine> {
    let crew = Crew::start(World::new()?).await?;
    let id = crew.create().await?.id;
    turn(&crew, &id, &json!([{"text": "warm"}])).await?;
    let pid = crew.daemon.pid().context("no daemon")?;
    let before = memory::now(pid)?;
    let began = Instant::now();
    let events =
        turn(&crew, &id, &json!([{"text": "before "}, {"long_line": bytes}, {"text": "after"}])).await?;
    let took = began.elapsed();
    let growth = memory::most(pid)?.saturating_sub(before);
    let unparsed =
        events.iter().find(|event| event.r#type == "unparsed").context("the line left no trace")?;
    let told = field(unparsed, "length").as_u64().context("the line has no length")?;
    ensure!(texts(&events) == "before after", "what stood around the line is {:?}", texts(&events));
    let events = turn(&crew, &id, &json!([{"text": "and on"}])).await?;
    ensure!(texts(&events) == "and on", "the session does not go on");
    crew.close().await?;
    Ok(LongLine { bytes, took, growth, told })
}

impl LongLine {
    pub fn figures(&self) -> Figures {
        let mut figures = Figures::of("line");
        figures.tell("bytes of one line", grouped(self.bytes));
        figures.tell("read within", millis(self.took));
        let bound = format!("at most {}", mebibytes(LINE_GROWTH_MAX));
        figures.demand(
            "growth of the daemon",
            mebibytes(self.growth),
            &bound,
            self.growth <= LINE_GROWTH_MAX,
        );
        // Around the text stands `{"say":"text","text":""}`.
        let exact = self.told == self.bytes + 24;
        figures.demand("its length is told", grouped(self.told), "exactly", exact);
        figures
    }
}

/// What a flood cost.
#[derive(Debug)]
pub struct Flood {
    pub lines: usize,
    pub took: Duration,
    pub growth: u64,
    pub view: View,
    /// How long small turns of another session took meanwhile.
    pub beside: Vec<Duration>,
}

/// Has an agent say so many different lines at once, while another session works.
pub async fn flood(lines: usize) -> Result<Flood> {
    let crew = Crew::start(World::new()?).await?;
    let (id, other) = (crew.create().await?.id, crew.create().await?.id);
    turn(&crew, &id, &json!([{"text": "warm"}])).await?;
    let pid = crew.daemon.pid().context("no daemon")?;
    let before = memory::now(pid)?;
    let after_seq = crew.journal(&id).await?.len() as u64;
    let story = Story::of_lines("flood", lines);
    let began = Instant::now();
    crew.prompt(&id, &story.prompt()).await?;
    let mut beside = Vec::new();
    let view = tokio::select! {
        view = within_time("the end of the flood", PATIENCE, follow(&crew, &id, after_seq, story)) => view??,
        never = small_turns(&crew, &other, &mut beside) => match never? {},
    };
    let took = began.elapsed();
    let growth = memory::most(pid)?.saturating_sub(before);
    crew.close().await?;
    Ok(Flood { lines, took, growth, view, beside })
}

/// Follows a session after an event to the end of its next turn.
async fn follow(crew: &Crew, id: &str, after_seq: u64, story: Story) -> Result<View> {
    let mut view = View::default();
    view.expect(story);
    let request =
        own::ReadEventsRequest { session_id: id.into(), after_seq, follow: true, ..Default::default() };
    let mut events = crew.clients().events.read_events(request).await?.into_inner();
    while view.ended().is_empty() {
        let event = events.next().await.context("the stream ended")??;
        view.take(&own::Event { seq: event.seq - after_seq, ..event });
    }
    Ok(view)
}

/// Plays one small turn after the other and notes how long each took.
async fn small_turns(crew: &Crew, id: &str, took: &mut Vec<Duration>) -> Result<std::convert::Infallible> {
    loop {
        let began = Instant::now();
        turn(crew, id, &json!([{"text": "small"}])).await?;
        took.push(began.elapsed());
    }
}

impl Flood {
    pub fn figures(&self) -> Figures {
        let mut figures = Figures::of("flood");
        let rate = self.lines as f64 / self.took.as_secs_f64();
        figures.tell("lines at once", grouped(self.lines as u64));
        figures.tell("lines a second, to a client", grouped(rate as u64));
        let faults = self.view.faults();
        figures.demand_none("lines lost", faults.lost);
        figures.demand_none("lines doubled", faults.duplicated);
        figures.demand_none("lines reordered", faults.reordered);
        figures.demand_none("lines nobody said", faults.foreign);
        figures.tell("growth of the daemon", mebibytes(self.growth));
        figures.tell("a small turn beside it, p99", millis(percentile(&self.beside, 99)));
        figures.remarks.extend(self.view.first_fault().map(|fault| format!("first fault: {fault}")));
        figures
    }
}

/// Plays a turn to its end and returns its events.
pub async fn turn(crew: &Crew, id: &str, steps: &Value) -> Result<Vec<own::Event>> {
    let mut clients = crew.clients();
    let request = own::PromptRequest {
        session_id: id.into(),
        text: format!("turn SCRIPT: {steps}"),
        steer: false,
        ..Default::default()
    };
    let begun = clients.turns.prompt(request).await?.into_inner();
    let request = own::ReadEventsRequest {
        session_id: id.into(),
        after_seq: begun.seq,
        follow: true,
        ..Default::default()
    };
    let mut stream = clients.events.read_events(request).await?.into_inner();
    let mut events = Vec::new();
    within_time("the end of a turn", PATIENCE, async {
        let mut ended = false;
        while let Some(event) = stream.next().await {
            let event = event?;
            ended |= event.r#type == "turn_ended";
            let idle = ended && event.r#type == "status_changed";
            events.push(event);
            if idle {
                return Ok(());
            }
        }
        anyhow::bail!("the stream ended before the turn")
    })
    .await??;
    Ok(events)
}

/// One field of an event.
pub fn field(event: &own::Event, name: &str) -> Value {
    let fields: Value = serde_json::from_str(&event.json).unwrap_or_default();
    fields[name].clone()
}

/// What was said, joined.
pub fn texts(events: &[own::Event]) -> String {
    let deltas = events.iter().filter(|event| event.r#type == "text_delta");
    deltas.filter_map(|event| field(event, "text").as_str().map(str::to_owned)).collect()
}

/// Bytes of all spool segments in a folder of an agent; nothing where there are none.
pub fn spooled(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let segments = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("out."));
    segments.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}
