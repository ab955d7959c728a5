//! What people do every hour with several agents: see who needs them, look back, keep agents apart, write to them, queue
//! prompts, fork and remove sessions, keep within a budget, retry after a crash.

mod attach;
mod budgets;
mod client_keys;
mod command_names;
mod environment;
mod explain;
mod import;
mod merge;
mod notices;
mod overview;
mod overview_commands;
mod queue;
mod rate_limits;
mod run;
mod session_operations;
mod shared_budgets;
mod terminal_ui;
mod trees;
mod working_day;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::stage::{Stage, fields};

/// Creates a session that does not ask: the scripted agent asks in turns without a script.
async fn session(stage: &Stage) -> Result<String> {
    let mut request = stage.new_session();
    request.provider_config.insert("permission_mode".into(), "autonomous".into());
    Ok(stage.create_as(request).await?.id)
}

/// How often a command that waits for the daemon may be the first to start one.
const STARTED_BY_OTHERS_MAX: usize = 10;

/// Kills the daemon and starts the next one. A command that waits for it may have started one meanwhile: that one is ended.
async fn kill_and_restart(stage: &mut Stage) -> Result<()> {
    stage.daemon.kill9().await?;
    for attempt in 0.. {
        match stage.daemon.restart().await {
            Ok(()) => break,
            Err(error) if attempt < STARTED_BY_OTHERS_MAX && format!("{error:#}").contains("OBEY-1012") => {
                stage.cli().run(&["stop"]).await?;
            }
            Err(error) => return Err(error),
        }
    }
    stage.clients = stage.daemon.clients().await?;
    Ok(())
}

/// The prompts of all turns so far, in order.
async fn prompts(stage: &Stage, id: &str) -> Result<Vec<String>> {
    let journal = stage.journal(id).await?;
    let started = journal.iter().filter(|event| event.r#type == "turn_started");
    Ok(started.map(|event| fields(event)["prompt"].as_str().unwrap_or_default().to_owned()).collect())
}

/// Waits until so many turns have ended.
async fn wait_for_turns(stage: &Stage, id: &str, turns: usize) -> Result<Value> {
    let last = format!("turn_{turns}");
    stage.wait_for(id, "turn_ended", |ended| ended["turn"] == last.as_str()).await
}

/// A prompt that ends once the file exists.
fn gated(key: &str, gate: &std::path::Path) -> String {
    format!("{key} SCRIPT: {}", serde_json::json!([{"wait_file": gate}, {"text": format!("{key} done")}]))
}

/// Makes the file that a prompt waits for.
fn open_gate(gate: &std::path::Path) -> Result<()> {
    std::fs::write(gate, "").with_context(|| format!("writing {}", gate.display()))
}
