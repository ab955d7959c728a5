//! Frames as the Responses API's wire format: server-sent events for a stream, one JSON object otherwise. Sends
//! nothing.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::tools::Form;
use crate::model_server::Ids;
use crate::model_server::play::{Encoder, Frame};
use crate::model_server::script::Reply;

/// Input tokens of a reply whose script does not say.
const INPUT_TOKENS: u64 = 10;
/// Reasoning comes sealed; agents send it back and never look inside.
const SEALED: &str = "c2NyaXB0ZWQ=";

/// What is known of a response before its content.
pub(super) struct Head {
    ids: Ids,
    id: String,
    model: Value,
    /// Why the response ends before its end, where the script says so.
    incomplete: Option<String>,
    usage: Value,
    forms: HashMap<String, Form>,
}

impl Head {
    pub(super) fn new(ids: Ids, body: &Value, reply: &Reply, forms: HashMap<String, Form>) -> Head {
        let told = reply.usage.clone().unwrap_or_default();
        let cached = told.cache_read_input_tokens.unwrap_or(0);
        // Scripts count as Anthropic does: what was read from the cache comes on top.
        let input = told.input_tokens.unwrap_or(INPUT_TOKENS) + cached;
        let output = told.output_tokens.unwrap_or_else(|| reply.output_tokens());
        let incomplete = match reply.stop_reason.as_deref() {
            Some("max_tokens" | "max_output_tokens") => Some("max_output_tokens".to_owned()),
            Some("refusal" | "content_filter") => Some("content_filter".to_owned()),
            _ => None,
        };
        let usage = json!({
            "input_tokens": input,
            "input_tokens_details": {
                "cached_tokens": cached,
                "cache_write_tokens": told.cache_creation_input_tokens.unwrap_or(0),
            },
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": input + output,
        });
        let id = ids.next("resp");
        Head { ids, id, model: body["model"].clone(), incomplete, usage, forms }
    }

    fn response(&self, status: &str, output: &[Value]) -> Value {
        json!({
            "id": self.id, "object": "response", "created_at": 1, "model": self.model, "status": status,
            "output": output, "error": null, "incomplete_details": null,
        })
    }

    fn ended(&self, output: &[Value]) -> Value {
        let status = if self.incomplete.is_some() { "incomplete" } else { "completed" };
        let mut response = self.response(status, output);
        response["usage"] = self.usage.clone();
        if let Some(reason) = &self.incomplete {
            response["incomplete_details"] = json!({"reason": reason});
        }
        response
    }

    fn call(&self, id: &str, name: &str, input: &Value) -> Value {
        let item = |prefix: &str| self.ids.next(prefix);
        match self.forms.get(id) {
            Some(Form::Custom) => json!({
                "type": "custom_tool_call", "id": item("ctc"), "call_id": id, "name": name,
                "input": input.as_str().unwrap_or_default(), "status": "completed",
            }),
            Some(Form::LocalShell) => json!({
                "type": "local_shell_call", "id": item("lsh"), "call_id": id, "status": "completed",
                "action": {"type": "exec", "command": input["command"]},
            }),
            form => {
                let mut call = json!({
                    "type": "function_call", "id": item("fc"), "call_id": id, "name": name,
                    "arguments": input.to_string(), "status": "completed",
                });
                if let Some(Form::Function { namespace: Some(namespace) }) = form {
                    call["namespace"] = json!(namespace);
                }
                call
            }
        }
    }
}

fn message(id: &str, text: &str) -> Value {
    json!({
        "type": "message", "id": id, "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    })
}

fn reasoning(id: &str, text: &str) -> Value {
    json!({
        "type": "reasoning", "id": id, "encrypted_content": SEALED,
        "summary": [{"type": "summary_text", "text": text}],
    })
}

/// Encodes a streamed reply.
pub(super) struct Events {
    head: Head,
    /// Items that are complete.
    output: Vec<Value>,
    /// Id of the item that is open.
    item: String,
    sequence: u64,
}

impl Events {
    pub(super) fn new(head: Head) -> Events {
        Events { head, output: Vec::new(), item: String::new(), sequence: 0 }
    }

    fn event(&mut self, kind: &str, mut value: Value) -> Vec<u8> {
        value["type"] = json!(kind);
        value["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        format!("event: {kind}\ndata: {value}\n\n").into_bytes()
    }

    /// An event about the open item.
    fn within(&mut self, kind: &str, mut value: Value) -> Vec<u8> {
        value["item_id"] = json!(self.item);
        value["output_index"] = json!(self.output.len());
        self.event(kind, value)
    }

    fn add(&mut self, item: Value) -> Vec<u8> {
        let index = self.output.len();
        self.event("response.output_item.added", json!({"output_index": index, "item": item}))
    }

    fn done(&mut self, item: Value) -> Vec<u8> {
        let value = json!({"output_index": self.output.len(), "item": item});
        self.output.push(item);
        self.event("response.output_item.done", value)
    }

    fn text_start(&mut self) -> Vec<u8> {
        self.item = self.head.ids.next("msg");
        let mut item = message(&self.item, "");
        (item["status"], item["content"]) = (json!("in_progress"), json!([]));
        let mut bytes = self.add(item);
        let part = json!({"type": "output_text", "text": "", "annotations": []});
        bytes.extend(self.within("response.content_part.added", json!({"content_index": 0, "part": part})));
        bytes
    }

    fn text_end(&mut self, text: &str) -> Vec<u8> {
        let mut bytes = self.within("response.output_text.done", json!({"content_index": 0, "text": text}));
        let item = message(&self.item, text);
        let part = item["content"][0].clone();
        bytes.extend(self.within("response.content_part.done", json!({"content_index": 0, "part": part})));
        bytes.extend(self.done(item));
        bytes
    }

    fn thinking_start(&mut self) -> Vec<u8> {
        self.item = self.head.ids.next("rs");
        let mut bytes = self.add(json!({"type": "reasoning", "id": self.item, "summary": []}));
        let part = json!({"type": "summary_text", "text": ""});
        let value = json!({"summary_index": 0, "part": part});
        bytes.extend(self.within("response.reasoning_summary_part.added", value));
        bytes
    }

    fn thinking_end(&mut self, text: &str) -> Vec<u8> {
        let value = json!({"summary_index": 0, "text": text});
        let mut bytes = self.within("response.reasoning_summary_text.done", value);
        let item = reasoning(&self.item, text);
        let value = json!({"summary_index": 0, "part": item["summary"][0]});
        bytes.extend(self.within("response.reasoning_summary_part.done", value));
        bytes.extend(self.done(item));
        bytes
    }

    fn tool_end(&mut self, id: &str, name: &str, input: &Value) -> Vec<u8> {
        let item = self.head.call(id, name, input);
        self.item = item["id"].as_str().unwrap_or_default().to_owned();
        let mut open = item.clone();
        open["status"] = json!("in_progress");
        let written = match item["type"].as_str() {
            Some("function_call") => Some(("arguments", "function_call_arguments")),
            Some("custom_tool_call") => Some(("input", "custom_tool_call_input")),
            _ => None,
        };
        let Some((field, kind)) = written else {
            let mut bytes = self.add(open);
            bytes.extend(self.done(item));
            return bytes;
        };
        let whole = item[field].as_str().unwrap_or_default().to_owned();
        open[field] = json!("");
        let mut bytes = self.add(open);
        // In two pieces, so that agents must join them.
        let middle = whole.floor_char_boundary(whole.len() / 2);
        for part in [&whole[..middle], &whole[middle..]] {
            bytes.extend(self.within(&format!("response.{kind}.delta"), json!({"delta": part})));
        }
        bytes.extend(self.within(&format!("response.{kind}.done"), json!({field: whole})));
        bytes.extend(self.done(item));
        bytes
    }
}

impl Encoder for Events {
    fn encode(&mut self, frame: Frame<'_>) -> Vec<u8> {
        match frame {
            Frame::Open => {
                let response = self.head.response("in_progress", &[]);
                self.event("response.created", json!({"response": response}))
            }
            Frame::TextStart => self.text_start(),
            Frame::TextDelta(text) => {
                self.within("response.output_text.delta", json!({"content_index": 0, "delta": text}))
            }
            Frame::TextEnd(text) => self.text_end(text),
            Frame::ThinkingStart => self.thinking_start(),
            Frame::ThinkingDelta(text) => {
                let value = json!({"summary_index": 0, "delta": text});
                self.within("response.reasoning_summary_text.delta", value)
            }
            Frame::ThinkingEnd(text) => self.thinking_end(text),
            // A call is written in one go: its form is known, its pieces are of no use to anybody.
            Frame::ToolStart { .. } | Frame::ToolDelta(_) => Vec::new(),
            Frame::ToolEnd { id, name, input } => self.tool_end(id, name, input),
            Frame::Ping => b": ping\n\n".to_vec(),
            Frame::Fault { kind, message } => {
                let mut response = self.head.response("failed", &[]);
                response["error"] = json!({"code": kind, "message": message});
                self.event("response.failed", json!({"response": response}))
            }
            Frame::Close => {
                let response = self.head.ended(&self.output);
                let kind = format!("response.{}", response["status"].as_str().unwrap_or("completed"));
                self.event(&kind, json!({"response": response}))
            }
        }
    }
}

/// Encodes a reply that is not streamed: says nothing until the end, then everything.
pub(super) struct Whole {
    head: Head,
    output: Vec<Value>,
}

impl Whole {
    pub(super) fn new(head: Head) -> Whole {
        Whole { head, output: Vec::new() }
    }
}

impl Encoder for Whole {
    fn encode(&mut self, frame: Frame<'_>) -> Vec<u8> {
        match frame {
            Frame::TextEnd(text) => self.output.push(message(&self.head.ids.next("msg"), text)),
            Frame::ThinkingEnd(text) => self.output.push(reasoning(&self.head.ids.next("rs"), text)),
            Frame::ToolEnd { id, name, input } => self.output.push(self.head.call(id, name, input)),
            Frame::Close => return self.head.ended(&self.output).to_string().into(),
            _ => {}
        }
        Vec::new()
    }
}
