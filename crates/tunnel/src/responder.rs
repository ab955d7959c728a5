//! Sends bodies through a tunnel: those of requests, and answers as a whole. Waits for the call's credit, never for other
//! calls.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Response};
use hyper::body::{Body, Frame};
use tonic::Code;
use wire::betcode::v1::tunnel_frame::Payload;
use wire::betcode::v1::{CallHead, CallTail, ErrorFrame, StreamFrame};

use crate::credit::Credit;
use crate::{Link, basic, fields, grpc, limits};

/// Sends the body of one call.
pub(crate) struct BodySender {
    pub(crate) link: Arc<Link>,
    pub(crate) id: String,
    pub(crate) credit: Arc<Credit>,
}

impl BodySender {
    /// Sends the body of a request and closes this half.
    pub(crate) async fn send_request<B: Body<Data = Bytes> + Unpin>(self, body: B) {
        match self.send_data(body).await {
            Ok(_) => self.push(Payload::Stream(StreamFrame { data: Vec::new(), end_of_stream: true })),
            // The client went away in the middle of its request.
            Err(()) => self.link.cancel(&self.id),
        }
    }

    /// Sends the data of a body as credit allows, and returns its trailers.
    async fn send_data<B: Body<Data = Bytes> + Unpin>(&self, mut body: B) -> Result<HeaderMap, ()> {
        let mut trailers = HeaderMap::new();
        while let Some(frame) = next_frame(&mut body).await {
            match frame?.into_data() {
                Ok(mut data) => {
                    while !data.is_empty() {
                        let most = data.len().min(limits::FRAME_DATA_MAX_BYTES);
                        let part = data.split_to(self.credit.take(most).await);
                        self.link.push_data(&self.id, &part);
                    }
                }
                Err(frame) => {
                    if let Ok(found) = frame.into_trailers() {
                        trailers = found;
                    }
                }
            }
        }
        Ok(trailers)
    }

    /// Sends a message in a frame of its own, for an end that knows no credit: waits until what waits before it is sent.
    pub(crate) async fn push_message(&self, payload: Payload, names: (&str, &str), length: usize) {
        let owed = (length + limits::BASIC_FRAME_BYTES).min(limits::BASIC_WAITING_BYTES);
        self.credit.take_all(owed).await;
        self.link.push_named(&self.id, payload, names, owed);
    }

    pub(crate) fn push(&self, payload: Payload) {
        self.link.push(&self.id, payload);
    }

    /// Ends the call with an error in the place of a tail.
    pub(crate) fn error(&self, code: Code, message: &str) {
        let error = ErrorFrame { code: grpc::name(code).to_owned(), message: message.to_owned() };
        self.push(Payload::Error(error));
    }
}

/// Answers a call that came through a tunnel.
pub struct Responder {
    pub(crate) sender: BodySender,
    /// The other end knows only the published frames; whether it expects one message.
    pub(crate) basic: Option<bool>,
}

impl Responder {
    /// Returns the id of the call.
    pub fn id(&self) -> &str {
        &self.sender.id
    }

    /// Sends the answer and ends the call.
    pub async fn send<B>(self, response: Response<B>)
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let Self { sender, basic } = self;
        match basic {
            Some(is_unary) => basic::send_answer(&sender, response, is_unary).await,
            None => send_full(&sender, response).await,
        }
        sender.link.finish(&sender.id);
    }
}

async fn send_full<B: Body<Data = Bytes> + Unpin>(sender: &BodySender, response: Response<B>) {
    let (head, body) = response.into_parts();
    let Ok(travelling) = fields::to_fields(&head.headers) else {
        return sender.error(Code::ResourceExhausted, "the headers of the answer are larger than 16 KiB");
    };
    let status = u32::from(head.status.as_u16());
    sender.push(Payload::Head(CallHead { status, fields: travelling, ..CallHead::default() }));
    match sender.send_data(body).await {
        Ok(trailers) => {
            let trailers = fields::to_fields(&trailers).unwrap_or_default();
            sender.push(Payload::Tail(CallTail { trailers }));
        }
        Err(()) => sender.error(Code::Unavailable, "the answer was cut off"),
    }
}

/// Waits for the next frame of a body. Why one cannot be read does not matter to the other end.
pub(crate) async fn next_frame<B: Body<Data = Bytes> + Unpin>(
    body: &mut B,
) -> Option<Result<Frame<Bytes>, ()>> {
    let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
    frame.map(|frame| frame.map_err(|_| ()))
}
