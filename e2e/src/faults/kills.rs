//! `kill -9` of the daemon at random moments, again and again, while many sessions are in the middle of a turn. Agents
//! must not notice; a client that reads on where it was must see every event once and in order.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use tokio::sync::{mpsc, watch};
use tokio_stream::StreamExt;
use wire::obey::local::v1 as pb;
use wire::obey::v1 as own;

use super::crew::{self, Crew, Served};
use super::figures::{Figures, grouped, mebibytes, millis, percentile};
use super::random::Random;
use super::story::Story;
use super::view::{Faults, View};
use crate::deadline::{deadline, within};
use crate::processes;
use crate::world::World;

/// What to break, and how often.
#[derive(Clone, Debug)]
pub struct Options {
    pub agent: Agent,
    pub seed: u64,
    pub kills: usize,
    pub sessions: usize,
    /// Pieces of one turn, at most, and the time between two of them.
    pub lines_max: u64,
    pub gap_ms: u64,
    /// The longest a daemon is left alone between two kills.
    pub calm: Duration,
    /// One kill in this many hits a daemon that is still starting. 0: none does.
    pub early_once_in: u64,
}

/// Who plays the agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    Scripted,
    Claude,
}

impl Agent {
    /// A world that has this agent. `None`: it is absent, and that is allowed here.
    fn world(self) -> Result<Option<World>> {
        match self {
            Agent::Scripted => World::new().map(Some),
            Agent::Claude => World::with_claude(),
        }
    }

    fn choose(self, request: &mut pb::CreateSessionRequest) {
        if self == Agent::Claude {
            request.provider = pb::SessionProvider::ClaudeCode.into();
            request.model = "sonnet".into();
        }
    }

    fn view(self) -> View {
        match self {
            Agent::Scripted => View::default(),
            Agent::Claude => View::of_text(),
        }
    }

    fn prompt(self, story: &Story) -> String {
        match self {
            Agent::Scripted => story.prompt(),
            Agent::Claude => story.model_prompt(),
        }
    }
}

/// What was seen.
#[derive(Debug, Default)]
pub struct Outcome {
    pub kills: usize,
    /// Of these, how many hit a daemon before it served.
    pub early_kills: usize,
    pub turns: usize,
    pub events: u64,
    pub faults: Faults,
    pub first_fault: Option<String>,
    /// From the start of a daemon's process until a client had new output of a session that was in a turn.
    pub reattach: Vec<Duration>,
    /// The slowest session of each start.
    pub reattach_all: Vec<Duration>,
    /// From the start of a daemon's process until it said that it serves.
    pub ready: Vec<Duration>,
    pub most_memory: u64,
    pub agents_disturbed: u64,
}

/// Runs it. `told` hears about the progress. `None`: the agent is absent, and that is allowed here.
pub async fn run(options: &Options, mut told: impl FnMut(usize)) -> Result<Option<Outcome>> {
    let mut random = Random::new(options.seed);
    let Some(world) = options.agent.world()? else { return Ok(None) };
    let mut crew = Crew::start(world).await?;
    let mut outcome = Outcome::default();
    let (samples, mut sampled) = mpsc::unbounded_channel();
    let (finish, finishing) = watch::channel(false);
    let mut players = Vec::new();
    let mut agents = BTreeMap::new();
    for number in 0..options.sessions {
        let info = crew.create_with(|request| options.agent.choose(request)).await?;
        agents.insert(info.id.clone(), info.pid);
        let player = Player {
            id: info.id,
            number,
            options: options.clone(),
            random: random.branch(),
            served: crew.watch(),
            finishing: finishing.clone(),
            samples: samples.clone(),
            view: options.agent.view(),
            told: BTreeMap::new(),
            next: None,
        };
        players.push(tokio::spawn(player.play()));
    }
    drop(samples);
    while outcome.kills < options.kills {
        tokio::time::sleep(random.below(options.calm)).await;
        crew.kill().await?;
        outcome.kills += 1;
        while options.early_once_in > 0
            && outcome.kills < options.kills
            && random.once_in(options.early_once_in)
        {
            let typical = outcome.ready.last().copied().unwrap_or(Duration::from_millis(50));
            crew.start_and_kill(random.below(typical * 2)).await?;
            outcome.kills += 1;
            outcome.early_kills += 1;
        }
        outcome.ready.push(crew.restart().await?);
        told(outcome.kills);
        if let Some(broken) = players.iter().position(tokio::task::JoinHandle::is_finished) {
            players.swap_remove(broken).await??;
        }
    }
    finish.send_replace(true);
    let mut stories = BTreeMap::new();
    for player in players {
        let player = player.await??;
        outcome.turns += player.view.ended().len();
        outcome.events += player.view.events();
        outcome.judge(&player.view, "a client that followed");
        stories.insert(player.id, player.told);
    }
    while let Ok((start, time)) = sampled.try_recv() {
        outcome.sample(start, time);
    }
    outcome.end(&crew, options.agent, &agents, stories).await?;
    crew.weigh();
    outcome.most_memory = crew.most_memory();
    crew.close().await?;
    Ok(Some(outcome))
}

impl Outcome {
    fn judge(&mut self, view: &View, who: &str) {
        self.faults.add(view.faults());
        if let Some(fault) = view.first_fault() {
            self.first_fault.get_or_insert_with(|| format!("{who}: {fault}"));
        }
    }

    fn sample(&mut self, start: u64, time: Duration) {
        self.reattach.push(time);
        let at = start as usize;
        if self.reattach_all.len() <= at {
            self.reattach_all.resize(at + 1, Duration::ZERO);
        }
        self.reattach_all[at] = self.reattach_all[at].max(time);
    }

    /// Reads every journal once more from its beginning, and looks at every agent.
    async fn end(
        &mut self,
        crew: &Crew,
        agent: Agent,
        agents: &BTreeMap<String, i32>,
        stories: BTreeMap<String, BTreeMap<String, Story>>,
    ) -> Result<()> {
        self.reattach_all.retain(|time| !time.is_zero());
        for (id, stories) in stories {
            let mut again = agent.view();
            stories.into_values().for_each(|story| again.expect(story));
            crew.journal(&id).await?.iter().for_each(|event| again.take(event));
            self.judge(&again, "the whole journal");
            let info = crew.info(&id).await?;
            let pid = agents.get(&id).copied().unwrap_or_default();
            if info.pid != pid || !processes::alive(pid) || info.status() != pb::SessionStatus::Running {
                self.agents_disturbed += 1;
                self.first_fault.get_or_insert_with(|| format!("agent {pid} became {info:?}"));
            }
        }
        Ok(())
    }

    /// What is told of it, with the bounds that must hold.
    pub fn figures(&self, scenario: &'static str, reattach_bound: Option<Duration>) -> Figures {
        let mut figures = Figures::of(scenario);
        figures.tell("kill -9 of the daemon", grouped(self.kills as u64));
        figures.tell("of these before it served", grouped(self.early_kills as u64));
        figures.tell("turns", grouped(self.turns as u64));
        figures.tell("events", grouped(self.events));
        figures.demand_none("events lost", self.faults.lost);
        figures.demand_none("events doubled", self.faults.duplicated);
        figures.demand_none("events reordered", self.faults.reordered);
        figures.demand_none("events nobody caused", self.faults.foreign);
        figures.demand_none("agents disturbed", self.agents_disturbed);
        figures.tell("serves after, median", millis(percentile(&self.ready, 50)));
        figures.tell("serves after, p99", millis(percentile(&self.ready, 99)));
        figures.tell("new output of a session after, median", millis(percentile(&self.reattach, 50)));
        let worst = percentile(&self.reattach, 99);
        match reattach_bound {
            Some(bound) => {
                let text = format!("at most {}", millis(bound));
                figures.demand("new output of a session after, p99", millis(worst), &text, worst <= bound);
            }
            None => figures.tell("new output of a session after, p99", millis(worst)),
        }
        figures.tell("new output of all after, median", millis(percentile(&self.reattach_all, 50)));
        figures.tell("most memory of a daemon", mebibytes(self.most_memory));
        figures.remarks.extend(self.first_fault.iter().map(|fault| format!("first fault: {fault}")));
        figures
    }
}

/// One session and the client that drives and follows it through every daemon.
struct Player {
    id: String,
    number: usize,
    options: Options,
    random: Random,
    served: watch::Receiver<Served>,
    finishing: watch::Receiver<bool>,
    samples: mpsc::UnboundedSender<(u64, Duration)>,
    view: View,
    /// Every story that may have been sent.
    told: BTreeMap<String, Story>,
    /// The story to be sent, or sent without an answer.
    next: Option<Story>,
}

impl Player {
    async fn play(mut self) -> Result<Player> {
        let mut start = 0;
        loop {
            let served = self.daemon_after(start).await?;
            start = served.start;
            // Errors of a call mean that the daemon is gone: go on with the next one, where this one was.
            if matches!(self.perform(&served).await?, Round::Finished) {
                return Ok(self);
            }
        }
    }

    async fn daemon_after(&mut self, start: u64) -> Result<Served> {
        let served = within("the next daemon", self.served.wait_for(|served| served.start > start)).await??;
        Ok(served.clone())
    }

    /// Follows and prompts for as long as this daemon lives.
    async fn perform(&mut self, served: &Served) -> Result<Round> {
        let mut events = served.clients.events.clone();
        // First what is there now: it tells whether a prompt that got no answer was taken.
        let request = own::ReadEventsRequest {
            session_id: self.id.clone(),
            after_seq: self.view.last_seq(),
            ..Default::default()
        };
        let Ok(stream) = events.read_events(request).await else { return Ok(Round::DaemonGone) };
        let mut stream = stream.into_inner();
        let mut sampled = false;
        loop {
            match stream.next().await {
                Some(Ok(event)) => self.take(&event, served, &mut sampled),
                Some(Err(_)) => return Ok(Round::DaemonGone),
                None => break,
            }
        }
        if self.view.running().is_none() && !self.prompt(served).await? {
            return Ok(self.round());
        }
        let request = own::ReadEventsRequest {
            session_id: self.id.clone(),
            after_seq: self.view.last_seq(),
            follow: true,
            ..Default::default()
        };
        let Ok(stream) = events.read_events(request).await else { return Ok(Round::DaemonGone) };
        let mut stream = stream.into_inner();
        loop {
            let event = tokio::time::timeout(deadline(), stream.next()).await.with_context(|| {
                format!("session {} stands still at {}", self.number, self.view.last_seq())
            })?;
            let Some(Ok(event)) = event else { return Ok(Round::DaemonGone) };
            self.take(&event, served, &mut sampled);
            let idle = self.view.running().is_none() && event.r#type == "status_changed";
            if idle && !self.prompt(served).await? {
                return Ok(self.round());
            }
        }
    }

    /// Why no turn runs: all was said, or the prompt did not get through.
    fn round(&self) -> Round {
        if self.next.is_none() { Round::Finished } else { Round::DaemonGone }
    }

    /// Takes an event, and the time if it is the first that this daemon got from the agent.
    fn take(&mut self, event: &own::Event, served: &Served, sampled: &mut bool) {
        let is_output = matches!(event.r#type.as_str(), "text_delta" | "thinking_delta");
        if is_output && !*sampled && served.start > 1 && was_written_after(event, served.since_wall) {
            *sampled = true;
            // Nobody counts any more when the run is over.
            let _ = self.samples.send((served.start, Instant::now() - served.since));
        }
        self.view.take(event);
    }

    /// Sends the next prompt, unless one that got no answer turns out to be taken. Returns whether a turn runs.
    async fn prompt(&mut self, served: &Served) -> Result<bool> {
        if self.next.as_ref().is_some_and(|story| self.view.has_begun(story.key())) {
            self.next = None;
        }
        if self.next.is_none() {
            if *self.finishing.borrow() {
                return Ok(false);
            }
            let key = format!("s{:02}t{:03}", self.number, self.told.len());
            let lines = self.random.within(self.options.lines_max / 4..self.options.lines_max) as usize;
            let story = Story::new(&key, lines, self.options.gap_ms, &mut self.random);
            self.told.insert(key, story.clone());
            self.view.expect(story.clone());
            self.next = Some(story);
        }
        let Some(story) = &self.next else { return Ok(false) };
        match crew::prompt(&served.clients, &self.id, &self.options.agent.prompt(story), false).await {
            Ok(()) => {
                self.next = None;
                Ok(true)
            }
            Err(status) => {
                ensure!(is_gone(&status), "a prompt was refused: {status:?}");
                Ok(false)
            }
        }
    }
}

enum Round {
    DaemonGone,
    Finished,
}

/// Whether a call failed because the daemon died, and not because it said no.
pub fn is_gone(status: &tonic::Status) -> bool {
    use tonic::Code;
    matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal)
        && !status.metadata().contains_key("obey-code")
}

fn was_written_after(event: &own::Event, wall: SystemTime) -> bool {
    let Some(at) = &event.at else { return false };
    let at = Duration::new(u64::try_from(at.seconds).unwrap_or(0), u32::try_from(at.nanos).unwrap_or(0));
    wall.duration_since(SystemTime::UNIX_EPOCH).is_ok_and(|wall| at > wall)
}
