//! One tunnel, seen from either end: the calls that go on in it, their order, credit and end. Frames come in by
//! [`Link::receive`] and go out by a [`FrameStream`]; nothing here waits for a call, so that none can hold up the tunnel.

mod incoming;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use hyper::body::Body;
use tokio::task::AbortHandle;
use tonic::Code;
use wire::betcode::v1::tunnel_frame::Payload;
use wire::betcode::v1::{
    CallHead, ErrorFrame, StreamFrame, TunnelControl, TunnelControlType, TunnelFrame, TunnelHeartbeat,
};

use crate::credit::{Credit, Window};
use crate::outbox::Outbox;
use crate::parts::{self, Part, PartSender};
use crate::responder::{BodySender, Responder};
use crate::{CallBody, FrameStream, basic, fields, grpc, limits};

/// Which end of a tunnel this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkSide {
    /// Opens calls.
    Relay,
    /// Serves them.
    Machine,
}

/// Why a call ended without an answer of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallFailure {
    pub code: Code,
    pub message: String,
}

impl CallFailure {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// What a frame means to whoever owns the tunnel.
pub enum LinkEvent {
    /// A call to serve.
    Call(Box<IncomingCall>),
    Heartbeat,
    /// The other end takes or makes no new calls.
    Drain,
    /// Nothing is to be done.
    Handled,
}

/// What a relay says of a call that it sends on. All of it is the relay's word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallOrigin {
    /// Who calls; empty where the relay says nothing.
    pub user: String,
    /// Names a call that waited, so that it is executed once; empty for every other one.
    pub delivery_id: String,
    /// Between relays: the machine that is meant, and the claim on it that the sender knows.
    pub machine_id: String,
    pub epoch: u64,
}

impl CallOrigin {
    pub fn of(user: &str) -> Self {
        Self { user: user.to_owned(), ..Self::default() }
    }
}

/// A call that came through a tunnel.
pub struct IncomingCall {
    pub request: Request<CallBody>,
    pub origin: CallOrigin,
    pub responder: Responder,
}

/// What goes on in a tunnel, and what has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    pub active: usize,
    pub opened: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub ignored: u64,
}

/// One end of a tunnel.
pub struct Link {
    side: LinkSide,
    /// What ids of calls begin with, so that those of two relays, or of two tunnels, never meet.
    prefix: String,
    /// Calls that may go on at a time.
    calls_max: usize,
    outbox: Arc<Outbox>,
    /// Bytes that came and that nobody has taken yet.
    held: Arc<AtomicUsize>,
    calls: Mutex<Calls>,
    opened: AtomicU64,
    bytes_sent: AtomicU64,
    bytes_received: AtomicU64,
    ignored: AtomicU64,
}

struct Calls {
    all: HashMap<String, Call>,
    /// How much windows may still grow.
    growth_left: u64,
    closed: Option<CallFailure>,
}

struct Call {
    parts: PartSender,
    /// The number of the frame that came last, and of the one that was sent last.
    received: u64,
    sent: u64,
    window: Window,
    credit: Arc<Credit>,
    /// Whether the other end knows only the published frames.
    is_basic: bool,
    /// Whether the head of the answer was given; ends that know only the published frames send none.
    has_head: bool,
    task: Option<AbortHandle>,
}

impl Link {
    /// Makes an end of a tunnel, and the frames that it sends.
    pub fn new(side: LinkSide, prefix: impl Into<String>) -> (Arc<Self>, FrameStream) {
        Self::with_calls(side, prefix, limits::CALLS_MAX)
    }

    /// The same with another number of calls at a time.
    pub fn with_calls(
        side: LinkSide,
        prefix: impl Into<String>,
        calls_max: usize,
    ) -> (Arc<Self>, FrameStream) {
        let outbox = Arc::new(Outbox::default());
        let calls = Calls { all: HashMap::new(), growth_left: limits::TUNNEL_GROWTH_MAX_BYTES, closed: None };
        let link = Arc::new(Self {
            side,
            prefix: prefix.into(),
            calls_max,
            outbox: Arc::clone(&outbox),
            held: Arc::default(),
            calls: Mutex::new(calls),
            opened: AtomicU64::new(0),
            bytes_sent: AtomicU64::new(0),
            bytes_received: AtomicU64::new(0),
            ignored: AtomicU64::new(0),
        });
        (link, FrameStream(outbox))
    }

    pub fn counts(&self) -> LinkCounts {
        LinkCounts {
            active: self.locked().all.len(),
            opened: self.opened.load(Ordering::Relaxed),
            bytes_sent: self.bytes_sent.load(Ordering::Relaxed),
            bytes_received: self.bytes_received.load(Ordering::Relaxed),
            ignored: self.ignored.load(Ordering::Relaxed),
        }
    }

    /// Sends a heartbeat, if the other end reads at all.
    pub fn heartbeat(&self, sent_at: prost_types::Timestamp) -> bool {
        let payload = Some(Payload::Heartbeat(TunnelHeartbeat { sent_at: Some(sent_at) }));
        self.outbox.push_control(TunnelFrame { payload, ..TunnelFrame::default() })
    }

    /// Says that no new calls are taken or made.
    pub fn drain(&self) {
        self.control("", TunnelControlType::Drain, 0);
    }

    /// Ends every call with a reason, and the tunnel once what waits is sent.
    pub fn close(&self, failure: &CallFailure) {
        let ended: Vec<Call> = {
            let mut calls = self.locked();
            calls.closed.get_or_insert_with(|| failure.clone());
            calls.all.drain().map(|(_, call)| call).collect()
        };
        for call in ended {
            call.parts.give(Part::Failed(failure.clone()));
            if let Some(task) = call.task {
                task.abort();
            }
        }
        self.outbox.close();
    }

    /// Ends every call with a reason; the tunnel stays. Returns how many there were.
    pub fn end_calls(&self, failure: &CallFailure) -> usize {
        let ids: Vec<String> = self.locked().all.keys().cloned().collect();
        for id in &ids {
            let Some(call) = self.remove(id) else { continue };
            call.parts.give(Part::Failed(failure.clone()));
            self.end_early(id, &call, failure.code, &failure.message);
        }
        ids.len()
    }

    /// Sends a request through the tunnel and waits for the head of its answer. Dropping the future or the body of the
    /// answer cancels the call.
    pub async fn forward<B>(
        self: &Arc<Self>,
        request: Request<B>,
        origin: &CallOrigin,
        is_basic: bool,
    ) -> Result<Response<CallBody>, CallFailure>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
    {
        let number = self.opened.fetch_add(1, Ordering::Relaxed) + 1;
        let id = format!("{}-{number}", self.prefix);
        let (head, request_body) = request.into_parts();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let is_grpc = head
            .headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
        if is_basic && !is_grpc {
            let message = "this machine knows only the published frames, which carry gRPC and nothing else";
            return Err(CallFailure::new(Code::Unimplemented, message));
        }
        let travelling = fields::to_fields(&head.headers)
            .map_err(|_| CallFailure::new(Code::ResourceExhausted, "the headers are larger than 16 KiB"))?;
        let (parts, mut received) = parts::queue(&self.held);
        let credit = self.insert(&id, parts, is_basic, false)?;
        let mut body = CallBody::of_answer(Arc::clone(self), id.clone(), is_grpc);
        if !is_basic {
            let call_head = CallHead {
                verb: head.method.as_str().to_owned(),
                path: path.clone(),
                fields: travelling,
                user: origin.user.clone(),
                delivery_id: origin.delivery_id.clone(),
                machine_id: origin.machine_id.clone(),
                epoch: origin.epoch,
                ..CallHead::default()
            };
            self.push(&id, Payload::Head(call_head));
        }
        let sender = BodySender { link: Arc::clone(self), id: id.clone(), credit };
        let task = match is_basic {
            true => tokio::spawn(basic::send_request(sender, path, request_body)),
            false => tokio::spawn(sender.send_request(request_body)),
        };
        self.attach(&id, task.abort_handle());
        loop {
            match received.recv().await {
                Some(Part::Head(head)) => {
                    let headers = fields::to_headers(head.fields).unwrap_or_default();
                    match headers.contains_key("grpc-status") {
                        // An answer that is a status and nothing else must end with its head.
                        true => body.finish(),
                        false => body.begin(received),
                    }
                    let status =
                        u16::try_from(head.status).ok().and_then(|code| StatusCode::from_u16(code).ok());
                    let mut response = Response::new(body);
                    *response.status_mut() = status.unwrap_or(StatusCode::BAD_GATEWAY);
                    *response.headers_mut() = headers;
                    return Ok(response);
                }
                Some(Part::Failed(failure)) => {
                    body.finish();
                    return Err(failure);
                }
                Some(Part::Data(_) | Part::End | Part::Tail(_)) => {}
                None => return Err(CallFailure::new(Code::Unavailable, "the tunnel ended")),
            }
        }
    }

    /// Notes a call. Returns the credit of what this end sends.
    fn insert(
        &self,
        id: &str,
        parts: PartSender,
        is_basic: bool,
        has_head: bool,
    ) -> Result<Arc<Credit>, CallFailure> {
        let mut calls = self.locked();
        if let Some(failure) = &calls.closed {
            return Err(failure.clone());
        }
        if calls.all.len() >= self.calls_max {
            let message = format!("there are {} calls in this tunnel already; try again", self.calls_max);
            return Err(CallFailure::new(Code::ResourceExhausted, message));
        }
        let (window, first) = match is_basic {
            true => (limits::BASIC_WAITING_MAX_BYTES, limits::BASIC_WAITING_BYTES as u64),
            false => (limits::INITIAL_CREDIT_BYTES, limits::INITIAL_CREDIT_BYTES),
        };
        let credit = Arc::new(Credit::new(first));
        let call = Call {
            parts,
            received: 0,
            sent: 0,
            window: Window::new(window),
            credit: Arc::clone(&credit),
            is_basic,
            has_head,
            task: None,
        };
        calls.all.insert(id.to_owned(), call);
        Ok(credit)
    }

    /// Says which task works for a call; it is aborted with the call. One that has ended already is aborted at once.
    pub fn attach(&self, id: &str, task: AbortHandle) {
        match self.locked().all.get_mut(id) {
            Some(call) => call.task = Some(task),
            // The request may be sent in full, and the answer be there, before this is reached; then there is nothing to abort.
            None => task.abort(),
        }
    }

    /// Sends a frame of a call that goes on.
    pub(crate) fn push(&self, id: &str, payload: Payload) {
        self.push_named(id, payload, ("", ""), 0);
    }

    /// Sends data of a call; what still waits to be sent and this go in one frame where there is room.
    pub(crate) fn push_data(&self, id: &str, data: &[u8]) {
        let mut calls = self.locked();
        let Some(call) = calls.all.get_mut(id) else { return };
        self.bytes_sent.fetch_add(data.len() as u64, Ordering::Relaxed);
        if self.outbox.join(id, data) {
            return;
        }
        call.sent += 1;
        let payload = Payload::Stream(StreamFrame { data: data.to_vec(), end_of_stream: false });
        self.outbox.push(TunnelFrame {
            request_id: id.to_owned(),
            sequence: call.sent,
            payload: Some(payload),
            ..TunnelFrame::default()
        });
    }

    /// The same with the names of service and method, which the first frame has for ends that know no head. `owed` is given back
    /// to the sender's credit when the frame leaves.
    pub(crate) fn push_named(
        &self,
        id: &str,
        payload: Payload,
        (service, method): (&str, &str),
        owed: usize,
    ) {
        let mut calls = self.locked();
        let Some(call) = calls.all.get_mut(id) else { return };
        call.sent += 1;
        if let Payload::Stream(StreamFrame { data, .. }) = &payload {
            self.bytes_sent.fetch_add(data.len() as u64, Ordering::Relaxed);
        }
        let frame = TunnelFrame {
            request_id: id.to_owned(),
            sequence: call.sent,
            service_name: service.to_owned(),
            method_name: method.to_owned(),
            payload: Some(payload),
        };
        match owed {
            0 => self.outbox.push(frame),
            owed => self.outbox.push_owing(frame, &call.credit, owed),
        }
    }

    /// Counts bytes that the reader of a call took, and grants the other end as many.
    pub(crate) fn consumed(&self, id: &str, bytes: usize, keeps_up: bool) {
        let mut calls = self.locked();
        let calls = &mut *calls;
        let Some(call) = calls.all.get_mut(id) else { return };
        if call.is_basic {
            call.window.refill(bytes as u64);
            return;
        }
        if let Some((grant, growth)) = call.window.take(bytes as u64, keeps_up, calls.growth_left) {
            calls.growth_left -= growth;
            self.control(id, TunnelControlType::Credit, grant);
        }
    }

    /// Forgets a call whose last frame was sent.
    pub(crate) fn finish(&self, id: &str) {
        self.remove(id);
    }

    /// Forgets a call and tells the other end that nobody wants it any more.
    pub(crate) fn cancel(&self, id: &str) {
        let Some(call) = self.remove(id) else { return };
        self.end_early(id, &call, Code::Cancelled, "the client has gone");
    }

    /// Tells the other end that a call is over that this end has given up.
    fn end_early(&self, id: &str, call: &Call, code: Code, message: &str) {
        let is_unheard = self.outbox.forget(id);
        if let Some(task) = &call.task {
            task.abort();
        }
        if is_unheard && self.side == LinkSide::Relay {
            return;
        }
        match call.is_basic || self.side == LinkSide::Machine {
            true => self.error(id, code, message),
            false => self.control(id, TunnelControlType::Cancel, 0),
        }
    }

    fn remove(&self, id: &str) -> Option<Call> {
        let mut calls = self.locked();
        let call = calls.all.remove(id)?;
        if !call.is_basic {
            calls.growth_left += call.window.growth(limits::INITIAL_CREDIT_BYTES);
        }
        Some(call)
    }

    fn error(&self, id: &str, code: Code, message: &str) {
        let error = ErrorFrame { code: grpc::name(code).to_owned(), message: message.to_owned() };
        let payload = Some(Payload::Error(error));
        self.outbox.push_control(TunnelFrame {
            request_id: id.to_owned(),
            payload,
            ..TunnelFrame::default()
        });
    }

    fn control(&self, id: &str, kind: TunnelControlType, bytes: u64) {
        let control = TunnelControl { r#type: kind as i32, bytes, ..TunnelControl::default() };
        let payload = Some(Payload::Control(control));
        self.outbox.push_control(TunnelFrame {
            request_id: id.to_owned(),
            payload,
            ..TunnelFrame::default()
        });
    }

    fn locked(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
