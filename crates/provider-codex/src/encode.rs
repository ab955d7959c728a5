//! Encodes inputs as lines for Codex. Answers to its own requests are in `answer`.

mod answer;

use agent_port::{BridgeServer, Revisioned};
use domain::event::Attachment;
use domain::turn::EndReason;
use domain::{AgentInput, Error};
use serde_json::{Map, Value, json};

use super::mode_settings::CodexModeSettings;
use super::rpc::CodexRequestKind;
use super::settings::CodexSettings;
use super::state::{CodexState, CodexTurn, InterruptState};
use super::{history, is_tested, models};
use provider_common::attachment::{self, AttachmentPart};

pub(super) use answer::release;

/// Notifications that are not used here and are frequent or large; the agent does not send them.
const UNWANTED: [&str; 7] = [
    "fs/changed",
    "item/fileChange/outputDelta",
    "remoteControl/status/changed",
    "thread/goal/updated",
    "thread/readState/changed",
    "thread/status/changed",
    "turn/diff/updated",
];

/// Writes the first request to the agent.
pub(super) fn open(state: &mut Revisioned<CodexState>, wire: &mut Vec<u8>) {
    let params = json!({
        "clientInfo": {"name": "obey", "title": "obey", "version": env!("CARGO_PKG_VERSION")},
        // Required for changing the settings of a running conversation and for its left-over commands.
        "capabilities": {"experimentalApi": true, "optOutNotificationMethods": UNWANTED},
    });
    state.send_request(CodexRequestKind::Initialize, params, wire);
}

/// Starts a conversation, or resumes the previous one. On a resume all settings of the mode are sent again:
/// the agent does not always keep the sandbox of a conversation, and the mode may have changed since.
pub(super) fn begin_thread(state: &mut Revisioned<CodexState>, settings: &CodexSettings, wire: &mut Vec<u8>) {
    let stance = CodexModeSettings::of(state.mode, settings);
    let mut params = json!({
        "cwd": state.cwd,
        "sandbox": stance.sandbox,
        "approvalPolicy": stance.approval_policy,
        // Whatever the configuration says: an agent never answers its own requests.
        "approvalsReviewer": "user",
        "config": overrides(state, settings),
    });
    if !state.asked_model.is_empty() {
        params["model"] = json!(state.asked_model);
    }
    if !settings.append_system_prompt.is_empty() {
        params["developerInstructions"] = json!(settings.append_system_prompt);
    }
    if state.resume.is_empty() {
        state.send_request(CodexRequestKind::Start, params, wire);
    } else {
        params["threadId"] = json!(state.resume);
        params["excludeTurns"] = json!(true);
        state.send_request(CodexRequestKind::Resume, params, wire);
    }
}

/// Returns what differs from the agent's own configuration.
fn overrides(state: &CodexState, settings: &CodexSettings) -> Value {
    let mut config = Map::new();
    let mut set = |key: &str, value: Value| config.insert(key.to_owned(), value);
    if is_tested(&state.version) {
        // There are clients to answer questions and to see the plan.
        set("features.default_mode_request_user_input", json!(true));
        set("tools.update_plan.enabled", json!(true));
        set("suppress_unstable_features_warning", json!(true));
        // A turn whose model cannot be reached fails; otherwise the agent would retry forever.
        set("features.unbounded_connection_retries", json!(false));
        if state.bridged {
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
        let roots: Vec<String> = state.workspace.writable_roots.iter().cloned().chain(own).collect();
        set("sandbox_workspace_write.writable_roots", json!(roots));
    }
    let bridge = state.bridge.iter().map(|server| (BridgeServer::NAME, server));
    for (name, server) in
        settings.mcp_servers.iter().map(|(name, server)| (name.as_str(), server)).chain(bridge)
    {
        set(&format!("mcp_servers.{name}"), server.clone());
    }
    Value::Object(config)
}

/// Encodes an input.
pub(super) fn input(
    state: &mut Revisioned<CodexState>,
    settings: &CodexSettings,
    input: &AgentInput,
    wire: &mut Vec<u8>,
) -> Result<(), Error> {
    match input {
        AgentInput::Prompt { text, attachments } => {
            let (system, files): (Vec<_>, Vec<_>) = attachments.iter().partition(|file| file.is_system());
            let content = content(text, &files)?;
            let system = history::system_items(&system)?;
            if !system.is_empty() {
                let params = json!({"threadId": state.thread, "items": system});
                state.send_request(CodexRequestKind::Context, params, wire);
            }
            state.turn.get_or_insert_with(CodexTurn::default);
            state.settling = None;
            say(state, CodexRequestKind::Turn, content, wire);
        }
        AgentInput::Steer { text } => drop(steer(state, text, wire)),
        AgentInput::Compact => {
            state.turn = Some(CodexTurn::default());
            let params = json!({"threadId": state.thread});
            state.send_request(CodexRequestKind::Compact, params, wire);
        }
        AgentInput::Interrupt => interrupt(state, wire),
        AgentInput::Decide { native, decision, message, updated_input, ask } => {
            let answer =
                answer::Decided { decision: *decision, message, updated: updated_input.as_ref(), ask };
            answer::decide(state, settings, native, &answer, wire);
        }
        AgentInput::Answer { native, answers, ask } => answer::answer(state, native, answers, ask, wire),
        AgentInput::SetMode(mode) => {
            state.mode = *mode;
            change_stance(state, settings, wire);
        }
        AgentInput::SetModel(model) => set_model(state, model, wire)?,
        // It exits when its stdin is closed. Tools of clients reach it as an MCP server of the daemon.
        AgentInput::Leave | AgentInput::Tools(_) | AgentInput::ToolResult { .. } => {}
    }
    Ok(())
}

/// Sends the settings of the session's mode to the agent, effective from its next turn.
pub(super) fn change_stance(
    state: &mut Revisioned<CodexState>,
    settings: &CodexSettings,
    wire: &mut Vec<u8>,
) {
    let stance = CodexModeSettings::of(state.mode, settings);
    let mut params = stance.update(settings, &state.workspace, &state.model);
    params["threadId"] = json!(state.thread);
    state.send_request(CodexRequestKind::Settings, params, wire);
}

fn set_model(state: &mut Revisioned<CodexState>, model: &str, wire: &mut Vec<u8>) -> Result<(), Error> {
    models::check_form(model)?;
    if model.is_empty() {
        return Err(Error::invalid("model", "name the model; Codex has no word for its default"));
    }
    if !state.models.is_empty() {
        models::check_known(model, &state.models)?;
    }
    model.clone_into(&mut state.asked_model);
    model.clone_into(&mut state.model);
    let params = json!({"threadId": state.thread, "model": model});
    state.send_request(CodexRequestKind::Settings, params, wire);
    Ok(())
}

/// Adds a message to the running turn. Returns the request's id.
pub(super) fn steer(state: &mut Revisioned<CodexState>, text: &str, wire: &mut Vec<u8>) -> String {
    say(state, CodexRequestKind::Steer, json!([text_part(text)]), wire)
}

/// Sends a message as the user. Returns the request's id.
pub(super) fn say(
    state: &mut Revisioned<CodexState>,
    purpose: CodexRequestKind,
    content: Value,
    wire: &mut Vec<u8>,
) -> String {
    let params = json!({"threadId": state.thread, "input": content});
    state.send_request(purpose, params, wire)
}

/// Ends the turn, as soon as the agent's id of it is known.
pub(super) fn interrupt(state: &mut Revisioned<CodexState>, wire: &mut Vec<u8>) {
    let state = &mut **state;
    match &mut state.turn {
        Some(turn) if turn.plan_asked => {
            state.settle(EndReason::Cancelled, wire);
        }
        Some(turn) if turn.id.is_empty() => turn.interrupt = InterruptState::Wanted,
        Some(turn) => {
            turn.interrupt = InterruptState::Sent;
            let params = json!({"threadId": state.thread, "turnId": turn.id});
            state.send_request(CodexRequestKind::Interrupt, params, wire);
        }
        // The agent never received the turn; it ends all the same.
        None => state.settle(EndReason::Cancelled, wire),
    }
}

/// Returns a prompt's parts, the files first.
fn content(text: &str, attachments: &[&Attachment]) -> Result<Value, Error> {
    let mut parts = attachments.iter().copied().map(part).collect::<Result<Vec<Value>, Error>>()?;
    if !text.is_empty() || parts.is_empty() {
        parts.push(text_part(text));
    }
    Ok(parts.into())
}

pub(super) fn text_part(text: &str) -> Value {
    json!({"type": "text", "text": text, "text_elements": []})
}

/// Converts a file: images as data URLs, everything else as text in a tag.
fn part(file: &Attachment) -> Result<Value, Error> {
    Ok(match attachment::part(file)? {
        AttachmentPart::Picture(url) => json!({"type": "image", "url": url}),
        AttachmentPart::Text(text) => text_part(&text),
    })
}

#[cfg(test)]
mod tests;
