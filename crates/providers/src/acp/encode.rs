//! Turns what an agent is told into lines for an ACP agent.

use domain::event::Attachment;
use domain::{AgentInput, Decision, Error, Mode};
use runtime::provider::BridgeServer;
use serde_json::{Map, Value, json};

use super::choices;
use super::memory::{Asked, Memory, Turn};
use super::rpc::{self, Purpose};
use super::settings::Settings;
use crate::base64;

/// Writes what the agent is told first.
pub(super) fn open(memory: &mut Memory, settings: &Settings, wire: &mut Vec<u8>) {
    // Gemini reads through a client that offers it, and then cannot make a file that does not exist yet.
    let files = settings.client_tools && settings.name != "gemini";
    let params = json!({
        "protocolVersion": 1,
        "clientInfo": {"name": "obey", "title": "obey", "version": env!("CARGO_PKG_VERSION")},
        "clientCapabilities": {
            "fs": {"readTextFile": files, "writeTextFile": files},
            "terminal": settings.client_tools,
        },
    });
    memory.ask(Purpose::Initialize, params, wire);
}

/// Begins a conversation, or takes up the one that was, in the best way the agent knows.
pub(super) fn begin_session(memory: &mut Memory, settings: &Settings, wire: &mut Vec<u8>) {
    let mut params = json!({"cwd": memory.cwd, "mcpServers": servers(memory, settings)});
    if memory.resume.is_empty() {
        memory.ask(Purpose::New, params, wire);
        return;
    }
    params["sessionId"] = json!(memory.resume);
    let purpose = if memory.can.resume { Purpose::Resume } else { Purpose::Load };
    memory.ask(purpose, params, wire);
}

/// Returns servers in the protocol's own form; those the agent cannot reach are left out.
fn servers(memory: &Memory, settings: &Settings) -> Vec<Value> {
    let pairs = |map: &Value| -> Vec<Value> {
        let map = map.as_object().cloned().unwrap_or_default();
        map.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
    };
    let own = |(name, server): (&String, &Value)| {
        if server["command"].is_string() {
            return Some(json!({"name": name, "command": server["command"], "args": server["args"],
                "env": pairs(&server["env"])}));
        }
        let kind = if server["type"] == "sse" { "sse" } else { "http" };
        let reachable = if kind == "sse" { memory.can.sse_servers } else { memory.can.http_servers };
        reachable.then(|| {
            json!({"type": kind, "name": name, "url": server["url"], "headers": pairs(&server["headers"])})
        })
    };
    let bridge = memory.bridge.iter().map(|bridge| {
        json!({"name": BridgeServer::NAME, "command": bridge.command, "args": bridge.args, "env": []})
    });
    settings.mcp_servers.iter().filter_map(own).chain(bridge).collect()
}

/// Returns the names of servers the agent cannot reach.
pub(super) fn unreachable(memory: &Memory, settings: &Settings) -> Vec<String> {
    let reached: Vec<Value> = servers(memory, settings).iter().map(|server| server["name"].clone()).collect();
    settings.mcp_servers.keys().filter(|name| !reached.contains(&json!(name))).cloned().collect()
}

/// Writes the lines for an input.
pub(super) fn input(memory: &mut Memory, input: &AgentInput, wire: &mut Vec<u8>) -> Result<(), Error> {
    match input {
        AgentInput::Prompt { text, attachments } => {
            let content = content(memory, text, attachments)?;
            memory.turn = Some(Turn::default());
            if memory.unsettled > 0 {
                memory.held = content;
            } else {
                prompt(memory, content, wire);
            }
        }
        // The protocol has no word for it: it is said as soon as the turn would end.
        AgentInput::Steer { text } => memory.queued.push_back(text.clone()),
        AgentInput::Compact => {
            memory.turn = Some(Turn::default());
            prompt(memory, json!([text_part("/compact")]), wire);
        }
        AgentInput::Interrupt => interrupt(memory, wire),
        AgentInput::Decide { native, decision, message, .. } => {
            decide(memory, native, *decision, message, wire)
        }
        AgentInput::SetMode(mode) => {
            memory.mode = *mode;
            set_mode(memory, wire);
        }
        AgentInput::SetModel(model) => {
            choices::check_model(model, &memory.models)?;
            model.clone_into(&mut memory.asked_model);
            set_model(memory, wire);
        }
        // It leaves when its input is closed. Tools of clients reach it as an MCP server of the daemon's.
        AgentInput::Leave
        | AgentInput::Answer { .. }
        | AgentInput::Tools(_)
        | AgentInput::ToolResult { .. } => {}
    }
    Ok(())
}

/// Says something as the user.
pub(super) fn prompt(memory: &mut Memory, content: Value, wire: &mut Vec<u8>) {
    let params = json!({"sessionId": memory.session, "prompt": content});
    memory.ask(Purpose::Prompt, params, wire);
    if let Some(turn) = &mut memory.turn {
        turn.prompt = memory.sent;
    }
}

/// Says what was held back until the agent had settled; a turn that was interrupted meanwhile ends in the agent's way.
pub(super) fn let_go(memory: &mut Memory, wire: &mut Vec<u8>) {
    let content = std::mem::take(&mut memory.held);
    if content.is_null() {
        return;
    }
    prompt(memory, content, wire);
    if memory.turn.as_ref().is_some_and(|turn| turn.interrupted) {
        rpc::notify("session/cancel", json!({"sessionId": memory.session}), wire);
    }
}

/// Ends the turn; what waits for an answer is answered with that.
fn interrupt(memory: &mut Memory, wire: &mut Vec<u8>) {
    memory.queued.clear();
    if let Some(turn) = &mut memory.turn {
        turn.interrupted = true;
    }
    rpc::notify("session/cancel", json!({"sessionId": memory.session}), wire);
    if std::mem::take(&mut memory.has_commands) {
        // Goose leaves what it began in our terminals running. Where too much is under way, the agent ends it.
        let _ = memory.remember_errand(&Value::Null, json!({"do": "end"}));
    }
    for asking in std::mem::take(&mut memory.asks).into_values() {
        match asking.what {
            Asked::Options { .. } => {
                rpc::reply(&asking.id, json!({"outcome": {"outcome": "cancelled"}}), wire);
            }
            Asked::Errand(_) => rpc::refuse(&asking.id, rpc::INTERNAL_ERROR, "the turn was cancelled", wire),
        }
    }
}

fn decide(memory: &mut Memory, native: &str, decision: Decision, message: &str, wire: &mut Vec<u8>) {
    let Some(asking) = memory.asks.remove(native) else { return };
    if !decision.allows() {
        let said = if message.is_empty() { "denied by the user".to_owned() } else { message.to_owned() };
        if let Some(call) = asking.call.as_ref().and_then(|call| memory.calls.get_mut(call)) {
            call.denied = format!("denied: {said}");
        }
        if let (Some(turn), Asked::Options { .. }) = (&mut memory.turn, &asking.what) {
            message.clone_into(&mut turn.denial);
        }
    }
    match asking.what {
        Asked::Options { options, about } => {
            if decision.allows()
                && let Some(turn) = &mut memory.turn
            {
                turn.allowed.extend(about);
            }
            rpc::reply(&asking.id, json!({"outcome": chosen(&options, decision)}), wire);
        }
        Asked::Errand(what) if decision.allows() => {
            if memory.remember_errand(&asking.id, what).is_none() {
                rpc::refuse(&asking.id, rpc::INTERNAL_ERROR, "too much is under way", wire);
            }
        }
        Asked::Errand(_) => {
            let said = if message.is_empty() { "denied by the user" } else { message };
            rpc::refuse(&asking.id, rpc::INTERNAL_ERROR, said, wire);
        }
    }
}

/// Chooses among an agent's options. What is remembered is ours to remember, so it is never told to.
pub(super) fn chosen(options: &[(String, String)], decision: Decision) -> Value {
    let kinds: &[&str] =
        if decision.allows() { &["allow_once", "allow_always"] } else { &["reject_once", "reject_always"] };
    let found = kinds.iter().find_map(|kind| options.iter().find(|(own, _)| own == kind));
    match found {
        Some((_, name)) => json!({"outcome": "selected", "optionId": name}),
        // An agent that offers no way to deny is told that nobody answered.
        None => json!({"outcome": "cancelled"}),
    }
}

/// Tells the agent what the session's mode means.
pub(super) fn set_mode(memory: &mut Memory, wire: &mut Vec<u8>) {
    let Some(name) =
        choices::mode_of(memory.mode, &memory.modes).filter(|name| *name != memory.modes.current)
    else {
        return;
    };
    if memory.modes.option.is_empty() {
        let params = json!({"sessionId": memory.session, "modeId": name});
        memory.ask(Purpose::SetMode, params, wire);
    } else {
        let params = json!({"sessionId": memory.session, "configId": memory.modes.option, "value": name});
        memory.ask(Purpose::SetOption, params, wire);
    }
    memory.modes.current = name;
}

/// Tells the agent which model to use.
pub(super) fn set_model(memory: &mut Memory, wire: &mut Vec<u8>) {
    let name = memory.asked_model.clone();
    if name.is_empty() || name == memory.models.current || memory.models.names.is_empty() {
        return;
    }
    if memory.models.option.is_empty() {
        let params = json!({"sessionId": memory.session, "modelId": name});
        memory.ask(Purpose::SetModel, params, wire);
    } else {
        let params = json!({"sessionId": memory.session, "configId": memory.models.option, "value": name});
        memory.ask(Purpose::SetOption, params, wire);
    }
    memory.models.current = name;
}

/// Returns whether the agent has a mode of its own for the session's.
pub(super) fn has_mode(memory: &Memory) -> bool {
    memory.mode != Mode::Plan || choices::mode_of(memory.mode, &memory.modes).is_some()
}

pub(super) fn text_part(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Returns a prompt's parts, the files first.
fn content(memory: &Memory, text: &str, attachments: &[Attachment]) -> Result<Value, Error> {
    let mut parts =
        attachments.iter().map(|file| part(memory, file)).collect::<Result<Vec<Value>, Error>>()?;
    if !text.is_empty() || parts.is_empty() {
        parts.push(text_part(text));
    }
    Ok(parts.into())
}

fn part(memory: &Memory, file: &Attachment) -> Result<Value, Error> {
    let wrong = |what: String| Error::invalid("attachments", what);
    let bytes = base64::decode(&file.content)
        .ok_or_else(|| wrong(format!("the content of {:?} is not base64", file.name)))?;
    if file.media_type.starts_with("image/") {
        if !memory.can.image {
            return Err(wrong(format!("{:?}: this agent takes no pictures", file.name)));
        }
        let content: String = file.content.split_ascii_whitespace().collect();
        return Ok(json!({"type": "image", "mimeType": file.media_type, "data": content}));
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        wrong(format!("{:?} is {}; text and pictures can be sent", file.name, file.media_type))
    })?;
    let name = file.name.replace(['"', '<', '>', '\n'], "_");
    Ok(text_part(&format!("<attachment name=\"{name}\">\n{text}\n</attachment>")))
}

/// Returns what an agent said it can do.
pub(super) fn abilities(result: &Value) -> super::memory::Abilities {
    let can = &result["agentCapabilities"];
    let is = |value: &Value| match value {
        Value::Bool(yes) => *yes,
        Value::Object(_) => true,
        _ => false,
    };
    let sessions: Map<String, Value> = can["sessionCapabilities"].as_object().cloned().unwrap_or_default();
    super::memory::Abilities {
        load: is(&can["loadSession"]),
        resume: sessions.get("resume").is_some_and(is),
        image: is(&can["promptCapabilities"]["image"]),
        http_servers: is(&can["mcpCapabilities"]["http"]),
        sse_servers: is(&can["mcpCapabilities"]["sse"]),
    }
}
