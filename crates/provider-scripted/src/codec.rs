//! Translates between the scripted agent's lines and our types. It keeps no state.

use agent_port::{Codec, Decoded};
use domain::{AgentEvent, AgentInput, Decision, Error};

use super::check_model;
use super::wire::{FromScriptedAgent, StartMessage, ToScriptedAgent};
use provider_common::text::unparsed;

/// The codec of the scripted agent.
#[derive(Clone)]
pub(super) struct ScriptedCodec {
    /// Sent first; absent for an agent that is already running.
    start: Option<(StartMessage, Vec<(String, bool)>)>,
}

impl ScriptedCodec {
    pub(super) fn new(start: StartMessage, tools: Vec<(String, bool)>) -> Self {
        Self { start: Some((start, tools)) }
    }

    pub(super) fn running() -> Self {
        Self { start: None }
    }
}

impl Codec for ScriptedCodec {
    fn open(&mut self, wire: &mut Vec<u8>) {
        if let Some((start, tools)) = self.start.take() {
            write(&ToScriptedAgent::Start(start), wire);
            if !tools.is_empty() {
                write(&ToScriptedAgent::Tools { tools }, wire);
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
            AgentInput::Prompt { text, attachments } => ToScriptedAgent::Prompt {
                text: text.clone(),
                attachments: attachments.iter().map(|file| file.name.clone()).collect(),
            },
            AgentInput::Steer { text } => ToScriptedAgent::Steer { text: text.clone() },
            AgentInput::Interrupt => ToScriptedAgent::Interrupt,
            AgentInput::Decide { native, decision, message, .. } => ToScriptedAgent::Decide {
                id: native.clone(),
                allow: decision.allows(),
                message: message.clone(),
                stop: *decision == Decision::DenyAndStop,
            },
            AgentInput::Answer { native, answers, .. } => {
                ToScriptedAgent::Answer { id: native.clone(), answers: answers.clone() }
            }
            AgentInput::SetMode(mode) => ToScriptedAgent::Mode { mode: *mode },
            AgentInput::Compact => ToScriptedAgent::Compact,
            AgentInput::Leave => ToScriptedAgent::Leave,
            AgentInput::SetModel(model) => return check_model(model),
            AgentInput::Tools(tools) => ToScriptedAgent::Tools {
                tools: tools.iter().map(|tool| (tool.name.clone(), tool.asks)).collect(),
            },
            AgentInput::ToolResult { native, ok, output } => {
                ToScriptedAgent::ToolResult { id: native.clone(), ok: *ok, output: output.clone() }
            }
        };
        write(&told, wire);
        Ok(())
    }

    fn save(&self) -> String {
        "{}".to_owned()
    }

    fn revision(&self) -> u64 {
        0
    }

    fn boxed_clone(&self) -> Box<dyn Codec> {
        Box::new(self.clone())
    }
}

fn write(told: &ToScriptedAgent, wire: &mut Vec<u8>) {
    // Plain data with text keys; serialising it to memory cannot fail.
    if let Ok(line) = serde_json::to_string(told) {
        wire.extend_from_slice(line.as_bytes());
        wire.push(b'\n');
    }
}

fn event(say: FromScriptedAgent) -> AgentEvent {
    match say {
        FromScriptedAgent::Ready { session, model, version } => {
            AgentEvent::Ready { native_session: session, model, version, resolved_model: String::new() }
        }
        FromScriptedAgent::TurnStarted => AgentEvent::TurnStarted,
        FromScriptedAgent::Text { text } => AgentEvent::Text { text, parent: None },
        FromScriptedAgent::Thinking { text } => AgentEvent::Thinking { text, parent: None },
        FromScriptedAgent::ToolStarted { call, tool, input, title } => {
            AgentEvent::ToolStarted { call, tool, input, title, parent: None }
        }
        FromScriptedAgent::ToolFinished { call, ok, output } => AgentEvent::ToolFinished { call, ok, output },
        FromScriptedAgent::Asked { id, ask } => AgentEvent::Asked { native: id, ask },
        FromScriptedAgent::Withdrew { id } => AgentEvent::Withdrew { native: id },
        FromScriptedAgent::Todos { todos } => AgentEvent::Todos(todos),
        FromScriptedAgent::Usage { usage } => {
            AgentEvent::Usage { usage, context_tokens: None, context_window: None, parent: None }
        }
        FromScriptedAgent::PlanMode { on } => AgentEvent::PlanMode(on),
        FromScriptedAgent::Compacted { before, after, summary } => {
            AgentEvent::Compacted { tokens_before: Some(before), tokens_after: Some(after), summary }
        }
        FromScriptedAgent::TurnEnded { reason, text, error } => AgentEvent::TurnEnded { reason, text, error },
    }
}
