//! JSON-RPC 2.0 as ACP agents speak it: one object per line. The purpose of a request is part of its id, so that its answer needs no stored state.

use agent_client_protocol_schema::v1;
use provider_common::json_rpc::{self, RpcMessage};
use serde::Serialize;
use serde_json::{Value, json};

use provider_common::json_fields::Look;

/// One line of the agent.
pub(super) type AcpMessage = RpcMessage<RpcError>;

/// Why an agent refused.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RpcError {
    pub(super) code: v1::ErrorCode,
    pub(super) message: String,
    /// The model has refused for now because too much was asked of it.
    pub(super) is_rate_limited: bool,
}

/// The status with which models over HTTP refuse for now. The protocol has no word for it; agents pass it on.
const TOO_MANY_REQUESTS: u64 = 429;

/// Parses a line; `None` if it is not JSON-RPC.
pub(super) fn read(line: &[u8]) -> Option<AcpMessage> {
    json_rpc::read(line, refusal)
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
    // Gemini CLI has the status as its code, others in their data.
    let statuses = ["code", "status", "statusCode", "httpStatus", "httpStatusCode"];
    let is_rate_limited = error.count("code") == Some(TOO_MANY_REQUESTS)
        || statuses.iter().any(|key| data.count(key) == Some(TOO_MANY_REQUESTS));
    RpcError {
        code: code.map_or(v1::ErrorCode::InternalError, v1::ErrorCode::from),
        message,
        is_rate_limited,
    }
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
    json_rpc::write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}), wire);
}

/// Sends a notification to the agent.
pub(super) fn notify(method: &str, params: impl Serialize, wire: &mut Vec<u8>) {
    json_rpc::write(&json!({"jsonrpc": "2.0", "method": method, "params": params}), wire);
}

/// Answers a request of the agent.
pub(super) fn reply(id: &Value, result: impl Serialize, wire: &mut Vec<u8>) {
    json_rpc::write(&json!({"jsonrpc": "2.0", "id": id, "result": result}), wire);
}

/// Refuses a request of the agent.
pub(super) fn refuse(id: &Value, code: v1::ErrorCode, message: &str, wire: &mut Vec<u8>) {
    let error = v1::Error::new(code.into(), message);
    json_rpc::write(&json!({"jsonrpc": "2.0", "id": id, "error": error}), wire);
}

#[cfg(test)]
mod tests {
    use super::*;

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
