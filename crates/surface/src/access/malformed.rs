//! What a gRPC client receives for messages that cannot be read: INVALID_ARGUMENT for bytes that are not the
//! message a method takes, RESOURCE_EXHAUSTED for a message that is too large. The library answers with
//! INTERNAL and OUT_OF_RANGE, which clients take for a fault of ours; its answers are recognized by their
//! text.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use axum::response::Response;
use bytes::Bytes;
use domain::{Error, ErrorCode};
use http::HeaderMap;
use hyper::body::Frame;
use tonic::{Code, Status};

use crate::status;

/// How the library's messages begin for a message that is too large, or unreadable.
const TOO_LARGE: &str = "Error, decoded message length too large";
const UNREADABLE: [&str; 4] = [
    "failed to decode Protobuf message",
    "protocol error: received message with invalid compression flag",
    "Unexpected EOF decoding stream.",
    "Missing request message.",
];

/// Returns the status for a message that is larger than the limit.
pub(super) fn too_large() -> Status {
    let message = "the message is larger than this method reads; send less at once";
    status::grpc(&Error::new(ErrorCode::LimitReached, message))
}

/// Replaces the library's status with the right one. For a stream it may be in the trailers.
pub(super) fn named(response: Response, client_streams: bool) -> Response {
    if let Some(status) = better(response.headers()) {
        return status.into_http();
    }
    if !client_streams {
        return response;
    }
    response.map(|body| Body::new(Trailing { body }))
}

/// Returns the replacement for a status of the library, if it is one of those above.
fn better(headers: &HeaderMap) -> Option<Status> {
    // This check alone decides for nearly every answer.
    if !matches!(headers.get(Status::GRPC_STATUS)?.as_bytes(), b"11" | b"13") {
        return None;
    }
    let said = Status::from_header_map(headers)?;
    match said.code() {
        Code::OutOfRange if said.message().starts_with(TOO_LARGE) => Some(too_large()),
        Code::Internal if UNREADABLE.iter().any(|words| said.message().starts_with(words)) => {
            let message = format!("message: is not what this method takes: {}", said.message());
            Some(status::grpc(&Error::new(ErrorCode::InvalidArgument, message)))
        }
        _ => None,
    }
}

/// A body whose trailers are corrected as they pass.
struct Trailing {
    body: Body,
}

impl HttpBody for Trailing {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        Poll::Ready(frame.map(|frame| frame.map(corrected)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

fn corrected(frame: Frame<Bytes>) -> Frame<Bytes> {
    let Some(status) = frame.trailers_ref().and_then(better) else { return frame };
    let mut trailers = HeaderMap::new();
    match status.add_header(&mut trailers) {
        Ok(()) => Frame::trailers(trailers),
        Err(_) => frame,
    }
}
