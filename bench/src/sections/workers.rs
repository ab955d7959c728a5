//! Workers: one beside a session, a hundred at once, a plan of a thousand steps; and a list of a GitLab server.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use e2e::forge_server::{ForgeServer, TOKEN};
use tonic::transport::Channel;
use wire::betcode::v1 as pb;
use wire::betcode::v1::git_lab_service_client::GitLabServiceClient;
use wire::betcode::v1::orchestration_event::Event as PlanBody;
use wire::betcode::v1::subagent_event::Event as WorkerBody;
use wire::betcode::v1::subagent_service_client::SubagentServiceClient;
use wire::obey::local::v1 as local;

use crate::daemon::Home;
use crate::emitter::Script;
use crate::peer::Peer;
use crate::stats::{median, millis, worst};
use crate::table::{Goal, Table};

const ROUNDS: usize = 20;
const AT_ONCE: usize = 100;
const STEPS: usize = 1_000;
/// Each step but the first ones depends on the one so many places before it.
const STEPS_WIDE: usize = 50;
const ROWS: u32 = 100;
/// The project of the server that has enough rows.
const PROJECT: &str = "group/many";

pub(crate) async fn run(table: &mut Table) -> Result<()> {
    let forge = ForgeServer::start("", "")?;
    let mut home = Home::new("workers")?;
    home.configure(&format!("[gitlab]\nurl = \"{}\"\ntoken = \"{TOKEN}\"\n", forge.url()))?;
    home.start()?;
    let peer = home.peer().await?;
    let campaign = home.campaign(&peer).await?;
    let parent = home.session(&peer, &campaign).await?.id;
    spawn(table, &peer, &campaign, &parent).await?;
    many(table, &peer, &parent).await?;
    plan(table, &peer, &parent).await?;
    list(table, &peer, &forge).await
}

fn subagents(peer: &Peer) -> SubagentServiceClient<Channel> {
    SubagentServiceClient::new(peer.channel.clone())
}

async fn spawned(peer: &Peer, parent: &str, script: &Script) -> Result<String> {
    let request = pb::SpawnSubagentRequest {
        parent_session_id: parent.to_owned(),
        prompt: script.prompt(),
        provider: "scripted".to_owned(),
        ..Default::default()
    };
    Ok(subagents(peer).spawn_subagent(request).await?.into_inner().subagent_id)
}

/// Waits for the end of a worker.
async fn completed(peer: &Peer, worker: &str) -> Result<()> {
    let request = pb::WatchSubagentRequest { subagent_id: worker.to_owned(), from_sequence: 0 };
    let mut events = subagents(peer).watch_subagent(request).await?.into_inner();
    while let Some(event) = events.message().await? {
        match event.event {
            Some(WorkerBody::Completed(_)) => return Ok(()),
            Some(WorkerBody::Failed(end)) => bail!("a worker failed: {end:?}"),
            Some(WorkerBody::Cancelled(end)) => bail!("a worker was cancelled: {end:?}"),
            _ => {}
        }
    }
    bail!("the stream of a worker ended before it did")
}

/// Waits for the first output of a session.
async fn first_output(peer: &Peer, session: &str) -> Result<()> {
    let mut events = peer.follow(session, 0).await?;
    while let Some(event) = events.message().await? {
        if event.r#type == "text_delta" {
            return Ok(());
        }
    }
    bail!("the session wrote nothing")
}

/// A session with a prompt, and a worker with the same, each until the first output.
async fn spawn(table: &mut Table, peer: &Peer, campaign: &str, parent: &str) -> Result<()> {
    let script = Script::burst(1);
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let request = local::CreateSessionRequest {
            campaign_id: campaign.to_owned(),
            provider: local::SessionProvider::Scripted.into(),
            initial_message: script.prompt(),
            ..Default::default()
        };
        let created = peer.daemon.clone().create_session(request).await?.into_inner();
        let session = created.session.context("no session")?.id;
        first_output(peer, &session).await?;
        floor.push(millis(began.elapsed()));
        let stop = local::StopSessionRequest { session_id: session, ..Default::default() };
        peer.daemon.clone().stop_session(stop).await?;
        let began = Instant::now();
        let worker = spawned(peer, parent, &script).await?;
        first_output(peer, &worker).await?;
        ours.push(millis(began.elapsed()));
        completed(peer, &worker).await?;
    }
    add_ratio(table, "a worker, to its first output (floor: a session)", &ours, &floor, 1.05);
    Ok(())
}

fn add_ratio(table: &mut Table, what: &str, ours: &[f64], floor: &[f64], most: f64) {
    let ratios: Vec<f64> = ours.iter().zip(floor).map(|(ours, floor)| ours / floor).collect();
    let words = |took: &[f64]| format!("{:.1} ms (worst {:.1})", median(took), worst(took));
    table.ratio(what, words(ours), words(floor), &ratios, Some(most));
}

/// A hundred workers that each write for a second, beside one of them alone.
async fn many(table: &mut Table, peer: &Peer, parent: &str) -> Result<()> {
    let script = Script::paced(10, Duration::from_millis(100));
    let began = Instant::now();
    completed(peer, &spawned(peer, parent, &script).await?).await?;
    let alone = millis(began.elapsed());
    let began = Instant::now();
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..AT_ONCE {
        let (peer, parent) = (peer.clone(), parent.to_owned());
        running.spawn(async move { completed(&peer, &spawned(&peer, &parent, &script).await?).await });
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    let took = millis(began.elapsed());
    let most = 1.2 * alone + 1_000.0;
    let goal = Goal::AtMost(most, format!("{most:.0} ms (1.2 × one alone, and 1 s)"));
    table.row(
        "100 workers at once (floor: one alone)",
        format!("{took:.0} ms"),
        format!("{alone:.0} ms"),
        took,
        goal,
    );
    Ok(())
}

async fn plan(table: &mut Table, peer: &Peer, parent: &str) -> Result<()> {
    let step = |at: usize| pb::OrchestrationStep {
        id: format!("s{at}"),
        prompt: Script::burst(1).prompt(),
        provider: "scripted".to_owned(),
        depends_on: at.checked_sub(STEPS_WIDE).map(|before| format!("s{before}")).into_iter().collect(),
        ..Default::default()
    };
    let request = pb::CreateOrchestrationRequest {
        parent_session_id: parent.to_owned(),
        steps: (0..STEPS).map(step).collect(),
        strategy: pb::OrchestrationStrategy::Dag.into(),
    };
    let began = Instant::now();
    let id = subagents(peer).create_orchestration(request).await?.into_inner().orchestration_id;
    let request = pb::WatchOrchestrationRequest { orchestration_id: id };
    let mut events = subagents(peer).watch_orchestration(request).await?.into_inner();
    let mut succeeded = 0;
    while let Some(event) = events.message().await? {
        match event.event {
            Some(PlanBody::Completed(end)) => succeeded = end.succeeded,
            Some(PlanBody::Failed(end)) => bail!("the plan failed: {end:?}"),
            _ => {}
        }
    }
    let took = began.elapsed().as_secs_f64();
    ensure!(usize::try_from(succeeded)? == STEPS, "{succeeded} of {STEPS} steps succeeded");
    let goal = Goal::AtMost(10.0, "10 s".to_owned());
    table.row("a plan of 1,000 trivial steps", format!("{took:.1} s"), String::new(), took, goal);
    Ok(())
}

/// A page of a server, read by the daemon for a client, and by a bare HTTP client that only parses it.
async fn list(table: &mut Table, peer: &Peer, forge: &ForgeServer) -> Result<()> {
    // An error means that a provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let bare = reqwest::Client::new();
    let project = PROJECT.replace('/', "%2F");
    let address = format!("{}/api/v4/projects/{project}/merge_requests?per_page={ROWS}&page=1", forge.url());
    let mut gitlab = GitLabServiceClient::new(peer.channel.clone());
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let began = Instant::now();
        let answer = bare.get(&address).bearer_auth(TOKEN).send().await?.error_for_status()?;
        let rows: serde_json::Value = serde_json::from_slice(&answer.bytes().await?)?;
        let one = millis(began.elapsed());
        ensure!(rows.as_array().map(Vec::len) == usize::try_from(ROWS).ok(), "the server's page is short");
        let began = Instant::now();
        let request = pb::ListMrsRequest { project: PROJECT.to_owned(), limit: ROWS, ..Default::default() };
        let listed = gitlab.list_merge_requests(request).await?.into_inner().merge_requests.len();
        let other = millis(began.elapsed());
        ensure!(u32::try_from(listed)? == ROWS, "{listed} rows");
        // The first round connects.
        if round > 0 {
            floor.push(one);
            ours.push(other);
        }
    }
    add_ratio(table, "GitLab: list of 100 items (floor: a bare client)", &ours, &floor, 1.2);
    Ok(())
}
