//! What `obey.local.v1` promises beyond the scenarios: defaults, filters, the order of things, bad surroundings.

use anyhow::{Context, Result, ensure};
use e2e::clients::{collect, mentions, refused, wait_event};
use serde_json::json;
use tonic::{Code, Response};
use wire::obey::local::v1 as pb;
use wire::obey::v1 as own;

use crate::stage::{Agent, CAMPAIGN, Stage, fields, of_type, process_scenarios, script, stage};

async fn open() -> Result<Stage> {
    Stage::open(Agent::Scripted).await?.context("the scripted agent is part of the daemon")
}

/// Adds a second campaign with a folder of its own.
async fn add_campaign(stage: &Stage, name: &str) -> Result<std::path::PathBuf> {
    let folder = stage.world.path(name);
    std::fs::create_dir_all(&folder)?;
    let path = folder.display().to_string();
    let request = own::AddCampaignRequest { path, name: name.into(), ..Default::default() };
    stage.clients.campaigns.clone().add_campaign(request).await?;
    Ok(folder)
}

async fn list(stage: &Stage, request: pb::ListSessionsRequest) -> Result<Vec<String>> {
    let listed = stage.clients.local.clone().list_sessions(request).await?.into_inner().sessions;
    Ok(listed.into_iter().map(|session| session.id).collect())
}

#[tokio::test]
async fn a_session_without_a_name_is_called_after_its_provider() -> Result<()> {
    let stage = open().await?;
    let session = stage.create_as(stage.new_session()).await?;
    let short = session.id[session.id.len() - 6..].to_lowercase();
    assert_eq!(session.agent_name, format!("scripted-{short}"));
    stage.close().await
}

#[tokio::test]
async fn the_agent_gets_the_sessions_environment_and_nothing_that_is_not_its_own() -> Result<()> {
    let world = e2e::world::World::new()?;
    world.set_env("AWS_SECRET_ACCESS_KEY", "leaked");
    world.set_env("OBEY_PRIVATE", "leaked");
    let daemon = e2e::daemon::Daemon::start(&world).await?;
    let mut clients = daemon.clients().await?;
    let path = world.project().display().to_string();
    let campaign = own::AddCampaignRequest { path, name: CAMPAIGN.into(), ..Default::default() };
    clients.campaigns.add_campaign(campaign).await?;
    let stage = Stage { agent: Agent::Scripted, daemon, clients, world };
    let mut request = stage.new_session();
    request.environment.insert("MY_FLAG".into(), "on".into());
    let session = stage.create_as(request).await?;
    let environment = std::fs::read(format!("/proc/{}/environ", session.pid))?;
    let environment = String::from_utf8_lossy(&environment);
    let has = |entry: &str| environment.split('\0').any(|found| found == entry);
    assert!(has("MY_FLAG=on"), "{environment}");
    assert!(has(&format!("OBEY_SESSION_ID={}", session.id)), "{environment}");
    assert!(has("OBEY_PROVIDER=scripted"), "{environment}");
    assert!(!environment.contains("leaked"), "{environment}");
    stage.close().await
}

#[tokio::test]
async fn a_session_is_recorded_as_created_before_its_agent_starts() -> Result<()> {
    let stage = open().await?;
    let id = stage.create().await?;
    let events = stage.journal(&id).await?;
    let kinds: Vec<&str> = events.iter().map(|event| event.r#type.as_str()).collect();
    assert_eq!(&kinds[..3], ["session_created", "status_changed", "agent_started"]);
    assert_eq!(fields(&events[1])["from"], "CREATED");
    assert_eq!(fields(&events[1])["to"], "STARTING");
    stage.close().await
}

#[tokio::test]
async fn a_root_that_is_not_safe_is_refused() -> Result<()> {
    let stage = open().await?;
    for bad in ["/", "relative/path", "/no/such/folder/at/all"] {
        let request = own::AddCampaignRequest { path: bad.into(), ..Default::default() };
        let answer = stage.clients.campaigns.clone().add_campaign(request).await;
        let status = refused(answer, Code::InvalidArgument, "OBEY-1001")?;
        ensure!(mentions(&status, "path"), "{status:?}");
    }
    // A folder that vanished, or became somebody else's, after it was registered.
    let folder = add_campaign(&stage, "gone").await?;
    std::fs::remove_dir_all(&folder)?;
    let mut request = stage.new_session();
    request.campaign_id = "gone".into();
    let answer = stage.clients.local.clone().create_session(request.clone()).await;
    refused(answer, Code::FailedPrecondition, "OBEY-2005")?;
    std::os::unix::fs::symlink("/", &folder)?;
    let answer = stage.clients.local.clone().create_session(request).await;
    refused(answer, Code::FailedPrecondition, "OBEY-2005")?;
    let all = pb::ListSessionsRequest { include_terminated: true, ..Default::default() };
    assert!(list(&stage, all).await?.is_empty(), "nothing was created");
    stage.close().await
}

#[tokio::test]
async fn lists_are_narrowed_by_campaign_status_and_provider() -> Result<()> {
    let stage = open().await?;
    add_campaign(&stage, "other").await?;
    let first = stage.create().await?;
    let mut request = stage.new_session();
    request.campaign_id = "other".into();
    let second = stage.create_as(request).await?.id;
    let third = stage.create().await?;
    stage.stop(&third, false).await?;
    let by = |change: fn(&mut pb::ListSessionsRequest)| {
        let mut request = pb::ListSessionsRequest::default();
        change(&mut request);
        list(&stage, request)
    };
    assert_eq!(by(|_| ()).await?, [first.clone(), second.clone()]);
    assert_eq!(by(|request| request.campaign_id = "other".into()).await?, [&*second]);
    assert_eq!(by(|request| request.statuses = vec![6]).await?, [&*third]);
    assert_eq!(by(|request| request.provider = 101).await?, [first.clone(), second.clone()]);
    assert!(by(|request| request.provider = 1).await?.is_empty());
    assert_eq!(by(|request| request.include_terminated = true).await?, [first.clone(), second, third]);
    let listed = stage.cli().json(&["session", "list", "--campaign", CAMPAIGN]).await?;
    ensure!(listed.to_string().contains(&first), "{listed}");
    stage.close().await
}

#[tokio::test]
async fn a_turn_streams_while_it_runs_with_status_and_errors() -> Result<()> {
    let stage = open().await?;
    let id = stage.create().await?;
    let gate = stage.world.path("gate");
    let steps = json!([
        {"thinking": "first"}, {"wait_file": gate.display().to_string()},
        {"tool": "Bash", "input": {"command": "x"}, "ask": true, "result": "r"}, {"error": "the model is gone"},
    ]);
    let mut turn = stage.send(&id, &script(Agent::Scripted, "k", &steps)).await?;
    // The thought arrives although the turn cannot go on: events are not held back until the end.
    wait_event(&mut turn, "the thought", |event| event.r#type() == pb::ActivityType::Thinking).await?;
    std::fs::write(&gate, "")?;
    let request = stage.wait_for_request(&id).await?;
    stage.decide(&id, &request.id, own::Decision::AllowOnce).await?;
    let rest = collect(turn).await?;
    ensure!(!of_type(&rest, pb::ActivityType::Status).is_empty(), "waiting is told: {rest:#?}");
    let errors = of_type(&rest, pb::ActivityType::Error);
    ensure!(errors.iter().any(|event| event.content.contains("the model is gone")), "{rest:#?}");
    assert_eq!(rest.last().map(|event| event.r#type()), Some(pb::ActivityType::Completion));
    stage.close().await
}

#[tokio::test]
async fn watching_all_can_be_narrowed_to_a_campaign() -> Result<()> {
    let stage = open().await?;
    add_campaign(&stage, "other").await?;
    let request = pb::WatchAllSessionsRequest { campaign_id: "other".into() };
    let mut watch = stage.clients.local.clone().watch_all_sessions(request).await?.into_inner();
    stage.create().await?;
    let mut request = stage.new_session();
    request.campaign_id = "other".into();
    let wanted = stage.create_as(request).await?.id;
    let first = wait_event(&mut watch, "a status", |_| true).await?;
    assert_eq!(first.session_id, wanted, "sessions of other campaigns are not told");
    stage.close().await
}

#[tokio::test]
async fn a_forced_stop_on_the_command_line_ends_a_turn() -> Result<()> {
    let stage = open().await?;
    let id = stage.create().await?;
    let turn =
        stage.send(&id, &script(Agent::Scripted, "k", &json!([{"text": "on"}, {"hang": true}]))).await?;
    stage.wait_for_text(&id, "on").await?;
    stage.cli().ok(&["session", "stop", &id, "--force"]).await?;
    assert_eq!(stage.info(&id).await?.status(), pb::SessionStatus::Stopped);
    drop(turn);
    stage.close().await
}

#[tokio::test]
async fn a_reader_that_never_reads_holds_up_nobody() -> Result<()> {
    let stage = open().await?;
    let id = stage.create().await?;
    // Opened and never read: its connection fills up, and the rest waits in the journal.
    let stuck = stage.follow(&id).await?;
    let steps = json!([{"flood": {"lines": 100_000, "text": "0123456789"}}]);
    let turn = stage.turn(&id, &script(Agent::Scripted, "k", &steps)).await?;
    assert_eq!(turn.last().map(|event| event.r#type()), Some(pb::ActivityType::Completion));
    let healthy = stage.journal(&id).await?;
    let numbers: Vec<u64> = healthy.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=healthy.len() as u64).collect::<Vec<_>>());
    let said = healthy.iter().filter(|event| event.r#type == "text_delta").count();
    assert_eq!(said, 100_000);
    // It wakes up and has missed nothing.
    stage.stop(&id, false).await?;
    let late = collect(stuck).await?;
    assert_eq!(late.len() as u64, late.last().map_or(0, |event| event.seq));
    stage.close().await
}

#[tokio::test]
async fn an_oversize_message_is_refused_and_harms_nobody() -> Result<()> {
    let stage = open().await?;
    let id = stage.create().await?;
    let answer = stage.send(&id, &"x".repeat(9 * 1024 * 1024)).await;
    let status = refused(answer.map(Response::new), Code::InvalidArgument, "OBEY-1001")?;
    ensure!(mentions(&status, "message"), "{status:?}");
    let far_too_large = stage.send(&id, &"x".repeat(40 * 1024 * 1024)).await;
    ensure!(far_too_large.is_err(), "larger than any message may be");
    stage.turn(&id, &script(Agent::Scripted, "k", &json!([{"text": "still here"}]))).await?;
    stage.close().await
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_refused_and_left_alone() -> Result<()> {
    let stage = open().await?;
    let world = stage.world.clone();
    stage.close().await?;
    let file = world.path("data/obey/daemon.db");
    ensure!(file.exists(), "{}", file.display());
    let version =
        std::process::Command::new("sqlite3").arg(&file).arg("PRAGMA user_version = 4711").status()?;
    ensure!(version.success(), "sqlite3 cannot change the version");
    let before = std::fs::read(&file)?;
    let refusal = e2e::cli::Cli::new(&world).run(&["serve", "--listen", "127.0.0.1:0"]).await?;
    ensure!(refusal.code != Some(0), "{refusal:?}");
    ensure!(refusal.stderr.contains("OBEY-1011") && refusal.stderr.contains("newer"), "{refusal:?}");
    assert_eq!(std::fs::read(&file)?, before, "not a byte was changed");
    Ok(())
}

#[tokio::test]
async fn real_claude_an_agent_cannot_speak_for_its_user() -> Result<()> {
    let stage = stage!(Agent::Claude);
    let obey = format!("{} --socket \"$OBEY_DAEMON_SOCKET\" --no-autostart", stage.world.obey()?.display());
    let mut request = stage.new_session();
    request.provider_config.insert("permission_mode".into(), "autonomous".into());
    let id = stage.create_as(request).await?.id;
    let other = stage.create().await?;
    let tries = [
        format!("{obey} session create --campaign {CAMPAIGN} --provider scripted"),
        format!("{obey} session send {other} hello"),
        format!("{obey} session stop {id} --force"),
        format!("{obey} session approve {other} req_1"),
        format!("{obey} session log {other}"),
        format!("setsid {obey} stop --sessions"),
        format!("sh -c 'exec setsid nohup {obey} campaign add /tmp'"),
    ];
    let command = tries.map(|attempt| format!("{attempt}; echo \"code $?\"")).join("; ");
    let steps =
        json!([{"tool": "Bash", "input": {"command": format!("({command}) 2>&1")}}, {"text": "done"}]);
    let turn = stage.turn(&id, &script(Agent::Claude, "k", &steps)).await?;
    let results = of_type(&turn, pb::ActivityType::ToolResult);
    let output = results.first().map(|event| event.content.as_str()).unwrap_or_default();
    assert_eq!(output.matches("[OBEY-1002]").count(), 7, "every attempt is refused: {output}");
    assert_eq!(output.matches("code 6").count(), 7, "{output}");
    let all = pb::ListSessionsRequest { include_terminated: true, ..Default::default() };
    assert_eq!(list(&stage, all).await?.len(), 2, "no session was created");
    stage.close().await
}

#[tokio::test]
async fn campaigns_of_the_camp_registry_are_known_by_id_and_name() -> Result<()> {
    let world = e2e::world::World::new()?;
    let folder = world.path("registered");
    std::fs::create_dir_all(&folder)?;
    let registry = world.path("registry.json");
    let campaign = json!({"version": 3, "campaigns": {"6f1c0c1e": {"name": "from-camp", "path": folder}}});
    std::fs::write(&registry, campaign.to_string())?;
    world.set_env("CAMP_REGISTRY_PATH", registry);
    let daemon = e2e::daemon::Daemon::start(&world).await?;
    let clients = daemon.clients().await?;
    let stage = Stage { agent: Agent::Scripted, daemon, clients, world };
    let mut request = stage.new_session();
    request.campaign_id = "from-camp".into();
    let session = stage.create_as(request.clone()).await?;
    assert_eq!(session.campaign_id, "6f1c0c1e");
    request.campaign_id = "6f1c0c1e".into();
    stage.create_as(request).await?;
    stage.close().await
}

#[tokio::test]
async fn a_client_with_grpcs_own_limits_gets_past_the_longest_prompt_and_answer() -> Result<()> {
    let stage = open().await?;
    let id = stage.create().await?;
    // Line ends take two bytes each in JSON, so this one is over 4 MiB in the journal's words.
    let long = "\n".repeat(2_400_000);
    let steps = json!([{"text": "x".repeat(1_000_000), "chunks": 1}]);
    let events = stage.turn(&id, &format!("{} {long}", script(Agent::Scripted, "long", &steps))).await?;
    assert_eq!(events.last().map(|event| event.r#type()), Some(pb::ActivityType::Completion));
    let journal = stage.journal(&id).await?;
    let numbers: Vec<u64> = journal.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=journal.len() as u64).collect::<Vec<_>>());
    let started = journal.iter().find(|event| event.r#type == "turn_started").context("no turn")?;
    ensure!(started.json.contains("[cut: "), "it was not cut");
    let said: usize = journal
        .iter()
        .filter(|event| event.r#type == "text_delta")
        .map(|event| fields(event)["text"].as_str().map_or(0, str::len))
        .sum();
    assert_eq!(said, 1_000_000);
    stage.close().await
}

process_scenarios!(an_answer_of_several_parts_is_whole_for_every_reader);

async fn an_answer_of_several_parts_is_whole_for_every_reader(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut request = stage.new_session();
    request.provider_config.insert("permission_mode".into(), "autonomous".into());
    let id = stage.create_as(request).await?.id;
    let steps = json!([
        [{"text": "I look. "}, {"tool": "Bash", "input": {"command": "true"}, "result": "x"}],
        [{"text": "Part one. "}, {"thinking": "more"}, {"text": "Part two."}],
    ]);
    let answer = "Part one. Part two.";
    let events = stage.turn(&id, &script(agent, "first", &steps)).await?;
    let last = events.last().context("no event")?;
    ensure!(last.r#type() == pb::ActivityType::Completion && last.content == answer, "{last:?}");
    let ended = stage.wait_for(&id, "turn_ended", |_| true).await?;
    ensure!(ended["text"] == answer, "{ended}");
    let quiet = stage.cli().ok(&["session", "send", "-q", &id, &script(agent, "second", &steps)]).await?;
    ensure!(quiet.stdout.trim() == answer, "{quiet:#?}");
    let select = "SELECT content FROM agent_activities WHERE activity_type = 'COMPLETION'";
    let file = stage.world.path("data/obey/daemon.db");
    let rows = std::process::Command::new("sqlite3").arg("-readonly").arg(file).arg(select).output()?;
    ensure!(rows.stdout == format!("{answer}\n{answer}\n").as_bytes(), "{rows:?}");
    stage.close().await
}
