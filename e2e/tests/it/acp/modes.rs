//! Modes, models and options.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{SCRIPTED, agents, assert_no_agent, editor, refused};
use crate::stage::{Agent, process_scenarios, script, stage};

process_scenarios!(a_mode_is_shown_changed_and_told);

async fn a_mode_is_shown_changed_and_told(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut editor = editor(&stage, &[]).await?;
    let new = json!({"cwd": stage.world.project(), "mcpServers": []});
    let opened = editor.result("session/new", new).await?;
    let session = opened["sessionId"].as_str().unwrap_or_default().to_owned();
    ensure!(opened["modes"]["currentModeId"] == "supervised", "{opened}");
    let ids: Vec<&Value> =
        opened["modes"]["availableModes"].as_array().into_iter().flatten().map(|mode| &mode["id"]).collect();
    ensure!(ids.iter().any(|id| **id == "plan") && ids.iter().any(|id| **id == "autonomous"), "{opened}");
    ensure!(opened["configOptions"][0]["currentValue"] == "supervised", "{opened}");
    let set = json!({"sessionId": session, "modeId": "autonomous"});
    ensure!(editor.result("session/set_mode", set).await? == json!({}));
    ensure!(agents(&stage) == 0, "a mode starts nothing");
    // What it does in this mode is not asked.
    let steps = json!([agent.asking("echo quietly"), {"text": "done"}]);
    ensure!(editor.turn(&session, &script(agent, "do it", &steps)).await? == "end_turn");
    ensure!(!editor.seen.iter().any(|message| message["method"] == "session/request_permission"));
    let told = editor.updates_of(&session, "current_mode_update");
    ensure!(told.last().is_some_and(|told| told["currentModeId"] == "autonomous"), "{told:#?}");
    let set = json!({"sessionId": session, "configId": "mode", "value": "plan"});
    let options = editor.result("session/set_config_option", set).await?;
    ensure!(options["configOptions"][0]["currentValue"] == "plan", "{options}");
    let error = editor.refusal("session/set_mode", json!({"sessionId": session, "modeId": "wild"})).await?;
    refused(&error, -32602, "unsupported session mode")?;
    editor.close().await?;
    stage.close().await
}

/// What the model was asked last for a prompt.
fn asked_of_model(stage: &crate::stage::Stage, key: &str) -> Result<Value> {
    let request = stage.world.model().requests_for(key).pop();
    Ok(request.context("the model was not asked")?.body)
}

#[tokio::test]
async fn the_bridges_modes_are_codexs_arguments() -> Result<()> {
    let stage = stage!(Agent::Codex);
    let mut editor = editor(&stage, &[]).await?;
    let new = json!({"cwd": stage.world.project(), "mcpServers": [], "permissionMode": "accept-edits"});
    let opened = editor.result("session/new", new).await?;
    let session = opened["sessionId"].as_str().unwrap_or_default().to_owned();
    ensure!(opened["modes"]["currentModeId"] == "acceptEdits", "{opened}");
    // It writes in its folder without asking, and cannot leave its sandbox.
    let file = stage.world.project().join("made.txt");
    let write = json!({"tool": "Bash", "input": {"command": "echo made > made.txt"}});
    let text = script(Agent::Codex, "make it", &json!([write, {"text": "done"}]));
    ensure!(editor.turn(&session, &text).await? == "end_turn");
    ensure!(file.exists(), "{:#?}", editor.seen);
    std::fs::remove_file(&file)?;
    let set = json!({"sessionId": session, "modeId": "default"});
    editor.result("session/set_mode", set).await?;
    assert_no_agent(&stage).await?;
    let text = script(Agent::Codex, "make it again", &json!([write, {"text": "done"}]));
    ensure!(editor.turn(&session, &text).await? == "end_turn");
    ensure!(!file.exists(), "read-only means that");
    ensure!(!editor.seen.iter().any(|message| message["method"] == "session/request_permission"));
    let told = editor.updates_of(&session, "current_mode_update");
    ensure!(told.last().is_some_and(|told| told["currentModeId"] == "default"), "{told:#?}");
    editor.result("session/set_mode", json!({"sessionId": session, "modeId": "danger-full-access"})).await?;
    let text = script(Agent::Codex, "make it at last", &json!([write, {"text": "done"}]));
    ensure!(editor.turn(&session, &text).await? == "end_turn");
    ensure!(file.exists());
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn a_model_is_chosen_before_and_between_prompts() -> Result<()> {
    let stage = stage!(Agent::Claude);
    let mut editor = editor(&stage, &["--model", "sonnet"]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let set = |value: &str| json!({"sessionId": session, "configId": "model", "value": value});
    let options = editor.result("session/set_config_option", set("haiku")).await?;
    ensure!(options["configOptions"][1]["currentValue"] == "haiku", "{options}");
    let text = script(Agent::Claude, "which are you", &json!([{"text": "me"}]));
    ensure!(editor.turn(&session, &text).await? == "end_turn");
    let body = asked_of_model(&stage, "which are you")?;
    ensure!(body["model"].as_str().is_some_and(|model| model.contains("haiku")), "{}", body["model"]);
    let set = json!({"sessionId": session, "modelId": "opus"});
    ensure!(editor.result("session/set_model", set).await? == json!({}));
    let text = script(Agent::Claude, "and now", &json!([{"text": "me too"}]));
    ensure!(editor.turn(&session, &text).await? == "end_turn");
    let body = asked_of_model(&stage, "and now")?;
    ensure!(body["model"].as_str().is_some_and(|model| model.contains("opus")), "{}", body["model"]);
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn what_is_no_option_is_refused() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let set = |id: &str, value: Value| json!({"sessionId": session, "configId": id, "value": value});
    let method = "session/set_config_option";
    refused(&editor.refusal(method, set("speed", json!("x"))).await?, -32602, "mode and model")?;
    refused(&editor.refusal(method, set("mode", json!(true))).await?, -32602, "value")?;
    refused(&editor.refusal(method, set("model", json!("gpt-9"))).await?, -32602, "no model")?;
    editor.close().await?;
    stage.close().await
}
