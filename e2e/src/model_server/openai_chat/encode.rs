//! Frames as the Chat Completions wire format: chunks for a stream, one JSON object otherwise. Pure; sends nothing.

use serde_json::{Value, json};

use crate::model_server::play::{Encoder, Frame};
use crate::model_server::script::Reply;

/// Input tokens of a reply whose script does not say.
const INPUT_TOKENS: u64 = 10;

/// What is known of a completion before its content.
pub(super) struct Head {
    id: String,
    model: Value,
    finish_reason: &'static str,
    usage: Value,
    /// Only clients that ask for it are told the usage of a stream.
    tells_usage: bool,
}

impl Head {
    pub(super) fn new(id: String, body: &Value, reply: &Reply) -> Head {
        let finish_reason = match reply.stop_reason.as_deref() {
            Some("max_tokens" | "length") => "length",
            Some("refusal" | "content_filter") => "content_filter",
            _ if reply.calls_tools() => "tool_calls",
            _ => "stop",
        };
        let told = reply.usage.clone().unwrap_or_default();
        let cached = told.cache_read_input_tokens.unwrap_or(0);
        // Scripts count as Anthropic does: what was read from the cache comes on top.
        let input = told.input_tokens.unwrap_or(INPUT_TOKENS) + cached;
        let output = told.output_tokens.unwrap_or_else(|| reply.output_tokens());
        let usage = json!({
            "prompt_tokens": input,
            "prompt_tokens_details": {"cached_tokens": cached},
            "completion_tokens": output,
            "total_tokens": input + output,
        });
        let tells_usage = body["stream_options"]["include_usage"] == json!(true);
        Head { id, model: body["model"].clone(), finish_reason, usage, tells_usage }
    }

    fn object(&self, kind: &str, choices: Value) -> Value {
        json!({"id": self.id, "object": kind, "created": 1, "model": self.model, "choices": choices})
    }
}

/// Encodes a streamed reply.
pub(super) struct Chunks {
    head: Head,
    calls: usize,
}

impl Chunks {
    pub(super) fn new(head: Head) -> Chunks {
        Chunks { head, calls: 0 }
    }

    fn delta(&self, delta: Value, finish_reason: Value) -> Vec<u8> {
        let choice = json!([{"index": 0, "delta": delta, "finish_reason": finish_reason}]);
        data(&self.head.object("chat.completion.chunk", choice))
    }

    fn close(&self) -> Vec<u8> {
        let mut bytes = self.delta(json!({}), json!(self.head.finish_reason));
        if self.head.tells_usage {
            let mut last = self.head.object("chat.completion.chunk", json!([]));
            last["usage"] = self.head.usage.clone();
            bytes.extend(data(&last));
        }
        bytes.extend(b"data: [DONE]\n\n");
        bytes
    }
}

impl Encoder for Chunks {
    fn encode(&mut self, frame: Frame<'_>) -> Vec<u8> {
        let go_on = Value::Null;
        match frame {
            Frame::Open => self.delta(json!({"role": "assistant", "content": ""}), go_on),
            Frame::TextDelta(text) => self.delta(json!({"content": text}), go_on),
            Frame::ThinkingDelta(text) => self.delta(json!({"reasoning_content": text}), go_on),
            Frame::ToolStart { id, name } => {
                let call = json!({
                    "index": self.calls, "id": id, "type": "function",
                    "function": {"name": name, "arguments": ""},
                });
                self.delta(json!({"tool_calls": [call]}), go_on)
            }
            Frame::ToolDelta(part) => {
                let call = json!({"index": self.calls, "function": {"arguments": part}});
                self.delta(json!({"tool_calls": [call]}), go_on)
            }
            Frame::ToolEnd { .. } => {
                self.calls += 1;
                Vec::new()
            }
            Frame::TextStart | Frame::TextEnd(_) | Frame::ThinkingStart | Frame::ThinkingEnd(_) => Vec::new(),
            Frame::Ping => b": ping\n\n".to_vec(),
            Frame::Fault { kind, message } => {
                data(&json!({"error": {"message": message, "type": kind, "code": kind}}))
            }
            Frame::Close => self.close(),
        }
    }
}

/// Encodes a reply that is not streamed: says nothing until the end, then everything.
pub(super) struct Whole {
    head: Head,
    text: String,
    thinking: String,
    calls: Vec<Value>,
}

impl Whole {
    pub(super) fn new(head: Head) -> Whole {
        Whole { head, text: String::new(), thinking: String::new(), calls: Vec::new() }
    }

    fn close(&self) -> Vec<u8> {
        let content = if self.text.is_empty() { Value::Null } else { json!(self.text) };
        let mut message = json!({"role": "assistant", "content": content});
        if !self.thinking.is_empty() {
            message["reasoning_content"] = json!(self.thinking);
        }
        if !self.calls.is_empty() {
            message["tool_calls"] = json!(self.calls);
        }
        let choice = json!([{"index": 0, "message": message, "finish_reason": self.head.finish_reason}]);
        let mut whole = self.head.object("chat.completion", choice);
        whole["usage"] = self.head.usage.clone();
        whole.to_string().into()
    }
}

impl Encoder for Whole {
    fn encode(&mut self, frame: Frame<'_>) -> Vec<u8> {
        match frame {
            Frame::TextEnd(text) => self.text.push_str(text),
            Frame::ThinkingEnd(text) => self.thinking.push_str(text),
            Frame::ToolEnd { id, name, input } => self.calls.push(json!({
                "id": id, "type": "function",
                "function": {"name": name, "arguments": input.to_string()},
            })),
            Frame::Close => return self.close(),
            _ => {}
        }
        Vec::new()
    }
}

fn data(value: &Value) -> Vec<u8> {
    format!("data: {value}\n\n").into_bytes()
}
