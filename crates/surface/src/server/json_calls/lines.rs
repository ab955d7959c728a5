//! The body of a gRPC stream as lines of JSON. Holds one message at most. An error that ends the stream is its last line:
//! `{"error": …, "code": …}`.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use bytes::BytesMut;
use domain::{Error, ErrorCode};
use hyper::body::Frame;
use prost_reflect::MessageDescriptor;
use serde_json::json;
use tonic::{Code, Status};

use super::{PREFIX_BYTES, decoded, error_of, written};
use crate::limits;

/// A body whose messages become lines.
pub(super) struct JsonLines {
    body: Body,
    output: MessageDescriptor,
    pending: BytesMut,
    has_ended: bool,
}

impl JsonLines {
    pub(super) fn new(body: Body, output: MessageDescriptor) -> Self {
        Self { body, output, pending: BytesMut::new(), has_ended: false }
    }

    /// Returns the line of the next complete message, if there is one.
    fn next_line(&mut self) -> Option<Result<Bytes, Error>> {
        let header = self.pending.get(..PREFIX_BYTES)?;
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
        if length > limits::JSON_ANSWER_MAX_BYTES {
            let message = "a message of the stream is too large for JSON; call it with gRPC";
            return Some(Err(Error::new(ErrorCode::LimitReached, message)));
        }
        if self.pending.len() < PREFIX_BYTES + length {
            return None;
        }
        let frame = self.pending.split_to(PREFIX_BYTES + length);
        Some(
            decoded(&self.output, &frame)
                .and_then(|message| written(&message))
                .map(|value| format!("{value}\n").into()),
        )
    }

    fn end(&mut self, error: &Error) -> Bytes {
        self.has_ended = true;
        format!("{}\n", json!({ "error": error.message, "code": error.code.to_string() })).into()
    }
}

impl HttpBody for JsonLines {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        loop {
            if this.has_ended {
                return Poll::Ready(None);
            }
            match this.next_line() {
                Some(Ok(line)) => return Poll::Ready(Some(Ok(Frame::data(line)))),
                Some(Err(error)) => return Poll::Ready(Some(Ok(Frame::data(this.end(&error))))),
                None => {}
            }
            let Some(frame) = ready!(Pin::new(&mut this.body).poll_frame(context)) else {
                this.has_ended = true;
                continue;
            };
            let frame = frame?;
            let failed = frame.trailers_ref().and_then(Status::from_header_map);
            if let Some(failed) = failed.filter(|status| status.code() != Code::Ok) {
                let (error, _) = error_of(&failed);
                return Poll::Ready(Some(Ok(Frame::data(this.end(&error)))));
            }
            if let Some(data) = frame.data_ref() {
                this.pending.extend_from_slice(data);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message as _;
    use wire::obey::v1 as pb;

    #[tokio::test]
    async fn every_message_is_a_line_however_the_stream_is_cut() {
        let mut bytes = Vec::new();
        for seq in 1..=3_u64 {
            let message =
                pb::Event { seq, r#type: "text_delta".to_owned(), ..Default::default() }.encode_to_vec();
            bytes.push(0);
            bytes.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
            bytes.extend_from_slice(&message);
        }
        let output = super::super::descriptors().get_message_by_name("obey.v1.Event").unwrap();
        for size in [1, 7, bytes.len()] {
            let pieces: Vec<Result<Bytes, axum::Error>> =
                bytes.chunks(size).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
            let body = Body::from_stream(tokio_stream::iter(pieces));
            let text =
                axum::body::to_bytes(Body::new(JsonLines::new(body, output.clone())), 10_000).await.unwrap();
            let text = String::from_utf8(text.to_vec()).unwrap();
            let seqs: Vec<u64> = text
                .lines()
                .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["seq"].as_u64().unwrap())
                .collect();
            assert_eq!(seqs, [1, 2, 3], "{text}");
        }
    }
}
