//! Handles the frames that arrive through a tunnel. Frames of calls that have ended, or that never existed, are counted and
//! ignored; a fault of one call ends that call and not the tunnel.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::{HeaderMap, HeaderValue, Method, Request, Uri, Version, header};
use tonic::Code;
use wire::betcode::v1::tunnel_frame::Payload;
use wire::betcode::v1::{CallHead, TunnelControl, TunnelControlType, TunnelFrame};

use super::{Call, CallFailure, CallOrigin, IncomingCall, Link, LinkEvent, LinkSide};
use crate::parts::{self, Part};
use crate::responder::{BodySender, Responder};
use crate::{CallBody, fields, grpc, limits};

/// What is wrong with a frame of a call.
enum Fault {
    Gap,
    Overrun,
    Unexpected,
}

impl Link {
    /// Takes one frame. Never waits.
    pub fn receive(self: &Arc<Self>, frame: TunnelFrame) -> LinkEvent {
        let TunnelFrame { request_id: id, sequence, service_name, method_name, payload } = frame;
        match payload {
            Some(Payload::Heartbeat(_)) => LinkEvent::Heartbeat,
            Some(Payload::Control(control)) => self.receive_control(&id, &control),
            Some(payload) if !id.is_empty() => {
                if self.locked().all.contains_key(&id) {
                    self.receive_part(&id, sequence, payload);
                    return LinkEvent::Handled;
                }
                match (self.side, payload) {
                    (LinkSide::Machine, Payload::Head(head)) if !head.verb.is_empty() => {
                        self.begin_full(&id, sequence, head)
                    }
                    (LinkSide::Machine, payload @ (Payload::GrpcRequest(_) | Payload::Stream(_)))
                        if !service_name.is_empty() && !method_name.is_empty() =>
                    {
                        self.begin_basic(&id, sequence, &grpc::path_of(&service_name, &method_name), payload)
                    }
                    _ => self.ignore(),
                }
            }
            _ => self.ignore(),
        }
    }

    fn ignore(&self) -> LinkEvent {
        self.ignored.fetch_add(1, Ordering::Relaxed);
        LinkEvent::Handled
    }

    fn receive_control(&self, id: &str, control: &TunnelControl) -> LinkEvent {
        match control.r#type() {
            TunnelControlType::Drain => {
                self.control("", TunnelControlType::DrainAck, 0);
                LinkEvent::Drain
            }
            TunnelControlType::Ping => {
                self.control("", TunnelControlType::Pong, 0);
                LinkEvent::Heartbeat
            }
            TunnelControlType::Pong => LinkEvent::Heartbeat,
            TunnelControlType::Credit => {
                let added = match self.locked().all.get(id) {
                    Some(call) => call.credit.add(control.bytes),
                    None => return self.ignore(),
                };
                if added.is_err() {
                    self.fail(id, Code::Internal, "more credit was given for this call than there can be");
                }
                LinkEvent::Handled
            }
            TunnelControlType::Cancel => {
                let Some(call) = self.remove(id) else { return self.ignore() };
                self.outbox.forget(id);
                call.parts.give(Part::Failed(CallFailure::new(Code::Cancelled, "the client has gone")));
                if let Some(task) = call.task {
                    task.abort();
                }
                LinkEvent::Handled
            }
            TunnelControlType::Unspecified | TunnelControlType::DrainAck | TunnelControlType::KeyExchange => {
                self.ignore()
            }
        }
    }

    /// Takes a frame of a call that goes on.
    fn receive_part(&self, id: &str, sequence: u64, payload: Payload) {
        let mut calls = self.locked();
        let Some(call) = calls.all.get_mut(id) else { return };
        let taken = match call.count(sequence) {
            Ok(()) => self.dispatch(call, payload),
            Err(fault) => Err(fault),
        };
        drop(calls);
        match taken {
            Ok(false) => {}
            // Only a machine's answer ends a call; a machine goes on with its answer when the request is complete.
            Ok(true) => {
                if let Some(call) = self.remove(id) {
                    self.outbox.forget(id);
                    if let Some(task) = call.task {
                        task.abort();
                    }
                }
            }
            Err(Fault::Gap) => {
                self.fail(id, Code::Unavailable, "a frame of this call was lost in the tunnel")
            }
            Err(Fault::Overrun) => {
                self.fail(id, Code::ResourceExhausted, "the other end sent more of this call than it may");
            }
            Err(Fault::Unexpected) => self.fail(id, Code::Internal, "a frame of this call is not understood"),
        }
    }

    /// Gives a part to whoever reads the call. Returns whether the call is over.
    fn dispatch(&self, call: &mut Call, payload: Payload) -> Result<bool, Fault> {
        match (self.side, payload) {
            (LinkSide::Relay, Payload::Head(head)) if !call.has_head => {
                call.has_head = true;
                call.give(Part::Head(head));
                Ok(false)
            }
            (LinkSide::Relay, Payload::Tail(tail)) => {
                let trailers = fields::to_headers(tail.trailers).map_err(|_| Fault::Overrun)?;
                call.give(Part::Tail(trailers));
                Ok(true)
            }
            (LinkSide::Relay, Payload::GrpcResponse(message)) if call.is_basic => {
                self.receive_message(call, &message)?;
                call.give(Part::Tail(grpc::trailers(Code::Ok, "")));
                Ok(true)
            }
            (LinkSide::Relay, Payload::Error(error)) => {
                call.give(Part::Failed(CallFailure::new(grpc::code(&error.code), error.message)));
                Ok(true)
            }
            (LinkSide::Machine, Payload::Error(error)) => {
                call.give(Part::Failed(CallFailure::new(grpc::code(&error.code), error.message)));
                // The client has gone: there is nobody to answer.
                Ok(true)
            }
            (_, Payload::Stream(stream)) if call.is_basic => {
                let is_only_end = stream.end_of_stream && stream.data.is_empty();
                if !is_only_end {
                    self.receive_message(call, &stream.data)?;
                }
                Ok(stream.end_of_stream && self.end(call))
            }
            (_, Payload::Stream(stream)) => {
                if !stream.data.is_empty() {
                    self.receive_bytes(call, stream.data)?;
                }
                if stream.end_of_stream && self.side == LinkSide::Machine {
                    call.give(Part::End);
                }
                Ok(false)
            }
            _ => Err(Fault::Unexpected),
        }
    }

    /// Ends what a basic end sends. Returns whether the call is over.
    fn end(&self, call: &mut Call) -> bool {
        match self.side {
            LinkSide::Machine => {
                call.give(Part::End);
                false
            }
            LinkSide::Relay => {
                call.begin_answer();
                call.give(Part::Tail(grpc::trailers(Code::Ok, "")));
                true
            }
        }
    }

    fn receive_message(&self, call: &mut Call, message: &[u8]) -> Result<(), Fault> {
        let prefixed = grpc::prefixed(message);
        // With its prefix, so that messages without content are no way around it.
        call.window.receive_basic(prefixed.len() as u64).map_err(|_| Fault::Overrun)?;
        // A window takes one message of any size; all of them together are bounded.
        if self.held.load(Ordering::Relaxed) + prefixed.len() > limits::BASIC_HELD_MAX_BYTES {
            return Err(Fault::Overrun);
        }
        self.bytes_received.fetch_add(message.len() as u64, Ordering::Relaxed);
        call.begin_answer();
        call.give(Part::Data(prefixed.into()));
        Ok(())
    }

    fn receive_bytes(&self, call: &mut Call, bytes: Vec<u8>) -> Result<(), Fault> {
        call.window.receive(bytes.len() as u64).map_err(|_| Fault::Overrun)?;
        self.bytes_received.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        call.give(Part::Data(bytes));
        Ok(())
    }

    /// Ends a call at both ends because of a fault.
    fn fail(&self, id: &str, code: Code, message: &str) {
        let Some(call) = self.remove(id) else { return };
        self.ignored.fetch_add(1, Ordering::Relaxed);
        call.parts.give(Part::Failed(CallFailure::new(code, message)));
        self.end_early(id, &call, code, message);
    }

    /// Begins a call of which the head came.
    fn begin_full(self: &Arc<Self>, id: &str, sequence: u64, head: CallHead) -> LinkEvent {
        let headers = fields::to_headers(head.fields).ok();
        let (Ok(verb), Ok(uri), Some(headers)) =
            (Method::from_bytes(head.verb.as_bytes()), head.path.parse::<Uri>(), headers)
        else {
            self.error(id, Code::Internal, "the head of this call is not understood");
            return self.ignore();
        };
        let origin = CallOrigin {
            user: head.user,
            delivery_id: head.delivery_id,
            machine_id: head.machine_id,
            epoch: head.epoch,
        };
        self.begin(id, sequence, (verb, uri, headers), origin, None)
    }

    /// Begins a call of an end that knows only the published frames.
    fn begin_basic(self: &Arc<Self>, id: &str, sequence: u64, path: &str, payload: Payload) -> LinkEvent {
        let Ok(uri) = path.parse::<Uri>() else {
            self.error(id, Code::Unimplemented, "there is no such method");
            return self.ignore();
        };
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        let is_unary = grpc::shape(path).is_some_and(|shape| !shape.server_streams);
        let event =
            self.begin(id, sequence, (Method::POST, uri, headers), CallOrigin::default(), Some(is_unary));
        let is_whole = matches!(payload, Payload::GrpcRequest(_));
        let mut calls = self.locked();
        let Some(call) = calls.all.get_mut(id) else { return event };
        let taken = match payload {
            Payload::GrpcRequest(message) => self.receive_message(call, &message).map(|()| false),
            payload => self.dispatch(call, payload),
        };
        if is_whole && taken.is_ok() {
            call.give(Part::End);
        }
        drop(calls);
        if taken.is_err() {
            self.fail(id, Code::ResourceExhausted, "the other end sent more of this call than it may");
        }
        event
    }

    /// Begins a call. `basic`: the other end knows only the published frames, and whether it expects one message.
    fn begin(
        self: &Arc<Self>,
        id: &str,
        sequence: u64,
        (verb, uri, mut headers): (Method, Uri, HeaderMap),
        origin: CallOrigin,
        basic: Option<bool>,
    ) -> LinkEvent {
        let (parts, received) = parts::queue(&self.held);
        let credit = match self.insert(id, parts, basic.is_some(), true) {
            Ok(credit) => credit,
            Err(failure) => {
                self.error(id, failure.code, &failure.message);
                return LinkEvent::Handled;
            }
        };
        if let Some(call) = self.locked().all.get_mut(id) {
            call.received = sequence;
        }
        self.opened.fetch_add(1, Ordering::Relaxed);
        let is_grpc = headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
        if is_grpc {
            headers.insert(header::TE, HeaderValue::from_static("trailers"));
        }
        let mut request = Request::new(CallBody::of_request(Arc::clone(self), id.to_owned(), received));
        *request.method_mut() = verb;
        *request.uri_mut() = uri;
        *request.version_mut() = Version::HTTP_2;
        *request.headers_mut() = headers;
        let sender = BodySender { link: Arc::clone(self), id: id.to_owned(), credit };
        LinkEvent::Call(Box::new(IncomingCall { request, origin, responder: Responder { sender, basic } }))
    }
}

impl Call {
    /// Checks that no frame is missing. Strangers may not count at all.
    fn count(&mut self, sequence: u64) -> Result<(), Fault> {
        if self.is_basic && sequence == 0 {
            return Ok(());
        }
        // A fault of the other end is told without a number.
        if sequence == 0 || (!self.is_basic && sequence == self.received + 1) {
            self.received = self.received.max(sequence);
            return Ok(());
        }
        if self.is_basic && sequence > self.received {
            self.received = sequence;
            return Ok(());
        }
        Err(Fault::Gap)
    }

    /// Gives a part to the reader of the call, who may be gone.
    fn give(&self, part: Part) {
        self.parts.give(part);
    }

    /// Gives the head of an answer that has none of its own.
    fn begin_answer(&mut self) {
        if std::mem::replace(&mut self.has_head, true) {
            return;
        }
        let kind = wire::betcode::v1::CallField {
            name: header::CONTENT_TYPE.as_str().to_owned(),
            value: b"application/grpc".to_vec(),
        };
        self.give(Part::Head(CallHead { status: 200, fields: vec![kind], ..CallHead::default() }));
    }
}
