//! Every agent has the workbench at hand, without a word of configuration: programs over MCP, agents inside the daemon
//! directly. Rules and modes bind it like every other tool, and no agent leaves its own session with it.

use anyhow::{Context, Result, ensure};
use e2e::clients::collect;
use serde_json::{Value, json};

use crate::betcode::settings::write as write_settings;
use crate::stage::{Agent, Stage, stage};

macro_rules! workbench_scenarios {
    ($($name:ident),* $(,)?) => {
        crate::stage::scenarios_of!(real_claude, Claude, $($name),*);
        crate::stage::scenarios_of!(real_codex, Codex, $($name),*);
        crate::stage::scenarios_of!(real_acp, Acp, $($name),*);
        crate::stage::scenarios_of!(openai, Openai, $($name),*);
        crate::stage::scenarios_of!(openai_chat, OpenaiChat, $($name),*);

        /// For the gateway of `make test-all`, which is too slow to be started for each.
        pub(crate) const ALL: &[crate::stage::Scenario] =
            &[$((stringify!($name), |agent| Box::pin($name(agent)))),*];
    };
}

workbench_scenarios!(
    the_workbench_is_at_hand_and_asks_once,
    rules_that_deny_bind_the_workbench,
    nothing_is_changed_in_plan_mode,
    another_session_is_out_of_reach,
);

/// A step that calls a tool of the workbench, as the agent's model knows it.
fn call(agent: Agent, tool: &str, input: Value) -> Value {
    match agent {
        Agent::Openai | Agent::OpenaiChat => json!({"tool": tool, "input": input}),
        _ => json!({"tool": format!("mcp__obey__{tool}"), "input": input}),
    }
}

/// How a call of a tool ended.
async fn finished(stage: &Stage, session: &str, tool: &str) -> Result<(bool, String)> {
    let started = stage.wait_for(session, "tool_started", |event| event["tool"] == tool).await?;
    let is_same = |event: &Value| event["call"] == started["call"];
    let end = stage.wait_for(session, "tool_finished", is_same).await?;
    Ok((end["ok"] == true, end["output"].as_str().unwrap_or_default().to_owned()))
}

/// What the audit has of a session's use of the workbench, beside what was done to the session.
async fn rows(stage: &Stage, session: &str) -> Result<Vec<Value>> {
    let mut rows =
        stage.cli().ok(&["audit", "tail", "-n", "0", "--session", session, "--json"]).await?.json_lines()?;
    rows.retain(|row| {
        row["operation"].as_str().is_some_and(|name| !name.contains('/') && !name.starts_with("session."))
    });
    Ok(rows)
}

#[tokio::test]
async fn openai_a_named_agent_uses_its_collections_and_no_others() -> Result<()> {
    let stage = stage!(Agent::Openai);
    let cli = stage.cli();
    let create = ["agent", "create", "scout", "--system-prompt", "You look around."];
    let wrong = cli.run(&[&create[..], &["--collection", "secrets"]].concat()).await?;
    ensure!(wrong.code == Some(2) && wrong.stderr.contains("remediations"), "{wrong:#?}");
    let flags = ["--collection", "memories:read", "--temperature", "0.25"];
    cli.ok(&[&create[..], &flags].concat()).await?;
    let shown = cli.ok(&["agent", "get", "scout"]).await?.stdout;
    ensure!(shown.contains("memories:read") && shown.contains("0.25"), "{shown}");
    let config = stage.agent.config().iter().copied().collect::<std::collections::HashMap<_, _>>();
    let config = serde_json::to_string(&config)?;
    let made = cli
        .json(&[
            "session",
            "create",
            "-c",
            crate::stage::CAMPAIGN,
            "-p",
            "openai-api",
            "--agent",
            "scout",
            "--config",
            &config,
        ])
        .await?;
    let session = made["id"].as_str().context("no id")?;
    let steps = json!([
        call(Agent::Openai, "memory_search", json!({"query": "kettle"})),
        call(Agent::Openai, "memory_store", json!({"title": "t", "content": "c"})),
        call(Agent::Openai, "skill_list", json!({})),
        {"text": "done"},
    ]);
    stage.turn(session, &stage.script(session, "use", &steps)).await?;
    ensure!(finished(&stage, session, "memory_search").await?.0);
    for (tool, what) in [("memory_store", "may not write memories"), ("skill_list", "may not read skills")] {
        let (ok, said) = finished(&stage, session, tool).await?;
        ensure!(!ok && said.contains(what), "{tool}: {said}");
    }
    let requests = stage.world.model().requests();
    let sent: Vec<String> = requests.iter().map(|request| request.body.to_string()).collect();
    ensure!(sent.iter().any(|body| body.contains("You look around.") && body.contains("0.25")), "{sent:#?}");
    stage.close().await
}

async fn the_workbench_is_at_hand_and_asks_once(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let session = stage.create().await?;
    let steps = json!([
        call(agent, "memory_store", json!({"title": "the kettle", "content": "descale it in May"})),
        call(agent, "safe_bash", json!({"cmd": "echo from the sandbox"})),
        {"text": "done"},
    ]);
    let stream = stage.send(&session, &stage.script(&session, "use", &steps)).await?;
    let request = stage.wait_for_request(&session).await?;
    assert_eq!(request.tool_name, "safe_bash", "{request:#?}");
    stage.cli().ok(&["session", "approve", &session, &request.id]).await?;
    collect(stream).await?;
    let (ok, output) = finished(&stage, &session, "memory_store").await?;
    ensure!(ok && output.contains("mem_"), "{output}");
    let (ok, output) = finished(&stage, &session, "safe_bash").await?;
    ensure!(ok && output.contains("from the sandbox") && output.contains("[sandbox: "), "{output}");
    // Once, whoever else would have liked to ask.
    let asked = stage.requests(&session, true).await?;
    ensure!(asked.len() == 1, "{asked:#?}");
    let rows = rows(&stage, &session).await?;
    let operations: Vec<&Value> = rows.iter().map(|row| &row["operation"]).collect();
    ensure!(operations == ["Memory.Store", "SafeExec.Bash"], "{rows:#?}");
    ensure!(rows.iter().all(|row| row["caller"] == format!("agent {session}")), "{rows:#?}");
    stage.close().await
}

async fn rules_that_deny_bind_the_workbench(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    write_settings(
        &stage,
        &json!({"permissions": {"deny": ["Read(hidden.txt)", "Bash(rm *)", "memory_search"]}}),
    )?;
    std::fs::write(stage.world.project().join("hidden.txt"), "the cellar key")?;
    std::fs::write(stage.world.project().join("open.txt"), "the front door")?;
    let mut request = stage.new_session();
    request.provider_config.insert("permission_mode".into(), "autonomous".into());
    let session = stage.create_as(request).await?.id;
    let cases = [
        ("safe_read", json!({"path": "hidden.txt"}), false),
        ("memory_search", json!({"query": "kettle"}), false),
        ("safe_bash", json!({"cmd": "rm open.txt"}), false),
        ("safe_read", json!({"path": "open.txt"}), true),
    ];
    for (at, (tool, input, allowed)) in cases.into_iter().enumerate() {
        let steps = json!([call(agent, tool, input.clone()), {"text": "done"}]);
        let after = stage.journal(&session).await?.len();
        stage.turn(&session, &stage.script(&session, &format!("case{at}"), &steps)).await?;
        let journal = stage.journal(&session).await?;
        let ended = journal[after..].iter().find(|event| event.r#type == "tool_finished");
        let ended = crate::stage::fields(ended.with_context(|| format!("no call: {}", stage.daemon.log()))?);
        ensure!((ended["ok"] == true) == allowed, "{tool} {input}: {ended}");
        ensure!(!ended.to_string().contains("cellar"), "{ended}");
    }
    ensure!(stage.world.project().join("open.txt").exists(), "a command that is denied ran");
    let mut rows = rows(&stage, &session).await?;
    rows.retain(|row| row["outcome"] == "ok");
    ensure!(rows.len() == 1 && rows[0]["operation"] == "SafeExec.Read", "{rows:#?}");
    stage.close().await
}

async fn nothing_is_changed_in_plan_mode(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut request = stage.new_session();
    request.provider_config.insert("permission_mode".into(), "plan".into());
    let session = stage.create_as(request).await?.id;
    let steps = json!([
        call(agent, "safe_write", json!({"path": "made.txt", "content": "x"})),
        call(agent, "memory_search", json!({"query": "kettle"})),
        {"text": "done"},
    ]);
    stage.turn(&session, &stage.script(&session, "plan", &steps)).await?;
    ensure!(!stage.world.project().join("made.txt").exists(), "a file was made");
    let rows = rows(&stage, &session).await?;
    let wrote = |row: &Value| row["operation"] == "SafeExec.Write" && row["outcome"] == "ok";
    ensure!(!rows.iter().any(wrote), "{rows:#?}");
    stage.close().await
}

async fn another_session_is_out_of_reach(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut request = stage.new_session();
    request.provider_config.insert("permission_mode".into(), "autonomous".into());
    let session = stage.create_as(request).await?.id;
    let elsewhere = stage.world.path("elsewhere");
    std::fs::create_dir(&elsewhere)?;
    let input = json!({"cmd": "pwd", "session_id": "sess_other", "working_dir": elsewhere});
    let steps = json!([
        call(agent, "checkpoint_save", json!({"summary": "mine", "session_id": "sess_other"})),
        call(agent, "safe_bash", input),
        {"text": "done"},
    ]);
    stage.turn(&session, &stage.script(&session, "reach", &steps)).await?;
    for row in rows(&stage, &session).await? {
        ensure!(row["session_id"] == session.as_str(), "{row}");
    }
    let others = rows(&stage, "sess_other").await?;
    ensure!(others.is_empty(), "{others:#?}");
    let (ok, output) = finished(&stage, &session, "safe_bash").await?;
    ensure!(!ok, "a command ran outside of the session's folder: {output}");
    stage.close().await
}

/// Whoever has told an agent of obey already, for their own use, finds its sessions in the daemon unharmed: one server
/// answers, for the agent's own session, and asks once.
async fn an_entry_of_the_users_own_is_no_obstacle(agent: Agent, client: &str) -> Result<()> {
    let stage = stage!(agent);
    stage.cli().ok(&["mcp", "install", "--client", client]).await?;
    let session = stage.create().await?;
    let steps = json!([call(agent, "safe_bash", json!({"cmd": "echo once"})), {"text": "done"}]);
    let stream = stage.send(&session, &stage.script(&session, "both", &steps)).await?;
    let request = stage.wait_for_request(&session).await?;
    assert_eq!(request.tool_name, "safe_bash", "{request:#?}");
    stage.cli().ok(&["session", "approve", &session, &request.id]).await?;
    collect(stream).await?;
    let (ok, output) = finished(&stage, &session, "safe_bash").await?;
    ensure!(ok && output.contains("once"), "{output}");
    let rows = rows(&stage, &session).await?;
    ensure!(rows.len() == 1 && rows[0]["caller"] == format!("agent {session}"), "{rows:#?}");
    stage.close().await
}

#[tokio::test]
async fn real_claude_with_an_entry_of_the_users_own() -> Result<()> {
    an_entry_of_the_users_own_is_no_obstacle(Agent::Claude, "claude").await
}

#[tokio::test]
async fn real_codex_with_an_entry_of_the_users_own() -> Result<()> {
    an_entry_of_the_users_own_is_no_obstacle(Agent::Codex, "codex").await
}
