//! JSON-RPC 2.0 over lines: parses a line and writes ours. Pure; knows no methods.

use domain::Error;
use serde::Serialize;
use serde_json::{Map, Value, json};

use surface::{access, status};

/// The five error codes of JSON-RPC.
pub(super) const PARSE_ERROR: i32 = -32700;
pub(super) const INVALID_REQUEST: i32 = -32600;
pub(super) const METHOD_NOT_FOUND: i32 = -32601;
pub(super) const INVALID_PARAMS: i32 = -32602;
pub(super) const INTERNAL_ERROR: i32 = -32603;

/// The id of a request as JSON text: 7, "a" or null.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct RpcId(String);

impl RpcId {
    pub(super) const fn null() -> Self {
        Self(String::new())
    }

    pub(super) fn number(number: u64) -> Self {
        Self(number.to_string())
    }

    /// Accepts what the protocol allows: a string, an integer or null.
    pub(super) fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(Self::null()),
            Value::String(_) => Some(Self(value.to_string())),
            Value::Number(number) if !number.is_f64() => Some(Self(value.to_string())),
            _ => None,
        }
    }

    /// Returns the id under which a message that is refused is answered: fractions too, which the protocol does not allow, so
    /// that whoever sent one hears of it.
    pub(super) fn echo(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) => Some(Self(number.to_string())),
            other => Self::read(other),
        }
    }

    /// Returns the id as a JSON value.
    pub(super) fn to_json(&self) -> Value {
        serde_json::from_str(self.json()).unwrap_or_default()
    }

    fn json(&self) -> &str {
        if self.0.is_empty() { "null" } else { &self.0 }
    }
}

/// One line of the client, parsed as JSON-RPC.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RpcMessage {
    Request {
        id: RpcId,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    Response {
        id: RpcId,
        result: Result<Value, Value>,
    },
    /// An invalid message; `id` as far as it could be parsed.
    Broken {
        id: RpcId,
        fault: RpcError,
    },
}

/// An error in the form the client receives.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RpcError {
    pub(super) code: i32,
    pub(super) message: String,
    pub(super) data: Option<Value>,
}

impl RpcError {
    pub(super) fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(super) fn params(message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }
}

/// Converts an error of the registry to this protocol. Its detail is only for the log and is left out.
impl From<&Error> for RpcError {
    fn from(error: &Error) -> Self {
        Self {
            code: status::row(error.code.kind()).json_rpc,
            message: error.message.clone(),
            data: Some(json!({"code": error.code.to_string(), "retryable": error.code.retryable()})),
        }
    }
}

/// Parses one line.
pub(super) fn read(line: &[u8]) -> RpcMessage {
    let broken = |id, code, message: &str| RpcMessage::Broken { id, fault: RpcError::new(code, message) };
    let value = match access::json::value(line) {
        Ok(value) => value,
        Err(error) if access::json::is_twice(&error) => {
            let message = format!("the message names a member twice (column {})", error.column());
            return broken(RpcId::null(), INVALID_REQUEST, &message);
        }
        // The place tells a client's author more than the text would, and gives nothing away.
        Err(error) => {
            let message = format!("the line is not JSON (column {})", error.column());
            return broken(RpcId::null(), PARSE_ERROR, &message);
        }
    };
    let Value::Object(mut object) = value else {
        let message = "a message is one JSON object on one line; batches are not part of the protocol";
        return broken(RpcId::null(), INVALID_REQUEST, message);
    };
    let id = match object.get("id") {
        None => None,
        Some(value) => match RpcId::read(value) {
            Some(id) => Some(id),
            None => {
                let id = RpcId::echo(value).unwrap_or_else(RpcId::null);
                return broken(id, INVALID_REQUEST, "id must be a string, an integer or null");
            }
        },
    };
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return broken(id.unwrap_or_else(RpcId::null), INVALID_REQUEST, "jsonrpc must be \"2.0\"");
    }
    sort(&mut object, id)
}

/// Classifies an object as a request, a notification, a response, or an invalid message.
fn sort(object: &mut Map<String, Value>, id: Option<RpcId>) -> RpcMessage {
    let broken = |id: Option<RpcId>, message: &str| RpcMessage::Broken {
        id: id.unwrap_or_else(RpcId::null),
        fault: RpcError::new(INVALID_REQUEST, message),
    };
    let method = match object.remove("method") {
        Some(Value::String(method)) => method,
        Some(_) => return broken(id, "method must be a string"),
        None => {
            return match (id, object.remove("result"), object.remove("error")) {
                (Some(id), Some(result), None) => RpcMessage::Response { id, result: Ok(result) },
                (Some(id), None, Some(error)) => RpcMessage::Response { id, result: Err(error) },
                (id, _, _) => broken(id, "a message needs a method, or the result or error of a request"),
            };
        }
    };
    let params = object.remove("params").unwrap_or(Value::Null);
    if !matches!(params, Value::Object(_) | Value::Null) {
        return RpcMessage::Broken {
            id: id.unwrap_or_else(RpcId::null),
            fault: RpcError::params("params must be an object"),
        };
    }
    match id {
        Some(id) => RpcMessage::Request { id, method, params },
        None => RpcMessage::Notification { method, params },
    }
}

/// Appends the result of a request.
pub(super) fn write_result(out: &mut Vec<u8>, id: &RpcId, result: &Value) {
    line(out, format_args!(r#"{{"jsonrpc":"2.0","id":{},"result":"#, id.json()), result);
}

/// Appends the error of a request.
pub(super) fn write_fault(out: &mut Vec<u8>, id: &RpcId, fault: &RpcError) {
    let mut error = json!({"code": fault.code, "message": fault.message});
    if let Some(data) = &fault.data {
        error["data"] = data.clone();
    }
    line(out, format_args!(r#"{{"jsonrpc":"2.0","id":{},"error":"#, id.json()), &error);
}

/// Appends a request from us.
pub(super) fn write_request(out: &mut Vec<u8>, id: &RpcId, method: &str, params: &Value) {
    let head = format_args!(r#"{{"jsonrpc":"2.0","id":{},"method":"{method}","params":"#, id.json());
    line(out, head, params);
}

/// Appends a notification from us. Methods are our own constants and need no escaping.
pub(super) fn write_notification(out: &mut Vec<u8>, method: &str, params: &impl Serialize) {
    line(out, format_args!(r#"{{"jsonrpc":"2.0","method":"{method}","params":"#), params);
}

/// Writes a line: `head` opens the object, `body` is the last member's value.
fn line(out: &mut Vec<u8>, head: std::fmt::Arguments<'_>, body: &impl Serialize) {
    use std::io::Write as _;
    let begin = out.len();
    // Writing to memory cannot fail and our types always serialize. A partial line would break the stream.
    let written = out.write_fmt(head).is_ok() && serde_json::to_writer(&mut *out, body).is_ok();
    if written {
        out.extend_from_slice(b"}\n");
    } else {
        out.truncate(begin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(line: &str) -> (String, i32) {
        match read(line.as_bytes()) {
            RpcMessage::Broken { id, fault } => (id.json().to_owned(), fault.code),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_no_message_has_a_code() {
        assert_eq!(code("{"), ("null".into(), PARSE_ERROR));
        assert_eq!(code("\u{0}"), ("null".into(), PARSE_ERROR));
        assert_eq!(code("[]"), ("null".into(), INVALID_REQUEST));
        assert_eq!(code("7"), ("null".into(), INVALID_REQUEST));
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":3}"#), ("3".into(), INVALID_REQUEST));
        assert_eq!(code(r#"{"jsonrpc":"1.0","id":"x","method":"a"}"#), ("\"x\"".into(), INVALID_REQUEST));
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":{},"method":"a"}"#), ("null".into(), INVALID_REQUEST));
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#), ("1.5".into(), INVALID_REQUEST));
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":true,"method":"a"}"#), ("null".into(), INVALID_REQUEST));
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"method":7}"#), ("1".into(), INVALID_REQUEST));
        assert_eq!(
            code(r#"{"jsonrpc":"2.0","id":1,"method":"a","params":[]}"#),
            ("1".into(), INVALID_PARAMS)
        );
    }

    #[test]
    fn a_line_that_two_readers_could_read_differently_is_refused() {
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"session/list"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"session/list","method":"session/delete"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"sessionId":"sess_a","sessionId":"sess_b"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"outcome":[{"optionId":"a","optionId":"b"}]}}"#,
        ] {
            assert_eq!(code(line), ("null".into(), INVALID_REQUEST), "{line}");
        }
    }

    #[test]
    fn a_broken_line_is_not_repeated() {
        let RpcMessage::Broken { fault, .. } = read(b"{\"secret\": hunter2") else { panic!() };
        assert!(!fault.message.contains("hunter2"), "{}", fault.message);
        assert_eq!(fault.data, None);
    }

    #[test]
    fn requests_notifications_and_responses_are_told_apart() {
        let request = read(br#"{"jsonrpc":"2.0","id":"a\"b","method":"m","params":{"x":1}}"#);
        let RpcMessage::Request { id, .. } = &request else { panic!("{request:?}") };
        let mut out = Vec::new();
        write_result(&mut out, id, &json!({}));
        assert_eq!(out, b"{\"jsonrpc\":\"2.0\",\"id\":\"a\\\"b\",\"result\":{}}\n");
        assert!(matches!(read(br#"{"jsonrpc":"2.0","method":"m"}"#), RpcMessage::Notification { .. }));
        let null = read(br#"{"jsonrpc":"2.0","id":null,"method":"m"}"#);
        assert!(matches!(null, RpcMessage::Request { id, .. } if id == RpcId::null()));
        let answer = read(br#"{"jsonrpc":"2.0","id":4,"result":{}}"#);
        assert_eq!(answer, RpcMessage::Response { id: RpcId::number(4), result: Ok(json!({})) });
    }

    #[test]
    fn a_registered_error_keeps_its_code_and_hides_its_detail() {
        let error =
            Error::new(domain::ErrorCode::SessionNotFound, "there is no session x").with_detail("/db");
        let mut out = Vec::new();
        write_fault(&mut out, &RpcId::number(1), &RpcError::from(&error));
        let line = String::from_utf8(out).unwrap();
        assert!(line.contains(r#""code":-32602"#) && line.contains("OBEY-2010"), "{line}");
        assert!(!line.contains("/db"));
    }
}
