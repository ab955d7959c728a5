//! `obey acp` as editors use it: what they say, what they hear, and what is left when they leave. Every line that comes
//! is held against the published schema.

mod bad_input;
mod bridge;
mod content;
pub(crate) mod editor_tools;
mod emacs;
mod leaving;
mod many;
mod modes;
mod neovim;
mod playback;
mod published;
mod requests;
mod sessions;
mod survival;
mod toad;
mod turns;

use anyhow::{Result, ensure};
use e2e::acp::Editor;
use e2e::deadline::poll;
use serde_json::Value;

use crate::stage::{Agent, Stage};

/// Starts an editor on a stage, introduced.
pub(crate) async fn editor(stage: &Stage, args: &[&str]) -> Result<Editor> {
    let mut editor = start(stage, args).await?;
    editor.initialize().await?;
    Ok(editor)
}

/// Starts an editor that has said nothing yet.
pub(crate) async fn start(stage: &Stage, args: &[&str]) -> Result<Editor> {
    let all: Vec<&str> = words(stage.agent).into_iter().chain(args.iter().copied()).collect();
    Editor::start(&stage.world, &all).await
}

/// How `obey acp` is told which agent to run.
pub(crate) fn words(agent: Agent) -> Vec<&'static str> {
    match agent {
        Agent::Acp | Agent::CodexAcp => vec!["--agent", "codex-acp"],
        Agent::OpenaiChat => {
            vec!["--provider", agent.name(), "--model", agent.model(), "--config", r#"{"wire_api":"chat"}"#]
        }
        Agent::Openai => vec!["--provider", agent.name(), "--model", agent.model()],
        Agent::Opencode => vec!["--agent", "opencode"],
        Agent::Goose => vec!["--agent", "goose"],
        Agent::Gemini => vec!["--agent", "gemini"],
        Agent::ClaudeAcp => vec!["--agent", "claude-agent-acp"],
        Agent::Scripted | Agent::Claude | Agent::Codex | Agent::Openclaw => {
            vec!["--provider", agent.name()]
        }
    }
}

/// The status of a session as the daemon has it.
pub(crate) async fn status(stage: &Stage, session: &str) -> Result<String> {
    let listed = stage.cli().json(&["session", "list", "--all"]).await?;
    let listed =
        listed.as_array().cloned().or_else(|| listed["sessions"].as_array().cloned()).unwrap_or_default();
    let found = listed.iter().find(|entry| entry["id"] == session);
    Ok(found.map(|entry| entry["status"].as_str().unwrap_or_default().to_owned()).unwrap_or_default())
}

/// Waits until no agent of this world runs any more; the daemon may stay.
pub(crate) async fn assert_no_agent(stage: &Stage) -> Result<()> {
    let agents = || stage.world.processes().into_iter().filter(|process| is_agent(&process.command)).count();
    poll("the end of every agent", || (agents() == 0).then_some(())).await
}

fn is_agent(command: &str) -> bool {
    command.contains(" shim ")
        || command.contains("scripted-agent")
        || command.contains("codex ")
        || command.contains("claude")
}

/// How many agents of this world run.
pub(crate) fn agents(stage: &Stage) -> usize {
    stage.world.processes().into_iter().filter(|process| process.command.contains(" shim ")).count()
}

/// The text of an error.
pub(crate) fn refused(error: &Value, code: i64, words: &str) -> Result<()> {
    ensure!(error["code"] == code, "{error}");
    let message = error["message"].as_str().unwrap_or_default();
    ensure!(message.contains(words), "{message:?} does not say {words:?}");
    Ok(())
}

/// The scripted agent's stage, for what does not depend on the agent.
pub(crate) const SCRIPTED: Agent = Agent::Scripted;
