//! JSON-RPC as `codex app-server` speaks it: one object per line, without the `jsonrpc` key. Reads and writes
//! lines without interpreting them. The purpose of a request is part of its id, so that its answer needs no
//! stored state.

use serde::Deserialize;
use serde_json::{Value, json};

/// The error code for an unsupported method.
const METHOD_NOT_FOUND: i32 = -32601;

/// One line of the agent.
#[derive(Debug, PartialEq)]
pub(super) enum CodexMessage {
    Notification {
        method: String,
        params: Value,
    },
    /// It waits for an answer.
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    /// The answer to one of our requests, or why it was refused.
    Answer {
        id: Value,
        result: Result<Value, String>,
    },
}

#[derive(Deserialize)]
struct CodexLine {
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    result: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
}

/// Parses a line; `None` if it is not JSON-RPC.
pub(super) fn read(line: &[u8]) -> Option<CodexMessage> {
    let CodexLine { id, method, params, result, error } = serde_json::from_slice(line).ok()?;
    match (method, id) {
        (Some(method), Some(id)) => Some(CodexMessage::Request { id, method, params }),
        (Some(method), None) => Some(CodexMessage::Notification { method, params }),
        (None, Some(id)) => {
            let result = match error {
                Some(error) => Err(error["message"].as_str().unwrap_or("it gave no reason").to_owned()),
                // A null result is an answer too.
                None => Ok(result.unwrap_or_default()),
            };
            Some(CodexMessage::Answer { id, result })
        }
        (None, None) => None,
    }
}

/// The purpose of a request to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CodexRequestKind {
    Initialize,
    Account,
    Models,
    Config,
    Start,
    Resume,
    Settings,
    Turn,
    Steer,
    Interrupt,
    Compact,
    /// List the commands that still run.
    Terminals,
    /// End one of them.
    Terminate,
    /// List the tools of a server.
    Servers,
    /// Only causes an answer, at which a turn without the agent's participation ends.
    Settle,
}

impl CodexRequestKind {
    const ALL: [(CodexRequestKind, &'static str, &'static str); 15] = [
        (Self::Initialize, "initialize", "initialize"),
        (Self::Account, "account", "account/read"),
        (Self::Models, "models", "model/list"),
        (Self::Config, "config", "config/read"),
        (Self::Start, "start", "thread/start"),
        (Self::Resume, "resume", "thread/resume"),
        (Self::Settings, "settings", "thread/settings/update"),
        (Self::Turn, "turn", "turn/start"),
        // Not `turn/steer`: that fails if the turn has just ended, and the message would be lost. A second
        // `turn/start` steers a running turn and starts one if there is none.
        (Self::Steer, "steer", "turn/start"),
        (Self::Interrupt, "interrupt", "turn/interrupt"),
        (Self::Compact, "compact", "thread/compact/start"),
        (Self::Terminals, "terminals", "thread/backgroundTerminals/list"),
        (Self::Terminate, "terminate", "thread/backgroundTerminals/terminate"),
        (Self::Servers, "servers", "mcpServerStatus/list"),
        (Self::Settle, "settle", "thread/loaded/list"),
    ];

    fn names(self) -> (&'static str, &'static str) {
        let own = Self::ALL.iter().find(|(purpose, ..)| *purpose == self);
        own.map_or(("", ""), |(_, name, method)| (name, method))
    }
}

/// Returns the purpose of a request, if it was ours.
pub(super) fn purpose(id: &Value) -> Option<CodexRequestKind> {
    let (name, _) = id.as_str()?.strip_prefix("obey-")?.rsplit_once('-')?;
    CodexRequestKind::ALL.iter().find(|(_, own, _)| *own == name).map(|(purpose, ..)| *purpose)
}

/// Sends a request to the agent; `number` makes its id unique. Returns that id.
pub(super) fn ask(purpose: CodexRequestKind, number: u64, params: Value, wire: &mut Vec<u8>) -> String {
    let (name, method) = purpose.names();
    let id = format!("obey-{name}-{number}");
    line(&json!({"id": id, "method": method, "params": params}), wire);
    id
}

/// Sends a notification to the agent.
pub(super) fn notify(method: &str, wire: &mut Vec<u8>) {
    line(&json!({"method": method}), wire);
}

/// Answers a request of the agent.
pub(super) fn reply(id: &Value, result: Value, wire: &mut Vec<u8>) {
    line(&answer(id, result), wire);
}

/// Returns the answer to a request of the agent.
pub(super) fn answer(id: &Value, result: Value) -> Value {
    json!({"id": id, "result": result})
}

/// Refuses a request of the agent.
pub(super) fn refuse(id: &Value, message: &str, wire: &mut Vec<u8>) {
    line(&json!({"id": id, "error": {"code": METHOD_NOT_FOUND, "message": message}}), wire);
}

/// Writes one line. Two separators that JSON allows within a text end a line for some readers.
pub(super) fn line(value: &Value, wire: &mut Vec<u8>) {
    let text = value.to_string().replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
    wire.extend_from_slice(text.as_bytes());
    wire.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_line_is_told_apart() {
        let params = json!({"a": 1});
        let expect = |line: Value, message: CodexMessage| {
            assert_eq!(read(line.to_string().as_bytes()), Some(message));
        };
        let method = "m".to_owned();
        expect(
            json!({"method": "m", "params": params, "emittedAtMs": 1}),
            CodexMessage::Notification { method: method.clone(), params: params.clone() },
        );
        expect(
            json!({"id": 0, "method": "m", "params": params}),
            CodexMessage::Request { id: json!(0), method, params: params.clone() },
        );
        expect(
            json!({"id": "x", "result": null}),
            CodexMessage::Answer { id: json!("x"), result: Ok(Value::Null) },
        );
        expect(
            json!({"id": "x", "error": {"code": 1, "message": "no"}}),
            CodexMessage::Answer { id: json!("x"), result: Err("no".to_owned()) },
        );
        for garbage in ["", "x", "[]", "{}", "1", r#"{"method":1}"#, r#"{"id":"#] {
            assert_eq!(read(garbage.as_bytes()), None, "{garbage}");
        }
    }

    #[test]
    fn a_purpose_is_found_in_the_name_of_its_request() {
        for (at, (purpose, ..)) in CodexRequestKind::ALL.into_iter().enumerate() {
            let mut wire = Vec::new();
            ask(purpose, at as u64, json!({}), &mut wire);
            let written: Value = serde_json::from_slice(&wire).unwrap();
            assert_eq!(super::purpose(&written["id"]), Some(purpose));
        }
        assert_eq!(super::purpose(&json!(3)), None);
        assert_eq!(super::purpose(&json!("obey-unheard-3")), None);
    }
}
