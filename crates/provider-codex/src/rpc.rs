//! JSON-RPC as `codex app-server` speaks it: one object per line, without the `jsonrpc` key. The purpose of a request is part of its id, so that its answer needs no
//! stored state.

use provider_common::json_rpc::{self, RpcMessage};
use serde_json::{Value, json};

/// The error code for an unsupported method.
const METHOD_NOT_FOUND: i32 = -32601;

/// One line of the agent; a refusal is its message.
pub(super) type CodexMessage = RpcMessage<String>;

/// Parses a line; `None` if it is not JSON-RPC.
pub(super) fn read(line: &[u8]) -> Option<CodexMessage> {
    json_rpc::read(line, |error| error["message"].as_str().unwrap_or("it gave no reason").to_owned())
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
    /// The conversation that the session was created with.
    History,
    /// System messages before a prompt.
    Context,
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
    const ALL: [(CodexRequestKind, &'static str, &'static str); 17] = [
        (Self::Initialize, "initialize", "initialize"),
        (Self::Account, "account", "account/read"),
        (Self::Models, "models", "model/list"),
        (Self::Config, "config", "config/read"),
        (Self::Start, "start", "thread/start"),
        (Self::Resume, "resume", "thread/resume"),
        (Self::History, "history", "thread/inject_items"),
        (Self::Context, "context", "thread/inject_items"),
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
    json_rpc::write(&json!({"id": id, "method": method, "params": params}), wire);
    id
}

/// Sends a notification to the agent.
pub(super) fn notify(method: &str, wire: &mut Vec<u8>) {
    json_rpc::write(&json!({"method": method}), wire);
}

/// Answers a request of the agent.
pub(super) fn reply(id: &Value, result: Value, wire: &mut Vec<u8>) {
    json_rpc::write(&answer(id, result), wire);
}

/// Returns the answer to a request of the agent.
pub(super) fn answer(id: &Value, result: Value) -> Value {
    json!({"id": id, "result": result})
}

/// Refuses a request of the agent.
pub(super) fn refuse(id: &Value, message: &str, wire: &mut Vec<u8>) {
    json_rpc::write(&json!({"id": id, "error": {"code": METHOD_NOT_FOUND, "message": message}}), wire);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_its_message() {
        let read = |line: Value| read(line.to_string().as_bytes());
        let refused = |why: &str| CodexMessage::Answer { id: json!("x"), result: Err(why.to_owned()) };
        assert_eq!(read(json!({"id": "x", "error": {"code": 1, "message": "no"}})), Some(refused("no")));
        assert_eq!(read(json!({"id": "x", "error": {}})), Some(refused("it gave no reason")));
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
