//! Two ends of a tunnel in one process: calls, bodies, credit, cancelling, faults, and strangers' frames.

use std::pin::Pin;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use wire::betcode::v1::CallTail;

use super::*;
use crate::responder::next_frame;

mod load;
mod lossy;
mod memory;

/// A body of given chunks and trailers.
struct Chunks(std::collections::VecDeque<Frame<Bytes>>);

impl Body for Chunks {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        std::task::Poll::Ready(self.0.pop_front().map(Ok))
    }
}

fn chunks(parts: &[Bytes]) -> Chunks {
    Chunks(parts.iter().cloned().map(Frame::data).collect())
}

fn grpc_request(path: &str, parts: &[Bytes]) -> Request<Chunks> {
    let mut request = Request::post(path).body(chunks(parts)).unwrap();
    request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    request.headers_mut().insert("x-client-id", HeaderValue::from_static("me"));
    request
}

/// Echoes every request's body, with its own headers and trailers.
async fn echo(call: IncomingCall) {
    let IncomingCall { mut request, responder, .. } = call;
    let (sender, receiver) = mpsc::channel::<Frame<Bytes>>(1);
    let headers = request.headers().clone();
    tokio::spawn(async move {
        while let Some(Ok(frame)) = next_frame(request.body_mut()).await {
            if sender.send(frame).await.is_err() {
                return;
            }
        }
        let mut trailers = grpc::trailers(Code::Ok, "");
        trailers.insert("x-after", HeaderValue::from_static("all"));
        let _ = sender.send(Frame::trailers(trailers)).await;
    });
    let mut response = Response::new(Channelled(receiver));
    *response.headers_mut() = headers;
    responder.send(response).await;
}

struct Channelled(mpsc::Receiver<Frame<Bytes>>);

impl Body for Channelled {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        self.0.poll_recv(context).map(|frame| frame.map(Ok))
    }
}

/// Connects two ends; the machine echoes.
fn tunnel() -> (Arc<Link>, Arc<Link>) {
    let (relay, mut from_relay) = Link::new(LinkSide::Relay, "r");
    let (machine, mut from_machine) = Link::new(LinkSide::Machine, "m");
    let (to_machine, to_relay) = (Arc::clone(&machine), Arc::clone(&relay));
    tokio::spawn(async move {
        while let Some(frame) = from_relay.next().await {
            if let LinkEvent::Call(call) = to_machine.receive(frame) {
                let id = call.responder.id().to_owned();
                let task = tokio::spawn(echo(*call));
                to_machine.attach(&id, task.abort_handle());
            }
        }
    });
    tokio::spawn(async move {
        while let Some(frame) = from_machine.next().await {
            to_relay.receive(frame);
        }
    });
    (relay, machine)
}

async fn collect(mut body: CallBody) -> (Vec<u8>, HeaderMap) {
    let (mut bytes, mut trailers) = (Vec::new(), HeaderMap::new());
    while let Some(frame) = next_frame(&mut body).await {
        match frame.unwrap().into_data() {
            Ok(data) => bytes.extend_from_slice(&data),
            Err(frame) => trailers = frame.into_trailers().unwrap_or_default(),
        }
    }
    (bytes, trailers)
}

#[tokio::test]
async fn a_call_goes_through_with_metadata_body_and_trailers() {
    let (relay, machine) = tunnel();
    let request = grpc_request("/x.Y/Z", &[grpc::prefixed(b"hello")]);
    let response = relay.forward(request, &CallOrigin::of("ann"), false).await.unwrap();
    assert_eq!(response.headers()["x-client-id"], "me");
    let (bytes, trailers) = collect(response.into_body()).await;
    assert_eq!(bytes, grpc::prefixed(b"hello"));
    assert_eq!(
        (&trailers["x-after"], &trailers["grpc-status"]),
        (&HeaderValue::from_static("all"), &HeaderValue::from_static("0"))
    );
    assert_eq!((relay.counts().active, machine.counts().active), (0, 0));
}

#[tokio::test]
async fn a_large_body_needs_credit_and_gets_it() {
    let (relay, _machine) = tunnel();
    let large = Bytes::from(vec![7; 5 * 1024 * 1024 + 3]);
    let response = relay
        .forward(grpc_request("/x.Y/Z", std::slice::from_ref(&large)), &CallOrigin::of(""), false)
        .await
        .unwrap();
    assert_eq!(collect(response.into_body()).await.0, large);
    let calls = relay.locked();
    assert_eq!(calls.growth_left, limits::TUNNEL_GROWTH_MAX_BYTES, "what windows grew by is given back");
}

#[tokio::test]
async fn many_calls_at_once_do_not_mix() {
    let (relay, _machine) = tunnel();
    let calls = (0..200_u32).map(|number| {
        let relay = Arc::clone(&relay);
        tokio::spawn(async move {
            let body = Bytes::from(number.to_be_bytes().repeat(10_000));
            let response = relay
                .forward(grpc_request("/x.Y/Z", std::slice::from_ref(&body)), &CallOrigin::of(""), false)
                .await
                .unwrap();
            collect(response.into_body()).await.0 == body
        })
    });
    for call in calls.collect::<Vec<_>>() {
        assert!(call.await.unwrap());
    }
}

#[tokio::test]
async fn a_reader_that_stops_holds_up_its_own_call_only() {
    let (relay, _machine) = tunnel();
    let large = Bytes::from(vec![1; 4 * 1024 * 1024]);
    let stuck = relay.forward(grpc_request("/x.Y/Z", &[large]), &CallOrigin::of(""), false).await.unwrap();
    for _ in 0..50 {
        let response = relay
            .forward(grpc_request("/x.Y/Z", &[grpc::prefixed(b"hi")]), &CallOrigin::of(""), false)
            .await
            .unwrap();
        assert_eq!(collect(response.into_body()).await.0, grpc::prefixed(b"hi"));
    }
    assert!(relay.counts().bytes_received < 2 * limits::INITIAL_CREDIT_BYTES, "no more than its window came");
    drop(stuck);
    assert_eq!(relay.counts().active, 0);
}

#[tokio::test]
async fn an_answer_that_nobody_wants_is_cancelled_at_the_machine() {
    let (relay, machine) = tunnel();
    let response = relay
        .forward(grpc_request("/x.Y/Z", &[Bytes::from(vec![1; 1 << 20])]), &CallOrigin::of(""), false)
        .await
        .unwrap();
    drop(response);
    let gone = async {
        while machine.counts().active > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone).await.unwrap();
}

#[tokio::test]
async fn a_tunnel_that_ends_ends_its_calls_with_a_reason() {
    let (relay, _machine) = tunnel();
    let large = Bytes::from(vec![1; 1 << 20]);
    let response = relay.forward(grpc_request("/x.Y/Z", &[large]), &CallOrigin::of(""), false).await.unwrap();
    relay.close(&CallFailure::new(Code::Unavailable, "the machine has gone"));
    let (_, trailers) = collect(response.into_body()).await;
    assert_eq!(grpc::status_in(&trailers), Some((Code::Unavailable, "the machine has gone".to_owned())));
    let error = relay.forward(grpc_request("/x.Y/Z", &[]), &CallOrigin::of(""), false).await.err().unwrap();
    assert_eq!(error.code, Code::Unavailable);
}

fn data(id: &str, sequence: u64, bytes: usize) -> TunnelFrame {
    let stream = StreamFrame { data: vec![0; bytes], end_of_stream: false };
    TunnelFrame {
        request_id: id.to_owned(),
        sequence,
        payload: Some(Payload::Stream(stream)),
        ..TunnelFrame::default()
    }
}

fn head(id: &str) -> TunnelFrame {
    let head = CallHead { status: 200, ..CallHead::default() };
    TunnelFrame {
        request_id: id.to_owned(),
        sequence: 1,
        payload: Some(Payload::Head(head)),
        ..TunnelFrame::default()
    }
}

/// Makes a call whose answer the test writes frame by frame.
async fn answered(frames: Vec<TunnelFrame>) -> (Arc<Link>, (Vec<u8>, HeaderMap)) {
    let (relay, _frames) = Link::new(LinkSide::Relay, "r");
    let calling = tokio::spawn({
        let relay = Arc::clone(&relay);
        async move { relay.forward(grpc_request("/x.Y/Z", &[]), &CallOrigin::of(""), false).await.unwrap() }
    });
    while relay.counts().active == 0 {
        tokio::task::yield_now().await;
    }
    for frame in frames {
        relay.receive(frame);
    }
    let found = collect(calling.await.unwrap().into_body()).await;
    (relay, found)
}

#[tokio::test]
async fn a_gap_ends_the_call_and_nothing_after_it_is_shown() {
    let (relay, (bytes, trailers)) = answered(vec![head("r-1"), data("r-1", 2, 4), data("r-1", 4, 4)]).await;
    assert_eq!(bytes.len(), 4);
    assert_eq!(grpc::status_in(&trailers).unwrap().0, Code::Unavailable);
    assert_eq!(relay.counts().active, 0);
}

#[tokio::test]
async fn more_than_the_window_ends_the_call_and_not_the_tunnel() {
    let all = usize::try_from(limits::INITIAL_CREDIT_BYTES).unwrap();
    let (relay, (_, trailers)) = answered(vec![head("r-1"), data("r-1", 2, all), data("r-1", 3, 1)]).await;
    assert_eq!(grpc::status_in(&trailers).unwrap().0, Code::ResourceExhausted);
    assert!(relay.heartbeat(prost_types::Timestamp::default()));
}

#[tokio::test]
async fn frames_of_unknown_calls_are_counted_and_ignored() {
    let (relay, _frames) = Link::new(LinkSide::Relay, "r");
    let tail = Payload::Tail(CallTail::default());
    for payload in [None, Some(tail)] {
        let frame =
            TunnelFrame { request_id: "r-9".to_owned(), sequence: 1, payload, ..TunnelFrame::default() };
        assert!(matches!(relay.receive(frame), LinkEvent::Handled));
    }
    relay.receive(data("r-7", 3, 10));
    assert_eq!(relay.counts().ignored, 3);
}

#[tokio::test]
async fn a_tunnel_has_only_so_many_calls() {
    let (relay, _frames) = Link::new(LinkSide::Relay, "r");
    let mut held = Vec::new();
    for _ in 0..limits::CALLS_MAX {
        let relay = Arc::clone(&relay);
        held.push(tokio::spawn(async move {
            relay.forward(grpc_request("/x.Y/Z", &[]), &CallOrigin::of(""), false).await.is_ok()
        }));
    }
    while relay.counts().active < limits::CALLS_MAX {
        tokio::task::yield_now().await;
    }
    let refused = relay.forward(grpc_request("/x.Y/Z", &[]), &CallOrigin::of(""), false).await.err().unwrap();
    assert_eq!(refused.code, Code::ResourceExhausted);
}

#[tokio::test]
async fn an_end_that_knows_only_the_published_frames_is_called_with_them() {
    let (relay, mut frames) = Link::new(LinkSide::Relay, "r");
    let path = "/betcode.v1.AgentService/ListSessions";
    let calling = tokio::spawn({
        let relay = Arc::clone(&relay);
        async move {
            relay
                .forward(grpc_request(path, &[grpc::prefixed(b"ask")]), &CallOrigin::of(""), true)
                .await
                .unwrap()
        }
    });
    let frame = frames.next().await.unwrap();
    assert_eq!((frame.service_name.as_str(), frame.method_name.as_str()), ("AgentService", "ListSessions"));
    assert_eq!(frame.payload, Some(Payload::GrpcRequest(b"ask".to_vec())));
    let payload = Some(Payload::GrpcResponse(b"told".to_vec()));
    relay.receive(TunnelFrame { request_id: frame.request_id, payload, ..TunnelFrame::default() });
    let (bytes, trailers) = collect(calling.await.unwrap().into_body()).await;
    assert_eq!(bytes, grpc::prefixed(b"told"));
    assert_eq!(grpc::status_in(&trailers).unwrap().0, Code::Ok);
}

#[tokio::test]
async fn a_relay_that_knows_only_the_published_frames_is_answered_with_them() {
    let (machine, mut frames) = Link::new(LinkSide::Machine, "m");
    let stream =
        |bytes: &[u8], end_of_stream| Payload::Stream(StreamFrame { data: bytes.to_vec(), end_of_stream });
    let first = TunnelFrame {
        request_id: "q".to_owned(),
        sequence: 1,
        service_name: "AgentService".to_owned(),
        method_name: "Converse".to_owned(),
        payload: Some(stream(b"one", false)),
    };
    let LinkEvent::Call(call) = machine.receive(first) else { panic!("no call") };
    assert_eq!(call.request.uri().path(), "/betcode.v1.AgentService/Converse");
    let rest = TunnelFrame {
        request_id: "q".to_owned(),
        sequence: 2,
        payload: Some(stream(b"two", true)),
        ..TunnelFrame::default()
    };
    machine.receive(rest);
    tokio::spawn(echo(*call));
    let mut found = Vec::new();
    while found.len() < 3 {
        found.push(frames.next().await.unwrap().payload.unwrap());
    }
    assert_eq!(found, [stream(b"one", false), stream(b"two", false), stream(b"", true)]);
}

#[tokio::test]
async fn an_answer_that_is_only_a_status_ends_with_its_head() {
    let (relay, _frames) = Link::new(LinkSide::Relay, "r");
    let calling = tokio::spawn({
        let relay = Arc::clone(&relay);
        async move { relay.forward(grpc_request("/x.Y/Z", &[]), &CallOrigin::of(""), false).await.unwrap() }
    });
    while relay.counts().active == 0 {
        tokio::task::yield_now().await;
    }
    let field = wire::betcode::v1::CallField { name: "grpc-status".to_owned(), value: b"5".to_vec() };
    let head = CallHead { status: 200, fields: vec![field], ..CallHead::default() };
    let frame = |sequence, payload| TunnelFrame {
        request_id: "r-1".to_owned(),
        sequence,
        payload: Some(payload),
        ..TunnelFrame::default()
    };
    relay.receive(frame(1, Payload::Head(head)));
    relay.receive(frame(2, Payload::Tail(CallTail::default())));
    let response = calling.await.unwrap();
    assert_eq!(response.headers()["grpc-status"], "5");
    assert!(response.body().is_end_stream());
    assert_eq!(relay.counts().active, 0);
}

/// Any frame that the other end could send.
fn any_frame() -> impl proptest::strategy::Strategy<Value = TunnelFrame> {
    use proptest::prelude::*;
    let bytes = proptest::collection::vec(any::<u8>(), 0..40);
    let payload = prop_oneof![
        Just(None),
        bytes.clone().prop_map(|data| Some(Payload::GrpcRequest(data))),
        bytes.clone().prop_map(|data| Some(Payload::GrpcResponse(data))),
        (0..200_000_usize, any::<bool>()).prop_map(|(size, end_of_stream)| Some(Payload::Stream(
            StreamFrame { data: vec![0; size], end_of_stream }
        ))),
        Just(Some(Payload::Error(ErrorFrame { code: "NOT_FOUND".to_owned(), message: String::new() }))),
        (0..110_i32, any::<u64>()).prop_map(|(kind, bytes)| {
            Some(Payload::Control(TunnelControl { r#type: kind, bytes, ..TunnelControl::default() }))
        }),
        ("[A-Z ]{0,6}", "/?[a-z/ ]{0,9}", bytes, 0..700_u32).prop_map(|(verb, path, value, status)| {
            let fields = vec![wire::betcode::v1::CallField { name: path.clone(), value }];
            Some(Payload::Head(CallHead { verb, path, fields, status, ..CallHead::default() }))
        }),
        Just(Some(Payload::Tail(CallTail::default()))),
    ];
    let names = prop_oneof![Just(String::new()), Just("AgentService".to_owned()), "[a-z. ]{0,8}"];
    (prop_oneof![Just("r-1"), Just("r-2"), Just("q"), Just("")], 0..6_u64, names.clone(), names, payload)
        .prop_map(|(id, sequence, service_name, method_name, payload)| TunnelFrame {
            request_id: id.to_owned(),
            sequence,
            service_name,
            method_name,
            payload,
        })
}

proptest::proptest! {
    /// Whatever comes, an end neither fails nor holds more than it may.
    #[test]
    fn no_sequence_of_frames_breaks_a_link(frames in proptest::collection::vec(any_frame(), 0..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for side in [LinkSide::Relay, LinkSide::Machine] {
                let (link, _frames) = Link::new(side, "r");
                let mut held = Vec::new();
                if side == LinkSide::Relay {
                    for is_basic in [false, true] {
                        let link = Arc::clone(&link);
                        let request = grpc_request("/betcode.v1.AgentService/Converse", &[]);
                        held.push(tokio::spawn(async move { link.forward(request, &CallOrigin::default(), is_basic).await.is_ok() }));
                        tokio::task::yield_now().await;
                    }
                }
                let mut calls = Vec::new();
                for frame in frames.clone() {
                    if let LinkEvent::Call(call) = link.receive(frame) {
                        calls.push(call);
                    }
                }
                assert!(link.counts().active <= 3, "one entry for each id");
                link.close(&CallFailure::new(Code::Unavailable, "over"));
                assert_eq!(link.counts().active, 0);
            }
        });
    }
}
