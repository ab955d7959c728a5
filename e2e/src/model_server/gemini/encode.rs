//! Frames as Gemini's wire format: events for a stream, one JSON object otherwise. Pure; sends nothing.

use serde_json::{Value, json};

use crate::model_server::play::{Encoder, Frame};
use crate::model_server::script::Reply;

/// Input tokens of a reply whose script does not say.
const INPUT_TOKENS: u64 = 10;

/// What is known of a reply before its content.
pub(super) struct Head {
    finish_reason: &'static str,
    usage: Value,
}

impl Head {
    pub(super) fn new(reply: &Reply) -> Head {
        let finish_reason = match reply.stop_reason.as_deref() {
            Some("max_tokens" | "length") => "MAX_TOKENS",
            Some("refusal" | "content_filter") => "SAFETY",
            _ => "STOP",
        };
        let told = reply.usage.clone().unwrap_or_default();
        let input = told.input_tokens.unwrap_or(INPUT_TOKENS);
        let output = told.output_tokens.unwrap_or_else(|| reply.output_tokens());
        let usage = json!({
            "promptTokenCount": input, "candidatesTokenCount": output, "totalTokenCount": input + output,
        });
        Head { finish_reason, usage }
    }

    fn object(&self, parts: &[Value], last: bool) -> Value {
        let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": parts}});
        if last {
            candidate["finishReason"] = json!(self.finish_reason);
        }
        json!({"candidates": [candidate], "usageMetadata": self.usage, "modelVersion": "scripted"})
    }
}

fn part(frame: &Frame<'_>) -> Option<Value> {
    match frame {
        Frame::TextDelta(text) => Some(json!({"text": text})),
        // Gemini sends a thought whole.
        Frame::ThinkingEnd(text) => Some(json!({"text": text, "thought": true})),
        Frame::ToolEnd { id, name, input } => {
            Some(json!({"functionCall": {"id": id, "name": name, "args": input}}))
        }
        _ => None,
    }
}

/// Encodes a streamed reply.
pub(super) struct Events(Head);

impl Events {
    pub(super) fn new(head: Head) -> Events {
        Events(head)
    }
}

impl Encoder for Events {
    fn encode(&mut self, frame: Frame<'_>) -> Vec<u8> {
        let value = match (&frame, part(&frame)) {
            (_, Some(part)) => self.0.object(&[part], false),
            (Frame::Close, _) => self.0.object(&[], true),
            (Frame::Fault { kind, message }, _) => {
                json!({"error": {"code": 500, "status": kind, "message": message}})
            }
            _ => return Vec::new(),
        };
        format!("data: {value}\r\n\r\n").into_bytes()
    }
}

/// Encodes a reply that is not streamed: says nothing until the end, then everything.
pub(super) struct Whole {
    head: Head,
    parts: Vec<Value>,
}

impl Whole {
    pub(super) fn new(head: Head) -> Whole {
        Whole { head, parts: Vec::new() }
    }
}

impl Encoder for Whole {
    fn encode(&mut self, frame: Frame<'_>) -> Vec<u8> {
        if matches!(frame, Frame::Close) {
            return self.head.object(&self.parts, true).to_string().into();
        }
        self.parts.extend(part(&frame));
        Vec::new()
    }
}
