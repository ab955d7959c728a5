//! The pieces of a model's reply, in types both APIs share, and why a request failed. Pure.

use domain::turn::EndReason;
use domain::{ErrorCode, Usage};
use serde_json::{Value, json};

use super::history::HistoryCall;
use crate::limits::MESSAGE_MAX_CHARS;
use provider_common::json_fields::Look;
use provider_common::secrets::Secrets;
use provider_common::text::cut;

/// A piece of a reply.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ReplyPiece {
    Text(String),
    Thinking(String),
    Call(HistoryCall),
    /// To be sent back unchanged during the turn.
    Reasoning(Value),
    Used(ReplyUsage),
    Ended(ReplyEnd),
    Failed(ReplyFailure),
}

/// Tokens of one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ReplyUsage {
    pub(super) usage: Usage,
    /// Tokens of the context window in use now.
    pub(super) context_tokens: u64,
}

impl ReplyUsage {
    /// Converts the APIs' counts, in which input includes what was read from a cache.
    pub(super) fn new(input: u64, cached: u64, output: u64) -> Self {
        let usage = Usage {
            input_tokens: input.saturating_sub(cached),
            output_tokens: output,
            cache_read_tokens: cached,
            ..Usage::default()
        };
        Self { usage, context_tokens: input.saturating_add(output) }
    }
}

/// How a reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyEnd {
    Whole,
    /// It reached a length limit.
    Cut,
    Refused,
}

impl ReplyEnd {
    /// Returns how the turn ends with it.
    pub(super) fn reason(self) -> EndReason {
        match self {
            Self::Whole => EndReason::Completed,
            Self::Cut => EndReason::LimitReached,
            Self::Refused => EndReason::Refused,
        }
    }
}

/// Why there is no reply, or only part of one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReplyFailure {
    pub(super) message: String,
    pub(super) kind: FailureKind,
    /// How long the endpoint asks to wait before a retry.
    pub(super) retry_after: Option<std::time::Duration>,
    /// It asked for too much in too short a time.
    pub(super) is_rate_limited: bool,
}

/// How endpoints report a request that does not fit into the window, in lower case: OpenAI's codes, the type
/// that llama.cpp uses, and the texts of vLLM and others.
const TOO_LONG: [&str; 8] = [
    "context_length_exceeded",
    "string_above_max_length",
    "exceed_context_size",
    "maximum context length",
    "context length",
    "context size",
    "context window",
    "prompt is too long",
];

fn says_too_long(text: &str) -> bool {
    let text = text.to_lowercase();
    TOO_LONG.iter().any(|word| text.contains(word))
}

/// What to do about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// Temporary.
    Passing,
    /// The endpoint cannot be reached.
    Unreachable,
    /// The key is missing or wrong.
    Key,
    /// The endpoint has no such model.
    Model,
    /// The conversation does not fit into the model's window.
    TooLong,
    /// The endpoint has no such call.
    NotFound,
    /// Permanent.
    Lasting,
}

impl ReplyFailure {
    pub(super) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { message: message.into(), kind, retry_after: None, is_rate_limited: false }
    }

    /// Returns it in a form that may be shown: without secrets, and of limited length. In this order: half a
    /// key is still a secret.
    pub(super) fn told(self, secrets: &Secrets) -> Self {
        Self { message: cut(&secrets.hide(&self.message), MESSAGE_MAX_CHARS), ..self }
    }

    /// Returns whether a retry may help.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self.kind, FailureKind::Passing | FailureKind::Unreachable)
    }

    /// Returns why the model keeps a turn waiting.
    pub(super) fn wait_code(&self) -> ErrorCode {
        if self.is_rate_limited { ErrorCode::RateLimited } else { ErrorCode::ConnectionLost }
    }

    /// Returns the error code of a session for which this happens at its start.
    pub(super) fn code(&self) -> ErrorCode {
        match self.kind {
            FailureKind::Model => ErrorCode::ModelUnsupported,
            _ => ErrorCode::ProviderNotReady,
        }
    }

    /// Parses an error object inside a stream or an answer.
    pub(super) fn of_error(error: &Value) -> Self {
        let code = [error.text("code"), error.text("type")];
        let has = |words: &[&str]| code.iter().any(|code| words.contains(code));
        let kind = if has(&["model_not_found"]) {
            FailureKind::Model
        } else if has(&["invalid_api_key", "authentication_error"]) {
            FailureKind::Key
        } else if has(&["server_error", "rate_limit_exceeded", "overloaded_error", "timeout", "slow_down"]) {
            FailureKind::Passing
        } else if code.into_iter().chain([error.text("message")]).chain(error.as_str()).any(says_too_long) {
            FailureKind::TooLong
        } else {
            FailureKind::Lasting
        };
        let message = match (error.text("message"), error.as_str()) {
            ("", Some(text)) => text.to_owned(),
            ("", None) if code[0].is_empty() => "the endpoint gave no reason".to_owned(),
            ("", None) => code[0].to_owned(),
            (message, _) => message.to_owned(),
        };
        let is_rate_limited = has(&["rate_limit_exceeded", "slow_down"]);
        Self { is_rate_limited, ..Self::new(kind, message) }
    }

    /// Parses an error response.
    pub(super) fn of_answer(status: u16, body: &str) -> Self {
        let value: Value = serde_json::from_str(body).unwrap_or_default();
        let said = match value.under("error") {
            // Some endpoints put it at the top level.
            Value::Null => Self::of_error(&json!({
                "message": one_reason(&value, body), "code": value.text("code"), "type": value.text("type"),
            })),
            error => Self::of_error(error),
        };
        let kind = match (status, said.kind) {
            (429, FailureKind::TooLong) => FailureKind::Passing,
            (_, kind @ (FailureKind::TooLong | FailureKind::Model)) => kind,
            (413, _) => FailureKind::TooLong,
            (401 | 403, _) => FailureKind::Key,
            (404, _) if said.message.contains("model") => FailureKind::Model,
            (404 | 405 | 501, _) => FailureKind::NotFound,
            (status, _) if super::retry::is_passing(status) => FailureKind::Passing,
            (_, FailureKind::Passing) => FailureKind::Lasting,
            (_, kind) => kind,
        };
        let message = format!("{} (HTTP {status})", said.message.trim_end_matches('.'));
        // Money that is spent does not come back with time.
        let is_unpaid = body.contains("insufficient_quota");
        let is_rate_limited = (said.is_rate_limited || status == 429) && !is_unpaid;
        Self { is_rate_limited, ..Self::new(kind, message) }
    }
}

fn one_reason(value: &Value, body: &str) -> String {
    match ["message", "detail"].map(|key| value.text(key)).into_iter().find(|text| !text.is_empty()) {
        Some(text) => text.to_owned(),
        None if body.trim().is_empty() => "the endpoint gave no reason".to_owned(),
        None => provider_common::text::one_line(body, 200),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_apart() {
        let of = |status, body: &str| {
            let failure = ReplyFailure::of_answer(status, body);
            (failure.kind, failure.message)
        };
        let error = |code: &str| format!(r#"{{"error":{{"message":"No.","code":"{code}"}}}}"#);
        assert_eq!(
            of(429, &error("rate_limit_exceeded")),
            (FailureKind::Passing, "No (HTTP 429)".to_owned())
        );
        let is_limited = |code: &str| ReplyFailure::of_answer(429, &error(code)).is_rate_limited;
        assert!(is_limited("rate_limit_exceeded") && is_limited("") && !is_limited("insufficient_quota"));
        assert_eq!(of(401, &error("invalid_api_key")).0, FailureKind::Key);
        assert_eq!(of(400, &error("context_length_exceeded")).0, FailureKind::TooLong);
        for too_long in [
            r#"{"error":{"message":"Input tokens exceed the configured limit.","code":"context_length_exceeded"}}"#,
            r#"{"error":{"message":"This model's Maximum Context Length is 4096 tokens.","code":400}}"#,
            r#"{"object":"error","message":"This model's maximum context length is 4096.","code":400}"#,
            r#"{"error":{"code":400,"message":"too large","type":"exceed_context_size_error"}}"#,
            r#"{"error":{"message":"Your input exceeds the context window of this model"}}"#,
            r#"{"error":"Prompt is too long"}"#,
            r#"{"detail":"prompt is too long: 9000 tokens"}"#,
        ] {
            assert_eq!(of(400, too_long).0, FailureKind::TooLong, "{too_long}");
        }
        assert_eq!(of(413, "").0, FailureKind::TooLong);
        assert_eq!(of(429, &error("context window")).0, FailureKind::Passing);
        assert_eq!(of(404, &error("model_not_found")).0, FailureKind::Model);
        assert_eq!(of(404, "").0, FailureKind::NotFound);
        assert_eq!(of(400, &error("server_error")).0, FailureKind::Lasting);
        assert_eq!(
            of(502, "<html>bad gateway</html>"),
            (FailureKind::Passing, "<html>bad gateway</html> (HTTP 502)".to_owned())
        );
        assert_eq!(of(422, r#"{"detail":"field missing"}"#).1, "field missing (HTTP 422)");
        assert_eq!(of(500, "").1, "the endpoint gave no reason (HTTP 500)");
    }

    #[test]
    fn a_failure_is_told_without_the_key() {
        let secrets = Secrets::new(["sk-key".to_owned()]);
        let told = |message: &str| ReplyFailure::new(FailureKind::Key, message).told(&secrets).message;
        assert_eq!(told("Invalid key sk-key!"), "Invalid key ***!");
        let long = format!("{}sk-key", "x".repeat(MESSAGE_MAX_CHARS - 3));
        assert!(!told(&long).contains("sk") && told(&long).chars().count() <= MESSAGE_MAX_CHARS + 1);
    }

    #[test]
    fn what_came_from_a_cache_is_not_input() {
        let used = ReplyUsage::new(1000, 400, 20);
        assert_eq!((used.usage.input_tokens, used.usage.cache_read_tokens), (600, 400));
        assert_eq!(used.context_tokens, 1020);
    }
}
