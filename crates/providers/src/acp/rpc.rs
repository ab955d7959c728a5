//! JSON-RPC 2.0 as ACP agents speak it: one object per line. Reads and writes lines without interpreting
//! them. The purpose of a request is part of its id, so that its answer needs no stored state.

use agent_client_protocol_schema::v1;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::json_fields::Look;

/// One line of the agent.
#[derive(Debug, PartialEq)]
pub(super) enum AcpMessage {
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
        result: Result<Value, RpcError>,
    },
}

/// Why an agent refused.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RpcError {
    pub(super) code: v1::ErrorCode,
    pub(super) message: String,
}

#[derive(Deserialize)]
struct AcpLine {
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
pub(super) fn read(line: &[u8]) -> Option<AcpMessage> {
    let AcpLine { id, method, params, result, error } = serde_json::from_slice(line).ok()?;
    match (method, id.filter(|id| !id.is_null())) {
        (Some(method), Some(id)) => Some(AcpMessage::Request { id, method, params }),
        (Some(method), None) => Some(AcpMessage::Notification { method, params }),
        (None, Some(id)) => {
            let result = match error.filter(|error| !error.is_null()) {
                Some(error) => Err(refusal(&error)),
                // A null result is an answer too.
                None => Ok(result.unwrap_or_default()),
            };
            Some(AcpMessage::Answer { id, result })
        }
        (None, None) => None,
    }
}

/// Reads a refusal; agents put the relevant text into its data, in several ways.
fn refusal(error: &Value) -> RpcError {
    let (message, data) = (error.text("message"), error.under("data"));
    let more = ["message", "details", "error"].map(|key| data.under(key));
    let more = more.into_iter().chain([data]).find_map(Value::as_str);
    let message = match more {
        Some(more) if message.is_empty() || message == "Internal error" => more.to_owned(),
        Some(more) if !message.contains(more) => format!("{message}: {more}"),
        _ if message.is_empty() => "it gave no reason".to_owned(),
        _ => message.to_owned(),
    };
    let code = error.under("code").as_i64().and_then(|code| i32::try_from(code).ok());
    RpcError { code: code.map_or(v1::ErrorCode::InternalError, v1::ErrorCode::from), message }
}

/// The purpose of a request to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AcpRequestKind {
    Initialize,
    New,
    Load,
    Resume,
    Prompt,
    SetMode,
    SetModel,
    SetOption,
}

impl AcpRequestKind {
    const ALL: [(AcpRequestKind, &'static str); 8] = [
        (Self::Initialize, v1::AGENT_METHOD_NAMES.initialize),
        (Self::New, v1::AGENT_METHOD_NAMES.session_new),
        (Self::Load, v1::AGENT_METHOD_NAMES.session_load),
        (Self::Resume, v1::AGENT_METHOD_NAMES.session_resume),
        (Self::Prompt, v1::AGENT_METHOD_NAMES.session_prompt),
        (Self::SetMode, v1::AGENT_METHOD_NAMES.session_set_mode),
        // No longer part of the protocol; for agents that list their models beside their modes.
        (Self::SetModel, "session/set_model"),
        (Self::SetOption, v1::AGENT_METHOD_NAMES.session_set_config_option),
    ];

    fn method(self) -> &'static str {
        Self::ALL.iter().find(|(purpose, _)| *purpose == self).map_or("", |(_, method)| method)
    }
}

/// Returns the purpose and number of a request, if it was ours.
pub(super) fn purpose(id: &Value) -> Option<(AcpRequestKind, u64)> {
    let (method, number) = id.as_str()?.strip_prefix("obey:")?.rsplit_once(':')?;
    let (purpose, _) = AcpRequestKind::ALL.into_iter().find(|(_, own)| *own == method)?;
    Some((purpose, number.parse().ok()?))
}

/// Sends a request to the agent; `number` makes its id unique.
pub(super) fn ask(purpose: AcpRequestKind, number: u64, params: impl Serialize, wire: &mut Vec<u8>) {
    let method = purpose.method();
    let id = format!("obey:{method}:{number}");
    line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}), wire);
}

/// Sends a notification to the agent.
pub(super) fn notify(method: &str, params: impl Serialize, wire: &mut Vec<u8>) {
    line(&json!({"jsonrpc": "2.0", "method": method, "params": params}), wire);
}

/// Answers a request of the agent.
pub(super) fn reply(id: &Value, result: impl Serialize, wire: &mut Vec<u8>) {
    line(&json!({"jsonrpc": "2.0", "id": id, "result": result}), wire);
}

/// Refuses a request of the agent.
pub(super) fn refuse(id: &Value, code: v1::ErrorCode, message: &str, wire: &mut Vec<u8>) {
    let error = v1::Error::new(code.into(), message);
    line(&json!({"jsonrpc": "2.0", "id": id, "error": error}), wire);
}

/// Writes one line. Two separators that JSON allows within a text end a line for some readers.
fn line(value: &Value, wire: &mut Vec<u8>) {
    let text = value.to_string().replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
    wire.extend_from_slice(text.as_bytes());
    wire.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_line_is_told_apart() {
        let read = |value: Value| read(value.to_string().as_bytes());
        assert!(matches!(read(json!({"method": "m"})), Some(AcpMessage::Notification { .. })));
        assert!(matches!(read(json!({"method": "m", "id": null})), Some(AcpMessage::Notification { .. })));
        assert!(matches!(read(json!({"method": "m", "id": "uuid"})), Some(AcpMessage::Request { .. })));
        assert!(matches!(
            read(json!({"id": 0, "result": null})),
            Some(AcpMessage::Answer { result: Ok(_), .. })
        ));
        for garbage in ["", "x", "[]", "{}", "1"] {
            assert_eq!(super::read(garbage.as_bytes()), None, "{garbage}");
        }
    }

    #[test]
    fn refusals_are_read_however_they_are_written() {
        let message = |error: Value| refusal(&error).message;
        assert_eq!(
            message(json!({"code": 1, "message": "Internal error", "data": {"message": "busy"}})),
            "busy"
        );
        assert_eq!(message(json!({"message": "Method not found", "data": "x/y"})), "Method not found: x/y");
        assert_eq!(message(json!({"message": "no", "data": {"details": "why"}})), "no: why");
        assert_eq!(message(json!({})), "it gave no reason");
        assert_eq!(refusal(&json!({"code": -32000})).code, v1::ErrorCode::AuthRequired);
    }

    #[test]
    fn a_purpose_is_found_in_the_name_of_its_request() {
        for (at, (purpose, _)) in AcpRequestKind::ALL.into_iter().enumerate() {
            let mut wire = Vec::new();
            ask(purpose, at as u64, json!({}), &mut wire);
            let written: Value = serde_json::from_slice(&wire).unwrap();
            assert_eq!(super::purpose(&written["id"]), Some((purpose, at as u64)));
        }
        assert_eq!(super::purpose(&json!(3)), None);
        assert_eq!(super::purpose(&json!("obey:unheard:3")), None);
    }
}
