//! Checks the messages of an agent's gRPC call before the service sees them. A message that names another
//! session than the agent's own ends the call. Holds one message at most. Parses protobuf only as far as the
//! field that names the session.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use bytes::{Buf as _, Bytes, BytesMut};
use domain::{Error, SessionId};
use hyper::body::{Frame, SizeHint};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use tonic::Status;
use wire::access::Row;

use crate::{limits, status};

/// The length of a message's prefix: a compression flag and the message length.
pub(super) const HEADER_BYTES: usize = 5;

/// A body whose messages must all name one session.
pub(super) struct OfSession {
    body: Body,
    row: &'static Row,
    path: &'static [u32],
    own: SessionId,
    /// The received part of a message that is not complete yet.
    pending: BytesMut,
    failed: bool,
}

impl OfSession {
    pub(super) fn new(body: Body, row: &'static Row, path: &'static [u32], own: SessionId) -> Self {
        Self { body, row, path, own, pending: BytesMut::new(), failed: false }
    }

    /// Splits the complete, checked messages off the received bytes. An error ends the call.
    fn complete(&mut self) -> Result<Bytes, Status> {
        let mut checked = 0;
        while let Some(header) = self.pending.get(checked..checked + HEADER_BYTES) {
            if header[0] != 0 {
                return Err(Status::unimplemented("compressed messages are not served"));
            }
            let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
            if length > limits::MESSAGE_MAX_BYTES {
                return Err(super::malformed::too_large());
            }
            let begin = checked + HEADER_BYTES;
            let Some(message) = self.pending.get(begin..begin + length) else { break };
            let named = text_at(message, self.path).map_err(|error| status::grpc(&error))?;
            if named.as_deref().unwrap_or_default() != self.own.as_str() {
                return Err(status::grpc(&super::other_session(self.row, &self.own)));
            }
            checked = begin + length;
        }
        Ok(self.pending.split_to(checked).freeze())
    }
}

impl HttpBody for OfSession {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        loop {
            if this.failed {
                return Poll::Ready(None);
            }
            let frame = match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                None => {
                    this.failed = true;
                    // An incomplete message: the service reports what is wrong with it.
                    let rest = std::mem::take(&mut this.pending);
                    return Poll::Ready((!rest.is_empty()).then(|| Ok(Frame::data(rest.freeze()))));
                }
                Some(Err(error)) => {
                    this.failed = true;
                    return Poll::Ready(Some(Err(Status::from_error(error.into()))));
                }
                Some(Ok(frame)) => frame,
            };
            let data = match frame.into_data() {
                Ok(data) => data,
                Err(other) => return Poll::Ready(Some(Ok(other))),
            };
            this.pending.extend_from_slice(&data);
            match this.complete() {
                Ok(bytes) if bytes.is_empty() => {}
                Ok(bytes) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Err(refused) => {
                    this.failed = true;
                    return Poll::Ready(Some(Err(refused)));
                }
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Returns the string at a path of field numbers, as a decoder would see it: the last value counts, and an
/// embedded message that is split over several fields is merged.
pub(super) fn text_at(message: &[u8], path: &[u32]) -> Result<Option<String>, Error> {
    let mut found = None;
    search(message, path, &mut found).map_err(|reason| {
        Error::invalid("message", format_args!("is not the protobuf this method takes: {reason}"))
    })?;
    Ok(found)
}

/// Follows the path through the message; a later match overwrites an earlier one.
fn search(mut message: &[u8], path: &[u32], found: &mut Option<String>) -> Result<(), String> {
    let Some((wanted, deeper)) = path.split_first() else { return Err("no field is named".to_owned()) };
    while message.has_remaining() {
        let (number, kind) = decode_key(&mut message).map_err(|error| error.to_string())?;
        if number != *wanted {
            skip_field(kind, number, &mut message, DecodeContext::default())
                .map_err(|error| error.to_string())?;
            continue;
        }
        if kind != WireType::LengthDelimited {
            return Err("a field has another type".to_owned());
        }
        let length = decode_varint(&mut message).map_err(|error| error.to_string())?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let Some((value, rest)) = message.split_at_checked(length) else {
            return Err("a field is cut".to_owned());
        };
        message = rest;
        if deeper.is_empty() {
            let text = std::str::from_utf8(value).map_err(|_| "a text is not UTF-8".to_owned())?;
            *found = Some(text.to_owned());
        } else {
            search(value, deeper, found)?;
        }
    }
    Ok(())
}
