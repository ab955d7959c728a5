//! Maps our errors to each protocol: one table, applied once, at the very end.

use std::collections::HashMap;

use domain::{Error, ErrorCode, ErrorKind};
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// The metadata key of the OBEY code.
pub const CODE_KEY: &str = "obey-code";

/// The reason domain of `google.rpc.ErrorInfo`.
const DOMAIN: &str = "obey.local";

/// The codes of one kind of error.
pub struct StatusRow {
    pub grpc: Code,
    pub http: u16,
    pub json_rpc: i32,
}

/// Returns the row of a kind.
pub fn row(kind: ErrorKind) -> StatusRow {
    let (grpc, http, json_rpc) = match kind {
        ErrorKind::NotFound => (Code::NotFound, 404, -32602),
        ErrorKind::Invalid => (Code::InvalidArgument, 400, -32602),
        ErrorKind::State => (Code::FailedPrecondition, 409, -32600),
        ErrorKind::Exhausted => (Code::ResourceExhausted, 429, -32603),
        ErrorKind::Deadline => (Code::DeadlineExceeded, 504, -32603),
        ErrorKind::Unavailable => (Code::Unavailable, 503, -32603),
        ErrorKind::Denied => (Code::PermissionDenied, 403, -32600),
        ErrorKind::Unauthenticated => (Code::Unauthenticated, 401, -32600),
        ErrorKind::Internal => (Code::Internal, 500, -32603),
    };
    StatusRow { grpc, http, json_rpc }
}

/// Returns the gRPC status of an error: with the code in the message, in metadata and as `ErrorInfo`.
pub fn grpc(error: &Error) -> Status {
    if let Some(detail) = &error.detail {
        tracing::warn!(code = %error.code, message = error.message, detail, "answering with an error");
    }
    let code = error.code.to_string();
    let metadata = HashMap::from([
        ("title".to_owned(), error.code.title().to_owned()),
        ("retryable".to_owned(), error.code.retryable().to_string()),
    ]);
    let mut details = ErrorDetails::new();
    details.set_error_info(code.clone(), DOMAIN, metadata);
    if error.code == ErrorCode::InvalidArgument
        && let Some((field, description)) = error.message.split_once(": ")
    {
        details.add_bad_request_violation(field, description);
    }
    let mut status = Status::with_error_details(row(error.code.kind()).grpc, error.to_string(), details);
    if let Ok(value) = MetadataValue::try_from(code.as_str()) {
        status.metadata_mut().insert(CODE_KEY, value);
    }
    status
}

/// Returns the HTTP response of an error: the status of the table, and a body with code, status and message.
pub fn rest(error: &Error) -> axum::response::Response {
    if let Some(detail) = &error.detail {
        tracing::warn!(code = %error.code, message = error.message, detail, "answering with an error");
    }
    let code = row(error.code.kind()).http;
    rest_as(error, http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR))
}

/// Returns the HTTP response of an error with another status, for statuses that HTTP has and our table has
/// not.
pub fn rest_as(error: &Error, code: http::StatusCode) -> axum::response::Response {
    use axum::response::IntoResponse as _;
    let body = serde_json::json!({
        "error": error.message,
        "code": error.code.to_string(),
        "status": code.as_u16(),
        "retryable": error.code.retryable(),
    });
    let mut response = (code, axum::Json(body)).into_response();
    response.extensions_mut().insert(Answered(error.code));
    response
}

/// The error of a REST response; an extension of the response.
#[derive(Clone, Copy)]
struct Answered(ErrorCode);

/// Returns the error that a response tells in its head; none where it tells none, or only later.
pub fn code_of(response: &axum::response::Response) -> Option<ErrorCode> {
    if let Some(Answered(code)) = response.extensions().get() {
        return Some(*code);
    }
    let text = response.headers().get(CODE_KEY)?.to_str().ok()?;
    ErrorCode::parse(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_the_specification_fixes_have_their_status() {
        let expected = [
            (ErrorCode::CampaignNotFound, Code::NotFound),
            (ErrorCode::SessionNotFound, Code::NotFound),
            (ErrorCode::WrongState, Code::FailedPrecondition),
            (ErrorCode::AlreadyStopped, Code::FailedPrecondition),
            (ErrorCode::ProviderUnsupported, Code::InvalidArgument),
            (ErrorCode::ModelUnsupported, Code::InvalidArgument),
            (ErrorCode::BudgetExceeded, Code::ResourceExhausted),
            (ErrorCode::SessionTimeout, Code::DeadlineExceeded),
            (ErrorCode::StopTimedOut, Code::DeadlineExceeded),
        ];
        for (code, grpc) in expected {
            assert_eq!(row(code.kind()).grpc, grpc, "{code}");
        }
    }

    #[test]
    fn a_status_carries_the_code_three_times() {
        let status = grpc(&Error::new(ErrorCode::SessionNotFound, "there is no session x"));
        assert!(status.message().starts_with("OBEY-2010: "));
        assert_eq!(status.metadata().get(CODE_KEY).unwrap(), "OBEY-2010");
        assert_eq!(status.get_details_error_info().unwrap().reason, "OBEY-2010");
    }
}
