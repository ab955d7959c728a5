//! What a person waits for every hour: the list of sessions, the overview, a search, a diff, a session in a tree of its own.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use e2e::world::World;
use wire::obey::v1 as pb;
use wire::obey::v1::overview_service_client::OverviewServiceClient;
use wire::obey::v1::search_service_client::SearchServiceClient;
use wire::obey::v1::worktree_service_client::WorktreeServiceClient;

use super::provider::{Stage, script, start_directly};
use crate::daemon::{Home, agent_alone};
use crate::direct::{Extras, Kind};
use crate::emitter::{FILLER, Script};
use crate::peer::Peer;
use crate::reader::{Follower, play};
use crate::stats::{median, millis, worst};
use crate::table::{Goal, Table};

const ROUNDS: usize = 20;
const SESSIONS: usize = 500;
const TURNS: u64 = 200;
const CHUNKS_OF_A_TURN: u64 = 5_000;
const CHANGED_FILES: usize = 50;
const CHANGED_LINES: usize = 100;

pub(crate) async fn run(table: &mut Table) -> Result<()> {
    let mut home = Home::new("everyday")?;
    make_repository(&home.project())?;
    home.start()?;
    let peer = home.peer().await?;
    let campaign = home.campaign(&peer).await?;
    trees(table, &home)?;
    diff(table, &home, &peer).await?;
    let sessions = home.sessions(&peer, &campaign, SESSIONS).await?;
    list(table, &home)?;
    overview(table, &peer, &sessions[0].id).await?;
    search(table, &peer, &sessions[1].id).await?;
    real_trees(table, "claude-code", Kind::Claude, World::with_claude()?).await?;
    real_trees(table, "codex", Kind::Codex, World::with_codex()?).await
}

fn git(folder: &Path, args: &[&str]) -> Result<()> {
    let done = Command::new("git").current_dir(folder).args(args).output()?;
    ensure!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
    Ok(())
}

fn write_files(folder: &Path, word: &str) -> Result<()> {
    for file in 0..CHANGED_FILES {
        let lines: String = (0..CHANGED_LINES).map(|line| format!("line {line} is {word}\n")).collect();
        std::fs::write(folder.join(format!("file{file}.txt")), lines)?;
    }
    Ok(())
}

fn make_repository(folder: &Path) -> Result<()> {
    git(folder, &["init", "--quiet", "--initial-branch=main"])?;
    write_files(folder, "old")?;
    git(folder, &["add", "--all"])?;
    let author = ["-c", "user.name=Bench", "-c", "user.email=bench@example.invalid"];
    git(folder, &[&author[..], &["commit", "--quiet", "--message", "Start"]].concat())
}

/// A row in milliseconds, judged by its median.
fn add_row(table: &mut Table, what: &str, took: &[f64], floor: &[f64], most: f64) {
    let words = |took: &[f64]| match took {
        [] => String::new(),
        _ => format!("{:.1} ms (worst {:.1})", median(took), worst(took)),
    };
    table.row(what, words(took), words(floor), median(took), Goal::AtMost(most, format!("{most} ms")));
}

fn list(table: &mut Table, home: &Home) -> Result<()> {
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        ensure!(home.cli().arg("--version").output()?.status.success());
        floor.push(millis(began.elapsed()));
        let began = Instant::now();
        let listed = home.cli().arg("ps").output()?;
        ours.push(millis(began.elapsed()));
        ensure!(listed.status.success(), "{listed:?}");
    }
    add_row(table, "obey ps, 500 sessions (floor: --version)", &ours, &floor, 20.0);
    Ok(())
}

async fn overview(table: &mut Table, peer: &Peer, session: &str) -> Result<()> {
    let mut client = OverviewServiceClient::new(peer.channel.clone());
    let mut snapshots = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let mut updates = client.watch(pb::WatchOverviewRequest::default()).await?.into_inner();
        let first = updates.message().await?.context("no snapshot")?;
        snapshots.push(millis(began.elapsed()));
        ensure!(first.snapshot && first.sessions.len() >= SESSIONS, "{} sessions", first.sessions.len());
    }
    add_row(table, "overview of 500 sessions", &snapshots, &[], 30.0);
    let mut updates = client.watch(pb::WatchOverviewRequest::default()).await?.into_inner();
    updates.message().await?.context("no snapshot")?;
    let mut changes = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        peer.prompt(session, Script::asking(1).prompt()).await?;
        let request = loop {
            let update = updates.message().await?.context("the overview ended")?;
            let changed = update.sessions.into_iter().find(|one| one.session_id == session);
            if let Some(request) = changed.and_then(|one| one.requests.into_iter().next()) {
                break request;
            }
        };
        changes.push(millis(began.elapsed()));
        let answer = pb::AnswerPermissionRequest {
            session_id: session.to_owned(),
            request_id: request.request_id,
            decision: pb::Decision::AllowOnce.into(),
            ..Default::default()
        };
        peer.requests.clone().answer_permission(answer).await?;
        // The next prompt needs a turn that has ended.
        loop {
            let update = updates.message().await?.context("the overview ended")?;
            let is_over = |one: &pb::SessionOverview| {
                one.session_id == session && one.state() == pb::SessionState::Done
            };
            if update.sessions.iter().any(is_over) {
                break;
            }
        }
    }
    add_row(table, "from a prompt to its request on the overview", &changes, &[], 100.0);
    Ok(())
}

async fn search(table: &mut Table, peer: &Peer, session: &str) -> Result<()> {
    let script = Script::burst(CHUNKS_OF_A_TURN);
    let mut follower = Follower::new(peer, session).await?;
    for _ in 0..TURNS {
        play(peer, session, &mut follower, &script).await?;
    }
    let mut client = SearchServiceClient::new(peer.channel.clone());
    let mut find = async |text: &str| -> Result<(f64, pb::SearchResponse)> {
        let request = pb::SearchRequest { text: text.to_owned(), ..Default::default() };
        let began = Instant::now();
        let found = client.search(request).await?.into_inner();
        Ok((millis(began.elapsed()), found))
    };
    // What was written last is in the index a moment later.
    while !find("goes").await?.1.complete {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    for (what, text) in [
        ("search of 1,000,000 events, a word of every event", "goes"),
        ("search of 1,000,000 events, a word of none", "nowhere"),
    ] {
        let mut took = Vec::new();
        for _ in 0..ROUNDS {
            let (one, found) = find(text).await?;
            ensure!(found.hits.is_empty() == (text == "nowhere"), "{text}: {} hits", found.hits.len());
            took.push(one);
        }
        add_row(table, what, &took, &[], 50.0);
    }
    Ok(())
}

async fn diff(table: &mut Table, home: &Home, peer: &Peer) -> Result<()> {
    let folder = home.project();
    write_files(&folder, "new")?;
    let tree = || Some(pb::WorktreeName { folder: folder.display().to_string(), ..Default::default() });
    let scope = pb::WorktreeDiffScope::WorkingTree.into();
    let mut client = WorktreeServiceClient::new(peer.channel.clone());
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        git(&folder, &["diff", "HEAD"])?;
        floor.push(millis(began.elapsed()));
        let began = Instant::now();
        let request = pb::WorktreeDiffRequest { tree: tree(), scope, ..Default::default() };
        let changes = client.diff(request).await?.into_inner();
        ours.push(millis(began.elapsed()));
        let lines = (CHANGED_FILES * CHANGED_LINES) as u64;
        ensure!(changes.added_total == lines && changes.removed_total == lines, "{}", changes.added_total);
    }
    add_row(table, "diff of 5,000 changed lines (floor: git diff)", &ours, &floor, 100.0);
    git(&folder, &["checkout", "--quiet", "--", "."])
}

/// `obey run -w` beside `git worktree add` followed by the agent alone, each until the agent's first output.
fn trees(table: &mut Table, home: &Home) -> Result<()> {
    let script = Script::burst(1).prompt();
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let began = Instant::now();
        let path = home.project().with_file_name(format!("plain-{round}"));
        let branch = format!("plain-{round}");
        git(&home.project(), &["worktree", "add", "--quiet", "-b", &branch, &path.display().to_string()])?;
        first_output(agent_alone()?, Some(&script))?;
        floor.push(millis(began.elapsed()));
        let began = Instant::now();
        let mut command = home.cli();
        command.args(["run", &script, "--yes", "-p", "scripted", "-w", &format!("ours-{round}")]);
        first_output(command, None)?;
        ours.push(millis(began.elapsed()));
    }
    let ratios: Vec<f64> = ours.iter().zip(&floor).map(|(ours, floor)| ours / floor).collect();
    let words = |took: &[f64]| format!("{:.0} ms", median(took));
    table.ratio("obey run -w to the first output", words(&ours), words(&floor), &ratios, Some(1.1));
    Ok(())
}

/// The same with a real agent, which is what people wait for; the agent alone has as many tools as ours.
async fn real_trees(table: &mut Table, provider: &str, kind: Kind, world: Option<World>) -> Result<()> {
    let Some(world) = world else { return Ok(()) };
    let stage = Stage::open(world, Extras::Tools).await?;
    let project = stage.world.project();
    make_repository(&project)?;
    let prompt = script("ours", 1, 0);
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (branch, path) = (format!("plain-{round}"), stage.world.path(&format!("plain-{round}")));
        let began = Instant::now();
        git(&project, &["worktree", "add", "--quiet", "-b", &branch, &path.display().to_string()])?;
        let plain = millis(began.elapsed()) + start_directly(kind, Extras::Tools, &stage.world)? as f64 / 1e6;
        let mut command = stage.world.command(stage.world.obey()?);
        command.current_dir(&project);
        command.args(["run", &prompt, "--yes", "-p", provider, "-w", &format!("ours-{round}")]);
        let began = Instant::now();
        let shown = written(command, "000000@")?.duration_since(began);
        // The first round is a warm-up and does not count.
        if round > 0 {
            floor.push(plain);
            ours.push(millis(shown));
        }
    }
    let ratios: Vec<f64> = ours.iter().zip(&floor).map(|(ours, floor)| ours / floor).collect();
    let words = |took: &[f64]| format!("{:.0} ms", median(took));
    let what = format!("obey run -w -p {provider} to the first output");
    table.ratio(&what, words(&ours), words(&floor), &ratios, Some(1.1));
    Ok(())
}

/// Runs a command to its end; returns when it had written a word.
fn written(mut command: Command, word: &str) -> Result<Instant> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut stdout = child.stdout.take().context("no stdout")?;
    let (mut text, mut piece, mut came) = (Vec::new(), [0; 4096], None);
    loop {
        let len = stdout.read(&mut piece)?;
        text.extend_from_slice(&piece[..len]);
        if came.is_none() && text.windows(word.len()).any(|part| part == word.as_bytes()) {
            came = Some(Instant::now());
        }
        if len == 0 {
            break;
        }
    }
    child.wait()?;
    came.with_context(|| format!("{word} was not written"))
}

/// Runs a program until it writes a chunk. An agent alone is given its start and its prompt.
fn first_output(mut command: Command, prompt: Option<&str>) -> Result<()> {
    command.stdin(if prompt.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    if let (Some(prompt), Some(mut stdin)) = (prompt, child.stdin.take()) {
        writeln!(stdin, r#"{{"do":"start","session":"alone"}}"#)?;
        writeln!(stdin, r#"{{"do":"prompt","text":"{prompt}"}}"#)?;
    }
    let mut lines = BufReader::new(child.stdout.take().context("no stdout")?).lines();
    let has_come = lines.any(|line| line.is_ok_and(|line| line.contains(FILLER)));
    child.wait()?;
    ensure!(has_come, "no output came");
    Ok(())
}
