//! What an editor offers becomes tools of the agent: files through its buffers, commands in its terminals.

use anyhow::{Context, Result, ensure};
use e2e::acp::Editor;
use serde_json::{Value, json};

use super::{start, status};
use crate::stage::{Agent, Stage, process_scenarios, script, stage};

process_scenarios!(
    an_agent_reads_through_the_editor,
    an_agent_writes_through_the_editor_once_it_may,
    an_agent_runs_a_command_in_a_terminal_of_the_editor,
    an_agent_without_a_daemon_has_the_editors_tools_too,
);

/// A step that calls a tool the editor brings.
pub(crate) fn call(tool: &str, input: Value) -> Value {
    json!({"tool": format!("mcp__obey__{tool}"), "input": input})
}

pub(crate) async fn offering(stage: &Stage) -> Result<Editor> {
    offering_to(stage, &[]).await
}

async fn offering_to(stage: &Stage, args: &[&str]) -> Result<Editor> {
    let mut editor = start(stage, args).await?;
    let all = json!({"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true});
    editor.initialize_with(all).await?;
    Ok(editor)
}

/// Answers what the agent asks, permissions by allowing them, until the prompt is answered; returns what was asked.
pub(crate) async fn serve(editor: &mut Editor, id: u64, answers: &[(&str, Value)]) -> Result<Vec<Value>> {
    let mut asked = Vec::new();
    loop {
        let message = editor.next().await?;
        if message["id"] == id && message.get("method").is_none() {
            ensure!(message["result"]["stopReason"] == "end_turn", "{message}");
            return Ok(asked);
        }
        if message.get("id").is_none() {
            continue;
        }
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let allowed = json!({"outcome": {"outcome": "selected", "optionId": "allow-once"}});
        let answer = answers.iter().find(|(known, _)| *known == method).map(|(_, answer)| answer.clone());
        editor.reply(&message, answer.unwrap_or(allowed)).await?;
        asked.push(message);
    }
}

fn methods(asked: &[Value]) -> Vec<&str> {
    asked.iter().filter_map(|message| message["method"].as_str()).collect()
}

async fn an_agent_reads_through_the_editor(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut editor = offering(&stage).await?;
    let session = editor.open(&stage.world.project()).await?;
    let file = stage.world.project().join("README.md");
    let steps = json!([call("editor_read_file", json!({"path": file})), {"text": "done"}]);
    let id = editor.prompt(&session, &script(agent, "read it", &steps)).await?;
    let asked = serve(&mut editor, id, &[("fs/read_text_file", json!({"content": "unsaved words"}))]).await?;
    let read = asked.iter().find(|message| message["method"] == "fs/read_text_file");
    let read = read.cloned().unwrap_or_default();
    ensure!(
        read["params"]["path"] == json!(file) && read["params"]["sessionId"] == json!(session),
        "{asked:#?}"
    );
    let ends = editor.updates_of(&session, "tool_call_update");
    ensure!(ends.iter().any(|end| end["content"].to_string().contains("unsaved words")), "{ends:#?}");
    editor.close().await?;
    stage.close().await
}

/// An editor reads every file of its user.
#[tokio::test]
async fn an_agent_in_the_sandbox_gets_no_tools_of_the_editor() -> Result<()> {
    let stage = Stage::open_with(Agent::Scripted, |world| {
        std::fs::create_dir_all(world.path("config/obey"))?;
        let text = "[sandbox]\nagents = true\nnetwork = \"model\"\nmodel_hosts = [\"model.invalid:443\"]\n";
        std::fs::write(world.path("config/obey/config.toml"), text)?;
        Ok(std::fs::write(world.path("secret"), "canary")?)
    });
    let stage = stage.await?.context("the scripted agent is part of the daemon")?;
    let mut editor = offering(&stage).await?;
    let session = editor.open(&stage.world.project()).await?;
    let file = stage.world.path("secret");
    let steps = json!([
        call("editor_read_file", json!({"path": file})),
        call("editor_write_file", json!({"path": file, "content": "new words"})),
        call("editor_run_command", json!({"command": "make"})),
        {"text": "done"},
    ]);
    let id = editor.prompt(&session, &script(Agent::Scripted, "all of it", &steps)).await?;
    let asked = serve(&mut editor, id, &[]).await?;
    let reached = |method: &&str| method.starts_with("fs/") || method.starts_with("terminal/");
    ensure!(!methods(&asked).iter().any(reached), "{asked:#?}");
    let info = stage.cli().run(&["session", "info", &session]).await?;
    ensure!(info.stdout.contains("sandbox, network model"), "{info:?}");
    editor.close().await?;
    stage.close().await
}

async fn an_agent_writes_through_the_editor_once_it_may(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut editor = offering(&stage).await?;
    let session = editor.open(&stage.world.project()).await?;
    let file = stage.world.project().join("new.txt");
    let input = json!({"path": file, "content": "new words"});
    let steps = json!([call("editor_write_file", input), {"text": "done"}]);
    let id = editor.prompt(&session, &script(agent, "write it", &steps)).await?;
    let asked = serve(&mut editor, id, &[("fs/write_text_file", json!({}))]).await?;
    let order = methods(&asked);
    ensure!(order.first() == Some(&"session/request_permission"), "{order:?}");
    ensure!(order.last() == Some(&"fs/write_text_file"), "{order:?}");
    ensure!(asked.last().is_some_and(|write| write["params"]["content"] == "new words"), "{asked:#?}");
    editor.close().await?;
    stage.close().await
}

async fn an_agent_runs_a_command_in_a_terminal_of_the_editor(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut editor = offering(&stage).await?;
    let session = editor.open(&stage.world.project()).await?;
    let input = json!({"command": "make", "args": ["test"]});
    let steps = json!([call("editor_run_command", input), {"text": "done"}]);
    let id = editor.prompt(&session, &script(agent, "run it", &steps)).await?;
    let answers = [
        ("terminal/create", json!({"terminalId": "t1"})),
        ("terminal/wait_for_exit", json!({"exitCode": 0})),
        ("terminal/output", json!({"output": "all is well", "truncated": false})),
        ("terminal/release", json!({})),
    ];
    let asked = serve(&mut editor, id, &answers).await?;
    let order: Vec<&str> =
        methods(&asked).into_iter().filter(|method| method.starts_with("terminal/")).collect();
    ensure!(
        order == ["terminal/create", "terminal/wait_for_exit", "terminal/output", "terminal/release"],
        "{order:?}"
    );
    let ends = editor.updates_of(&session, "tool_call_update");
    ensure!(ends.iter().any(|end| end["content"].to_string().contains("all is well")), "{ends:#?}");
    editor.close().await?;
    stage.close().await
}

async fn an_agent_without_a_daemon_has_the_editors_tools_too(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut editor = offering_to(&stage, &["--standalone"]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let file = stage.world.project().join("README.md");
    let steps = json!([
        call("editor_read_file", json!({"path": file})),
        call("editor_write_file", json!({"path": file, "content": "new words"})),
        call("editor_run_command", json!({"command": "make"})),
        {"text": "done"},
    ]);
    let id = editor.prompt(&session, &script(agent, "all of it", &steps)).await?;
    let answers = [
        ("fs/read_text_file", json!({"content": "unsaved words"})),
        ("fs/write_text_file", json!({})),
        ("terminal/create", json!({"terminalId": "t1"})),
        ("terminal/wait_for_exit", json!({"exitCode": 0})),
        ("terminal/output", json!({"output": "all is well", "truncated": false})),
        ("terminal/release", json!({})),
    ];
    let asked = serve(&mut editor, id, &answers).await?;
    let order = methods(&asked);
    for method in ["fs/read_text_file", "fs/write_text_file", "terminal/create", "terminal/release"] {
        ensure!(order.contains(&method), "{method} was not asked for: {order:?}");
    }
    let ends = editor.updates_of(&session, "tool_call_update");
    for words in ["unsaved words", "all is well"] {
        ensure!(ends.iter().any(|end| end["content"].to_string().contains(words)), "{words}: {ends:#?}");
    }
    ensure!(status(&stage, &session).await?.is_empty(), "it is not the daemon's");
    editor.close().await?;
    stage.close().await
}
