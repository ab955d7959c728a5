//! What users of the Codex bridge had: its variables, notify sources, and a Codex of their own.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Result, ensure};
use e2e::acp::Editor;
use e2e::world::World;
use serde_json::{Value, json};

use super::{SCRIPTED, assert_no_agent, editor};
use crate::stage::{Agent, script, stage};

const DONE: &str = "{\"type\":\"agent-turn-complete\",\"turn-id\":\"1\"}\n";

#[tokio::test]
async fn silence_ends_a_turn_where_that_is_wanted() -> Result<()> {
    let stage = stage!(SCRIPTED);
    stage.world.set_env("ACPLB_IDLE_TIMEOUT_MS", "400");
    stage.world.set_env("ACPLB_POLLING_INTERVAL_MS", "20");
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let steps = json!([{"text": "a"}, {"hang": true}]);
    ensure!(editor.turn(&session, &script(SCRIPTED, "x", &steps)).await? == "end_turn");
    ensure!(editor.said(&session) == "a");
    assert_no_agent(&stage).await?;
    // A person who is asked may take longer than that: another turn has time to end of silence meanwhile.
    let steps = json!([SCRIPTED.asking("ls"), {"text": "b"}]);
    let id = editor.prompt(&session, &script(SCRIPTED, "y", &steps)).await?;
    let asked = editor.asked("session/request_permission").await?;
    let beside = editor.open(&stage.world.project()).await?;
    let silent = json!([{"text": "c"}, {"hang": true}]);
    ensure!(editor.turn(&beside, &script(SCRIPTED, "z", &silent)).await? == "end_turn");
    editor.reply(&asked, json!({"outcome": {"outcome": "selected", "optionId": "allow-once"}})).await?;
    ensure!(editor.answer(id).await?["result"]["stopReason"] == "end_turn");
    ensure!(editor.said(&session).ends_with('b'));
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn without_the_variable_silence_ends_nothing() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    // The bridge's old default of 1.2 s would have ended it between the two.
    let steps = json!([{"text": "ab", "chunks": 2, "gap_ms": 1500}]);
    ensure!(editor.turn(&session, &script(SCRIPTED, "x", &steps)).await? == "end_turn");
    ensure!(editor.said(&session) == "ab");
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn a_notification_in_a_file_ends_the_turn() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let sink = stage.world.path("notify.jsonl");
    // Of an earlier run, and nonsense.
    fs::write(&sink, format!("{DONE}not json\n"))?;
    stage.world.set_env("ACPLB_NOTIFY_PATH", &sink);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    // Old lines end no new turn: it comes to its own end.
    let steps = json!([{"text": "ab", "chunks": 2, "gap_ms": 500}]);
    ensure!(editor.turn(&session, &script(SCRIPTED, "w", &steps)).await? == "end_turn");
    ensure!(editor.said(&session) == "ab", "ended too early");
    let steps = json!([{"text": "a"}, {"hang": true}]);
    let id = editor.prompt(&session, &script(SCRIPTED, "x", &steps)).await?;
    editor.chunk().await?;
    let mut text = fs::read_to_string(&sink)?;
    text.push_str("{\"type\":\"other\"}\n{broken\n");
    text.push_str(DONE);
    fs::write(&sink, text)?;
    ensure!(editor.answer(id).await?["result"]["stopReason"] == "end_turn");
    assert_no_agent(&stage).await?;
    ensure!(editor.turn(&session, &script(SCRIPTED, "y", &json!([{"text": "b"}]))).await? == "end_turn");
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn a_notification_in_a_fifo_ends_the_turn() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let sink = stage.world.path("notify.fifo");
    let made = stage.world.command("mkfifo").arg(&sink).status()?;
    ensure!(made.success());
    stage.world.set_env("ACPLB_NOTIFY_PATH", &sink);
    stage.world.set_env("ACPLB_NOTIFY_KIND", "fifo");
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    for round in ["one", "two"] {
        let steps = json!([{"text": round}, {"hang": true}]);
        let id = editor.prompt(&session, &script(SCRIPTED, round, &steps)).await?;
        editor.wait("a chunk", |message| message["params"]["update"]["content"]["text"] == round).await?;
        let told = stage.world.command(stage.world.obey()?).arg("acp-notify").arg(DONE.trim()).status()?;
        ensure!(told.success());
        ensure!(editor.answer(id).await?["result"]["stopReason"] == "end_turn");
    }
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn what_happens_is_written_down_where_that_is_wanted() -> Result<()> {
    let stage = stage!(SCRIPTED);
    for args in [&[][..], &["--standalone"]] {
        let file = stage.world.path(&format!("evidence{}.jsonl", args.len()));
        stage.world.set_env("ACPLB_EVIDENCE_PATH", &file);
        let mut editor = editor(&stage, args).await?;
        let session = editor.open(&stage.world.project()).await?;
        editor.result("session/set_mode", json!({"sessionId": session, "modeId": "plan"})).await?;
        ensure!(editor.turn(&session, &script(SCRIPTED, "x", &json!([{"text": "a"}]))).await? == "end_turn");
        let failing = editor.prompt(&session, &script(SCRIPTED, "y", &json!([{"error": "tired"}]))).await?;
        editor.answer(failing).await?;
        let hanging = json!([{"text": "a"}, {"hang": true}]);
        let cut = editor.prompt(&session, &script(SCRIPTED, "z", &hanging)).await?;
        editor.chunk().await?;
        editor.tell("session/cancel", json!({"sessionId": session})).await?;
        editor.answer(cut).await?;
        editor.close().await?;
        let events = || -> Option<Vec<Value>> {
            let text = fs::read_to_string(&file).ok()?;
            let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            (lines.len() == 9).then_some(lines)
        };
        let events = e2e::deadline::poll("the evidence", events).await?;
        let names: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
        ensure!(
            names
                == [
                    "initialize",
                    "session_created",
                    "session_mode_changed",
                    "prompt_started",
                    "prompt_completed",
                    "prompt_started",
                    "prompt_failed",
                    "prompt_started",
                    "prompt_cancelled",
                ],
            "{names:?}"
        );
        ensure!(events[0]["sessionId"].is_null() && events[1]["sessionId"] == json!(session), "{events:#?}");
        ensure!(events.iter().all(|event| event["timestampMs"].is_u64() && event["details"].is_object()));
    }
    stage.close().await
}

#[tokio::test]
async fn a_sink_that_is_a_link_is_not_followed() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let (real, link) = (stage.world.touch("real")?, stage.world.path("link"));
    std::os::unix::fs::symlink(&real, &link)?;
    stage.world.set_env("ACPLB_NOTIFY_PATH", &link);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let steps = json!([{"text": "ab", "chunks": 2, "gap_ms": 500}]);
    let id = editor.prompt(&session, &script(SCRIPTED, "x", &steps)).await?;
    editor.chunk().await?;
    fs::write(&real, DONE)?;
    ensure!(editor.answer(id).await?["result"]["stopReason"] == "end_turn");
    ensure!(editor.said(&session) == "ab", "the link was followed");
    ensure!(editor.errors().contains("cannot be opened"), "{}", editor.errors());
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn the_real_codex_writes_its_notification_to_the_sink() -> Result<()> {
    let stage = stage!(Agent::Codex);
    let sink = stage.world.path("notify.jsonl");
    stage.world.set_env("ACPLB_NOTIFY_PATH", &sink);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let text = script(Agent::Codex, "tell them", &json!([{"text": "told"}]));
    ensure!(editor.turn(&session, &text).await? == "end_turn");
    ensure!(editor.said(&session).contains("told"));
    e2e::deadline::poll("the notification", || {
        fs::read_to_string(&sink).ok().filter(|text| text.contains("agent-turn-complete"))
    })
    .await?;
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn a_codex_of_ones_own_is_run() -> Result<()> {
    let Some(world) = World::with_codex()? else { return Ok(()) };
    let codex = e2e::tools::codex()?.unwrap_or_default();
    let (own, mark) = (world.path("my-codex"), world.path("was-run"));
    fs::write(&own, format!("#!/bin/sh\ntouch {}\nexec {} \"$@\"\n", mark.display(), codex.display()))?;
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755))?;
    world.set_env("CODEX_CMD", &own);
    let mut editor = Editor::start(&world, &[]).await?;
    editor.initialize().await?;
    let session = editor.open(&world.project()).await?;
    let text = script(Agent::Codex, "hello", &json!([{"text": "from my own"}]));
    ensure!(editor.turn(&session, &text).await? == "end_turn");
    ensure!(editor.said(&session).contains("from my own") && mark.exists());
    ensure!(!world.socket().exists(), "a daemon takes no programs from its clients");
    editor.close().await?;
    world.assert_no_process_left().await
}

#[tokio::test]
async fn a_notify_program_of_ones_own_is_run() -> Result<()> {
    let Some(world) = World::with_codex()? else { return Ok(()) };
    let (program, told) = (world.path("my-notify"), world.path("told"));
    fs::write(&program, format!("#!/bin/sh\nprintf '%s %s' \"$1\" \"$2\" > {}\n", told.display()))?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    world.set_env("ACPLB_NOTIFY_CMD", json!([program, "first"]).to_string());
    let mut editor = Editor::start(&world, &[]).await?;
    editor.initialize().await?;
    let session = editor.open(&world.project()).await?;
    let text = script(Agent::Codex, "hello", &json!([{"text": "hi"}]));
    ensure!(editor.turn(&session, &text).await? == "end_turn");
    e2e::deadline::poll("the notification", || {
        fs::read_to_string(&told)
            .ok()
            .filter(|text| text.starts_with("first {") && text.contains("agent-turn-complete"))
    })
    .await?;
    editor.close().await?;
    world.assert_no_process_left().await
}

#[tokio::test]
async fn the_log_goes_to_standard_error_as_wanted() -> Result<()> {
    let stage = stage!(SCRIPTED);
    stage.world.set_env("RUST_LOG", "debug");
    stage.world.set_env("ACPLB_IDLE_TIMEOUT_MS", "soon");
    let mut editor = editor(&stage, &[]).await?;
    editor.line("{broken").await?;
    editor.next().await?;
    let session = editor.open(&stage.world.project()).await?;
    let steps = json!([{"stderr": "the agent mutters"}, {"text": "a"}]);
    ensure!(editor.turn(&session, &script(SCRIPTED, "x", &steps)).await? == "end_turn");
    e2e::deadline::poll("the log", || editor.errors().contains("the agent mutters").then_some(())).await?;
    ensure!(editor.errors().contains("ACPLB_IDLE_TIMEOUT_MS=soon"), "{}", editor.errors());
    ensure!(editor.errors().contains("-32700"), "{}", editor.errors());
    editor.close().await?;
    stage.close().await
}
