//! JSON-RPC lines as agents speak it: one object per line. Reads and writes them without interpreting them.

use serde_json::Value;

/// One line of an agent. `E` is what the provider reads from a refusal.
#[derive(Debug, PartialEq)]
pub enum RpcMessage<E> {
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
        result: Result<Value, E>,
    },
}

/// Parses a line; `None` if it is not JSON-RPC. A key that is null counts as absent, except for a result.
pub fn read<E>(line: &[u8], refusal: impl FnOnce(&Value) -> E) -> Option<RpcMessage<E>> {
    let Value::Object(mut object) = serde_json::from_slice(line).ok()? else { return None };
    let mut take = |key: &str| object.remove(key).filter(|value| !value.is_null());
    let method = match take("method") {
        Some(Value::String(method)) => Some(method),
        Some(_) => return None,
        None => None,
    };
    match (method, take("id")) {
        (Some(method), Some(id)) => {
            Some(RpcMessage::Request { id, method, params: take("params").unwrap_or_default() })
        }
        (Some(method), None) => {
            Some(RpcMessage::Notification { method, params: take("params").unwrap_or_default() })
        }
        (None, Some(id)) => {
            let result = match take("error") {
                Some(error) => Err(refusal(&error)),
                // A null result is an answer too.
                None => Ok(take("result").unwrap_or_default()),
            };
            Some(RpcMessage::Answer { id, result })
        }
        (None, None) => None,
    }
}

/// Writes one line. Two separators that JSON allows within a text end a line for some readers.
pub fn write(value: &Value, wire: &mut Vec<u8>) {
    let text = value.to_string().replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
    wire.extend_from_slice(text.as_bytes());
    wire.push(b'\n');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_line_is_told_apart() {
        let params = json!({"a": 1});
        let expect = |line: Value, message: RpcMessage<Value>| {
            assert_eq!(read(line.to_string().as_bytes(), Value::clone), Some(message));
        };
        let method = "m".to_owned();
        let notified = || RpcMessage::Notification { method: method.clone(), params: params.clone() };
        expect(json!({"method": "m", "params": params, "emittedAtMs": 1}), notified());
        expect(json!({"method": "m", "id": null, "params": params}), notified());
        expect(
            json!({"id": 0, "method": "m", "params": params}),
            RpcMessage::Request { id: json!(0), method: method.clone(), params: params.clone() },
        );
        expect(
            json!({"id": "x", "result": null, "error": null}),
            RpcMessage::Answer { id: json!("x"), result: Ok(Value::Null) },
        );
        expect(
            json!({"id": "x", "error": "no"}),
            RpcMessage::Answer { id: json!("x"), result: Err(json!("no")) },
        );
        for garbage in ["", "x", "[]", "{}", "1", r#"{"method":1}"#, r#"{"id":"#] {
            assert_eq!(read(garbage.as_bytes(), Value::clone), None, "{garbage}");
        }
    }

    #[test]
    fn a_line_stays_one_line() {
        let mut wire = Vec::new();
        write(&json!("a\u{2028}b\nc"), &mut wire);
        assert_eq!(wire, b"\"a\\u2028b\\nc\"\n");
    }
}
