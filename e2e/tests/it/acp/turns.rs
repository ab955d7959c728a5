//! Prompts and what comes of them, with every agent.

use anyhow::{Result, bail, ensure};
use serde_json::json;

use super::{agents, assert_no_agent, editor, start, status};
use crate::stage::{Agent, script, stage, usual_scenarios};

usual_scenarios!(
    an_editor_opens_a_session_prompts_and_hears_the_answer,
    a_turn_is_cancelled_and_the_next_one_works,
    a_prompt_may_follow_a_cancel_at_once,
    a_permission_is_asked_and_allowed_once,
    a_call_is_told_with_kind_and_output,
    an_edit_is_told_with_its_place,
    thoughts_are_told_apart_from_words,
);

async fn an_editor_opens_a_session_prompts_and_hears_the_answer(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut editor = start(&stage, &[]).await?;
    let hello = editor.initialize().await?;
    ensure!(hello["protocolVersion"] == json!(1), "{hello}");
    ensure!(hello["authMethods"] == json!([]), "{hello}");
    ensure!(hello["agentCapabilities"]["loadSession"] == true, "{hello}");
    let session = editor.open(&stage.world.project()).await?;
    ensure!(agents(&stage) == 0, "no process before the first prompt");
    ensure!(status(&stage, &session).await? == "CREATED");
    let text = script(agent, "hello there", &json!([{"text": "first second third", "chunks": 3}]));
    ensure!(editor.turn(&session, &text).await? == "end_turn");
    ensure!(editor.said(&session).contains("first second third"), "{:#?}", editor.seen);
    ensure!(editor.updates_of(&session, "user_message_chunk").is_empty(), "an editor knows its own words");
    ensure!(status(&stage, &session).await? == "RUNNING");
    editor.close().await?;
    assert_no_agent(&stage).await?;
    ensure!(status(&stage, &session).await? == "STOPPED", "the record stays");
    stage.close().await
}

async fn a_turn_is_cancelled_and_the_next_one_works(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let text = script(agent, "long work", &json!([[{"text": "begun"}, {"hang": true}]]));
    let id = editor.prompt(&session, &text).await?;
    editor.chunk().await?;
    editor.tell("session/cancel", json!({"sessionId": session})).await?;
    // Twice does no harm, nor does calling off the request itself.
    editor.tell("$/cancel_request", json!({"requestId": id})).await?;
    editor.tell("session/cancel", json!({"sessionId": session})).await?;
    ensure!(editor.answer(id).await?["result"]["stopReason"] == "cancelled");
    let text = script(agent, "again", &json!([{"text": "here again"}]));
    ensure!(editor.turn(&session, &text).await? == "end_turn");
    ensure!(editor.said(&session).contains("here again"));
    editor.tell("session/cancel", json!({"sessionId": session})).await?;
    editor.close().await?;
    stage.close().await
}

async fn a_prompt_may_follow_a_cancel_at_once(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    // The first is cancelled while the agent starts, the second while it works.
    for key in ["starting", "working"] {
        let text = script(agent, key, &json!([[{"text": "begun"}, {"hang": true}]]));
        let cancelled = editor.prompt(&session, &text).await?;
        if key == "working" {
            editor.chunk().await?;
        }
        editor.tell("session/cancel", json!({"sessionId": session})).await?;
        let text = script(agent, "again", &json!([{"text": format!("after {key}")}]));
        let next = editor.prompt(&session, &text).await?;
        ensure!(editor.answer(cancelled).await?["result"]["stopReason"] == "cancelled");
        let answer = editor.answer(next).await?;
        ensure!(answer["result"]["stopReason"] == "end_turn", "{key}: {answer}");
        ensure!(editor.said(&session).contains(&format!("after {key}")), "{key}: {:#?}", editor.seen);
    }
    editor.close().await?;
    stage.close().await
}

async fn a_permission_is_asked_and_allowed_once(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let steps = json!([agent.asking("touch made"), {"text": "done"}]);
    let id = editor.prompt(&session, &script(agent, "may I", &steps)).await?;
    let asked = editor.asked("session/request_permission").await?;
    let kinds: Vec<&str> = asked["params"]["options"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|option| option["kind"].as_str())
        .collect();
    // Between once and not at all stand the grants, the narrowest first; each name says what it covers.
    let ["allow_once", grants @ .., "reject_once"] = kinds.as_slice() else { bail!("{asked}") };
    ensure!(!grants.is_empty() && grants.iter().all(|kind| *kind == "allow_always"), "{asked}");
    let narrowest = &asked["params"]["options"][1];
    ensure!(narrowest["optionId"] == "allow-always", "{asked}");
    ensure!(narrowest["name"].as_str().is_some_and(|name| name.contains("touch made")), "{asked}");
    let call = &asked["params"]["toolCall"];
    ensure!(call["kind"] == "execute" && call["rawInput"].to_string().contains("touch made"), "{asked}");
    editor.reply(&asked, json!({"outcome": {"outcome": "selected", "optionId": "allow-once"}})).await?;
    ensure!(editor.answer(id).await?["result"]["stopReason"] == "end_turn");
    let settled = stage.wait_for(&session, "request_settled", |_| true).await?;
    ensure!(settled["by"] == "acp:test-editor" && settled["decision"] == "allow_once", "{settled}");
    if agent.is_real() {
        ensure!(stage.world.project().join("made").exists());
    }
    editor.close().await?;
    stage.close().await
}

async fn a_call_is_told_with_kind_and_output(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut editor = editor(&stage, &["--mode", "autonomous"]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let step = json!({"tool": "Bash", "input": {"command": "echo told-output"}, "result": "told-output"});
    let text = script(agent, "run it", &json!([step, {"text": "done"}]));
    ensure!(editor.turn(&session, &text).await? == "end_turn");
    let calls = editor.updates_of(&session, "tool_call");
    ensure!(calls.len() == 1, "{calls:#?}");
    ensure!(calls[0]["kind"] == "execute" && calls[0]["status"] == "in_progress", "{calls:#?}");
    ensure!(calls[0]["rawInput"]["command"] == "echo told-output", "{calls:#?}");
    let ends = editor.updates_of(&session, "tool_call_update");
    let end = ends.last().cloned().unwrap_or_default();
    ensure!(end["status"] == "completed" && end["toolCallId"] == calls[0]["toolCallId"], "{ends:#?}");
    ensure!(end["content"].to_string().contains("told-output"), "{end}");
    editor.close().await?;
    stage.close().await
}

async fn an_edit_is_told_with_its_place(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut editor = editor(&stage, &["--mode", "autonomous"]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let file = stage.world.project().canonicalize()?.join("new.txt");
    let input = json!({"file_path": file, "content": "new words\n"});
    let step = json!({"tool": "Write", "input": input, "result": "written"});
    let text = script(agent, "write it", &json!([step, {"text": "done"}]));
    ensure!(editor.turn(&session, &text).await? == "end_turn");
    let calls = editor.updates_of(&session, "tool_call");
    let call = calls.first().cloned().unwrap_or_default();
    ensure!(call["kind"] == "edit", "{:#?}", editor.seen);
    ensure!(call["locations"][0]["path"] == json!(file), "{call}");
    let diff = &call["content"][0];
    ensure!(diff["type"] == "diff" && diff["path"] == json!(file), "{call}");
    ensure!(diff["newText"].as_str().is_some_and(|text| text.contains("new words")), "{call}");
    editor.close().await?;
    stage.close().await
}

async fn thoughts_are_told_apart_from_words(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let text = script(agent, "think", &json!([[{"thinking": "deep thought"}, {"text": "plain word"}]]));
    ensure!(editor.turn(&session, &text).await? == "end_turn");
    ensure!(editor.said(&session).contains("plain word"));
    let thoughts = editor.text(&session, "agent_thought_chunk");
    ensure!(thoughts.contains("deep thought"), "{:#?}", editor.seen);
    editor.close().await?;
    stage.close().await
}
