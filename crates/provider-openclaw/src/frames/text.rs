//! Converts the gateway's terms to a session's: names of tools, titles, tokens, reasons. Pure.

use domain::Usage;
use serde_json::{Value, json};

use crate::limits::{MESSAGE_MAX_CHARS, TITLE_MAX_CHARS};
use provider_common::json_fields::Look;
use provider_common::text::{cut, one_line};

/// Returns our greeting, the answer to a gateway's challenge.
pub(crate) fn hello(token: &str) -> Value {
    json!({
        "minProtocol": 3,
        "maxProtocol": super::PROTOCOL,
        // The only client that needs no paired device on loopback.
        "client": {"id": "gateway-client", "version": env!("CARGO_PKG_VERSION"), "platform": "linux", "mode": "backend"},
        "role": "operator",
        "scopes": ["operator.read", "operator.write", "operator.approvals", "operator.admin"],
        "caps": ["tool-events", "exec-approvals", "approvals"],
        "auth": {"token": token},
        "userAgent": concat!("obey/", env!("CARGO_PKG_VERSION")),
    })
}

/// Returns the session's name of a tool.
pub(super) fn tool_name(name: &str) -> String {
    match name {
        "exec" | "bash" | "process" => "Bash",
        "read" => "Read",
        "write" => "Write",
        "edit" | "apply_patch" => "Edit",
        "" => "Tool",
        other => other,
    }
    .to_owned()
}

pub(super) fn title(name: &str, input: &Value) -> String {
    let about = ["command", "path", "query", "url"].map(|key| input.text(key));
    let about = about.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
    one_line(&format!("{}: {about}", tool_name(name)), TITLE_MAX_CHARS)
}

/// Returns the usage of a model's message. The stream of that name has only the output.
pub(super) fn usage(message: &Value) -> Usage {
    let said = message.under("usage");
    let cost = said.under("cost").under("total").as_f64().filter(|total| (0.0..1e6).contains(total));
    Usage {
        input_tokens: said.count("input").unwrap_or(0),
        output_tokens: said.count("output").unwrap_or(0),
        cache_read_tokens: said.count("cacheRead").unwrap_or(0),
        cache_write_tokens: said.count("cacheWrite").unwrap_or(0),
        cost_micro_usd: cost.map_or(0, |total| (total * 1e6) as u64),
        ..Usage::default()
    }
}

/// Returns the message of an error, or its code.
pub(crate) fn reason(error: &Value) -> String {
    match (error.text("message"), error.text("code")) {
        ("", "") => "it gave no reason".to_owned(),
        ("", code) => code.to_owned(),
        (message, _) => cut(message, MESSAGE_MAX_CHARS),
    }
}
