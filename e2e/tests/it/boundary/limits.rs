//! What a session may use of the machine: limits hold for everything its agent starts, are told when they are reached, and
//! nothing of an agent outlives its session. Control groups where the machine gives them to whoever runs the tests.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use e2e::daemon::Daemon;
use e2e::deadline::poll;
use e2e::world::World;
use serde_json::{Value, json};
use wire::betcode::v1::agent_event::Event as BetcodeBody;
use wire::obey::local::v1 as pb;
use wire::roz::v1::session_response::Response as Body;

use super::{PROGRAM, hostile_stage, hostile_stage_with, obey, run_as_agent};
use crate::betcode::talk as betcode;
use crate::roz::talk as roz;
use crate::stage::{Agent, Stage, contents, script};

/// A session of the hostile agent with limits, given as keys and values; returns its id.
async fn limited(stage: &Stage, limits: &[(&str, &str)]) -> Result<String> {
    let mut request = stage.new_session();
    request.provider = pb::SessionProvider::Acp.into();
    request.model = String::new();
    for (key, value) in [("agent", PROGRAM), ("permission_mode", "autonomous")].iter().chain(limits) {
        request.provider_config.insert((*key).into(), (*value).into());
    }
    Ok(stage.create_as(request).await?.id)
}

async fn resources(stage: &Stage, session: &str) -> Result<Value> {
    let info = stage.cli().json(&["session", "info", session]).await?;
    Ok(info["resources"].clone())
}

/// Whether this machine gives control groups; says so where not.
async fn has_groups(stage: &Stage, session: &str) -> Result<bool> {
    let enforcement = resources(stage, session).await?["enforcement"].clone();
    let has = enforcement.as_str().is_some_and(|name| name.starts_with("cgroup"));
    if !has {
        println!("SKIPPED: limits hold by {enforcement} here");
    }
    Ok(has)
}

/// The folders of a session's groups, as its agent's own process names them.
fn groups_of(pid: i32, session: &str) -> Result<BTreeSet<PathBuf>> {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    let mut folders = BTreeSet::new();
    for line in groups.lines().filter(|line| line.contains(session)) {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let kind = if controllers.is_empty() { "cgroup2" } else { "cgroup" };
        let is_mount = |fields: &[&str]| {
            fields[2] == kind
                && (controllers.is_empty()
                    || fields[3].split(',').any(|one| controllers.split(',').any(|c| c == one)))
        };
        let mount =
            mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|fields| is_mount(fields));
        let mount = mount.with_context(|| format!("{line} is mounted nowhere"))?[1].to_owned();
        folders.insert(PathBuf::from(mount).join(path.trim_start_matches('/')));
    }
    Ok(folders)
}

fn text_in(folders: &BTreeSet<PathBuf>, file: &str) -> Option<String> {
    let read = |folder: &PathBuf| std::fs::read_to_string(folder.join(file)).ok();
    folders.iter().find_map(read).map(|text| text.trim().to_owned())
}

/// Forks until it may not, and says how often it did.
const BOMB: &str = "
import os, time
kids = []
try:
    for _ in range(200):
        pid = os.fork()
        if pid == 0:
            time.sleep(1000)
        kids.append(pid)
except OSError:
    print(\"stopped at\", len(kids))
for pid in kids:
    os.kill(pid, 9)
";

#[tokio::test]
async fn a_session_is_held_to_its_processors_and_processes() -> Result<()> {
    let stage = hostile_stage().await?;
    let session =
        limited(&stage, &[("limit_cpus", "1.5"), ("limit_processes", "40"), ("limit_memory", "2G")]).await?;
    if has_groups(&stage, &session).await? {
        let pid = stage.info(&session).await?.pid;
        let groups = groups_of(pid, &session)?;
        ensure!(!groups.is_empty(), "the agent is in no group of its session");
        let quota = text_in(&groups, "cpu.max").or_else(|| text_in(&groups, "cpu.cfs_quota_us"));
        ensure!(quota.as_deref().is_some_and(|quota| quota.starts_with("150000")), "{quota:?}");
        let memory = text_in(&groups, "memory.max").or_else(|| text_in(&groups, "memory.limit_in_bytes"));
        ensure!(memory.as_deref() == Some("2147483648"), "{memory:?}");
        let said = run_as_agent(&stage, &session, &format!("python3 -c '{BOMB}'")).await?;
        let stopped = said.lines().find_map(|line| line.strip_prefix("stopped at ")?.parse::<usize>().ok());
        ensure!(stopped.is_some_and(|count| count < 40), "{said}");
        let after = run_as_agent(&stage, &session, "echo still here").await?;
        ensure!(after.contains("still here"), "{after}");
        let info = stage.cli().ok(&["session", "info", &session]).await?;
        ensure!(info.stdout.contains("memory 2G, cpus 1.5, processes 40 (cgroup v"), "{info:?}");
    }
    stage.close().await
}

/// Fills memory until somebody stops it.
const HOG: &str = "head -c 800M /dev/zero | tail -n 1 > /dev/null; echo ${PIPESTATUS[1]}";

#[tokio::test]
async fn a_command_that_takes_too_much_memory_is_told_and_the_agent_goes_on() -> Result<()> {
    let stage = hostile_stage().await?;
    let session = limited(&stage, &[("limit_memory", "200M")]).await?;
    if has_groups(&stage, &session).await? {
        let said = run_as_agent(&stage, &session, HOG).await?;
        ensure!(said.contains("137"), "the command was killed: {said}");
        let told = |event: &Value| {
            let message = event["message"].as_str().unwrap_or_default();
            event["code"] == "OBEY-2033" && message.contains("(limit 200M, peak ")
        };
        stage.wait_for(&session, "notice", told).await?;
        let after = run_as_agent(&stage, &session, "echo still here").await?;
        ensure!(after.contains("still here"), "{after}");
        let used = resources(&stage, &session).await?;
        ensure!(used["oom_kills"].as_u64() >= Some(1), "{used}");
        ensure!(
            used["peak_memory_bytes"].as_u64().is_some_and(|peak| peak > 100 << 20 && peak <= 200 << 20),
            "{used}"
        );
    }
    stage.close().await
}

#[tokio::test]
async fn an_agent_out_of_memory_fails_with_that_reason() -> Result<()> {
    let stage = hostile_stage().await?;
    let session = limited(&stage, &[("limit_memory", "200M")]).await?;
    if has_groups(&stage, &session).await? {
        let _stream = stage.send(&session, &agent_out_of_memory()).await?;
        stage.wait_for_status(&session, "FAILED").await?;
        let info = stage.info(&session).await?;
        ensure!(info.error_message.starts_with("OBEY-2033: out of memory (limit 200M, peak "), "{info:?}");
        let log = stage.cli().ok(&["session", "log", &session]).await?;
        ensure!(log.stdout.contains("out of memory (limit 200M"), "{log:?}");
        let used = resources(&stage, &session).await?;
        ensure!(
            used["oom_kills"].as_u64() >= Some(1) && used["enforcement"] != "none",
            "after its end: {used}"
        );
    }
    stage.close().await
}

/// Everything but the agent itself is spared.
fn agent_out_of_memory() -> String {
    format!("echo 1000 > /proc/$PPID/oom_score_adj; echo 0 > /proc/$$/oom_score_adj; {HOG}")
}

/// A client of each published interface is told why its agent is gone.
#[tokio::test]
async fn every_surface_says_that_an_agent_ran_out_of_memory() -> Result<()> {
    let stage = hostile_stage_with(|world| {
        world.set_env("OBEY_LIMITS_MEMORY", "200M");
        Ok(())
    });
    let stage = stage.await?;
    let session = limited(&stage, &[]).await?;
    if has_groups(&stage, &session).await? {
        let mut editor = crate::acp::editor(&stage, &[]).await?;
        let place = json!({"sessionId": session, "cwd": stage.world.project(), "mcpServers": []});
        editor.result("session/load", place).await?;
        let mut betcode = betcode::Talk::start(&stage.clients, betcode::again(&session, 0)).await?;
        let id = editor.prompt(&session, &agent_out_of_memory()).await?;
        let answer = format!("{:?}", editor.answer(id).await?);
        ensure!(
            answer.contains("OBEY-2033") && answer.contains("out of memory (limit 200M"),
            "ACP: {answer}"
        );
        let told = betcode.until("an error", |body| matches!(body, BetcodeBody::Error(_))).await?;
        ensure!(format!("{told:?}").contains("out of memory (limit 200M"), "betcode: {told:?}");
        editor.close().await?;

        let project = stage.world.project().display().to_string();
        let config = json!({"agent": PROGRAM}).to_string();
        let words = [
            "environment",
            "create",
            "lab",
            "--dir",
            &project,
            "--provider",
            "acp",
            "--mode",
            "autonomous",
            "--config",
            &config,
        ];
        let made = stage.cli().json(&words).await?;
        let mut talk = roz::Talk::start(&stage, roz::start(made["id"].as_str().context("no id")?)).await?;
        talk.prompt("m-1", &agent_out_of_memory()).await?;
        let told =
            talk.until("an error", |body| matches!(body, Body::Error(_)).then(|| body.clone())).await?;
        ensure!(format!("{told:?}").contains("out of memory (limit 200M"), "roz: {told:?}");
    }
    stage.close().await
}

/// Detached from its parents, its session and its environment, with its shim killed by itself.
#[tokio::test]
async fn what_hides_from_its_parents_dies_with_the_session() -> Result<()> {
    let stage = hostile_stage().await?;
    for kills_shim in [false, true] {
        let session = limited(&stage, &[]).await?;
        if !has_groups(&stage, &session).await? {
            break;
        }
        let hide = "setsid env -i sh -c 'setsid sh -c \"echo \\$\\$ > hidden; exec sleep 100000\" & exit 0' \
                    > /dev/null 2>&1 & while ! [ -s hidden ]; do sleep 0.05; done";
        run_as_agent(&stage, &session, &format!("rm -f hidden; {hide}")).await?;
        let hidden = std::fs::read_to_string(stage.world.project().join("hidden"))?.trim().to_owned();
        ensure!(PathBuf::from(format!("/proc/{hidden}")).exists(), "it runs");
        let groups = groups_of(stage.info(&session).await?.pid, &session)?;
        if kills_shim {
            let kill = "kill -9 $(awk '{print $4}' /proc/$PPID/stat)";
            let _stream = stage.send(&session, kill).await?;
            stage.wait_for_status(&session, "FAILED").await?;
        } else {
            stage.stop(&session, false).await?;
        }
        let gone = || (!PathBuf::from(format!("/proc/{hidden}")).exists()).then_some(());
        poll("the hidden process is gone", gone).await?;
        let removed = || groups.iter().all(|folder| !folder.exists()).then_some(());
        poll("the groups are gone", removed).await?;
    }
    stage.close().await
}

#[tokio::test]
async fn limits_and_figures_survive_the_daemon_and_the_agent() -> Result<()> {
    let mut stage = hostile_stage().await?;
    let session = limited(&stage, &[("limit_memory", "1G"), ("limit_processes", "300")]).await?;
    let before = resources(&stage, &session).await?;
    let pid = stage.info(&session).await?.pid;
    let limits = json!({"memory_bytes": 1 << 30, "processes": 300});
    ensure!(before["limits"] == limits, "{before}");
    stage.daemon.kill9().await?;
    stage.daemon = Daemon::start(&stage.world).await?;
    stage.clients = stage.daemon.clients().await?;
    let said = run_as_agent(&stage, &session, "echo still here").await?;
    ensure!(said.contains("still here"), "{said}");
    let after = resources(&stage, &session).await?;
    ensure!(after["limits"] == limits && after["enforcement"] == before["enforcement"], "{after}");
    if has_groups(&stage, &session).await? {
        ensure!(
            after["peak_memory_bytes"].as_u64() > Some(0) && after["cpu_ms"].as_u64() > Some(0),
            "{after}"
        );
        let groups = groups_of(pid, &session)?;
        stage.stop(&session, false).await?;
        ensure!(groups.iter().all(|folder| !folder.exists()), "its groups went with it: {groups:?}");
        let ended = resources(&stage, &session).await?;
        ensure!(ended["peak_memory_bytes"].as_u64() >= after["peak_memory_bytes"].as_u64(), "{ended}");
        ensure!(ended["cpu_ms"].as_u64() >= after["cpu_ms"].as_u64(), "{ended}");
        stage.restart(&session).await?;
        let groups = groups_of(stage.info(&session).await?.pid, &session)?;
        let processes = text_in(&groups, "pids.max");
        ensure!(processes.as_deref() == Some("300"), "after a restart: {processes:?}");
    }
    stage.close().await
}

/// Groups of sessions whose daemon and agents were killed do not stay.
#[tokio::test]
async fn what_a_killed_daemon_left_is_swept() -> Result<()> {
    let mut stage = hostile_stage().await?;
    let session = limited(&stage, &[]).await?;
    if has_groups(&stage, &session).await? {
        let groups = groups_of(stage.info(&session).await?.pid, &session)?;
        let leftover: Vec<PathBuf> = groups
            .iter()
            .map(|folder| {
                let name =
                    folder.file_name().unwrap_or_default().to_string_lossy().replace(&session, "sess_gone");
                folder.with_file_name(name)
            })
            .collect();
        stage.daemon.kill9().await?;
        for folder in &leftover {
            std::fs::create_dir(folder)?;
        }
        stage.daemon = Daemon::start(&stage.world).await?;
        stage.clients = stage.daemon.clients().await?;
        let swept = || leftover.iter().all(|folder| !folder.exists()).then_some(());
        poll("the leftover groups are gone", swept).await?;
        ensure!(groups.iter().all(|folder| folder.exists()), "the living one stays");
        let said = run_as_agent(&stage, &session, "echo still here").await?;
        ensure!(said.contains("still here"), "{said}");
    }
    stage.close().await
}

#[tokio::test]
async fn a_limit_that_cannot_be_read_or_kept_is_refused_by_name() -> Result<()> {
    let stage = Stage::open_with(Agent::Scripted, |world| {
        world.set_env("OBEY_LIMITS_CAMPAIGNS", "demo=memory:1G");
        world.set_env("OBEY_LIMITS_PROCESSES", "1000");
        Ok(())
    });
    let stage = stage.await?.context("the scripted agent is part of the daemon")?;
    for (flag, value, remedy) in [
        ("--memory", "much", "such as 4G"),
        ("--memory", "4", "such as 4G"),
        ("--cpus", "0", "such as 2 or 0.5"),
        ("--processes", "many", "such as 500"),
    ] {
        let refused = stage.cli().run(&["session", "create", "-p", "scripted", flag, value]).await?;
        ensure!(refused.code == Some(2), "{refused:?}");
        ensure!(refused.stderr.contains(flag) && refused.stderr.contains(remedy), "{refused:?}");
    }
    for (key, value, why) in [
        ("limit_memory", "2G", "the campaign allows at most 1G"),
        ("limit_memory", "x", "such as 4G"),
        ("limit_cpus", "-1", "such as 2 or 0.5"),
    ] {
        let mut request = stage.new_session();
        request.provider_config.insert(key.into(), value.into());
        let refused =
            stage.clients.local.clone().create_session(request).await.err().context("it was created")?;
        let message = refused.message();
        ensure!(message.contains(&format!("provider_config.{key}: ")) && message.contains(why), "{message}");
    }
    let session = stage.create().await?;
    let limits = resources(&stage, &session).await?["limits"].clone();
    ensure!(limits == json!({"memory_bytes": 1 << 30, "processes": 1000}), "as configured: {limits}");
    stage.close().await
}

#[tokio::test]
async fn without_the_reserve_no_agent_is_started() -> Result<()> {
    let stage = Stage::open_with(Agent::Scripted, |world| {
        world.set_env("OBEY_LIMITS_RESERVE", "1000T");
        Ok(())
    });
    let stage = stage.await?.context("the scripted agent is part of the daemon")?;
    let refused = stage.clients.local.clone().create_session(stage.new_session()).await;
    let refused = refused.err().context("it was created")?;
    ensure!(refused.code() == tonic::Code::ResourceExhausted, "{refused:?}");
    ensure!(
        refused.message().contains("OBEY-1004") && refused.message().contains("limits.reserve"),
        "{refused:?}"
    );
    let all = stage.cli().json(&["session", "list", "--all"]).await?;
    ensure!(all["sessions"].as_array().is_some_and(Vec::is_empty), "nothing is on record: {all}");
    stage.close().await
}

#[tokio::test]
async fn a_session_that_ended_is_restarted_only_within_the_reserve() -> Result<()> {
    let mut stage = crate::stage::stage!(Agent::Scripted);
    let session = stage.create().await?;
    stage.stop(&session, true).await?;
    stage.daemon.terminate().await?;
    stage.world.set_env("OBEY_LIMITS_RESERVE", "1000T");
    stage.daemon = Daemon::start(&stage.world).await?;
    stage.clients = stage.daemon.clients().await?;
    let refused = stage.cli().run(&["session", "restart", &session]).await?;
    ensure!(refused.stderr.contains("OBEY-1004") && refused.stderr.contains("limits.reserve"), "{refused:?}");
    let info = stage.cli().json(&["session", "info", &session]).await?;
    ensure!(info["restart_count"].as_u64().unwrap_or(0) == 0, "nothing was started: {info}");
    stage.close().await
}

#[tokio::test]
async fn a_limit_that_nothing_would_enforce_is_refused() -> Result<()> {
    let stage = crate::stage::stage!(Agent::Openai);
    for (key, value) in [("limit_memory", "1G"), ("limit_cpus", "1"), ("limit_processes", "100")] {
        let mut request = stage.new_session();
        request.provider_config.insert(key.into(), value.into());
        let refused = stage.clients.local.clone().create_session(request).await;
        let message = refused.err().context("it was created")?.message().to_owned();
        ensure!(message.contains("OBEY-2005") && message.contains("cannot be enforced"), "{message}");
        ensure!(message.contains(key) && message.contains("no process of its own"), "{message}");
    }
    stage.close().await
}

#[tokio::test]
async fn doctor_says_by_what_limits_hold() -> Result<()> {
    let stage = hostile_stage().await?;
    let session = limited(&stage, &[("limit_memory", "4G")]).await?;
    let enforcement =
        resources(&stage, &session).await?["enforcement"].as_str().unwrap_or_default().to_owned();
    let doctor = stage.cli().run(&["doctor"]).await?;
    ensure!(
        doctor.stdout.contains(&format!("agents are held to their limits by {enforcement}")),
        "{doctor:?}"
    );
    stage.close().await
}

/// An ordinary user to whom nobody delegates a group.
#[tokio::test]
async fn limits_hold_for_every_process_where_there_are_no_groups() -> Result<()> {
    let Some(world) = World::of_user(61_235)? else { return Ok(()) };
    let agent = format!(
        "hostile=python3 {}",
        e2e::tools::repository().join("e2e/tests/acp/shell_agent.py").display()
    );
    world.set_env("OBEY_ACP_AGENTS", agent);
    let mut daemon = Daemon::start(&world).await?;
    let cli = e2e::cli::Cli::new(&world);
    cli.ok(&["campaign", "add", &world.project().display().to_string(), "--name", "demo"]).await?;
    let words = [
        "session",
        "create",
        "-c",
        "demo",
        "-p",
        "acp",
        "--config",
        r#"{"agent":"hostile"}"#,
        "--mode",
        "autonomous",
    ];
    let limits = ["--memory", "1G", "--cpus", "1", "--processes", "100"];
    let created = cli.json(&[&words[..], &limits].concat()).await?;
    let session = created["id"].as_str().context("no id")?.to_owned();
    let info = cli.json(&["session", "info", &session]).await?;
    ensure!(info["resources"]["enforcement"] == "rlimits", "{info}");
    let pid = info["pid"].as_u64().context("no pid")?;
    let held = std::fs::read_to_string(format!("/proc/{pid}/limits"))?;
    let row = |name: &str| held.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    ensure!(row("Max data size").contains("1073741824"), "{held}");
    ensure!(row("Max processes").contains("100"), "{held}");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or_default();
    ensure!(cpus.trim().parse::<u32>().is_ok(), "one processor: {cpus}");
    let said = cli.ok(&["session", "send", &session, "echo works"]).await?;
    ensure!(said.stdout.contains("works"), "{said:?}");
    daemon.terminate().await?;
    cli.run(&["stop", "--sessions"]).await.ok();
    Ok(())
}

/// A real agent has room enough in limits that a careful user would choose.
#[tokio::test]
async fn real_claude_works_within_limits() -> Result<()> {
    let stage = crate::stage::stage!(Agent::Claude);
    let mut request = stage.new_session();
    for (key, value) in [("limit_memory", "4G"), ("limit_cpus", "2"), ("limit_processes", "500")] {
        request.provider_config.insert(key.into(), value.into());
    }
    let session = stage.create_as(request).await?.id;
    let prompt = script(Agent::Claude, "limited", &json!([{"text": "done within limits"}]));
    let events = stage.turn(&session, &prompt).await?;
    ensure!(contents(&events, pb::ActivityType::Completion).contains("done within limits"), "{events:#?}");
    let used = resources(&stage, &session).await?;
    println!("claude used {used}");
    stage.close().await
}

/// Whatever its ancestors are, a process in an agent's group is the agent's: also one whose shim is dead.
#[tokio::test]
async fn a_process_in_an_agents_group_is_the_agents() -> Result<()> {
    let stage = hostile_stage().await?;
    let session = limited(&stage, &[]).await?;
    if has_groups(&stage, &session).await? {
        let call = format!("{} session list 2>&1; echo exit $?", obey(&stage)?);
        let run = |script: String| stage.world.command("sh").args(["-c", &script]).output();
        let outside = String::from_utf8(run(call.clone())?.stdout)?;
        ensure!(outside.contains(&session) && outside.contains("exit 0"), "the user's own: {outside}");
        for group in groups_of(stage.info(&session).await?.pid, &session)? {
            let joined = format!("echo 0 > {}/cgroup.procs && {call}", group.display());
            let said = String::from_utf8(run(joined)?.stdout)?;
            let refusal = format!("an agent of {session}");
            ensure!(said.contains("OBEY-1002") && said.contains(&refusal), "{}: {said}", group.display());
        }
    }
    stage.close().await
}

/// Killing its own shim does not make an agent's process the user's.
#[tokio::test]
async fn an_agent_that_kills_its_shim_is_still_the_agent() -> Result<()> {
    let stage = hostile_stage().await?;
    let (session, other) = (limited(&stage, &[]).await?, stage.create().await?);
    if has_groups(&stage, &session).await? {
        // Calls again and again, before and after its shim and the agent are dead, until it is killed itself.
        let folder = stage.world.project();
        let loops = format!("#!/bin/sh\nwhile :; do {} session list >> said 2>&1; done\n", obey(&stage)?);
        std::fs::write(folder.join("caller"), loops)?;
        let begin = "touch said; setsid env -i PATH=$PATH setsid sh ./caller > /dev/null 2>&1 & \
                     while ! grep -q OBEY-1002 said; do sleep 0.05; done; kill -9 $(awk '{print $4}' /proc/$PPID/stat)";
        let _stream = stage.send(&session, begin).await?;
        stage.wait_for_status(&session, "FAILED").await?;
        let said = std::fs::read_to_string(folder.join("said"))?;
        ensure!(!said.contains(&other), "it spoke for the user: {said}");
    }
    stage.close().await
}
