//! What one tunnel may hold in memory, whoever is at its other end and however small the pieces are that come.

use super::*;

/// Counts what its frames carry when the test asks.
async fn waiting_bytes(frames: &mut FrameStream, until_empty: Duration) -> (usize, usize) {
    let (mut count, mut bytes) = (0, 0);
    while let Ok(Some(frame)) = tokio::time::timeout(until_empty, frames.next()).await {
        count += 1;
        bytes += match frame.payload {
            Some(Payload::Stream(stream)) => stream.data.len(),
            Some(Payload::GrpcRequest(message)) => message.len(),
            _ => 0,
        };
    }
    (count, bytes)
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_in_single_bytes_waits_in_few_frames() {
    let (relay, mut frames) = Link::new(LinkSide::Relay, "r");
    let pieces = vec![Bytes::from_static(b"x"); 200_000];
    let _calling = tokio::spawn({
        let relay = Arc::clone(&relay);
        async move { relay.forward(grpc_request("/x.Y/Z", &pieces), &CallOrigin::of(""), false).await.map(drop) }
    });
    // Simulated time goes on when nothing moves any more: all of its credit is used.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (count, bytes) = waiting_bytes(&mut frames, Duration::from_secs(1)).await;
    assert_eq!(bytes as u64, limits::INITIAL_CREDIT_BYTES);
    assert!(count < 20, "{count} frames");
}

#[tokio::test(start_paused = true)]
async fn an_end_that_knows_no_credit_and_does_not_read_holds_up_its_own_calls() {
    let (relay, mut frames) = Link::new(LinkSide::Relay, "r");
    let message = grpc::prefixed(&vec![0; 300 * 1024]);
    let messages = vec![message; 100];
    let _calling = tokio::spawn({
        let relay = Arc::clone(&relay);
        let request = grpc_request("/betcode.v1.AgentService/Converse", &messages);
        async move { relay.forward(request, &CallOrigin::of(""), true).await.map(drop) }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = relay.counts().bytes_sent;
    assert!(
        before <= limits::BASIC_WAITING_BYTES as u64,
        "{before} bytes wait for an end that does not read"
    );
    let (count, bytes) = waiting_bytes(&mut frames, Duration::from_secs(1)).await;
    assert_eq!((count, bytes), (101, 100 * 300 * 1024), "all of it goes when the other end reads");
}

#[tokio::test(start_paused = true)]
async fn messages_without_content_are_bounded_too() {
    let (relay, mut frames) = Link::new(LinkSide::Relay, "r");
    let empty = vec![Bytes::from(grpc::prefixed(b"").repeat(1_000)); 200];
    let _calling = tokio::spawn({
        let relay = Arc::clone(&relay);
        let request = grpc_request("/betcode.v1.AgentService/Converse", &empty);
        async move { relay.forward(request, &CallOrigin::of(""), true).await.map(drop) }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let state = Arc::clone(&frames.0);
    let most = limits::BASIC_WAITING_BYTES / limits::BASIC_FRAME_BYTES;
    assert!(state.waiting("r-1") <= most, "{} frames wait", state.waiting("r-1"));
    let (count, _) = waiting_bytes(&mut frames, Duration::from_secs(1)).await;
    assert_eq!(count, 200_001);
}

#[tokio::test]
async fn a_machine_that_answers_with_messages_without_content_fills_no_memory() {
    let (relay, _frames) = Link::new(LinkSide::Relay, "r");
    let calling = tokio::spawn({
        let relay = Arc::clone(&relay);
        let request = grpc_request("/betcode.v1.AgentService/Converse", &[]);
        async move { relay.forward(request, &CallOrigin::of(""), true).await.unwrap() }
    });
    while relay.counts().active == 0 {
        tokio::task::yield_now().await;
    }
    let most = limits::BASIC_WAITING_MAX_BYTES / 5 + 1;
    for sequence in 1..=most + 1 {
        relay.receive(data("r-1", sequence, 0));
    }
    assert_eq!(relay.counts().active, 0, "the call has ended");
    let (_, trailers) = collect(calling.await.unwrap().into_body()).await;
    assert_eq!(grpc::status_in(&trailers).unwrap().0, Code::ResourceExhausted);
}

#[tokio::test]
async fn a_link_between_relays_has_room_for_more_calls() {
    let (relay, _frames) = Link::with_calls(LinkSide::Relay, "r", 2);
    for left in [2, 1] {
        let link = Arc::clone(&relay);
        tokio::spawn(async move {
            link.forward(grpc_request("/x.Y/Z", &[]), &CallOrigin::of(""), false).await.map(drop)
        });
        while relay.counts().active + left < 3 {
            tokio::task::yield_now().await;
        }
    }
    let refused = relay.forward(grpc_request("/x.Y/Z", &[]), &CallOrigin::of(""), false).await.err().unwrap();
    assert_eq!(refused.code, Code::ResourceExhausted);
}

#[tokio::test]
async fn large_messages_of_an_end_that_knows_no_credit_are_bounded_together() {
    let (machine, _frames) = Link::new(LinkSide::Machine, "m");
    let mut calls = Vec::new();
    let most = limits::BASIC_HELD_MAX_BYTES / limits::BASIC_MESSAGE_MAX_BYTES;
    for number in 0..most * 2 {
        let mut frame = data(&format!("r-{number}"), 1, limits::BASIC_MESSAGE_MAX_BYTES);
        (frame.service_name, frame.method_name) = ("AgentService".to_owned(), "Converse".to_owned());
        // What it brought is dropped with the call where it is too much.
        if let LinkEvent::Call(call) = machine.receive(frame) {
            calls.push(call);
        }
    }
    assert!(machine.held.load(Ordering::Relaxed) <= limits::BASIC_HELD_MAX_BYTES);
    assert!(machine.counts().active < most * 2, "some calls have ended");
    calls.clear();
    assert_eq!(machine.held.load(Ordering::Relaxed), 0, "nothing is held when nobody reads any more");
}
