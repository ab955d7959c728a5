//! The daemon is exchanged under living sessions: by `obey upgrade`, by a plain restart, by a program that does not
//! work, and under a socket that somebody else holds. Agents must not notice, and waiting clients miss nothing.

use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::cli::Cli;
use e2e::clients::Clients;
use e2e::daemon::Daemon;
use e2e::deadline::{deadline, poll};
use e2e::world::World;
use e2e::{processes, tools};
use rustix::process::Signal;
use serde_json::{Value, json};
use wire::obey::local::v1 as pb;
use wire::obey::v1 as own;

use crate::stage::{Agent, CAMPAIGN, Stage, fields, script};

/// Some text that is told apart from any other, in letters of one to four bytes.
fn story(name: &str) -> String {
    (0..400).map(|number| format!("{name}·{number}·{}", ["e", "é", "€", "🐎"][number % 4])).collect()
}

/// Half of the story, a gate, and the other half slowly: it is told while the daemon is exchanged.
fn telling(name: &str, gate: &Path) -> String {
    let text: Vec<char> = story(name).chars().collect();
    let (first, second) = text.split_at(text.len() / 2);
    let part = |part: &[char]| part.iter().collect::<String>();
    let steps = json!([
        {"text": part(first), "chunks": 20},
        {"wait_file": gate.display().to_string()},
        {"text": part(second), "chunks": 60, "gap_ms": 20},
    ]);
    script(Agent::Scripted, name, &steps)
}

async fn open() -> Result<Stage> {
    Stage::open(Agent::Scripted).await?.context("the scripted agent is part of the daemon")
}

/// Asserts that a session's journal has no gap and that its agent said this.
async fn assert_said(stage: &Stage, id: &str, expected: &str) -> Result<()> {
    let journal = stage.journal(id).await?;
    let numbers: Vec<u64> = journal.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=journal.len() as u64).collect::<Vec<_>>());
    let deltas = journal.iter().filter(|event| event.r#type == "text_delta");
    let said: String = deltas.filter_map(|event| Some(fields(event)["text"].as_str()?.to_owned())).collect();
    assert_eq!(said, expected, "{id}");
    Ok(())
}

fn text_of(events: &[Value]) -> String {
    let deltas = events.iter().filter(|event| event["type"] == "text_delta");
    deltas.filter_map(|event| event["text"].as_str()).collect()
}

/// Five sessions in the middle of a turn, one that waits for a permission, a log that is followed and a message that
/// waits for its answer; then the daemon is exchanged.
async fn exchanged_under_load(exchange: impl AsyncFnOnce(&mut Stage) -> Result<()>) -> Result<()> {
    let mut stage = open().await?;
    let gate = stage.world.path("gate");
    let mut told = Vec::new();
    for number in 0..4 {
        let (id, name) = (stage.create().await?, format!("teller {number}"));
        let prompt = own::PromptRequest {
            session_id: id.clone(),
            text: telling(&name, &gate),
            steer: false,
            ..Default::default()
        };
        stage.clients.turns.clone().prompt(prompt).await?;
        told.push((id, name));
    }
    let asked = stage.create().await?;
    let waiting = stage.cli().spawn(&["session", "send", &asked, &telling("sent", &gate)]).await?;
    told.push((asked, "sent".to_owned()));
    let followed = told[0].0.clone();
    let mut log = stage.cli().spawn(&["session", "log", &followed, "--follow", "--json"]).await?;
    log.wait_for_line("the first event", |line| line.contains("\"seq\":1,")).await?;
    let asking = stage.create().await?;
    let step = json!({"tool": "Bash", "input": {"command": "touch made"}, "ask": true, "result": "ok"});
    let turn =
        stage.send(&asking, &script(Agent::Scripted, "ask", &json!([step, {"text": "made it"}]))).await?;
    let request = stage.wait_for_request(&asking).await?;
    for (id, name) in &told {
        let half: String = story(name).chars().take(story(name).chars().count() / 2).collect();
        stage.wait_for_text(id, &half).await?;
    }
    let agents = agents_of(&stage, &told).await?;
    stage.world.touch("gate")?;

    exchange(&mut stage).await?;
    drop(turn);
    stage.clients = Clients::connect(&stage.world.socket()).await?;

    assert_eq!(agents_of(&stage, &told).await?, agents, "every agent is the one it was");
    for (id, name) in &told {
        let ended = stage.wait_for(id, "turn_ended", |_| true).await?;
        assert_eq!(ended["reason"], "completed", "{ended}");
        assert_said(&stage, id, &story(name)).await?;
    }
    let still = stage.requests(&asking, false).await?;
    assert_eq!(still.iter().map(|waiting| &waiting.id).collect::<Vec<_>>(), [&request.id]);
    stage.cli().ok(&["session", "approve", &asking]).await?;
    stage.wait_for_text(&asking, "made it").await?;

    let sent = waiting.finish().await?;
    ensure!(sent.code == Some(0), "{sent:#?}");
    assert_eq!(sent.stdout.trim_end_matches('\n'), story("sent"));
    stage.stop(&followed, true).await?;
    let log = log.finish().await?;
    ensure!(log.code == Some(0), "{log:#?}");
    let events = log.json_lines()?;
    let numbers: Vec<u64> = events.iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>(), "every event once");
    assert_eq!(events.len(), stage.journal(&followed).await?.len());
    assert_eq!(text_of(&events), story("teller 0"));
    stage.close().await
}

async fn agents_of(stage: &Stage, told: &[(String, String)]) -> Result<Vec<i32>> {
    let mut pids = Vec::new();
    for (id, _) in told {
        let pid = stage.info(id).await?.pid;
        ensure!(processes::alive(pid), "the agent of {id} is gone");
        pids.push(pid);
    }
    Ok(pids)
}

#[tokio::test]
async fn an_upgrade_disturbs_no_session_and_no_waiting_client() -> Result<()> {
    exchanged_under_load(async |stage| {
        let address = *stage.daemon.listen().first().context("it listens nowhere")?;
        let before = stage.daemon.pid().context("it does not run")?;
        let report = stage.cli().json(&["upgrade"]).await?;
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!((report["from"].as_str(), report["to"].as_str()), (Some(version), Some(version)));
        assert_eq!((report["sessions"].as_u64(), &report["ended"]), (Some(6), &json!([])));
        ensure!(report["took_ms"].is_u64() && report["pid"] != before, "{report}");
        ensure!(!processes::alive(before), "the old daemon is still there");
        let answer = tokio::net::TcpStream::connect(address).await;
        answer.with_context(|| format!("nobody serves on {address} any more"))?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_plain_restart_disturbs_no_session_and_no_waiting_client() -> Result<()> {
    exchanged_under_load(async |stage| stage.daemon.restart().await).await
}

/// A program that tells a version and does not start.
fn broken_obey(path: &Path) -> Result<()> {
    let draft = path.with_extension("draft");
    let script =
        "#!/bin/sh\n[ \"$1\" = --version ] && { echo 'obey 9.9.9'; exit 0; }\necho 'no luck' >&2\nexit 1\n";
    std::fs::write(&draft, script)?;
    std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o755))?;
    Ok(std::fs::rename(draft, path)?)
}

#[tokio::test]
async fn a_program_that_does_not_work_leaves_the_old_daemon_or_brings_it_back() -> Result<()> {
    let stage = open().await?;
    let id = stage.create().await?;
    let pid =
        async |stage: &Stage| -> Result<Value> { Ok(stage.cli().json(&["ping"]).await?["pid"].clone()) };
    let first = pid(&stage).await?;

    let refused = stage.cli().run(&["upgrade", "--binary", "/bin/false"]).await?;
    ensure!(refused.code == Some(2) && refused.stderr.contains("is no obey"), "{refused:#?}");
    let refused = stage.cli().run(&["upgrade", "--binary", "/no/such/obey"]).await?;
    ensure!(refused.code == Some(2) && refused.stderr.contains("cannot be run"), "{refused:#?}");
    assert_eq!(pid(&stage).await?, first, "nothing was ended for it");

    let broken = stage.world.path("broken-obey");
    broken_obey(&broken)?;
    let failed = stage.cli().run(&["upgrade", "--binary", &broken.display().to_string()]).await?;
    ensure!(failed.code == Some(1), "{failed:#?}");
    let said = [
        "obey 9.9.9 did not start".to_owned(),
        "| no luck".to_owned(),
        format!("obey {} runs again", env!("CARGO_PKG_VERSION")),
    ];
    ensure!(said.iter().all(|words| failed.stderr.contains(words)), "{failed:#?}");
    ensure!(pid(&stage).await? != first, "the old one was ended and started again");
    let message = script(Agent::Scripted, "k", &json!([{"text": "well"}]));
    let sent = stage.cli().ok(&["session", "send", "-q", &id, &message]).await?;
    assert_eq!(sent.stdout, "well\n");
    stage.close().await
}

/// The file of the running daemon is replaced, as a package manager does it, by one that does not work.
#[tokio::test]
async fn a_daemon_whose_file_was_replaced_is_brought_back() -> Result<()> {
    let world = World::new()?;
    let installed = world.path("obey");
    std::fs::copy(tools::obey()?, &installed)?;
    world.use_obey(&installed);
    let mut daemon = Daemon::start(&world).await?;
    world.use_obey(tools::obey()?);
    let cli = Cli::new(&world);
    broken_obey(&installed)?;
    let failed = cli.run(&["upgrade", "--binary", &installed.display().to_string()]).await?;
    ensure!(failed.code == Some(1) && failed.stderr.contains("runs again"), "{failed:#?}");
    daemon.wait().await?;
    let pong = cli.json(&["ping"]).await?;
    let program = std::fs::read_link(format!("/proc/{}/exe", pong["pid"]))?;
    assert_eq!(program, world.path("data/obey/previous/obey"));
    // And from there on to one that works.
    let report = cli.json(&["upgrade"]).await?;
    let program = std::fs::read_link(format!("/proc/{}/exe", report["pid"]))?;
    assert_eq!(program, tools::obey()?.canonicalize()?);
    cli.ok(&["stop", "--sessions"]).await?;
    world.assert_no_process_left().await
}

#[tokio::test]
async fn without_a_daemon_the_new_one_is_started() -> Result<()> {
    let world = World::new()?;
    world.set_env("OBEY_LISTEN", "none");
    let cli = Cli::new(&world);
    let refused = cli.run(&["upgrade", "--no-autostart"]).await?;
    assert_eq!(refused.code, Some(3));
    let report = cli.json(&["upgrade"]).await?;
    assert_eq!((&report["from"], report["sessions"].as_u64()), (&Value::Null, Some(0)));
    cli.ok(&["stop"]).await?;
    world.assert_no_process_left().await
}

/// A shim is never exchanged: that of an old version goes on even when its file is gone.
#[tokio::test]
async fn a_shim_of_the_previous_version_keeps_working() -> Result<()> {
    let world = World::new()?;
    let old = world.path("old-obey");
    std::fs::copy(tools::obey()?, &old)?;
    world.use_obey(&old);
    let daemon = Daemon::start(&world).await?;
    let mut clients = daemon.clients().await?;
    let path = world.project().display().to_string();
    let campaign = own::AddCampaignRequest { path, name: CAMPAIGN.into(), ..Default::default() };
    clients.campaigns.add_campaign(campaign).await?;
    let mut stage = Stage { agent: Agent::Scripted, daemon, clients, world };
    let gate = stage.world.path("gate");
    let id = stage.create().await?;
    let turn = stage.send(&id, &telling("old", &gate)).await?;
    let half: String = story("old").chars().take(40).collect();
    stage.wait_for_text(&id, &half).await?;
    let shims = |stage: &Stage| -> Vec<i32> {
        let all = stage.world.processes().into_iter();
        all.filter(|process| process.command.contains(" shim ")).map(|process| process.pid).collect()
    };
    let before = shims(&stage);
    assert_eq!(before.len(), 1);

    std::fs::remove_file(&old)?;
    stage.world.use_obey(tools::obey()?);
    let report = stage.cli().json(&["upgrade"]).await?;
    assert_eq!(report["sessions"], 1, "{report}");
    drop(turn);
    stage.clients = Clients::connect(&stage.world.socket()).await?;
    let program = std::fs::read_link(format!("/proc/{}/exe", before[0]))?;
    ensure!(program.to_string_lossy().ends_with("old-obey (deleted)"), "{}", program.display());
    assert_eq!(shims(&stage), before);

    stage.world.touch("gate")?;
    stage.wait_for(&id, "turn_ended", |_| true).await?;
    assert_said(&stage, &id, &story("old")).await?;
    // It also takes new input, and ends its agent when asked.
    let next = stage.turn(&id, &script(Agent::Scripted, "next", &json!([{"text": " and on"}]))).await?;
    ensure!(next.iter().any(|event| event.content == " and on"), "{next:#?}");
    stage.stop(&id, true).await?;
    poll("the end of the old shim", || shims(&stage).is_empty().then_some(())).await?;
    stage.daemon.wait().await?;
    stage.close_exchanged().await
}

/// Starts the daemon with a listening socket as file 3, as a service manager does.
fn activate(world: &World, listener: &UnixListener, notify: &Path) -> Result<Child> {
    let given: OwnedFd = listener.try_clone()?.into();
    let serve = "exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$0\" serve --listen none";
    let mut command = world.command("sh");
    command.args(["-c", serve]).arg(world.obey()?).env("NOTIFY_SOCKET", notify);
    Ok(command.stdin(Stdio::from(given)).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
}

/// Asks over a connection that was made before.
fn health(mut early: UnixStream) -> Result<String> {
    use std::io::{Read, Write};
    early.set_read_timeout(Some(deadline()))?;
    early.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    early.read_to_string(&mut answer)?;
    Ok(answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_wait_at_a_socket_that_is_passed_from_daemon_to_daemon() -> Result<()> {
    let world = World::new()?;
    std::fs::create_dir(world.path("run/obey"))?;
    std::fs::set_permissions(world.path("run/obey"), std::fs::Permissions::from_mode(0o700))?;
    let listener = UnixListener::bind(world.socket())?;
    let notify = world.path("notify");
    let manager = UnixDatagram::bind(&notify)?;
    manager.set_read_timeout(Some(deadline()))?;
    let told = |what: &str| -> Result<()> {
        let mut bytes = [0; 64];
        let count = manager.recv(&mut bytes).with_context(|| format!("{what} is not told"))?;
        assert_eq!(std::str::from_utf8(&bytes[..count])?, what);
        Ok(())
    };
    let cli = Cli::new(&world);
    for round in 0..2 {
        // Nobody serves yet; the connection waits in the socket's queue.
        let early = UnixStream::connect(world.socket())?;
        let mut daemon = activate(&world, &listener, &notify)?;
        told("READY=1")?;
        let answer = tokio::task::spawn_blocking(|| health(early)).await??;
        ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        if round == 0 {
            cli.ok(&["campaign", "add", &world.project().display().to_string(), "--name", CAMPAIGN]).await?;
            cli.ok(&["session", "create", "-c", CAMPAIGN, "-p", "scripted", "-n", "kept"]).await?;
        }
        let sent = cli.ok(&["session", "send", "-q", "kept", "hello SCRIPT: [{\"text\": \"here\"}]"]).await?;
        assert_eq!(sent.stdout, "here\n");
        let listed = cli.json(&["session", "info", "kept"]).await?;
        let agent = listed["pid"].as_i64().context("no pid")?;
        let environment = std::fs::read(format!("/proc/{agent}/environ"))?;
        let environment = String::from_utf8_lossy(&environment);
        ensure!(!environment.contains("LISTEN_") && !environment.contains("NOTIFY_"), "{environment}");
        let refused = cli.run(&["upgrade"]).await?;
        ensure!(refused.code == Some(1) && refused.stderr.contains("whoever started it"), "{refused:#?}");
        if round == 0 {
            processes::signal(daemon.id() as i32, Signal::TERM);
        } else {
            let stopped = cli.ok(&["stop"]).await?;
            ensure!(stopped.stdout.starts_with("The daemon has ended"), "{stopped:#?}");
        }
        told("STOPPING=1")?;
        ensure!(tokio::task::spawn_blocking(move || daemon.wait()).await??.success(), "it ended badly");
        ensure!(world.socket().exists(), "the socket's file belongs to whoever passed it");
    }
    // A socket that is not the daemon's own is refused.
    let other = UnixListener::bind(world.path("run/obey/other.sock"))?;
    let mut daemon = activate(&world, &other, &notify)?;
    let ended = tokio::task::spawn_blocking(move || daemon.wait()).await??;
    ensure!(!ended.success(), "it took a socket of somebody else");
    // The agent is ended by a daemon of its own.
    drop(listener);
    world.set_env("OBEY_LISTEN", "none");
    cli.ok(&["ping"]).await?;
    cli.ok(&["stop", "--sessions"]).await?;
    world.assert_no_process_left().await
}

impl Stage {
    /// As `close`, for a daemon that is not the one the stage started.
    async fn close_exchanged(mut self) -> Result<()> {
        self.clients.local.shutdown(pb::ShutdownRequest { stop_sessions: true }).await?;
        self.world.assert_no_process_left().await
    }
}

#[tokio::test]
async fn no_command_fails_while_daemons_are_exchanged() -> Result<()> {
    let stage = open().await?;
    let id = stage.create().await?;
    let cli = stage.cli();
    let (done, is_done) = tokio::sync::watch::channel(false);
    let calls = async {
        let mut count = 0;
        while !*is_done.borrow() {
            cli.ok(&["session", "send", &id, "SCRIPT: [{\"text\": \"here\"}]"]).await?;
            cli.ok(&["session", "list"]).await?;
            count += 1;
        }
        anyhow::Ok(count)
    };
    let exchanges = async {
        for _ in 0..5 {
            stage.cli().ok(&["upgrade"]).await?;
        }
        done.send_replace(true);
        anyhow::Ok(())
    };
    let (count, ()) = tokio::try_join!(calls, exchanges)?;
    ensure!(count > 0, "nothing was called meanwhile");
    stage.close_exchanged().await
}
