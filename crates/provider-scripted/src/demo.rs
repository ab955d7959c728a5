//! What the scripted agent does without a script: a small turn that shows every part of one.

use std::io::Write;

use domain::{Mode, Usage};
use serde_json::json;

use super::agent::{ScriptFailure, ScriptedAgent};
use super::wire::FromScriptedAgent;

/// Plays the demonstration.
pub(super) fn play<W: Write>(
    agent: &mut ScriptedAgent<W>,
    prompt: &str,
    attachments: &[String],
) -> Result<(), ScriptFailure> {
    for thought in ["I was asked something. ", "Let me look around first."] {
        agent.say(&FromScriptedAgent::Thinking { text: thought.to_owned() })?;
    }
    let here =
        std::env::current_dir().map(|dir| dir.display().to_string()).unwrap_or_else(|_| ".".to_owned());
    let asks = agent.mode == Mode::Supervised;
    let mut names = Vec::new();
    let looked = agent.tool("List", &json!({"path": here}), asks, || {
        names = entries(&here);
        (true, names.join("\n"))
    })?;
    if looked {
        let count = names.len();
        let entries = if count == 1 { "is 1 entry".to_owned() } else { format!("are {count} entries") };
        agent.text(&format!("There {entries} in {here}.\n"))?;
    } else {
        agent.text("I was not allowed to look around.\n")?;
    }
    if !attachments.is_empty() {
        agent.text(&format!("You sent {}.\n", attachments.join(", ")))?;
    }
    agent.text(&format!("You said: {prompt}\n"))?;
    // About four characters per token, as models count.
    let tokens = |letters: usize| u64::try_from(letters / 4 + 1).unwrap_or(u64::MAX);
    let usage =
        Usage { input_tokens: tokens(prompt.len()), output_tokens: tokens(prompt.len()), ..Usage::default() };
    agent.say(&FromScriptedAgent::Usage { usage })?;
    Ok(())
}

fn entries(folder: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
