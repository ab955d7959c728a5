//! Real agents behind the daemon compared with the same agents driven directly, in the same run, on the same
//! model: the time from the start of a session to the first chunk of its answer, and what the daemon adds to
//! the age of each chunk.

use std::collections::HashMap;

use anyhow::{Context, Result};
use e2e::clients::Clients;
use e2e::daemon::Daemon;
use e2e::model_server::stamp;
use e2e::world::World;
use wire::obey::local::v1 as local;
use wire::obey::v1 as pb;

use crate::direct::{Extras, Heard, Kind, Program, ask_endpoint};
use crate::stats::{median, micros, percentile, sorted};
use crate::table::{Goal, Table};

/// Starts of each side: single ones vary by a tenth.
const STARTS: usize = 40;
const TURNS: usize = 5;
pub(crate) const PIECES: u64 = 400;
/// A model emits a few hundred words per second at most.
const GAP_MS: u64 = 3;
/// How long a model thinks before its first output. Without it a bare client has its answer in a millisecond,
/// and a ratio says nothing.
const THINKING_MS: u64 = 300;
const START_MOST: f64 = 1.05;
const ADDED_MOST_MS: f64 = 2.0;

/// A daemon in a world with a model, and a project.
pub(crate) struct Stage {
    pub(crate) clients: Clients,
    pub(crate) daemon: Daemon,
    pub(crate) campaign: String,
    /// Last, so that it outlives the daemon.
    pub(crate) world: World,
}

impl Stage {
    pub(crate) async fn open(world: World, extras: Extras) -> Result<Self> {
        std::fs::create_dir_all(world.path("config/obey"))?;
        let for_agents = extras == Extras::Tools;
        let config = format!("[sessions]\nmax_active = 1000\n[workbench]\nfor_agents = {for_agents}\n");
        std::fs::write(world.path("config/obey/config.toml"), config)?;
        let daemon = Daemon::start(&world).await?;
        let clients = daemon.clients().await?;
        let path = world.project().display().to_string();
        let request = pb::AddCampaignRequest { path, ..pb::AddCampaignRequest::default() };
        let campaign = clients.campaigns.clone().add_campaign(request).await?.into_inner().id;
        Ok(Self { clients, daemon, campaign, world })
    }

    pub(crate) async fn create(&self, agent: &Agent, first: &str) -> Result<String> {
        let request = local::CreateSessionRequest {
            campaign_id: self.campaign.clone(),
            provider: agent.provider.into(),
            model: agent.model.to_owned(),
            initial_message: first.to_owned(),
            provider_config: agent
                .config
                .iter()
                .map(|(key, value)| ((*key).into(), (*value).into()))
                .collect::<HashMap<_, _>>(),
            ..local::CreateSessionRequest::default()
        };
        let created = self.clients.local.clone().create_session(request).await?.into_inner();
        Ok(created.session.context("no session")?.id)
    }

    /// Stops a session and waits until its agent has ended, so that its remaining work does not affect other
    /// measurements.
    pub(crate) async fn stop(&self, session: &str, after_seq: u64) -> Result<()> {
        let request = local::StopSessionRequest { session_id: session.to_owned(), graceful: false };
        self.clients.local.clone().stop_session(request).await?;
        let mut events = self.events(session, after_seq).await?;
        while events.message().await?.context("the journal ended")?.r#type != "agent_exited" {}
        Ok(())
    }

    async fn events(&self, session: &str, after_seq: u64) -> Result<tonic::Streaming<pb::Event>> {
        let session_id = session.to_owned();
        let request =
            pb::ReadEventsRequest { session_id, after_seq, follow: true, ..pb::ReadEventsRequest::default() };
        Ok(self.clients.events.clone().read_events(request).await?.into_inner())
    }

    /// Reads a session's journal after a sequence number to the end of a turn.
    pub(crate) async fn read(&self, session: &str, after_seq: u64) -> Result<(Heard, u64)> {
        let mut events = self.events(session, after_seq).await?;
        let mut heard = Heard::default();
        loop {
            let event = events.message().await?.context("the journal ended")?;
            match event.r#type.as_str() {
                "text_delta" => {
                    let fields: serde_json::Value = serde_json::from_str(&event.json)?;
                    heard.take(fields["text"].as_str().unwrap_or_default())?;
                }
                "turn_ended" => return Ok((heard, event.seq)),
                _ => {}
            }
        }
    }

    pub(crate) async fn prompt(&self, session: &str, text: &str) -> Result<()> {
        let request = pb::PromptRequest {
            session_id: session.to_owned(),
            text: text.to_owned(),
            steer: false,
            ..Default::default()
        };
        self.clients.turns.clone().prompt(request).await?;
        Ok(())
    }
}

/// The session settings of an agent.
pub(crate) struct Agent {
    pub(crate) name: &'static str,
    pub(crate) provider: local::SessionProvider,
    pub(crate) model: &'static str,
    pub(crate) config: &'static [(&'static str, &'static str)],
}

pub(crate) const API: Agent =
    Agent { name: "OpenAI API", provider: local::SessionProvider::OpenaiApi, model: "gpt-5.5", config: &[] };

pub(crate) async fn claude(table: &mut Table) -> Result<()> {
    let provider = local::SessionProvider::ClaudeCode;
    let agent = Agent { name: "Claude Code", provider, model: "sonnet", config: &[] };
    program(table, Kind::Claude, &agent, World::with_claude).await
}

pub(crate) async fn codex(table: &mut Table) -> Result<()> {
    let provider = local::SessionProvider::Codex;
    let agent = Agent { name: "Codex", provider, model: "gpt-5.5", config: &[] };
    program(table, Kind::Codex, &agent, World::with_codex).await
}

pub(crate) async fn acp(table: &mut Table) -> Result<()> {
    let provider = local::SessionProvider::Acp;
    let agent = Agent { name: "codex-acp", provider, model: "", config: &[("agent", "codex-acp")] };
    program(table, Kind::Acp, &agent, World::with_codex_acp).await
}

async fn program(
    table: &mut Table,
    kind: Kind,
    agent: &Agent,
    world: impl Fn() -> Result<Option<World>>,
) -> Result<()> {
    let (Some(plain), Some(full)) = (world()?, world()?) else { return Ok(()) };
    let plain = Stage::open(plain, Extras::Nothing).await?;
    let stage = Stage::open(full, Extras::Tools).await?;
    let mut took = [(); 4].map(|()| Vec::new());
    for round in 0..=STARTS {
        let bare = start_directly(kind, Extras::Nothing, &plain.world)?;
        let ours_bare = start(&plain, agent).await?;
        let with_tools = start_directly(kind, Extras::Tools, &stage.world)?;
        let ours_with_tools = start(&stage, agent).await?;
        // The first round is a warm-up and does not count.
        if round > 0 {
            let times = [bare, ours_bare, with_tools, ours_with_tools];
            took.iter_mut().zip(times).for_each(|(took, time)| took.push(time as f64 / 1e6));
        }
    }
    let [bare, ours_bare, with_tools, ours_with_tools] = &took;
    started(table, agent, "", ours_bare, bare, Some(START_MOST));
    started(table, agent, ", both with tools", ours_with_tools, with_tools, Some(START_MOST));
    started(table, agent, ", ours alone with tools", ours_with_tools, bare, None);
    let mut direct = Program::start(kind, Extras::Nothing, &stage.world)?;
    let session = stage.create(agent, "").await?;
    let (mut ours, mut floors, mut last) = (Vec::new(), Vec::new(), 0);
    for round in 0..=TURNS {
        let low = direct.turn(&script("direct", PIECES, 0))?.check(PIECES)?.ages;
        let (high, seq) = turn(&stage, &session, last).await?;
        last = seq;
        if round > 0 {
            floors.push(percentile(&sorted(low), 0.99));
            ours.push(percentile(&sorted(high.ages), 0.99));
        }
    }
    aged(table, agent, &ours, &floors);
    stage.stop(&session, last).await
}

pub(crate) async fn api(table: &mut Table) -> Result<()> {
    let stage = Stage::open(World::with_openai()?, Extras::Tools).await?;
    // An error means that a provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (client, url) = (reqwest::Client::new(), stage.world.model().openai_base_url());
    let (mut ours, mut floors) = (Vec::new(), Vec::new());
    for round in 0..=STARTS {
        let began = stamp::now_ns();
        let prompt = script("direct", 1, THINKING_MS);
        let low = ask_endpoint(&client, &url, &prompt).await?.check(1)?.first_ns - began;
        let high = start(&stage, &API).await?;
        if round > 0 {
            floors.push(low as f64 / 1e6);
            ours.push(high as f64 / 1e6);
        }
    }
    started(table, &API, "", &ours, &floors, Some(START_MOST));
    let session = stage.create(&API, "").await?;
    let (mut ours, mut floors, mut last) = (Vec::new(), Vec::new(), 0);
    for round in 0..=TURNS {
        let low = ask_endpoint(&client, &url, &script("direct", PIECES, 0)).await?.check(PIECES)?.ages;
        let (high, seq) = turn(&stage, &session, last).await?;
        last = seq;
        if round > 0 {
            floors.push(percentile(&sorted(low), 0.99));
            ours.push(percentile(&sorted(high.ages), 0.99));
        }
    }
    aged(table, &API, &ours, &floors);
    stage.stop(&session, last).await
}

/// A prompt whose answer has this many chunks, after some thinking.
pub(crate) fn script(key: &str, pieces: u64, thinking_ms: u64) -> String {
    let thought = serde_json::json!({"thinking": "hm", "chunks": 1, "gap_ms": thinking_ms});
    let stamped = serde_json::json!({"stamped": pieces, "gap_ms": GAP_MS});
    let blocks = if thinking_ms == 0 { vec![stamped] } else { vec![thought, stamped] };
    format!("{key} SCRIPT: {}", serde_json::json!([blocks]))
}

/// The same without the daemon.
pub(crate) fn start_directly(kind: Kind, extras: Extras, world: &World) -> Result<u64> {
    let began = stamp::now_ns();
    let mut direct = Program::start(kind, extras, world)?;
    Ok(direct.turn(&script("direct", 1, 0))?.check(1)?.first_ns - began)
}

/// Creates a session with a first message; returns how long it took until the first piece of the answer was here.
pub(crate) async fn start(stage: &Stage, agent: &Agent) -> Result<u64> {
    let thinking = if agent.provider == local::SessionProvider::OpenaiApi { THINKING_MS } else { 0 };
    let began = stamp::now_ns();
    let session = stage.create(agent, &script("ours", 1, thinking)).await?;
    let (heard, last) = stage.read(&session, 0).await?;
    let took = heard.check(1)?.first_ns - began;
    stage.stop(&session, last).await?;
    Ok(took)
}

pub(crate) async fn turn(stage: &Stage, session: &str, after: u64) -> Result<(Heard, u64)> {
    // The reader starts before the turn, so that its start-up time does not count.
    let reading = stage.read(session, after);
    let prompting = async {
        stage.prompt(session, &script("ours", PIECES, 0)).await?;
        anyhow::Ok(())
    };
    let (read, ()) = tokio::try_join!(reading, prompting)?;
    Ok((read.0.check(PIECES)?, read.1))
}

pub(crate) fn started(
    table: &mut Table,
    agent: &Agent,
    which: &str,
    ours: &[f64],
    floors: &[f64],
    most: Option<f64>,
) {
    let ratios: Vec<f64> = ours.iter().zip(floors).map(|(ours, floor)| ours / floor).collect();
    let words = |took: &[f64]| format!("{:.0} ms", median(took));
    let what = format!("{}: start to the first piece of an answer{which}", agent.name);
    table.ratio(&what, words(ours), words(floors), &ratios, most);
}

fn aged(table: &mut Table, agent: &Agent, ours: &[f64], floors: &[f64]) {
    let added: Vec<f64> = ours.iter().zip(floors).map(|(ours, floor)| (ours - floor) / 1e3).collect();
    let added = median(&added);
    let words = format!("{} ({added:.2} ms more)", micros(median(ours)));
    let goal = Goal::AtMost(ADDED_MOST_MS, format!("{ADDED_MOST_MS} ms more"));
    let what = format!("{}: age of a piece, p99", agent.name);
    table.row(&what, words, micros(median(floors)), added, goal);
}
