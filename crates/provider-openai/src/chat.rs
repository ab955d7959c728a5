//! The Chat Completions API: builds requests from a conversation, reads replies chunk by chunk. Endpoints
//! differ in details; this file accepts all of them. Pure; sends nothing.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::content::{PromptPart, parts};
use super::history::{HistoryCall, HistoryItem};
use super::reply::{ReplyEnd, ReplyFailure, ReplyPiece, ReplyUsage};
use super::request::ModelRequest;
use crate::limits::REPLY_CALLS_MAX;
use provider_common::json_fields::Look;

/// Returns the body of a request.
pub(super) fn body(request: &ModelRequest<'_>) -> Value {
    let mut body = json!({
        "model": request.model,
        "messages": messages(request.instructions, request.items),
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    if !request.tools.is_empty() {
        let tool = |tool: &super::tools::ToolDefinition| {
            let function =
                json!({"name": tool.name, "description": tool.description, "parameters": tool.schema});
            json!({"type": "function", "function": function})
        };
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    if !request.effort.is_empty() {
        body["reasoning_effort"] = json!(request.effort);
    }
    if let Some(temperature) = request.temperature {
        body["temperature"] = json!(temperature);
    }
    if let Some(most) = request.max_output_tokens {
        body["max_completion_tokens"] = json!(most);
    }
    body
}

/// Converts the conversation. Text and calls of one reply are one message here.
fn messages(instructions: &str, items: &[HistoryItem]) -> Vec<Value> {
    let mut messages = vec![json!({"role": "system", "content": instructions})];
    let mut reply: Option<(String, Vec<Value>)> = None;
    for item in items {
        match item {
            HistoryItem::Assistant(text) => {
                // Text after calls starts another reply.
                if reply.as_ref().is_some_and(|(_, calls)| !calls.is_empty()) {
                    end_reply(&mut reply, &mut messages);
                }
                reply.get_or_insert_default().0.push_str(text);
            }
            HistoryItem::Call(HistoryCall { id, name, arguments }) => {
                let call =
                    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
                reply.get_or_insert_default().1.push(call);
            }
            HistoryItem::Result { id, output } => {
                end_reply(&mut reply, &mut messages);
                messages.push(json!({"role": "tool", "tool_call_id": id, "content": output}));
            }
            HistoryItem::User { text, attachments } => {
                end_reply(&mut reply, &mut messages);
                // A file that cannot be sent was refused with its prompt.
                let parts = parts(text, attachments).unwrap_or_else(|_| vec![PromptPart::Text(text.clone())]);
                messages.push(json!({"role": "user", "content": content(parts)}));
            }
            HistoryItem::System(text) => {
                end_reply(&mut reply, &mut messages);
                messages.push(json!({"role": "system", "content": text}));
            }
            HistoryItem::Reasoning(_) => {}
        }
    }
    end_reply(&mut reply, &mut messages);
    messages
}

fn end_reply(reply: &mut Option<(String, Vec<Value>)>, messages: &mut Vec<Value>) {
    let Some((text, calls)) = reply.take() else { return };
    let content = if text.is_empty() { Value::Null } else { json!(text) };
    let mut message = json!({"role": "assistant", "content": content});
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    messages.push(message);
}

/// Returns a prompt without files as plain text: some endpoints accept nothing else.
fn content(parts: Vec<PromptPart>) -> Value {
    if let [PromptPart::Text(text)] = parts.as_slice() {
        return json!(text);
    }
    let part = |part: PromptPart| match part {
        PromptPart::Text(text) => json!({"type": "text", "text": text}),
        PromptPart::Image(url) => json!({"type": "image_url", "image_url": {"url": url}}),
    };
    parts.into_iter().map(part).collect()
}

/// Reads a reply.
#[derive(Debug, Default)]
pub(super) struct ChatReplyReader {
    calls: BTreeMap<u64, HistoryCall>,
    ended: Option<ReplyEnd>,
    over: bool,
}

impl ChatReplyReader {
    /// Handles the data of one event.
    pub(super) fn take(&mut self, data: &str, pieces: &mut Vec<ReplyPiece>) {
        if data.trim() == "[DONE]" {
            self.finish(pieces);
            return;
        }
        let Ok(chunk) = serde_json::from_str::<Value>(data) else { return };
        if !chunk.under("error").is_null() {
            self.over = true;
            pieces.push(ReplyPiece::Failed(ReplyFailure::of_error(chunk.under("error"))));
            return;
        }
        for choice in chunk.list("choices").iter().take(1) {
            self.delta(choice.under("delta"), pieces);
            self.ended = match choice.text("finish_reason") {
                "" => self.ended,
                "length" => Some(ReplyEnd::Cut),
                "content_filter" => Some(ReplyEnd::Refused),
                _ => Some(self.ended.unwrap_or(ReplyEnd::Whole)),
            };
        }
        let usage = chunk.under("usage");
        if usage.is_object() {
            let cached = usage.under("prompt_tokens_details").count("cached_tokens").unwrap_or(0);
            let input = usage.count("prompt_tokens").unwrap_or(0);
            pieces.push(ReplyPiece::Used(ReplyUsage::new(
                input,
                cached,
                usage.count("completion_tokens").unwrap_or(0),
            )));
        }
    }

    /// Handles the end of the stream; some endpoints send no final event.
    pub(super) fn finish(&mut self, pieces: &mut Vec<ReplyPiece>) {
        let Some(ended) = self.ended.filter(|_| !self.over) else { return };
        self.over = true;
        pieces.extend(std::mem::take(&mut self.calls).into_values().map(ReplyPiece::Call));
        pieces.push(ReplyPiece::Ended(ended));
    }

    /// Returns whether the reply has ended.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Handles one delta: thinking, text, refusals and parts of calls.
    fn delta(&mut self, delta: &Value, pieces: &mut Vec<ReplyPiece>) {
        for key in ["reasoning_content", "reasoning"] {
            if !delta.text(key).is_empty() {
                pieces.push(ReplyPiece::Thinking(delta.text(key).to_owned()));
                break;
            }
        }
        if !delta.text("refusal").is_empty() {
            self.ended = Some(ReplyEnd::Refused);
        }
        for key in ["content", "refusal"] {
            if !delta.text(key).is_empty() {
                pieces.push(ReplyPiece::Text(delta.text(key).to_owned()));
            }
        }
        for (at, part) in delta.list("tool_calls").iter().enumerate() {
            let index = part.count("index").unwrap_or(at as u64);
            if self.calls.len() >= REPLY_CALLS_MAX && !self.calls.contains_key(&index) {
                continue;
            }
            let call = self.calls.entry(index).or_default();
            let function = part.under("function");
            // Name and id are sent once; some endpoints repeat them.
            if call.id.is_empty() {
                part.text("id").clone_into(&mut call.id);
            }
            if call.name.is_empty() {
                function.text("name").clone_into(&mut call.name);
            }
            call.arguments.push_str(function.text("arguments"));
        }
    }
}
