//! Encodes inputs as lines for Claude Code. One JSON value per line; a line the agent cannot parse ends it,
//! so everything is written through `line`.

use agent_port::Revisioned;
use std::collections::BTreeMap;

use domain::event::Attachment;
use domain::request::{Question, RequestSubject};
use domain::{AgentInput, Decision, Error, Mode};
use serde_json::{Map, Value, json};

use super::models;
use super::state::ClaudeState;
use provider_common::attachment;

/// The purpose of a request to the agent. Part of the request's id, so that its answer needs no stored state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ControlRequestKind {
    Initialize,
    Servers,
    Interrupt,
    SetMode,
    SetModel,
    Leave,
}

impl ControlRequestKind {
    const ALL: [ControlRequestKind; 6] =
        [Self::Initialize, Self::Servers, Self::Interrupt, Self::SetMode, Self::SetModel, Self::Leave];

    fn name(self) -> &'static str {
        match self {
            Self::Initialize => "initialize",
            Self::Servers => "servers",
            Self::Interrupt => "interrupt",
            Self::SetMode => "mode",
            Self::SetModel => "model",
            Self::Leave => "leave",
        }
    }

    /// Returns the purpose as part of a sentence.
    pub(super) fn what(self) -> &'static str {
        match self {
            Self::Initialize => "begin",
            Self::Servers => "use the MCP servers",
            Self::Interrupt => "end its turn",
            Self::SetMode => "change its mode",
            Self::SetModel => "change its model",
            Self::Leave => "leave",
        }
    }
}

/// Returns the purpose of a request, if it was ours.
pub(super) fn purpose(request_id: &str) -> Option<ControlRequestKind> {
    let (name, _) = request_id.strip_prefix("obey-")?.rsplit_once('-')?;
    ControlRequestKind::ALL.into_iter().find(|purpose| purpose.name() == name)
}

/// Writes the first requests to the agent.
pub(super) fn open(
    state: &mut Revisioned<ClaudeState>,
    system_prompt: &str,
    servers: Map<String, Value>,
    wire: &mut Vec<u8>,
) {
    // Without the text of sub-agents a long one looks like a hang.
    let mut body = json!({"subtype": "initialize", "forwardSubagentText": true});
    if !system_prompt.is_empty() {
        body["appendSystemPrompt"] = system_prompt.into();
    }
    ask(state, ControlRequestKind::Initialize, body, wire);
    if !servers.is_empty() {
        // Not on the command line, which every user of the machine can read: servers come with keys.
        ask(
            state,
            ControlRequestKind::Servers,
            json!({"subtype": "mcp_set_servers", "servers": servers}),
            wire,
        );
    }
}

/// Encodes an input.
pub(super) fn input(
    state: &mut Revisioned<ClaudeState>,
    input: &AgentInput,
    wire: &mut Vec<u8>,
) -> Result<(), Error> {
    match input {
        AgentInput::Prompt { text, attachments } => {
            let content = content(text, attachments)?;
            state.interrupting = false;
            say(state, content, wire);
        }
        AgentInput::Compact => {
            state.interrupting = false;
            say(state, "/compact".into(), wire);
        }
        AgentInput::Steer { text } => say(state, text.as_str().into(), wire),
        AgentInput::Interrupt => interrupt(state, wire),
        AgentInput::Decide { native, decision, message, updated_input, ask } => {
            reply(native, &decided(*decision, message, updated_input.as_ref(), ask), wire);
            if *decision == Decision::DenyAndStop && state.outstanding.len() > 1 {
                // Cancels messages that were added to the turn meanwhile; they would start the next one.
                interrupt(state, wire);
            }
        }
        AgentInput::Answer { native, answers, ask } => reply(native, &answered(answers, ask), wire),
        AgentInput::SetMode(mode) => {
            state.mode = *mode;
            let body = json!({"subtype": "set_permission_mode", "mode": native_mode(*mode)});
            ask(state, ControlRequestKind::SetMode, body, wire);
        }
        AgentInput::SetModel(model) => {
            models::check(model)?;
            // The model behind the name is seen at the next turn, and is then no change.
            state.turn_model.clear();
            state.asked_model.clone_from(model);
            let name = if model.is_empty() { "default" } else { model };
            ask(state, ControlRequestKind::SetModel, json!({"subtype": "set_model", "model": name}), wire);
        }
        AgentInput::Leave => {
            let body = json!({"subtype": "end_session", "reason": "the session was stopped"});
            ask(state, ControlRequestKind::Leave, body, wire);
        }
        // Tools of clients reach the agent as an MCP server of the daemon.
        AgentInput::Tools(_) | AgentInput::ToolResult { .. } => {}
    }
    Ok(())
}

/// Returns the agent's name for a mode. An autonomous session lets the agent ask and has the rules answer.
/// That works for root, for which the agent refuses its own unattended mode, and leaves a record of every
/// call.
pub(super) fn native_mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Supervised | Mode::Autonomous => "default",
        Mode::Plan => "plan",
        Mode::AcceptEdits => "acceptEdits",
    }
}

/// Answers a request of the agent.
pub(super) fn reply(native: &str, answer: &Value, wire: &mut Vec<u8>) {
    let response = json!({"subtype": "success", "request_id": native, "response": answer});
    line(&json!({"type": "control_response", "response": response}), wire);
}

/// Refuses a request of the agent.
pub(super) fn refuse(native: &str, error: &str, wire: &mut Vec<u8>) {
    let response = json!({"subtype": "error", "request_id": native, "error": error});
    line(&json!({"type": "control_response", "response": response}), wire);
}

fn interrupt(state: &mut Revisioned<ClaudeState>, wire: &mut Vec<u8>) {
    state.interrupting = true;
    let body = json!({"subtype": "interrupt", "cancel_queued": true});
    ask(state, ControlRequestKind::Interrupt, body, wire);
}

fn ask(state: &mut Revisioned<ClaudeState>, purpose: ControlRequestKind, body: Value, wire: &mut Vec<u8>) {
    let id = format!("obey-{}-{}", purpose.name(), state.next_number());
    line(&json!({"type": "control_request", "request_id": id, "request": body}), wire);
}

fn say(state: &mut Revisioned<ClaudeState>, content: Value, wire: &mut Vec<u8>) {
    let uuid = state.expect_end();
    let message = json!({"role": "user", "content": content});
    line(&json!({"type": "user", "message": message, "parent_tool_use_id": null, "uuid": uuid}), wire);
}

/// Returns a prompt as text, or as blocks if it has files: the files first, as the model prefers.
fn content(text: &str, attachments: &[Attachment]) -> Result<Value, Error> {
    if attachments.is_empty() {
        return Ok(text.into());
    }
    let mut blocks = attachments.iter().map(block).collect::<Result<Vec<Value>, Error>>()?;
    if !text.is_empty() {
        blocks.push(json!({"type": "text", "text": text}));
    }
    Ok(blocks.into())
}

/// Converts a file: images and PDF as they are, everything else as text in a tag.
pub(super) fn block(file: &Attachment) -> Result<Value, Error> {
    let source = || json!({"type": "base64", "media_type": file.media_type, "data": file.content});
    let bytes = attachment::bytes(file)?;
    if attachment::is_picture(file) {
        return Ok(json!({"type": "image", "source": source()}));
    }
    if file.media_type == "application/pdf" {
        return Ok(json!({"type": "document", "source": source()}));
    }
    let text = attachment::tagged_text(file, bytes).ok_or_else(|| {
        let said =
            format!("{:?} is {}; text, PDF, PNG, JPEG, GIF and WebP can be sent", file.name, file.media_type);
        Error::invalid("attachments", said)
    })?;
    Ok(json!({"type": "text", "text": text}))
}

/// Returns the answer to a permission request. Nothing is added to the agent's own rules for "always": the
/// session's grants answer the next such request, exactly and on record, while the agent's rules match by
/// prefix and are not recorded.
fn decided(decision: Decision, message: &str, updated: Option<&Value>, ask: &RequestSubject) -> Value {
    if decision.allows() {
        let original = match ask {
            RequestSubject::Permission(permission) => permission.input.clone(),
            RequestSubject::ClientTool { input, .. } => input.clone(),
            RequestSubject::Question { questions, .. } => asked(questions),
        };
        return json!({"behavior": "allow", "updatedInput": updated.cloned().unwrap_or(original)});
    }
    let message = if message.is_empty() { "The user denied this." } else { message };
    let mut answer = json!({"behavior": "deny", "message": message});
    if decision == Decision::DenyAndStop {
        answer["interrupt"] = true.into();
    }
    answer
}

/// Returns the answer to questions: the agent expects them back, with the answers by the question's text.
fn answered(answers: &BTreeMap<String, String>, ask: &RequestSubject) -> Value {
    let questions = ask.questions();
    let mut input = asked(questions);
    let by_text: Map<String, Value> = questions
        .iter()
        .filter_map(|question| {
            let answer = answers.get(&question.id).or_else(|| answers.get(&question.text))?;
            Some((question.text.clone(), answer.as_str().into()))
        })
        .collect();
    input["answers"] = by_text.into();
    json!({"behavior": "allow", "updatedInput": input})
}

/// Returns questions in the agent's form.
fn asked(questions: &[Question]) -> Value {
    let written = |question: &Question| {
        let options: Vec<Value> = question
            .options
            .iter()
            .map(|option| json!({"label": option.label, "description": option.description}))
            .collect();
        json!({
            "question": question.text,
            "header": question.header,
            "options": options,
            "multiSelect": question.multi_select,
        })
    };
    json!({"questions": questions.iter().map(written).collect::<Vec<Value>>()})
}

/// Writes one line. Two separators that JSON allows within a text end a line for some readers.
fn line(value: &Value, wire: &mut Vec<u8>) {
    let text = value.to_string().replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
    wire.extend_from_slice(text.as_bytes());
    wire.push(b'\n');
}

#[cfg(test)]
mod tests;
