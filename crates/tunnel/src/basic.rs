//! Calls with an end that knows only the published frames: whole messages, no metadata, no credit, no trailers.

use bytes::Bytes;
use http::Response;
use hyper::body::Body;
use tonic::Code;
use wire::betcode::v1::StreamFrame;
use wire::betcode::v1::tunnel_frame::Payload;

use crate::grpc::{self, BadMessage, Deframer};
use crate::responder::{BodySender, next_frame};

/// Sends the messages of a request. The first frame names the method.
pub(crate) async fn send_request<B: Body<Data = Bytes> + Unpin>(
    sender: BodySender,
    path: String,
    mut body: B,
) {
    let Some((service, method)) = grpc::names_of(&path) else { return sender.link.cancel(&sender.id) };
    let is_one = grpc::shape(&path).is_some_and(|shape| !shape.client_streams);
    let mut deframer = Deframer::default();
    let mut named = (service, method);
    loop {
        let frame = next_frame(&mut body).await;
        match frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    deframer.push(data);
                }
            }
            Some(Err(_)) => return sender.link.cancel(&sender.id),
            None => {
                if !is_one {
                    let end = StreamFrame { data: Vec::new(), end_of_stream: true };
                    sender.link.push_named(&sender.id, Payload::Stream(end), named, 0);
                }
                return;
            }
        }
        loop {
            let message = match deframer.message() {
                Ok(Some(message)) => message,
                Ok(None) => break,
                // What cannot be sent is not asked for either.
                Err(_) => return sender.link.cancel(&sender.id),
            };
            let length = message.len();
            let payload = match is_one {
                true => Payload::GrpcRequest(message.into()),
                false => Payload::Stream(StreamFrame { data: message.into(), end_of_stream: false }),
            };
            sender.push_message(payload, named, length).await;
            named = ("", "");
        }
    }
}

/// Sends the messages of an answer, or its error.
pub(crate) async fn send_answer<B: Body<Data = Bytes> + Unpin>(
    sender: &BodySender,
    response: Response<B>,
    is_unary: bool,
) {
    let (head, mut body) = response.into_parts();
    // An error without a body is told in the head.
    let mut status = grpc::status_in(&head.headers);
    let mut deframer = Deframer::default();
    let mut only = None;
    while let Some(frame) = next_frame(&mut body).await {
        let Ok(frame) = frame else { return sender.error(Code::Unavailable, "the answer was cut off") };
        if let Some(trailers) = frame.trailers_ref() {
            status = grpc::status_in(trailers).or(status);
            continue;
        }
        if let Some(data) = frame.data_ref() {
            deframer.push(data);
        }
        loop {
            match deframer.message() {
                Ok(Some(message)) if is_unary => only = Some(message),
                Ok(Some(message)) => {
                    let length = message.len();
                    let payload = Payload::Stream(StreamFrame { data: message.into(), end_of_stream: false });
                    sender.push_message(payload, ("", ""), length).await;
                }
                Ok(None) => break,
                Err(BadMessage::Compressed) => {
                    return sender.error(Code::Internal, "a compressed message does not fit into a frame");
                }
                Err(BadMessage::TooLarge) => {
                    return sender.error(Code::ResourceExhausted, "a message is too large for a frame");
                }
            }
        }
    }
    match (status, only) {
        (Some((Code::Ok, _)), Some(message)) => sender.push(Payload::GrpcResponse(message.into())),
        (Some((Code::Ok, _)), None) if !is_unary => {
            sender.push(Payload::Stream(StreamFrame { data: Vec::new(), end_of_stream: true }));
        }
        (Some((Code::Ok, _)), None) => sender.error(Code::Internal, "the answer has no message"),
        (Some((code, message)), _) => sender.error(code, &message),
        (None, _) if !head.status.is_success() => {
            sender.error(Code::Unknown, &format!("HTTP status {}", head.status.as_u16()));
        }
        (None, _) => sender.error(Code::Unavailable, "the answer was cut off"),
    }
}
