//! One session with secrets in it, read back on each surface: none is shown. Who runs something for an agent gets it as it is.

use std::fmt::Debug;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use wire::obey::local::v1 as pb;
use wire::roz::v1::session_response::Response as Body;

use super::{secrets, steps, words};
use crate::acp::editor;
use crate::acp::editor_tools::{call as editor_call, offering, serve};
use crate::betcode::talk as betcode;
use crate::roz::talk as roz;
use crate::stage::{Agent, Stage, script, stage};

/// Ends the test where something shows a secret, or shows that nothing was there to be taken out.
fn check_clean(surface: &str, shown: &impl Debug) -> Result<()> {
    let shown = format!("{shown:?}");
    for secret in secrets() {
        ensure!(!shown.contains(&secret), "{surface} shows {}…: {shown}", &secret[..6]);
    }
    ensure!(shown.contains("[REDACTED:"), "{surface} shows nothing that was taken out: {shown}");
    Ok(())
}

/// A session that has had its turn with secrets in text, thinking, a tool's input and its result.
async fn session_with_secrets(stage: &Stage) -> Result<String> {
    let mut request = stage.new_session();
    request.provider_config.insert("permission_mode".into(), "autonomous".into());
    let id = stage.create_as(request).await?.id;
    let prompt = stage.script(&id, "surfaces", &steps(stage.agent.shell()));
    check_clean("SendMessage", &stage.turn(&id, &prompt).await?)?;
    Ok(id)
}

#[tokio::test]
async fn betcode_replays_no_secret() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let id = session_with_secrets(&stage).await?;
    check_clean("ResumeSession", &betcode::stored(&stage.clients, &id, 0).await?)?;
    let mut talk = betcode::Talk::start(&stage.clients, betcode::again(&id, 0)).await?;
    talk.hush();
    talk.rest().await?;
    check_clean("Converse", &talk.heard)?;
    stage.close().await
}

/// What is searched, exported and served to pages and to `curl` comes from the same clean journal.
#[tokio::test]
async fn search_export_and_http_show_no_secret() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let id = session_with_secrets(&stage).await?;
    for format in ["md", "json"] {
        let exported = stage.cli().ok(&["export", &id, "--format", format]).await?.stdout;
        check_clean(&format!("export as {format}"), &exported)?;
    }
    let found = stage.cli().ok(&["search", "token", "--json"]).await?.stdout;
    ensure!(found.contains(&id), "the session is not found: {found}");
    check_clean("search", &found)?;
    for secret in secrets() {
        let found = stage.cli().run(&["search", &secret, "--json"]).await?.stdout;
        ensure!(!found.contains(&id), "a secret finds the session: {found}");
    }
    let address = stage.daemon.listen().first().copied().context("no port")?;
    let events = format!("http://{address}/api/sessions/{id}/events?follow=false");
    let mut curl = stage.world.command("curl");
    curl.args(["--silent", "--noproxy", "*", "--max-time", "5", &events]);
    let served = tokio::process::Command::from(curl).output().await?;
    check_clean("GET events", &String::from_utf8_lossy(&served.stdout))?;
    stage.close().await
}

#[tokio::test]
async fn an_editor_loads_no_secret() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let id = session_with_secrets(&stage).await?;
    let mut editor = editor(&stage, &[]).await?;
    let place = json!({"sessionId": id, "cwd": stage.world.project(), "mcpServers": []});
    editor.result("session/load", place).await?;
    check_clean("session/load", &editor.seen)?;
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn the_local_service_shows_no_secret() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let id = session_with_secrets(&stage).await?;
    check_clean("ReadEvents", &stage.journal(&id).await?)?;
    check_clean("session log", &stage.cli().ok(&["session", "log", &id, "--json"]).await?.stdout)?;
    let info = format!("{:?}", stage.info(&id).await?);
    let request = pb::StateRequest::default();
    let state = format!("{:?}", stage.clients.local.clone().get_state(request).await?.into_inner());
    ensure!(secrets().iter().all(|secret| !info.contains(secret) && !state.contains(secret)));
    stage.close().await
}

#[tokio::test]
async fn a_roz_client_runs_the_true_call_and_the_stream_shows_no_secret() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut talk = roz::Talk::new(&stage, vec![roz::pure("look_around")]).await?;
    let steps = json!([
        {"thinking": words(), "chunks": 7}, {"text": words(), "chunks": 11},
        roz::call("look_around", json!({"note": words()})), {"text": "seen"}
    ]);
    talk.prompt("m-1", &stage.script(talk.session(), "look", &steps)).await?;
    let asked = talk.tool_request().await?;
    let parameters = format!("{:?}", asked.parameters);
    ensure!(secrets().iter().all(|secret| parameters.contains(secret)), "{parameters}");
    talk.result(&asked.tool_call_id, true, &words()).await?;
    talk.turn().await?;
    let shown: Vec<&Body> = talk.heard.iter().filter(|body| !matches!(body, Body::ToolRequest(_))).collect();
    check_clean("StreamSession", &shown)?;
    check_clean("ReadEvents", &stage.journal(talk.session()).await?)?;
    stage.close().await
}

#[tokio::test]
async fn an_editor_writes_the_true_file_and_the_journal_has_no_secret() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut editor = offering(&stage).await?;
    let session = editor.open(&stage.world.project()).await?;
    let file = stage.world.project().join("settings.env");
    let write = editor_call("editor_write_file", json!({"path": file, "content": words()}));
    let id =
        editor.prompt(&session, &script(stage.agent, "write it", &json!([write, {"text": "done"}]))).await?;
    let asked = serve(&mut editor, id, &[("fs/write_text_file", json!({}))]).await?;
    let write = asked.iter().find(|message| message["method"] == "fs/write_text_file");
    let write = write.cloned().unwrap_or_default();
    ensure!(write["params"]["content"] == json!(words()), "{asked:#?}");
    check_clean("ReadEvents", &stage.journal(&session).await?)?;
    editor.close().await?;
    stage.close().await
}
