//! Agents in the sandbox: a hostile one finds no way out, and real ones work there.

use std::os::unix::net::UnixListener;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use wire::obey::local::v1 as pb;
use wire::obey::v1 as own;

use super::{hostile_stage, run_as_agent};
use crate::stage::{Agent, Stage, contents, script};

/// Creates a session of the hostile agent in the sandbox; returns its id.
pub(super) async fn contained_session(stage: &Stage, network: &str) -> Result<String> {
    contained_session_in(stage, network, "").await
}

/// The same in a folder of the project.
async fn contained_session_in(stage: &Stage, network: &str, folder: &str) -> Result<String> {
    let mut request = stage.new_session();
    request.provider = pb::SessionProvider::Acp.into();
    request.model = String::new();
    let agent = e2e::tools::repository().join("e2e/tests/acp/shell_agent.py").display().to_string();
    for (key, value) in [
        ("agent", "goose"),
        ("permission_mode", "autonomous"),
        ("agent_sandbox", "true"),
        ("agent_network", network),
        ("workdir", folder),
        ("sandbox_read_only", &agent),
        ("sandbox_endpoints", &stage.world.model().openai_base_url()),
    ] {
        request.provider_config.insert(key.into(), value.into());
    }
    Ok(stage.create_as(request).await?.id)
}

const NETWORKS: [&str; 3] = ["full", "model", "none"];

/// What the machine has beside the project: another project, secrets at home, the daemon's own files and other servers.
fn furnish(stage: &Stage) -> Result<UnixListener> {
    let world = &stage.world;
    for (file, text) in [("other/secret", "canary"), ("home/.ssh/id", "canary"), ("home/.netrc", "canary")] {
        let file = world.path(file);
        std::fs::create_dir_all(file.parent().context("a folder")?)?;
        std::fs::write(file, text)?;
    }
    Ok(UnixListener::bind(world.path("run/tmux"))?)
}

#[tokio::test]
async fn a_hostile_agent_sees_its_project_and_nothing_else() -> Result<()> {
    let stage = hostile_stage().await?;
    let _tmux = furnish(&stage)?;
    let root = stage.world.root().display().to_string();
    for network in NETWORKS {
        let session = contained_session(&stage, network).await?;
        let probes = format!(
            "cat {root}/other/secret {root}/home/.ssh/id {root}/home/.netrc ~/.netrc; cat {root}/run/obey/token; \
             ls -A {root} {root}/data {root}/run {root}/config; find / -name 'daemon.d[b]*' -o -name 'daemon.sock' -o -name 'spool*' \
             2>/dev/null | grep -v ^/proc | grep -v ^/run/obey/daemon.sock; for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done; \
             touch {root}/escaped /usr/escaped /etc/escaped"
        );
        let said = run_as_agent(&stage, &session, &probes).await?;
        ensure!(said.contains("exit "), "{network}: the probes ran: {said}");
        for trace in ["canary", "secret\n", ".netrc\n", "daemon.db", " shim ", "tmux"] {
            ensure!(!said.contains(trace), "{network}: {trace} is seen: {said}");
        }
        ensure!(!stage.world.path("escaped").exists(), "{network}: it wrote outside");
        // Everything it can reach is itself.
        let _ended = run_as_agent(&stage, &session, "kill -9 -1").await;
        stage.wait_for_status(&session, "FAILED").await?;
    }
    let alive = stage.cli().run(&["ping"]).await?;
    ensure!(alive.code == Some(0), "the daemon lives: {alive:?}");
    stage.close().await
}

#[tokio::test]
async fn a_contained_agent_reaches_the_daemon_as_itself_and_nobody_else() -> Result<()> {
    let stage = hostile_stage().await?;
    let (obey, other) = (stage.world.obey()?.display().to_string(), stage.create().await?);
    for network in NETWORKS {
        let session = contained_session(&stage, network).await?;
        let call = format!("{obey} --socket $OBEY_DAEMON_SOCKET --no-autostart");
        for what in ["session list", "campaign list", "stop"] {
            let said = run_as_agent(&stage, &session, &format!("{call} {what} 2>&1")).await?;
            ensure!(said.contains("OBEY-1002"), "{network}: {what}: {said}");
        }
        let log = |session: &str| format!("{call} session log {session} --limit 1 2>&1");
        let own = run_as_agent(&stage, &session, &log(&session)).await?;
        ensure!(own.contains("exit 0") && !own.contains("OBEY-"), "{network}: its own session: {own}");
        let foreign = run_as_agent(&stage, &session, &log(&other)).await?;
        ensure!(foreign.contains("OBEY-1002"), "{network}: another session: {foreign}");
    }
    stage.close().await
}

#[tokio::test]
async fn a_contained_agent_reaches_by_network_what_was_chosen() -> Result<()> {
    let stage = hostile_stage().await?;
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let other = listener.local_addr()?;
    let url = stage.world.model().openai_base_url();
    let model = url.trim_start_matches("http://").split('/').next().unwrap_or_default().to_owned();
    let reach = |address: &str| {
        let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
        format!("(exec 3<>/dev/tcp/{host}/{port}) 2>/dev/null && echo reached || echo refused")
    };
    for (network, at_model, elsewhere) in
        [("full", "reached", "reached"), ("model", "reached", "refused"), ("none", "refused", "refused")]
    {
        let session = contained_session(&stage, network).await?;
        let said = run_as_agent(&stage, &session, &reach(&model)).await?;
        ensure!(said.starts_with(at_model), "{network}, its model: {said}");
        let said = run_as_agent(&stage, &session, &reach(&other.to_string())).await?;
        ensure!(said.starts_with(elsewhere), "{network}, another port: {said}");
    }
    stage.close().await
}

/// The agent of a linked working tree sees that tree, and so do the tools that the daemon runs for it.
#[tokio::test]
async fn tools_of_a_contained_agent_reach_no_more_than_it_does() -> Result<()> {
    let stage = hostile_stage().await?;
    let (project, obey) = (stage.world.project(), stage.world.obey()?.display().to_string());
    let git =
        stage.world.command("git").args(["worktree", "add", "-q", "tree"]).current_dir(&project).status()?;
    ensure!(git.success(), "git worktree add: {git}");
    std::fs::write(project.join("beside"), "canary")?;
    let session = contained_session_in(&stage, "none", "tree").await?;
    let root = project.display();
    let script = format!(
        "touch seen; git status --short; cat {root}/beside; echo x > {root}/.git/worktrees/tree/commondir; \
         echo x >> {root}/.git/packed-refs; echo x >> {root}/.git/HEAD; mv {root}/.git/HEAD {root}/.git/was; \
         git add seen && git -c user.name=A -c user.email=a@e.invalid commit -qm seen && git branch extra && \
         git checkout -qb more && git log -1 --format=committed-%s; \
         mv {root}/.git/worktrees/tree {root}/.git/worktrees/was; \
         {obey} --socket $OBEY_DAEMON_SOCKET --no-autostart exec --sandbox --session {session} -- \
         'pwd; ls; cat {root}/beside; touch {root}/escaped' 2>&1"
    );
    let said = run_as_agent(&stage, &session, &script).await?;
    ensure!(said.contains("?? seen") && said.contains("tree\n") && !said.contains("canary"), "{said}");
    ensure!(project.join("tree/seen").exists() && !project.join("escaped").exists(), "{said}");
    let own = std::fs::read_to_string(project.join(".git/worktrees/tree/commondir"))?;
    ensure!(own == "../..\n", "{own}");
    ensure!(said.contains("committed-seen"), "git works in the tree: {said}");
    let main = stage.world.command("git").args(["log", "-1", "--format=%s", "extra"]).output()?;
    ensure!(main.status.success() && main.stdout.starts_with(b"seen"), "and in the repository: {main:?}");
    let status = stage.world.command("git").args(["status"]).output()?;
    ensure!(String::from_utf8_lossy(&status.stdout).starts_with("On branch main"), "{status:?}");
    // Under a name of its own, another process of the user could speak for the agent.
    let run = stage.world.path(&format!("data/obey/agents/{session}.1"));
    ensure!(run.is_dir() && !run.join("daemon.sock").exists(), "{}", run.display());
    stage.close().await
}

#[tokio::test]
async fn how_a_session_is_contained_is_shown() -> Result<()> {
    let stage = hostile_stage().await?;
    let (contained, free) = (contained_session(&stage, "model").await?, stage.create().await?);
    let info = stage.cli().run(&["session", "info", &contained, "--json"]).await?;
    ensure!(info.stdout.contains(r#""containment":"sandbox, network model""#), "{info:?}");
    let info = stage.cli().run(&["session", "info", &free]).await?;
    ensure!(
        info.stdout.contains("Contained") && info.stdout.contains("no (start it with --sandbox)"),
        "{info:?}"
    );
    let doctor = stage.cli().run(&["doctor"]).await?;
    ensure!(doctor.stdout.contains("1 of 2 agents in the sandbox"), "{doctor:?}");
    stage.close().await
}

/// A setting without effect would be worse than none.
#[tokio::test]
async fn what_the_configuration_demands_no_request_takes_back() -> Result<()> {
    let stage = Stage::open_with(Agent::Scripted, |world| {
        std::fs::create_dir_all(world.path("config/obey"))?;
        Ok(std::fs::write(
            world.path("config/obey/config.toml"),
            "[sandbox]\nagents = true\nnetwork = \"model\"\nmodel_hosts = [\"model.invalid:443\"]\n",
        )?)
    });
    let stage = stage.await?.context("the scripted agent is part of the daemon")?;
    let session = stage.create().await?;
    let info = stage.cli().run(&["session", "info", &session, "--json"]).await?;
    ensure!(info.stdout.contains(r#""containment":"sandbox, network model""#), "{info:?}");
    for (key, value) in [("agent_sandbox", "false"), ("agent_network", "full")] {
        let mut request = stage.new_session();
        request.provider_config.insert(key.into(), value.into());
        let refused = stage.clients.local.clone().create_session(request).await;
        let message = refused.err().context("it was created")?.message().to_owned();
        ensure!(message.contains(key), "{message}");
    }
    stage.close().await
}

#[tokio::test]
async fn a_contained_agent_outlives_the_daemon() -> Result<()> {
    let mut stage = hostile_stage().await?;
    let session = contained_session(&stage, "none").await?;
    let before = stage.info(&session).await?.pid;
    stage.daemon.kill9().await?;
    stage.daemon = e2e::daemon::Daemon::start(&stage.world).await?;
    stage.clients = stage.daemon.clients().await?;
    let said = run_as_agent(&stage, &session, "echo still here").await?;
    ensure!(said.contains("still here"), "{said}");
    ensure!(stage.info(&session).await?.pid == before, "the same process");
    let obey = stage.world.obey()?.display().to_string();
    let call =
        format!("{obey} --socket $OBEY_DAEMON_SOCKET --no-autostart session log {session} --limit 1 2>&1");
    let own = run_as_agent(&stage, &session, &call).await?;
    ensure!(own.contains("exit 0") && !own.contains("OBEY-"), "it reaches the new daemon: {own}");
    stage.close().await
}

/// The daemon itself calls the model of an `openai-api` session and runs its tools: nothing else may be said of it.
#[tokio::test]
async fn a_session_in_the_daemon_is_not_said_to_be_in_the_sandbox() -> Result<()> {
    let stage = crate::stage::stage!(Agent::Openai);
    let create = async |network: &str| {
        let mut request = stage.new_session();
        request.provider_config.insert("agent_network".into(), network.into());
        stage.clients.local.clone().create_session(request).await
    };
    let session = create("model").await?.into_inner().session.context("no session")?.id;
    let info = stage.cli().run(&["session", "info", &session]).await?;
    ensure!(info.stdout.contains("in the daemon, commands in the workbench's sandbox"), "{info:?}");
    let doctor = stage.cli().run(&["doctor"]).await?;
    ensure!(doctor.stdout.contains("0 of 1 agents in the sandbox"), "{doctor:?}");
    let refused = create("none").await.err().context("it was created")?;
    ensure!(refused.message().contains("OBEY-2005"), "{refused:?}");
    stage.close().await
}

#[tokio::test]
async fn settings_of_codex_without_effect_inside_are_refused() -> Result<()> {
    let stage = crate::stage::stage!(Agent::Codex);
    for (key, value) in [("sandbox", "read-only"), ("network_access", "true")] {
        let mut request = stage.new_session();
        request.provider_config.insert("agent_network".into(), "model".into());
        request.provider_config.insert(key.into(), value.into());
        let refused = stage.clients.local.clone().create_session(request).await;
        let message = refused.err().context("it was created")?.message().to_owned();
        ensure!(message.contains(&format!("provider_config.{key}: ")), "{message}");
    }
    stage.close().await
}

/// Codex' own sandbox is not there, so that nobody is asked: the wall is ours.
#[tokio::test]
async fn codex_that_may_edit_runs_commands_unasked_and_finds_nothing_outside() -> Result<()> {
    let stage = crate::stage::stage!(Agent::Codex);
    std::fs::create_dir_all(stage.world.path("other"))?;
    std::fs::write(stage.world.path("other/secret"), "canary")?;
    for mode in ["acceptEdits", "autonomous"] {
        let mut request = stage.new_session();
        request.provider_config.insert("agent_network".into(), "model".into());
        request.provider_config.insert("permission_mode".into(), mode.into());
        let session = stage.create_as(request).await?.id;
        let root = stage.world.root().display().to_string();
        let command = format!("touch made-{mode}; cat {root}/other/secret; touch {root}/other/escaped");
        let steps = json!([{"tool": "Bash", "input": {"command": command}}, {"text": "done inside"}]);
        let events = stage.turn(&session, &script(Agent::Codex, mode, &steps)).await?;
        ensure!(contents(&events, pb::ActivityType::Completion).contains("done inside"), "{events:#?}");
        ensure!(stage.world.project().join(format!("made-{mode}")).exists(), "{mode}: {events:#?}");
        ensure!(!contents(&events, pb::ActivityType::ToolResult).contains("canary"), "{mode}: {events:#?}");
        ensure!(!stage.world.path("other/escaped").exists(), "{mode}: it wrote outside");
        ensure!(stage.requests(&session, true).await?.is_empty(), "{mode}: it asked");
    }
    stage.close().await
}

/// Codex makes its databases where it finds none, which takes a third of its start. They are made once, by Codex alone.
#[tokio::test]
async fn the_databases_of_codex_are_prepared_and_hold_nothing_of_a_session() -> Result<()> {
    let stage = crate::stage::stage!(Agent::Codex);
    let contained = || {
        let mut request = stage.new_session();
        request.provider_config.insert("agent_network".into(), "model".into());
        request.provider_config.insert("permission_mode".into(), "autonomous".into());
        request
    };
    let first = stage.create_as(contained()).await?.id;
    let turn = stage.turn(&first, &script(Agent::Codex, "first", &json!([{"text": "said first"}]))).await?;
    ensure!(contents(&turn, pb::ActivityType::Completion).contains("said first"), "{turn:#?}");
    let cache = stage.world.path("home/.cache/obey");
    let prepared = || -> Vec<std::path::PathBuf> {
        let folders = std::fs::read_dir(&cache).into_iter().flatten().flatten().map(|entry| entry.path());
        let folders = folders.filter(|path| path.extension().is_none());
        folders.flat_map(std::fs::read_dir).flatten().flatten().map(|entry| entry.path()).collect()
    };
    e2e::deadline::poll("prepared databases", || Some(prepared()).filter(|files| !files.is_empty())).await?;
    let project = stage.world.project().display().to_string();
    for file in prepared() {
        let content = std::fs::read(&file)?;
        for private in [first.as_str(), project.as_str(), "said first"] {
            let found = content.windows(private.len()).any(|window| window == private.as_bytes());
            ensure!(!found, "{} holds {private:?}", file.display());
        }
    }
    // The next one finds them, and what it writes there stays inside.
    let second = stage.create_as(contained()).await?.id;
    let command = "ls ~/.codex; echo marked >> ~/.codex/state_5.sqlite";
    let steps = json!([{"tool": "Bash", "input": {"command": command}}, {"text": "said second"}]);
    let events = stage.turn(&second, &script(Agent::Codex, "second", &steps)).await?;
    ensure!(contents(&events, pb::ActivityType::ToolResult).contains("state_5.sqlite"), "{events:#?}");
    for file in prepared() {
        ensure!(!std::fs::read(&file)?.ends_with(b"marked\n"), "{} was changed", file.display());
    }
    stage.close().await
}

/// Conversations of others, as the real agents keep them, and where such an agent looks for its own.
const CONVERSATIONS: [&str; 3] = [
    "home/.claude/projects/-other/talk.jsonl",
    "home/.codex/sessions/2026/01/01/rollout-2026-01-01T00-00-00-0.jsonl",
    "home/.codex/archived_sessions/rollout-0.jsonl",
];

/// Puts there what an agent in the sandbox must not find: another project, and what was said to other agents.
fn furnish_for_real_agents(world: &e2e::world::World) -> Result<()> {
    for name in ["other/secret"].iter().chain(&CONVERSATIONS) {
        let file = world.path(name);
        std::fs::create_dir_all(file.parent().context("a folder")?)?;
        std::fs::write(file, "canary\n")?;
    }
    let everything = json!({"hasCompletedOnboarding": true, "projects": {"/other": {"history": ["canary"]}}});
    std::fs::write(world.path("home/.claude.json"), everything.to_string())?;
    world.hand_over()?;
    Ok(())
}

/// A command that works in the project and looks for what is not the agent's.
fn searching(world: &e2e::world::World) -> String {
    let root = world.root().display();
    format!(
        "touch made; cat {root}/other/secret {root}/home/.claude.json; grep -rs can[a]ry {root}/home; \
         echo x > .mcp.json; echo x > .claude/settings.json; true"
    )
}

/// A turn in which the agent asks, runs a command in its project, and cannot read outside of it.
async fn a_turn_with_tools_works_inside(agent: Agent, network: &str) -> Result<()> {
    let stage = crate::stage::stage!(agent);
    furnish_for_real_agents(&stage.world)?;
    let mut request = stage.new_session();
    request.provider_config.insert("agent_sandbox".into(), "true".into());
    request.provider_config.insert("agent_network".into(), network.into());
    let session = stage.create_as(request).await?.id;
    let command = searching(&stage.world);
    let prompt = script(agent, "inside", &json!([agent.asking(&command), {"text": "done inside"}]));
    let turn = stage.send(&session, &prompt).await?;
    let asked = stage.wait_for_request(&session).await?;
    stage.decide(&session, &asked.id, own::Decision::AllowOnce).await?;
    let events = e2e::clients::collect(turn).await?;
    ensure!(contents(&events, pb::ActivityType::Completion).contains("done inside"), "{events:#?}");
    ensure!(stage.world.project().join("made").exists(), "{network}: {events:#?}");
    let seen = contents(&events, pb::ActivityType::ToolResult);
    ensure!(!seen.contains("canary"), "{network}: {seen}");
    stage.stop(&session, true).await?;
    stage.restart(&session).await?;
    let again = stage.turn(&session, &script(agent, "again", &json!([{"text": "remembered"}]))).await?;
    ensure!(contents(&again, pb::ActivityType::Completion).contains("remembered"), "{again:#?}");
    let bodies = stage.world.model().requests();
    let last = bodies.last().context("the model was asked")?;
    ensure!(
        agent.history(&last.body).contains("done inside"),
        "{network}: the conversation goes on: {last:#?}"
    );
    stage.stop(&session, false).await?;
    for name in [".mcp.json", ".claude", ".obey", ".envrc"] {
        ensure!(!stage.world.project().join(name).exists(), "{name} is left in the project");
    }
    stage.close().await
}

/// The same for a user without rights, as far as the command line shows it.
async fn a_turn_works_inside_for_an_ordinary_user(
    world: Option<e2e::world::World>,
    agent: Agent,
    network: &str,
) -> Result<()> {
    let Some(world) = world else { return Ok(()) };
    furnish_for_real_agents(&world)?;
    let daemon = e2e::daemon::Daemon::start(&world).await?;
    let cli = e2e::cli::Cli::new(&world);
    let project = world.project().display().to_string();
    cli.ok(&["campaign", "add", &project, "--name", "demo"]).await?;
    let words = [
        "session",
        "create",
        "-c",
        "demo",
        "-p",
        agent.name(),
        "--model",
        agent.model(),
        "--mode",
        "autonomous",
    ];
    let created = cli.json(&[&words[..], &["--sandbox", "--network", network]].concat()).await?;
    let session = created["id"].as_str().context("no id")?.to_owned();
    let steps = json!([{"tool": "Bash", "input": {"command": searching(&world)}}, {"text": "done inside"}]);
    let said = cli.ok(&["session", "send", &session, &script(agent, "inside", &steps)]).await?;
    ensure!(said.stdout.contains("done inside"), "{said:?}");
    ensure!(world.project().join("made").exists(), "{network}: {said:?}");
    let log = cli.ok(&["session", "log", &session, "--json"]).await?.stdout;
    let results: Vec<&str> = log.lines().filter(|line| line.contains("tool_finished")).collect();
    ensure!(!results.is_empty() && !results.iter().any(|line| line.contains("canary")), "{results:#?}");
    cli.ok(&["stop", "--sessions"]).await?;
    daemon.assert_no_descendants().await
}

macro_rules! inside {
    ($module:ident, $agent:ident, $of_user:ident) => {
        mod $module {
            #[tokio::test]
            async fn a_turn_with_tools_works_for_an_ordinary_user() -> anyhow::Result<()> {
                for network in ["full", "model"] {
                    let world = e2e::world::World::$of_user(super::super::escape::ORDINARY_USER)?;
                    let agent = crate::stage::Agent::$agent;
                    super::a_turn_works_inside_for_an_ordinary_user(world, agent, network).await?;
                }
                Ok(())
            }

            #[tokio::test]
            async fn a_turn_with_tools_works_with_the_whole_network() -> anyhow::Result<()> {
                super::a_turn_with_tools_works_inside(crate::stage::Agent::$agent, "full").await
            }

            #[tokio::test]
            async fn a_turn_with_tools_works_with_the_models_endpoint_only() -> anyhow::Result<()> {
                super::a_turn_with_tools_works_inside(crate::stage::Agent::$agent, "model").await
            }
        }
    };
}
inside!(real_claude, Claude, of_user_with_claude);
inside!(real_codex, Codex, of_user_with_codex);

/// Git and editors save by renaming, which takes the cover away in every namespace.
#[tokio::test]
async fn what_the_user_replaces_stays_protected_and_what_could_be_the_agents_work_ends_it() -> Result<()> {
    let stage = hostile_stage().await?;
    let project = stage.world.project();
    let session = contained_session(&stage, "none").await?;
    let git = |arguments: &[&str]| -> Result<()> {
        let status = stage.world.command("git").args(arguments).current_dir(&project).status()?;
        ensure!(status.success(), "git {arguments:?}: {status}");
        Ok(())
    };
    git(&["config", "branch.main.description", "mine"])?;
    git(&["remote", "add", "somewhere", "/nowhere"])?;
    let said = run_as_agent(
        &stage,
        &session,
        "for i in $(seq 500); do grep -q '/.git/config ro,' /proc/self/mountinfo && break; sleep 0.01; done; \
         git config core.fsmonitor evil; echo '[core] fsmonitor = evil' >> .git/config || echo kept",
    )
    .await?;
    ensure!(said.contains("kept"), "{said}");
    let config = std::fs::read_to_string(project.join(".git/config"))?;
    ensure!(config.contains("somewhere") && !config.contains("evil"), "{config}");
    // Whether the agent or the user wrote that cannot be told.
    git(&["config", "core.fsmonitor", "evil"])?;
    stage.wait_for_status(&session, "FAILED").await?;
    let why = stage.info(&session).await?.error_message;
    ensure!(why.contains("OBEY-2006") && why.contains(".git/config got settings"), "{why}");
    let config = std::fs::read_to_string(project.join(".git/config"))?;
    ensure!(config.contains("somewhere") && !config.contains("evil"), "the former content is back: {config}");
    stage.close().await
}
