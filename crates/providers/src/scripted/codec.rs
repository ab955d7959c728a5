//! Translates between the scripted agent's lines and our words. It has nothing to remember.

use domain::{AgentEvent, AgentInput, Decision, Error};
use runtime::provider::{Codec, Decoded};

use super::check_model;
use super::wire::{Do, Say, Start};
use crate::text::unparsed;

pub(super) struct ScriptedCodec {
    /// Told first; absent for an agent that runs already.
    start: Option<(Start, Vec<(String, bool)>)>,
}

impl ScriptedCodec {
    pub(super) fn new(start: Start, tools: Vec<(String, bool)>) -> Self {
        Self { start: Some((start, tools)) }
    }

    pub(super) fn running() -> Self {
        Self { start: None }
    }
}

impl Codec for ScriptedCodec {
    fn open(&mut self, wire: &mut Vec<u8>) {
        if let Some((start, tools)) = self.start.take() {
            write(&Do::Start(start), wire);
            if !tools.is_empty() {
                write(&Do::Tools { tools }, wire);
            }
        }
    }

    fn decode(&mut self, line: &[u8], out: &mut Decoded) {
        if line.trim_ascii().is_empty() {
            return;
        }
        out.events.push(match serde_json::from_slice(line) {
            Ok(say) => event(say),
            Err(_) => unparsed(line),
        });
    }

    fn encode(&mut self, input: &AgentInput, wire: &mut Vec<u8>) -> Result<(), Error> {
        let told = match input {
            AgentInput::Prompt { text, attachments } => Do::Prompt {
                text: text.clone(),
                attachments: attachments.iter().map(|file| file.name.clone()).collect(),
            },
            AgentInput::Steer { text } => Do::Steer { text: text.clone() },
            AgentInput::Interrupt => Do::Interrupt,
            AgentInput::Decide { native, decision, message, .. } => Do::Decide {
                id: native.clone(),
                allow: decision.allows(),
                message: message.clone(),
                stop: *decision == Decision::DenyAndStop,
            },
            AgentInput::Answer { native, answers, .. } => {
                Do::Answer { id: native.clone(), answers: answers.clone() }
            }
            AgentInput::SetMode(mode) => Do::Mode { mode: *mode },
            AgentInput::Compact => Do::Compact,
            AgentInput::Leave => Do::Leave,
            AgentInput::SetModel(model) => return check_model(model),
            AgentInput::Tools(tools) => {
                Do::Tools { tools: tools.iter().map(|tool| (tool.name.clone(), tool.asks)).collect() }
            }
            AgentInput::ToolResult { native, ok, output } => {
                Do::ToolResult { id: native.clone(), ok: *ok, output: output.clone() }
            }
        };
        write(&told, wire);
        Ok(())
    }

    fn save(&self) -> String {
        "{}".to_owned()
    }
}

fn write(told: &Do, wire: &mut Vec<u8>) {
    // Plain data with text keys; writing it to memory cannot fail.
    if let Ok(line) = serde_json::to_string(told) {
        wire.extend_from_slice(line.as_bytes());
        wire.push(b'\n');
    }
}

fn event(say: Say) -> AgentEvent {
    match say {
        Say::Ready { session, model, version } => {
            AgentEvent::Ready { native_session: session, model, version }
        }
        Say::TurnStarted => AgentEvent::TurnStarted,
        Say::Text { text } => AgentEvent::Text { text, parent: None },
        Say::Thinking { text } => AgentEvent::Thinking { text, parent: None },
        Say::ToolStarted { call, tool, input, title } => {
            AgentEvent::ToolStarted { call, tool, input, title, parent: None }
        }
        Say::ToolFinished { call, ok, output } => AgentEvent::ToolFinished { call, ok, output },
        Say::Asked { id, ask } => AgentEvent::Asked { native: id, ask },
        Say::Withdrew { id } => AgentEvent::Withdrew { native: id },
        Say::Todos { todos } => AgentEvent::Todos(todos),
        Say::Usage { usage } => AgentEvent::Usage { usage, context_tokens: None, context_window: None },
        Say::PlanMode { on } => AgentEvent::PlanMode(on),
        Say::Compacted { before, after, summary } => {
            AgentEvent::Compacted { tokens_before: Some(before), tokens_after: Some(after), summary }
        }
        Say::TurnEnded { reason, text, error } => AgentEvent::TurnEnded { reason, text, error },
    }
}
