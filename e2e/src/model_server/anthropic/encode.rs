//! Frames as Anthropic's wire format: server-sent events for a stream, one JSON message otherwise. Pure; sends nothing.

use serde_json::{Map, Value, json};

use crate::model_server::play::{Encoder, Frame};
use crate::model_server::script::{Reply, Usage};

/// Input tokens of a reply whose script does not say.
const INPUT_TOKENS: u64 = 10;
/// Thinking must be signed; agents send the signature back and never look inside.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";

/// What is known of a message before its content.
pub(super) struct Head {
    id: String,
    model: Value,
    stop_reason: String,
    usage: Usage,
}

impl Head {
    pub(super) fn new(id: String, body: &Value, reply: &Reply) -> Head {
        let natural = if reply.calls_tools() { "tool_use" } else { "end_turn" };
        let told = reply.usage.clone().unwrap_or_default();
        let usage = Usage {
            input_tokens: told.input_tokens.or(Some(INPUT_TOKENS)),
            output_tokens: told.output_tokens.or_else(|| Some(reply.output_tokens())),
            ..told
        };
        let stop_reason = reply.stop_reason.clone().unwrap_or_else(|| natural.to_owned());
        Head { id, model: body["model"].clone(), stop_reason, usage }
    }

    fn message(&self, content: Vec<Value>, stop_reason: Value, output_tokens: u64) -> Value {
        json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": content,
            "stop_reason": stop_reason, "stop_sequence": null,
            "usage": {
                "input_tokens": self.usage.input_tokens,
                "cache_creation_input_tokens": self.usage.cache_creation_input_tokens.unwrap_or(0),
                "cache_read_input_tokens": self.usage.cache_read_input_tokens.unwrap_or(0),
                "output_tokens": output_tokens,
                "service_tier": "standard",
            },
        })
    }
}

/// The body of every error answer.
pub(super) fn error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

/// Encodes a streamed reply.
pub(super) struct Events {
    head: Head,
    /// Index of the content block that is open or comes next.
    block: usize,
}

impl Events {
    pub(super) fn new(head: Head) -> Events {
        Events { head, block: 0 }
    }

    fn start(&self, content: Value) -> Vec<u8> {
        event(&json!({"type": "content_block_start", "index": self.block, "content_block": content}))
    }

    fn delta(&self, delta: Value) -> Vec<u8> {
        event(&json!({"type": "content_block_delta", "index": self.block, "delta": delta}))
    }

    fn end(&mut self) -> Vec<u8> {
        self.block += 1;
        event(&json!({"type": "content_block_stop", "index": self.block - 1}))
    }

    fn close(&self) -> Vec<u8> {
        let mut bytes = event(&json!({
            "type": "message_delta",
            "delta": {"stop_reason": self.head.stop_reason, "stop_sequence": null},
            "usage": {"output_tokens": self.head.usage.output_tokens},
        }));
        bytes.extend(event(&json!({"type": "message_stop"})));
        bytes
    }
}

impl Encoder for Events {
    fn encode(&mut self, frame: Frame<'_>) -> Vec<u8> {
        match frame {
            Frame::Open => {
                let message = self.head.message(Vec::new(), Value::Null, 1);
                event(&json!({"type": "message_start", "message": message}))
            }
            Frame::TextStart => self.start(json!({"type": "text", "text": ""})),
            Frame::TextDelta(text) => self.delta(json!({"type": "text_delta", "text": text})),
            Frame::ThinkingStart => self.start(json!({"type": "thinking", "thinking": "", "signature": ""})),
            Frame::ThinkingDelta(text) => self.delta(json!({"type": "thinking_delta", "thinking": text})),
            Frame::ThinkingEnd(_) => {
                let mut bytes = self.delta(json!({"type": "signature_delta", "signature": SIGNATURE}));
                bytes.extend(self.end());
                bytes
            }
            Frame::ToolStart { id, name } => {
                self.start(json!({"type": "tool_use", "id": id, "name": name, "input": {}}))
            }
            Frame::ToolDelta(json) => self.delta(json!({"type": "input_json_delta", "partial_json": json})),
            Frame::TextEnd(_) | Frame::ToolEnd { .. } => self.end(),
            Frame::Ping => event(&json!({"type": "ping"})),
            Frame::Fault { kind, message } => event(&error(kind, message)),
            Frame::Close => self.close(),
        }
    }
}

/// Encodes a reply that is not streamed: says nothing until the end, then everything.
pub(super) struct Whole {
    head: Head,
    content: Vec<Value>,
}

impl Whole {
    pub(super) fn new(head: Head) -> Whole {
        Whole { head, content: Vec::new() }
    }
}

impl Encoder for Whole {
    fn encode(&mut self, frame: Frame<'_>) -> Vec<u8> {
        match frame {
            Frame::TextEnd(text) => self.content.push(json!({"type": "text", "text": text})),
            Frame::ThinkingEnd(text) => {
                self.content.push(json!({"type": "thinking", "thinking": text, "signature": SIGNATURE}));
            }
            Frame::ToolEnd { id, name, input } => {
                self.content.push(json!({"type": "tool_use", "id": id, "name": name, "input": input}));
            }
            Frame::Close => {
                let content = std::mem::take(&mut self.content);
                let output = self.head.usage.output_tokens.unwrap_or(1);
                return self.head.message(content, json!(self.head.stop_reason), output).to_string().into();
            }
            _ => {}
        }
        Vec::new()
    }
}

fn event(value: &Value) -> Vec<u8> {
    let name =
        value.as_object().and_then(|map: &Map<String, Value>| map["type"].as_str()).unwrap_or_default();
    format!("event: {name}\ndata: {value}\n\n").into_bytes()
}
