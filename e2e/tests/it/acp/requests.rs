//! What waits for a person: asked in the editor, answered there or elsewhere.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wire::obey::v1 as own;

use super::{SCRIPTED, editor, start};
use crate::stage::{Agent, process_scenarios, script, stage};

process_scenarios!(
    a_permission_is_rejected,
    a_permission_for_the_session_is_asked_once,
    a_permission_can_be_answered_from_elsewhere,
    a_cancelled_permission_ends_the_turn,
);

fn choose(option: &str) -> Value {
    json!({"outcome": {"outcome": "selected", "optionId": option}})
}

async fn a_permission_is_rejected(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let steps = json!([agent.asking("touch made"), {"text": "then not"}]);
    let id = editor.prompt(&session, &script(agent, "may I", &steps)).await?;
    let asked = editor.asked("session/request_permission").await?;
    editor.reply(&asked, choose("reject-once")).await?;
    ensure!(editor.answer(id).await?["result"]["stopReason"] == "end_turn");
    ensure!(!stage.world.project().join("made").exists());
    let ends = editor.updates_of(&session, "tool_call_update");
    ensure!(ends.iter().any(|end| end["status"] == "failed"), "{ends:#?}");
    editor.close().await?;
    stage.close().await
}

async fn a_permission_for_the_session_is_asked_once(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let steps = json!([agent.asking("touch made"), {"text": "done"}]);
    let id = editor.prompt(&session, &script(agent, "first", &steps)).await?;
    let asked = editor.asked("session/request_permission").await?;
    editor.reply(&asked, choose("allow-always")).await?;
    ensure!(editor.answer(id).await?["result"]["stopReason"] == "end_turn");
    let before = editor.seen.len();
    ensure!(editor.turn(&session, &script(agent, "second", &steps)).await? == "end_turn");
    let again = editor.seen[before..].iter().any(|message| message["method"] == "session/request_permission");
    ensure!(!again, "asked again");
    editor.close().await?;
    stage.close().await
}

async fn a_permission_can_be_answered_from_elsewhere(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let steps = json!([agent.asking("touch made"), {"text": "done"}]);
    let id = editor.prompt(&session, &script(agent, "may I", &steps)).await?;
    let asked = editor.asked("session/request_permission").await?;
    let pending = stage.wait_for_request(&session).await?;
    stage.decide(&session, &pending.id, own::Decision::AllowOnce).await?;
    let off =
        editor.wait("the end of the question", |message| message["method"] == "$/cancel_request").await?;
    ensure!(off["params"]["requestId"] == asked["id"], "{off}");
    // An answer that comes too late changes nothing.
    editor.reply(&asked, choose("reject-once")).await?;
    ensure!(editor.answer(id).await?["result"]["stopReason"] == "end_turn");
    editor.close().await?;
    stage.close().await
}

async fn a_cancelled_permission_ends_the_turn(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let steps = json!([agent.asking("touch made"), {"text": "done"}]);
    let id = editor.prompt(&session, &script(agent, "may I", &steps)).await?;
    let asked = editor.asked("session/request_permission").await?;
    editor.tell("session/cancel", json!({"sessionId": session})).await?;
    editor.reply(&asked, json!({"outcome": {"outcome": "cancelled"}})).await?;
    ensure!(editor.answer(id).await?["result"]["stopReason"] == "cancelled");
    ensure!(!stage.world.project().join("made").exists());
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn a_new_file_is_compared_with_what_the_editor_has() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut editor = start(&stage, &[]).await?;
    editor.initialize_with(json!({"fs": {"readTextFile": true, "writeTextFile": true}})).await?;
    let session = editor.open(&stage.world.project()).await?;
    let file = stage.world.project().join("README.md");
    let step = json!({"tool": "Write", "input": {"file_path": file, "content": "new\n"}, "ask": true});
    let id = editor.prompt(&session, &script(SCRIPTED, "write", &json!([step]))).await?;
    let read = editor.asked("fs/read_text_file").await?;
    ensure!(read["params"]["path"] == json!(file) && read["params"]["sessionId"] == json!(session), "{read}");
    editor.reply(&read, json!({"content": "unsaved words\n"})).await?;
    let asked = editor.asked("session/request_permission").await?;
    let diff = &asked["params"]["toolCall"]["content"][0];
    ensure!(diff["oldText"] == "unsaved words\n" && diff["newText"] == "new\n", "{asked}");
    editor.reply(&asked, choose("allow-once")).await?;
    ensure!(editor.answer(id).await?["result"]["stopReason"] == "end_turn");
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn a_question_is_a_form_where_the_editor_has_forms() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut editor = start(&stage, &[]).await?;
    editor.initialize_with(json!({"elicitation": {"form": {}}})).await?;
    let session = editor.open(&stage.world.project()).await?;
    let steps = json!([{"question": {"text": "Which?", "options": ["red", "blue"]}}]);
    let id = editor.prompt(&session, &script(SCRIPTED, "ask", &steps)).await?;
    let asked = editor.asked("elicitation/create").await?;
    let fields = asked["params"]["requestedSchema"]["properties"].as_object().context("no form")?;
    let (name, field) = fields.iter().next().context("no field")?;
    ensure!(field["enum"] == json!(["red", "blue"]), "{asked}");
    let mut content = json!({});
    content[name.as_str()] = "blue".into();
    editor.reply(&asked, json!({"action": "accept", "content": content})).await?;
    ensure!(editor.answer(id).await?["result"]["stopReason"] == "end_turn");
    ensure!(editor.said(&session).contains("blue"), "{:#?}", editor.seen);
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn a_question_is_a_choice_where_the_editor_has_no_forms() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let steps = json!([{"question": {"text": "Which?", "options": ["red", "blue"]}}]);
    let id = editor.prompt(&session, &script(SCRIPTED, "ask", &steps)).await?;
    let asked = editor.asked("session/request_permission").await?;
    ensure!(asked["params"]["toolCall"]["title"] == "Which?", "{asked}");
    ensure!(asked["params"]["options"][0]["name"] == "red", "{asked}");
    editor.reply(&asked, choose("choice-0")).await?;
    ensure!(editor.answer(id).await?["result"]["stopReason"] == "end_turn");
    ensure!(editor.said(&session).contains("red"), "{:#?}", editor.seen);
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn what_still_waits_is_asked_of_the_next_editor() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut first = editor(&stage, &["--keep"]).await?;
    let session = first.open(&stage.world.project()).await?;
    let steps = json!([SCRIPTED.asking("touch made"), {"text": "went on"}]);
    first.prompt(&session, &script(SCRIPTED, "may I", &steps)).await?;
    first.asked("session/request_permission").await?;
    first.close().await?;
    let mut second = editor(&stage, &[]).await?;
    let place = json!({"sessionId": session, "cwd": stage.world.project(), "mcpServers": []});
    second.result("session/load", place).await?;
    let asked = second.asked("session/request_permission").await?;
    second.reply(&asked, choose("allow-once")).await?;
    second
        .wait("the rest of the turn", |message| {
            message["params"]["update"]["content"]["text"]
                .as_str()
                .is_some_and(|text| text.contains("went on"))
        })
        .await?;
    second.close().await?;
    stage.close().await
}
