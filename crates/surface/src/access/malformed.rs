//! What a gRPC client hears of messages that cannot be read: INVALID_ARGUMENT for bytes that are not the message a method
//! takes, RESOURCE_EXHAUSTED for one that is too large. The library answers with INTERNAL and OUT_OF_RANGE, which
//! clients take for a fault of ours; its answers are known by their words.

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

const TOO_LARGE: &str = "Error, decoded message length too large";
const UNREADABLE: [&str; 4] = [
    "failed to decode Protobuf message",
    "protocol error: received message with invalid compression flag",
    "Unexpected EOF decoding stream.",
    "Missing request message.",
];

/// Says that a message is larger than what is read.
pub(super) fn too_large() -> Status {
    let message = "the message is larger than this method reads; send less at once";
    status::grpc(&Error::new(ErrorCode::LimitReached, message))
}

/// Puts the right words in the place of the library's. Those of a stream may come at its end.
pub(super) fn named(response: Response, client_streams: bool) -> Response {
    if let Some(status) = better(response.headers()) {
        return status.into_http();
    }
    if !client_streams {
        return response;
    }
    response.map(|body| Body::new(Trailing { body }))
}

/// Returns what to say in the place of a status of the library's, if it is one.
fn better(headers: &HeaderMap) -> Option<Status> {
    // Nearly every answer is told by this one look.
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
