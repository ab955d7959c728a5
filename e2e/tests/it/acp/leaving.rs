//! How connections end, and that nothing is left behind.

use anyhow::{Result, ensure};
use e2e::acp::Editor;
use e2e::daemon::Daemon;
use e2e::world::World;
use rustix::process::Signal;
use serde_json::json;

use super::{SCRIPTED, agents, assert_no_agent, editor, status};
use crate::stage::{Agent, process_scenarios, script, stage};

process_scenarios!(an_editor_that_is_killed_leaves_no_agent, standard_input_closed_in_a_turn_ends_the_agent);

async fn an_editor_that_is_killed_leaves_no_agent(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    editor.prompt(&session, &script(agent, "work", &json!([[{"text": "a"}, {"hang": true}]]))).await?;
    editor.chunk().await?;
    editor.signal(Signal::KILL);
    assert_no_agent(&stage).await?;
    stage.wait_for_status(&session, "STOPPED").await?;
    stage.close().await
}

async fn standard_input_closed_in_a_turn_ends_the_agent(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    editor.prompt(&session, &script(agent, "work", &json!([[{"text": "a"}, {"hang": true}]]))).await?;
    editor.chunk().await?;
    editor.close().await?;
    assert_no_agent(&stage).await?;
    ensure!(status(&stage, &session).await? == "STOPPED");
    stage.close().await
}

#[tokio::test]
async fn an_editor_that_leaves_right_behind_its_prompt_leaves_no_agent() -> Result<()> {
    let stage = stage!(SCRIPTED);
    for _ in 0..10 {
        let mut editor = editor(&stage, &[]).await?;
        let session = editor.open(&stage.world.project()).await?;
        for text in ["x", "y"] {
            editor.prompt(&session, &script(SCRIPTED, text, &json!([{"hang": true}]))).await?;
        }
        editor.close().await?;
        assert_no_agent(&stage).await?;
    }
    stage.close().await
}

#[tokio::test]
async fn what_was_asked_before_the_input_ended_is_answered() -> Result<()> {
    let stage = stage!(SCRIPTED);
    for _ in 0..5 {
        let mut editor = editor(&stage, &[]).await?;
        let session = editor.open(&stage.world.project()).await?;
        let mut asked =
            vec![editor.ask("session/new", json!({"cwd": stage.world.project(), "mcpServers": []})).await?];
        asked.push(editor.ask("session/list", json!({})).await?);
        let prompt = editor.prompt(&session, &script(SCRIPTED, "x", &json!([{"hang": true}]))).await?;
        editor.hang_up();
        ensure!(editor.ended().await?.success());
        let answers =
            |id: &u64| editor.seen.iter().filter(|message| message["id"] == *id).collect::<Vec<_>>();
        for id in &asked {
            ensure!(
                answers(id).len() == 1 && answers(id)[0]["result"].is_object(),
                "{id}: {:?}",
                editor.seen
            );
        }
        let [answer] = answers(&prompt)[..] else { anyhow::bail!("{prompt}: {:?}", editor.seen) };
        ensure!(answer["result"]["stopReason"] == "cancelled", "{answer}");
        assert_no_agent(&stage).await?;
    }
    stage.close().await
}

#[tokio::test]
async fn a_prompt_sent_right_before_the_input_ended_is_kept_where_that_is_wanted() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut editor = editor(&stage, &["--keep"]).await?;
    let session = editor.open(&stage.world.project()).await?;
    editor.prompt(&session, &script(SCRIPTED, "x", &json!([{"text": "finished alone"}]))).await?;
    editor.close().await?;
    stage.wait_for_text(&session, "finished alone").await?;
    stage.close().await
}

#[tokio::test]
async fn an_agent_that_ignores_sigterm_is_killed_within_the_time_of_a_stop() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let steps = json!([{"ignore_term": true}, {"spawn_child": true}, {"hang": true}]);
    editor.prompt(&session, &script(SCRIPTED, "stay", &steps)).await?;
    editor.chunk().await?;
    editor.signal(Signal::TERM);
    let status = editor.ended().await?;
    ensure!(status.success(), "{status}");
    assert_no_agent(&stage).await?;
    stage.close().await
}

#[tokio::test]
async fn agents_are_kept_where_that_is_wanted() -> Result<()> {
    agents_are_kept(&["--keep"], &[]).await
}

#[tokio::test]
async fn agents_are_kept_where_the_configuration_wants_it() -> Result<()> {
    agents_are_kept(&[], &[("OBEY_ACP_KEEP", "true")]).await
}

async fn agents_are_kept(args: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    let stage = stage!(SCRIPTED);
    for (name, value) in variables {
        stage.world.set_env(name, *value);
    }
    let mut first = editor(&stage, args).await?;
    let session = first.open(&stage.world.project()).await?;
    let file = stage.world.path("go");
    let steps = json!([{"text": "a"}, {"wait_file": file}, {"text": "finished alone"}]);
    first.prompt(&session, &script(SCRIPTED, "work", &steps)).await?;
    first.chunk().await?;
    first.close().await?;
    ensure!(status(&stage, &session).await? == "WORKING");
    stage.world.touch("go")?;
    stage.wait_for_text(&session, "finished alone").await?;
    stage.close().await
}

#[tokio::test]
async fn a_session_of_two_editors_ends_with_the_second() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut first = editor(&stage, &[]).await?;
    let session = first.open(&stage.world.project()).await?;
    ensure!(first.turn(&session, &script(SCRIPTED, "x", &json!([{"text": "a"}]))).await? == "end_turn");
    let mut second = editor(&stage, &[]).await?;
    let place = json!({"sessionId": session, "cwd": stage.world.project(), "mcpServers": []});
    second.result("session/load", place).await?;
    first.close().await?;
    ensure!(status(&stage, &session).await? == "RUNNING", "somebody else is there");
    ensure!(second.turn(&session, &script(SCRIPTED, "y", &json!([{"text": "b"}]))).await? == "end_turn");
    second.close().await?;
    stage.close().await
}

#[tokio::test]
async fn without_a_daemon_one_is_started() -> Result<()> {
    let world = World::new()?;
    // Its usual port may be somebody else's.
    world.set_env("OBEY_LISTEN", "none");
    let mut editor = Editor::start(&world, &["--provider", "scripted"]).await?;
    editor.initialize().await?;
    let session = editor.open(&world.project()).await?;
    ensure!(editor.turn(&session, &script(SCRIPTED, "x", &json!([{"text": "a"}]))).await? == "end_turn");
    editor.close().await?;
    let cli = e2e::cli::Cli::new(&world);
    ensure!(cli.ok(&["session", "list", "--all"]).await?.stdout.contains("STOPPED"));
    cli.ok(&["stop", "--sessions"]).await?;
    world.assert_no_process_left().await
}

#[tokio::test]
async fn the_agent_is_the_configurations_where_no_flag_names_one() -> Result<()> {
    let stage = stage!(SCRIPTED);
    stage.world.set_env("OBEY_ACP_PROVIDER", "scripted");
    stage.world.set_env("OBEY_ACP_MODE", "plan");
    let mut editor = Editor::start(&stage.world, &[]).await?;
    editor.initialize().await?;
    let new = json!({"cwd": stage.world.project(), "mcpServers": []});
    let opened = editor.result("session/new", new).await?;
    ensure!(opened["modes"]["currentModeId"] == "plan", "{opened}");
    let session = opened["sessionId"].as_str().unwrap_or_default().to_owned();
    ensure!(editor.turn(&session, &script(SCRIPTED, "x", &json!([{"text": "mine"}]))).await? == "end_turn");
    ensure!(editor.said(&session) == "mine");
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn standalone_needs_no_daemon_and_finds_its_sessions_again() -> Result<()> {
    let world = World::new()?;
    let args = ["--provider", "scripted", "--standalone"];
    let mut first = Editor::start(&world, &args).await?;
    first.initialize().await?;
    let session = first.open(&world.project()).await?;
    ensure!(
        first.turn(&session, &script(SCRIPTED, "x", &json!([{"text": "kept words"}]))).await? == "end_turn"
    );
    // Two at once do not disturb each other.
    let mut beside = Editor::start(&world, &args).await?;
    beside.initialize().await?;
    let other = beside.open(&world.project()).await?;
    ensure!(beside.turn(&other, &script(SCRIPTED, "y", &json!([{"text": "b"}]))).await? == "end_turn");
    beside.close().await?;
    first.close().await?;
    world.assert_no_process_left().await?;
    ensure!(!world.socket().exists(), "no daemon was started");
    let mut later = Editor::start(&world, &args).await?;
    later.initialize().await?;
    let place = json!({"sessionId": session, "cwd": world.project(), "mcpServers": []});
    later.result("session/load", place).await?;
    ensure!(later.said(&session).contains("kept words"));
    let id = later.prompt(&session, &script(SCRIPTED, "z", &json!([{"text": "a"}, {"hang": true}]))).await?;
    later.chunk().await?;
    later.signal(Signal::TERM);
    ensure!(later.ended().await?.success());
    ensure!(!later.seen.iter().any(|message| message["id"] == id && message.get("error").is_some()));
    world.assert_no_process_left().await
}

#[tokio::test]
async fn a_daemon_that_leaves_keeps_the_agents_of_editors() -> Result<()> {
    let mut stage = stage!(SCRIPTED);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let file = stage.world.path("go");
    let steps = json!([{"text": "a"}, {"wait_file": file}, {"text": "survived"}]);
    editor.prompt(&session, &script(SCRIPTED, "work", &steps)).await?;
    editor.chunk().await?;
    stage.daemon.terminate().await?;
    ensure!(agents(&stage) == 1, "the agent goes on");
    stage.daemon = Daemon::start(&stage.world).await?;
    stage.clients = stage.daemon.clients().await?;
    stage.world.touch("go")?;
    stage.wait_for_text(&session, "survived").await?;
    drop(editor);
    stage.close().await
}
