//! The text of the model: first piece by piece, then each block once more as a whole. Only what was not
//! streamed is reported from the whole; text of sub-agents comes only as a whole.

use agent_port::{Decoded, Revisioned};
use domain::{AgentEvent, CallId, Usage};
use serde_json::Value;

use super::super::state::{ClaudeState, StreamedBlocks};
use super::super::wire::{Look, StreamEvent, api_usage};
use super::{parent_of, tools};
use crate::limits::MESSAGE_MAX_CHARS;
use provider_common::text::cut;

/// Handles a piece of a message; returns whether it could be parsed.
pub(super) fn piece(state: &mut Revisioned<ClaudeState>, line: &[u8], out: &mut Decoded) -> bool {
    let Ok(StreamEvent { event, parent_tool_use_id, api_message_id }) = serde_json::from_slice(line) else {
        return false;
    };
    let parent = parent_tool_use_id.filter(|id| !id.is_empty()).map(CallId::new);
    match &*event.kind {
        "message_start" => {
            let Some(start) = event.message else { return true };
            count(state, &start.id, parent.as_ref(), api_usage(&start.usage), out);
        }
        "message_delta" => {
            let id = api_message_id.or_else(|| state.current_message(parent.as_ref()));
            if let Some(id) = id {
                count(state, &id, parent.as_ref(), api_usage(&event.usage), out);
            }
        }
        "content_block_delta" => {
            let Some(delta) = event.delta else { return true };
            // An agent that does not name the message means the current one.
            let id = api_message_id.or_else(|| state.current_message(parent.as_ref())).unwrap_or_default();
            if let Some(text) = delta.text.filter(|text| !text.is_empty()) {
                if !state.has_piece(&id, event.index, |message| message.text) {
                    state.message(&id, parent.as_ref()).text.piece(event.index);
                }
                out.events.push(AgentEvent::Text { text, parent });
            } else if let Some(text) = delta.thinking.filter(|text| !text.is_empty()) {
                if !state.has_piece(&id, event.index, |message| message.thinking) {
                    state.message(&id, parent.as_ref()).thinking.piece(event.index);
                }
                out.events.push(AgentEvent::Thinking { text, parent });
            }
        }
        _ => {}
    }
    true
}

/// Handles whole blocks of a message.
pub(super) fn whole(state: &mut Revisioned<ClaudeState>, value: &Value, out: &mut Decoded) {
    let parent = parent_of(value);
    let message = value.under("message");
    let id = message.text("id");
    let is_error = !value.under("error").is_null();
    for block in message.list("content") {
        match block.text("type") {
            "text" if is_error && parent.is_none() => {
                // The end of the turn repeats it as an error.
                state.error = cut(block.text("text"), MESSAGE_MAX_CHARS);
                state.cut_off = value.text("error") == "max_output_tokens";
            }
            "text" => {
                let told = is_told(state, id, parent.as_ref(), |message| &mut message.text);
                let text = block.text("text").to_owned();
                if !told && !text.is_empty() {
                    out.events.push(AgentEvent::Text { text, parent: parent.clone() });
                }
            }
            "thinking" => {
                let told = is_told(state, id, parent.as_ref(), |message| &mut message.thinking);
                let text = block.text("thinking").to_owned();
                if !told && !text.is_empty() {
                    out.events.push(AgentEvent::Thinking { text, parent: parent.clone() });
                }
            }
            "tool_use" | "server_tool_use" | "mcp_tool_use" => {
                tools::started(state, block, parent.as_ref(), out);
            }
            // Results of tools that run on the model's side are part of the message.
            kind if kind.ends_with("_tool_result") => tools::finished(state, block, &Value::Null, out),
            _ => {}
        }
    }
    // Only messages that were not streamed are counted here; the others already reported more.
    count(state, id, parent.as_ref(), api_usage(message.under("usage")), out);
}

/// Records a whole block; returns whether its pieces were already reported.
fn is_told(
    state: &mut Revisioned<ClaudeState>,
    id: &str,
    parent: Option<&CallId>,
    blocks: impl Fn(&mut super::super::state::ModelMessage) -> &mut StreamedBlocks,
) -> bool {
    let unnamed = !state.messages.iter().any(|message| message.id == id);
    // Pieces that named no message belong to the one that is received as a whole now.
    let id = if unnamed && state.messages.iter().any(|message| message.id.is_empty()) { "" } else { id };
    blocks(state.message(id, parent)).whole()
}

/// Counts what a message used beyond its earlier counts, and reports it.
fn count(
    state: &mut Revisioned<ClaudeState>,
    id: &str,
    parent: Option<&CallId>,
    said: Usage,
    out: &mut Decoded,
) {
    if id.is_empty() || said.is_empty() {
        return;
    }
    let message = state.message(id, parent);
    let more = said.beyond(&message.usage);
    message.usage.add(&more);
    let total = message.usage;
    let usage = state.tally.message(&more);
    let mut context = None;
    if parent.is_none() {
        let tokens =
            total.input_tokens.saturating_add(total.cache_read_tokens).saturating_add(total.output_tokens);
        if state.context_tokens != Some(tokens) {
            state.context_tokens = Some(tokens);
            context = state.context_tokens;
        }
    }
    if !usage.is_empty() || context.is_some() {
        let context_window = context.and(state.context_window);
        out.events.push(AgentEvent::Usage {
            usage,
            context_tokens: context,
            context_window,
            parent: parent.cloned(),
        });
    }
}
