//! What prompts carry beside text, what sessions are given, and what real agents tell of themselves.

use anyhow::{Result, ensure};
use e2e::tools;
use serde_json::json;

use super::{SCRIPTED, editor};
use crate::stage::{Agent, Stage, script, stage};

/// A picture of one pixel.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

mod real_claude {
    use super::*;

    #[tokio::test]
    async fn pictures_and_context_reach_the_model() -> Result<()> {
        super::pictures_and_context_reach_the_model(Agent::Claude).await
    }

    #[tokio::test]
    async fn servers_of_the_editor_reach_the_agent() -> Result<()> {
        super::servers_of_the_editor_reach_the_agent(Agent::Claude).await
    }

    #[tokio::test]
    async fn commands_and_usage_are_told() -> Result<()> {
        let stage = stage!(Agent::Claude);
        let mut editor = editor(&stage, &[]).await?;
        let session = editor.open(&stage.world.project()).await?;
        let text = script(Agent::Claude, "say", &json!([{"text": "a"}]));
        ensure!(editor.turn(&session, &text).await? == "end_turn");
        let commands = editor.updates_of(&session, "available_commands_update");
        ensure!(
            commands.last().is_some_and(|told| told["availableCommands"][0]["name"].is_string()),
            "{commands:?}"
        );
        let used = editor.updates_of(&session, "usage_update");
        ensure!(used.last().is_some_and(|told| told["size"].as_u64() > Some(1000)), "{used:?}");
        editor.close().await?;
        stage.close().await
    }
}

mod real_codex {
    use super::*;

    #[tokio::test]
    async fn pictures_and_context_reach_the_model() -> Result<()> {
        super::pictures_and_context_reach_the_model(Agent::Codex).await
    }

    #[tokio::test]
    async fn servers_of_the_editor_reach_the_agent() -> Result<()> {
        super::servers_of_the_editor_reach_the_agent(Agent::Codex).await
    }
}

/// Everything the model was asked so far.
fn asked_of_model(stage: &Stage) -> Vec<String> {
    stage.world.model().requests().iter().map(|request| request.body.to_string()).collect()
}

async fn pictures_and_context_reach_the_model(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let prompt = json!([
        {"type": "image", "mimeType": "image/png", "data": PIXEL},
        {"type": "text", "text": script(agent, "look", &json!([{"text": "seen"}]))},
    ]);
    let result = editor.result("session/prompt", json!({"sessionId": session, "prompt": prompt})).await?;
    ensure!(result["stopReason"] == "end_turn", "{result}");
    // Claude Code puts a line of its own behind a picture, which the model takes for the prompt; so no script is played.
    let bodies = asked_of_model(&stage);
    ensure!(bodies.iter().any(|body| body.contains(PIXEL)), "the picture did not arrive");
    // The script stands last in a prompt, and context behind it would be part of it: it goes as a link in the words.
    let prompt = json!([
        {"type": "resource_link", "name": "notes.md", "uri": "file:///w/notes.md"},
        {"type": "text", "text": script(agent, " please", &json!([{"text": "read"}]))},
    ]);
    let result = editor.result("session/prompt", json!({"sessionId": session, "prompt": prompt})).await?;
    ensure!(result["stopReason"] == "end_turn", "{result}");
    let bodies = asked_of_model(&stage);
    ensure!(
        bodies.iter().any(|body| body.contains("[@notes.md](/w/notes.md) please")),
        "the link did not arrive"
    );
    editor.close().await?;
    stage.close().await
}

async fn servers_of_the_editor_reach_the_agent(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut editor = editor(&stage, &[]).await?;
    let server = json!({
        "name": "lab",
        "command": "python3",
        "args": [tools::repository().join("e2e/tests/acp/mcp_server.py")],
        "env": [{"name": "SECRET", "value": "hush"}],
    });
    let new = json!({"cwd": stage.world.project(), "mcpServers": [server]});
    let session =
        editor.result("session/new", new).await?["sessionId"].as_str().unwrap_or_default().to_owned();
    let steps = json!([{"tool": "mcp__lab__secret", "input": {"a": 1}}, {"text": "done"}]);
    let id = editor.prompt(&session, &script(agent, "use it", &steps)).await?;
    let asked = editor.asked("session/request_permission").await?;
    editor.reply(&asked, json!({"outcome": {"outcome": "selected", "optionId": "allow-once"}})).await?;
    ensure!(editor.answer(id).await?["result"]["stopReason"] == "end_turn");
    let ends = editor.updates_of(&session, "tool_call_update");
    ensure!(ends.iter().any(|end| end["content"].to_string().contains("hush")), "{ends:#?}");
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn a_picture_is_refused_where_the_agent_takes_none() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut editor = super::start(&stage, &[]).await?;
    let hello = editor.initialize().await?;
    let takes = hello["agentCapabilities"]["promptCapabilities"]["image"] == true;
    let session = editor.open(&stage.world.project()).await?;
    let prompt = json!([
        {"type": "image", "mimeType": "image/png", "data": PIXEL},
        {"type": "text", "text": script(SCRIPTED, "look", &json!([{"text": "seen"}]))},
    ]);
    let answer = editor.call("session/prompt", json!({"sessionId": session, "prompt": prompt})).await?;
    ensure!(answer.get("error").is_none() == takes, "what was told holds: {hello} {answer}");
    editor.close().await?;
    stage.close().await
}
