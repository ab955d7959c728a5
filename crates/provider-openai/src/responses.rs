//! The Responses API: builds requests from a conversation, reads replies event by event. Pure; sends nothing.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::content::{PromptPart, parts};
use super::history::{HistoryCall, HistoryItem};
use super::reply::{ReplyEnd, ReplyFailure, ReplyPiece, ReplyUsage};
use super::request::ModelRequest;
use provider_common::json_fields::Look;

/// Returns the body of a request.
pub(super) fn body(request: &ModelRequest<'_>) -> Value {
    let mut body = json!({
        "model": request.model,
        "instructions": request.instructions,
        "input": request.items.iter().map(item).collect::<Vec<Value>>(),
        "stream": true,
        // The history is the journal; nothing is stored at the endpoint.
        "store": false,
        "prompt_cache_key": request.session,
    });
    if !request.tools.is_empty() {
        let tool = |tool: &super::tools::ToolDefinition| {
            json!({"type": "function", "name": tool.name, "description": tool.description,
                   "parameters": tool.schema, "strict": false})
        };
        body["tools"] = request.tools.iter().map(tool).collect();
        body["parallel_tool_calls"] = json!(true);
    }
    if !request.effort.is_empty() {
        body["reasoning"] = json!({"effort": request.effort, "summary": "auto"});
        body["include"] = json!(["reasoning.encrypted_content"]);
    }
    if let Some(temperature) = request.temperature {
        body["temperature"] = json!(temperature);
    }
    if let Some(most) = request.max_output_tokens {
        body["max_output_tokens"] = json!(most);
    }
    body
}

/// Converts an entry of the conversation to an input item.
fn item(item: &HistoryItem) -> Value {
    match item {
        HistoryItem::User { text, attachments } => {
            // A file that cannot be sent was refused with its prompt.
            let parts = parts(text, attachments).unwrap_or_else(|_| vec![PromptPart::Text(text.clone())]);
            let part = |part: PromptPart| match part {
                PromptPart::Text(text) => json!({"type": "input_text", "text": text}),
                PromptPart::Image(url) => json!({"type": "input_image", "image_url": url}),
            };
            json!({"type": "message", "role": "user", "content": parts.into_iter().map(part).collect::<Vec<_>>()})
        }
        HistoryItem::System(text) => {
            json!({"type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}]})
        }
        HistoryItem::Assistant(text) => {
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
        }
        HistoryItem::Call(HistoryCall { id, name, arguments }) => {
            json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments})
        }
        HistoryItem::Result { id, output } => {
            json!({"type": "function_call_output", "call_id": id, "output": output})
        }
        HistoryItem::Reasoning(item) => item.clone(),
    }
}

/// Reads a reply.
#[derive(Debug, Default)]
pub(super) struct ResponsesReplyReader {
    /// Items whose text was streamed.
    streamed: BTreeSet<String>,
    thought: bool,
    refused: bool,
    ended: bool,
}

impl ResponsesReplyReader {
    /// Handles the data of one event.
    pub(super) fn take(&mut self, data: &str, pieces: &mut Vec<ReplyPiece>) {
        let Ok(event) = serde_json::from_str::<Value>(data) else { return };
        match event.text("type") {
            "response.output_text.delta" => {
                self.streamed.insert(event.text("item_id").to_owned());
                text(event.text("delta"), pieces);
            }
            "response.refusal.delta" => {
                self.refused = true;
                self.streamed.insert(event.text("item_id").to_owned());
                text(event.text("delta"), pieces);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.thought = true;
                self.streamed.insert(event.text("item_id").to_owned());
                thinking(event.text("delta").to_owned(), pieces);
            }
            // Parts of a summary have no gap between them.
            "response.reasoning_summary_part.added" if self.thought => thinking("\n\n".to_owned(), pieces),
            "response.output_item.done" => self.item(event.under("item"), pieces),
            "response.completed" | "response.incomplete" => self.end(event.under("response"), pieces),
            "response.failed" => {
                self.ended = true;
                pieces
                    .push(ReplyPiece::Failed(ReplyFailure::of_error(event.under("response").under("error"))));
            }
            "error" => {
                self.ended = true;
                let error = if event.under("error").is_object() { event.under("error") } else { &event };
                pieces.push(ReplyPiece::Failed(ReplyFailure::of_error(error)));
            }
            _ => {}
        }
    }

    /// Returns whether the reply has ended.
    pub(super) fn is_over(&self) -> bool {
        self.ended
    }

    /// Handles a complete output item; text that was streamed is not repeated.
    fn item(&mut self, item: &Value, pieces: &mut Vec<ReplyPiece>) {
        let streamed = self.streamed.contains(item.text("id"));
        match item.text("type") {
            "function_call" => pieces.push(ReplyPiece::Call(HistoryCall {
                id: item.text("call_id").to_owned(),
                name: item.text("name").to_owned(),
                arguments: item.text("arguments").to_owned(),
            })),
            "message" if !streamed => {
                for part in item.list("content") {
                    self.refused |= part.text("type") == "refusal";
                    text(part.text("text"), pieces);
                    text(part.text("refusal"), pieces);
                }
            }
            "reasoning" => {
                if !streamed {
                    let parts: Vec<&str> =
                        item.list("summary").iter().map(|part| part.text("text")).collect();
                    thinking(parts.join("\n\n"), pieces);
                }
                if !item.text("encrypted_content").is_empty() {
                    pieces.push(ReplyPiece::Reasoning(item.clone()));
                }
            }
            _ => {}
        }
    }

    /// Reports the usage and how the reply ended.
    fn end(&mut self, response: &Value, pieces: &mut Vec<ReplyPiece>) {
        self.ended = true;
        let usage = response.under("usage");
        if usage.is_object() {
            let cached = usage.under("input_tokens_details").count("cached_tokens").unwrap_or(0);
            let input = usage.count("input_tokens").unwrap_or(0);
            pieces.push(ReplyPiece::Used(ReplyUsage::new(
                input,
                cached,
                usage.count("output_tokens").unwrap_or(0),
            )));
        }
        let ended = match response.under("incomplete_details").text("reason") {
            "content_filter" => ReplyEnd::Refused,
            "" if self.refused => ReplyEnd::Refused,
            "" => ReplyEnd::Whole,
            _ => ReplyEnd::Cut,
        };
        pieces.push(ReplyPiece::Ended(ended));
    }
}

fn text(text: &str, pieces: &mut Vec<ReplyPiece>) {
    if !text.is_empty() {
        pieces.push(ReplyPiece::Text(text.to_owned()));
    }
}

fn thinking(text: String, pieces: &mut Vec<ReplyPiece>) {
    if !text.is_empty() {
        pieces.push(ReplyPiece::Thinking(text));
    }
}
