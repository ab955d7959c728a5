//! Many sessions, much output, slow readers.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{SCRIPTED, editor, refused};
use crate::stage::{script, stage};

#[tokio::test]
async fn many_sessions_work_at_once() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut editor = editor(&stage, &[]).await?;
    let gate = stage.world.path("go");
    let mut prompts = Vec::new();
    for number in 0..12 {
        let session = editor.open(&stage.world.project()).await?;
        let steps =
            json!([{"text": "a"}, {"wait_file": gate}, {"text": format!("word-{number}"), "chunks": 6}]);
        let id = editor.prompt(&session, &script(SCRIPTED, "x", &steps)).await?;
        prompts.push((number, session, id));
    }
    // All of them are at it before any may end.
    for (_, session, _) in &prompts {
        while editor.said(session).is_empty() {
            editor.chunk().await?;
        }
    }
    stage.world.touch("go")?;
    let answered = |seen: &[Value], id: u64| {
        seen.iter().any(|message| message["id"] == id && message["result"]["stopReason"] == "end_turn")
    };
    for (number, session, id) in &prompts {
        if !answered(&editor.seen, *id) {
            editor.answer(*id).await?;
        }
        ensure!(answered(&editor.seen, *id));
        ensure!(editor.said(session).contains(&format!("word-{number}")), "in order and its own");
    }
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn one_session_too_many_is_refused_by_name() -> Result<()> {
    let stage = stage!(SCRIPTED);
    stage.world.set_env("OBEY_ACP_MAX_SESSIONS", "2");
    let mut editor = editor(&stage, &[]).await?;
    let first = editor.open(&stage.world.project()).await?;
    editor.open(&stage.world.project()).await?;
    let new = json!({"cwd": stage.world.project(), "mcpServers": []});
    let error = editor.refusal("session/new", new.clone()).await?;
    refused(&error, -32603, "2 sessions are open already; close one or raise acp.max_sessions")?;
    ensure!(error["data"]["code"] == "OBEY-1003", "{error}");
    editor.result("session/close", json!({"sessionId": first})).await?;
    editor.result("session/new", new).await?;
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn a_burst_is_told_whole_and_in_order() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let steps = json!([{"flood": {"lines": 20_000, "text": "x"}}, {"text": "the end"}]);
    ensure!(editor.turn(&session, &script(SCRIPTED, "flood", &steps)).await? == "end_turn");
    let chunks = editor.updates_of(&session, "agent_message_chunk");
    ensure!(chunks.len() == 20_001, "{}", chunks.len());
    ensure!(chunks.last().is_some_and(|chunk| chunk["content"]["text"] == "the end"));
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn an_editor_that_stops_reading_holds_up_nobody_else() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut slow = editor(&stage, &[]).await?;
    let session = slow.open(&stage.world.project()).await?;
    let steps = json!([{"flood": {"lines": 20_000, "text": "a long line of words "}}, {"text": "the end"}]);
    let id = slow.prompt(&session, &script(SCRIPTED, "flood", &steps)).await?;
    // Its agent finishes although nobody reads.
    stage.wait_for(&session, "turn_ended", |_| true).await?;
    // It is still heard.
    slow.tell("session/cancel", json!({"sessionId": session})).await?;
    let mut other = editor(&stage, &[]).await?;
    let beside = other.open(&stage.world.project()).await?;
    ensure!(other.turn(&beside, &script(SCRIPTED, "x", &json!([{"text": "quick"}]))).await? == "end_turn");
    other.close().await?;
    // And when it reads again it has missed nothing.
    slow.answer(id).await?;
    ensure!(slow.updates_of(&session, "agent_message_chunk").len() == 20_001);
    slow.close().await?;
    stage.close().await
}

#[tokio::test]
async fn an_editor_that_never_reads_again_can_still_leave() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut slow = editor(&stage, &[]).await?;
    let session = slow.open(&stage.world.project()).await?;
    let steps = json!([{"flood": {"lines": 20_000, "text": "a long line of words "}}, {"hang": true}]);
    slow.prompt(&session, &script(SCRIPTED, "flood", &steps)).await?;
    stage.wait_for_text(&session, "a long line").await?;
    slow.signal(rustix::process::Signal::KILL);
    super::assert_no_agent(&stage).await?;
    stage.close().await
}
