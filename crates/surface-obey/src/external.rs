//! What an external agent's activity events mean: the reports of an agent that runs outside the daemon. Pure.

use domain::event::Level;
use domain::turn::EndReason;
use domain::{AgentEvent, CallId, Error, Usage};
use serde_json::Value;
use wire::obey::local::v1 as pb;

use crate::from_wire;

/// Returns one activity event as reports of the agent.
pub(super) fn agent_events(
    kind: pb::ActivityType,
    event: pb::AgentActivityEvent,
) -> Result<Vec<AgentEvent>, Error> {
    let usage = Usage {
        input_tokens: from_wire::tokens("tokens_input", event.tokens_input)?,
        output_tokens: from_wire::tokens("tokens_output", event.tokens_output)?,
        ..Usage::default()
    };
    let call = call_id(&event);
    let mut events = match kind {
        pb::ActivityType::Thinking => vec![AgentEvent::Thinking { text: event.content, parent: None }],
        pb::ActivityType::ToolCall => {
            if event.tool_name.is_empty() {
                return Err(Error::invalid("tool_name", "is required for a TOOL_CALL"));
            }
            vec![AgentEvent::ToolStarted {
                call,
                tool: event.tool_name,
                input: input(&event.arguments),
                title: event.content,
                parent: None,
            }]
        }
        pb::ActivityType::ToolResult => {
            let output = if event.output.is_empty() { event.content } else { event.output };
            vec![AgentEvent::ToolFinished { call, ok: event.success, output }]
        }
        pb::ActivityType::Completion => completion(event.content),
        pb::ActivityType::Error => vec![
            // An error outside a turn is a turn that failed at once.
            AgentEvent::TurnStarted,
            AgentEvent::TurnEnded { reason: EndReason::Failed, text: String::new(), error: event.content },
        ],
        pb::ActivityType::Status => vec![AgentEvent::Notice { level: Level::Info, message: event.content }],
        // COMPLETION repeats the pieces of the answer.
        pb::ActivityType::Text | pb::ActivityType::Unspecified => Vec::new(),
    };
    if !usage.is_empty() {
        // Before the end of a turn, so that it counts as the turn's.
        let at = events.iter().position(|event| matches!(event, AgentEvent::TurnEnded { .. }));
        let reported = AgentEvent::Usage { usage, context_tokens: None, context_window: None, parent: None };
        events.insert(at.unwrap_or(events.len()), reported);
    }
    Ok(events)
}

/// The answer of a turn, and its end.
fn completion(content: String) -> Vec<AgentEvent> {
    let mut events = Vec::new();
    if !content.is_empty() {
        events.push(AgentEvent::Text { text: content.clone(), parent: None });
    }
    events.push(AgentEvent::TurnEnded { reason: EndReason::Completed, text: content, error: String::new() });
    events
}

/// Returns the id of a call; a reporter that gives none has one call of a tool open at a time.
fn call_id(event: &pb::AgentActivityEvent) -> CallId {
    match event.tool_call_id.as_str() {
        "" => CallId::new(format!("call-{}", event.tool_name)),
        id => CallId::new(id),
    }
}

/// Returns a call's input: its JSON, or its text under `arguments`.
fn input(arguments: &[u8]) -> Value {
    if arguments.is_empty() {
        return Value::Object(serde_json::Map::new());
    }
    match serde_json::from_slice(arguments) {
        Ok(Value::Object(members)) => Value::Object(members),
        Ok(other) => serde_json::json!({"arguments": other}),
        Err(_) => serde_json::json!({"arguments": String::from_utf8_lossy(arguments)}),
    }
}
