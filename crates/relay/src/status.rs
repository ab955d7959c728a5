//! Our errors as gRPC statuses and HTTP answers, in the words of the daemon's own.

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use domain::{Error, ErrorCode, ErrorKind};
use http::{HeaderMap, StatusCode, header};
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

/// The metadata key of the OBEY code.
const CODE_KEY: &str = "obey-code";

fn codes(kind: ErrorKind) -> (Code, u16) {
    match kind {
        ErrorKind::NotFound => (Code::NotFound, 404),
        ErrorKind::Invalid => (Code::InvalidArgument, 400),
        ErrorKind::State => (Code::FailedPrecondition, 409),
        ErrorKind::Exhausted => (Code::ResourceExhausted, 429),
        ErrorKind::Deadline => (Code::DeadlineExceeded, 504),
        ErrorKind::Unavailable => (Code::Unavailable, 503),
        ErrorKind::Denied => (Code::PermissionDenied, 403),
        ErrorKind::Unauthenticated => (Code::Unauthenticated, 401),
        ErrorKind::Internal => (Code::Internal, 500),
    }
}

/// Returns the gRPC status of an error.
pub(crate) fn grpc(error: &Error) -> Status {
    if let Some(detail) = &error.detail {
        tracing::warn!(code = %error.code, message = error.message, detail, "answering with an error");
    }
    let mut status = Status::new(codes(error.code.kind()).0, error.to_string());
    if let Ok(value) = MetadataValue::try_from(error.code.to_string()) {
        status.metadata_mut().insert(CODE_KEY, value);
    }
    status
}

/// Says that nobody was proved to have called.
pub(crate) fn unauthenticated() -> Status {
    Status::unauthenticated(
        "OBEY-1053: this relay needs `authorization: Bearer TOKEN` of a user (obey relay users) or of a paired device",
    )
}

/// Whether a request speaks gRPC.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// Answers in the protocol of the request.
pub(crate) fn answer(status: &Status, is_grpc: bool) -> Response {
    if is_grpc {
        return status.clone().into_http::<Body>();
    }
    let code = match status.code() {
        Code::NotFound => 404,
        Code::InvalidArgument => 400,
        Code::FailedPrecondition => 409,
        Code::ResourceExhausted => 429,
        Code::DeadlineExceeded => 504,
        Code::PermissionDenied => 403,
        Code::Unauthenticated => 401,
        Code::Unimplemented => 501,
        Code::Internal => 500,
        _ => 503,
    };
    let obey = status.metadata().get(CODE_KEY).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let body = serde_json::json!({ "error": status.message(), "code": obey, "status": code });
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    (code, axum::Json(body)).into_response()
}

/// Says that a machine is not here, or not for this caller: one answer for both.
pub(crate) fn no_machine() -> Error {
    Error::new(
        ErrorCode::MachineNotFound,
        "there is no such machine; obey machine list names those there are",
    )
}
