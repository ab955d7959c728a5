//! Turns what an agent is told into lines for Codex. Answers to its own requests are in `answer`.

mod answer;

use domain::event::Attachment;
use domain::turn::EndReason;
use domain::{AgentInput, Error};
use runtime::provider::BridgeServer;
use serde_json::{Map, Value, json};

use super::memory::{Interrupt, Memory, Turn};
use super::rpc::Purpose;
use super::settings::Settings;
use super::stance::Stance;
use super::{is_tested, models};
use crate::base64;

pub(super) use answer::release;

/// Notifications that nobody here reads and that come often or are large; the agent does not send them.
const UNWANTED: [&str; 8] = [
    "account/rateLimits/updated",
    "fs/changed",
    "item/fileChange/outputDelta",
    "remoteControl/status/changed",
    "thread/goal/updated",
    "thread/readState/changed",
    "thread/status/changed",
    "turn/diff/updated",
];

/// Writes what the agent is told first.
pub(super) fn open(memory: &mut Memory, wire: &mut Vec<u8>) {
    let params = json!({
        "clientInfo": {"name": "obey", "title": "obey", "version": env!("CARGO_PKG_VERSION")},
        // Settings of a running conversation and its left-over commands are behind this word.
        "capabilities": {"experimentalApi": true, "optOutNotificationMethods": UNWANTED},
    });
    memory.ask(Purpose::Initialize, params, wire);
}

/// Begins a conversation, or takes up the one that was. Everything a mode means is told again when one is taken up:
/// the agent does not always keep the sandbox of a conversation, and the mode may have changed since.
pub(super) fn begin_thread(memory: &mut Memory, settings: &Settings, wire: &mut Vec<u8>) {
    let stance = Stance::of(memory.mode, settings);
    let mut params = json!({
        "cwd": memory.cwd,
        "sandbox": stance.sandbox,
        "approvalPolicy": stance.approval_policy,
        // Whatever the configuration says: an agent never answers its own requests.
        "approvalsReviewer": "user",
        "config": overrides(memory, settings),
    });
    if !memory.asked_model.is_empty() {
        params["model"] = json!(memory.asked_model);
    }
    if !settings.append_system_prompt.is_empty() {
        params["developerInstructions"] = json!(settings.append_system_prompt);
    }
    if memory.resume.is_empty() {
        memory.ask(Purpose::Start, params, wire);
    } else {
        params["threadId"] = json!(memory.resume);
        params["excludeTurns"] = json!(true);
        memory.ask(Purpose::Resume, params, wire);
    }
}

/// Returns what differs from the agent's own configuration.
fn overrides(memory: &Memory, settings: &Settings) -> Value {
    let mut config = Map::new();
    let mut set = |key: &str, value: Value| config.insert(key.to_owned(), value);
    if is_tested(&memory.version) {
        // Somebody is there to answer a question and to see what is to be done.
        set("features.default_mode_request_user_input", json!(true));
        set("tools.update_plan.enabled", json!(true));
        set("suppress_unstable_features_warning", json!(true));
        // A turn whose model cannot be reached fails; the agent would try for ever.
        set("features.unbounded_connection_retries", json!(false));
        if memory.bridged {
            // Tools come and go with their clients; without this only the first list counts.
            set("features.mcp_tool_list_changed", json!(true));
        }
    }
    if !settings.reasoning_effort.is_empty() {
        set("model_reasoning_effort", json!(settings.reasoning_effort));
    }
    if !settings.reasoning_summary.is_empty() {
        set("model_reasoning_summary", json!(settings.reasoning_summary));
    }
    if settings.network_access {
        set("sandbox_workspace_write.network_access", json!(true));
    }
    if !settings.add_dirs.is_empty() {
        let own = settings.add_dirs.iter().map(|dir| dir.to_string_lossy().into_owned());
        let roots: Vec<String> = memory.workspace.writable_roots.iter().cloned().chain(own).collect();
        set("sandbox_workspace_write.writable_roots", json!(roots));
    }
    let bridge = memory.bridge.iter().map(|server| (BridgeServer::NAME, server));
    for (name, server) in
        settings.mcp_servers.iter().map(|(name, server)| (name.as_str(), server)).chain(bridge)
    {
        set(&format!("mcp_servers.{name}"), server.clone());
    }
    Value::Object(config)
}

/// Writes the lines for an input.
pub(super) fn input(
    memory: &mut Memory,
    settings: &Settings,
    input: &AgentInput,
    wire: &mut Vec<u8>,
) -> Result<(), Error> {
    match input {
        AgentInput::Prompt { text, attachments } => {
            let content = content(text, attachments)?;
            memory.turn.get_or_insert_with(Turn::default);
            memory.settling = None;
            say(memory, Purpose::Turn, content, wire);
        }
        AgentInput::Steer { text } => drop(steer(memory, text, wire)),
        AgentInput::Compact => {
            memory.turn = Some(Turn::default());
            let params = json!({"threadId": memory.thread});
            memory.ask(Purpose::Compact, params, wire);
        }
        AgentInput::Interrupt => interrupt(memory, wire),
        AgentInput::Decide { native, decision, message, updated_input, ask } => {
            let answer =
                answer::Decided { decision: *decision, message, updated: updated_input.as_ref(), ask };
            answer::decide(memory, settings, native, &answer, wire);
        }
        AgentInput::Answer { native, answers, ask } => answer::answer(memory, native, answers, ask, wire),
        AgentInput::SetMode(mode) => {
            memory.mode = *mode;
            change_stance(memory, settings, wire);
        }
        AgentInput::SetModel(model) => set_model(memory, model, wire)?,
        // It leaves when its input is closed. Tools of clients reach it as an MCP server of the daemon's.
        AgentInput::Leave | AgentInput::Tools(_) | AgentInput::ToolResult { .. } => {}
    }
    Ok(())
}

/// Tells the agent what the session's mode means, from its next turn on.
pub(super) fn change_stance(memory: &mut Memory, settings: &Settings, wire: &mut Vec<u8>) {
    let stance = Stance::of(memory.mode, settings);
    let mut params = stance.update(settings, &memory.workspace, &memory.model);
    params["threadId"] = json!(memory.thread);
    memory.ask(Purpose::Settings, params, wire);
}

fn set_model(memory: &mut Memory, model: &str, wire: &mut Vec<u8>) -> Result<(), Error> {
    models::check_form(model)?;
    if model.is_empty() {
        return Err(Error::invalid("model", "name the model; Codex has no word for its default"));
    }
    if !memory.models.is_empty() {
        models::check_known(model, &memory.models)?;
    }
    model.clone_into(&mut memory.asked_model);
    model.clone_into(&mut memory.model);
    let params = json!({"threadId": memory.thread, "model": model});
    memory.ask(Purpose::Settings, params, wire);
    Ok(())
}

/// Adds a message to the running turn. Returns the request's name.
pub(super) fn steer(memory: &mut Memory, text: &str, wire: &mut Vec<u8>) -> String {
    say(memory, Purpose::Steer, json!([text_part(text)]), wire)
}

/// Says something as the user. Returns the request's name.
pub(super) fn say(memory: &mut Memory, purpose: Purpose, content: Value, wire: &mut Vec<u8>) -> String {
    let params = json!({"threadId": memory.thread, "input": content});
    memory.ask(purpose, params, wire)
}

/// Ends the turn, as soon as it is known how the agent calls it.
pub(super) fn interrupt(memory: &mut Memory, wire: &mut Vec<u8>) {
    match &mut memory.turn {
        Some(turn) if turn.plan_asked => {
            memory.settle(EndReason::Cancelled, wire);
        }
        Some(turn) if turn.id.is_empty() => turn.interrupt = Interrupt::Wanted,
        Some(turn) => {
            turn.interrupt = Interrupt::Sent;
            let params = json!({"threadId": memory.thread, "turnId": turn.id});
            memory.ask(Purpose::Interrupt, params, wire);
        }
        // The agent never heard of the turn; it ends all the same.
        None => memory.settle(EndReason::Cancelled, wire),
    }
}

/// Returns a prompt's parts, the files first.
fn content(text: &str, attachments: &[Attachment]) -> Result<Value, Error> {
    let mut parts = attachments.iter().map(part).collect::<Result<Vec<Value>, Error>>()?;
    if !text.is_empty() || parts.is_empty() {
        parts.push(text_part(text));
    }
    Ok(parts.into())
}

pub(super) fn text_part(text: &str) -> Value {
    json!({"type": "text", "text": text, "text_elements": []})
}

fn part(file: &Attachment) -> Result<Value, Error> {
    let bytes = base64::decode(&file.content).ok_or_else(|| {
        Error::invalid("attachments", format_args!("the content of {:?} is not base64", file.name))
    })?;
    if matches!(file.media_type.as_str(), "image/png" | "image/jpeg" | "image/gif" | "image/webp") {
        let content: String = file.content.split_ascii_whitespace().collect();
        return Ok(json!({"type": "image", "url": format!("data:{};base64,{content}", file.media_type)}));
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        Error::invalid(
            "attachments",
            format_args!("{:?} is {}; text, PNG, JPEG, GIF and WebP can be sent", file.name, file.media_type),
        )
    })?;
    let name = file.name.replace(['"', '<', '>', '\n'], "_");
    Ok(text_part(&format!("<attachment name=\"{name}\">\n{text}\n</attachment>")))
}

#[cfg(test)]
mod tests;
