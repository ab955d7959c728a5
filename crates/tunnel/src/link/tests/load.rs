//! One client that behaves badly beside others that do not: time is simulated, so that only order and amounts are judged.

use super::*;

/// Makes a call with a body and returns how many bytes came back.
async fn echoed(relay: &Arc<Link>, length: usize) -> usize {
    let body = Bytes::from(vec![3; length]);
    let request = grpc_request("/x.Y/Z", &[body]);
    let response = relay.forward(request, &CallOrigin::of(""), false).await.unwrap();
    collect(response.into_body()).await.0.len()
}

#[tokio::test(start_paused = true)]
async fn a_hundred_calls_go_on_beside_clients_that_never_read() {
    let (relay, _machine) = tunnel();
    let mut stuck = Vec::new();
    for _ in 0..20 {
        let large = Bytes::from(vec![1; 4 * 1024 * 1024]);
        let request = grpc_request("/x.Y/Z", &[large]);
        stuck.push(relay.forward(request, &CallOrigin::of(""), false).await.unwrap());
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let held = relay.counts().bytes_received;
    assert!(held <= 20 * limits::INITIAL_CREDIT_BYTES, "{held} bytes wait for clients that do not read");
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let relay = Arc::clone(&relay);
            tokio::spawn(async move { echoed(&relay, 300_000).await })
        })
        .collect();
    for call in calls {
        // Simulated time does not pass while anything moves: a call that is held up would never end.
        let ended = tokio::time::timeout(Duration::from_secs(1), call).await;
        assert_eq!(ended.unwrap().unwrap(), 300_000);
    }
    drop(stuck);
    assert_eq!(relay.counts().active, 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_opens_and_cancels_without_end_leaves_nothing_behind() {
    let (relay, machine) = tunnel();
    for number in 0..100_000_u32 {
        let request = grpc_request("/x.Y/Z", &[grpc::prefixed(b"hi")]);
        let origin = CallOrigin::of("");
        let mut calling = Box::pin(relay.forward(request, &origin, false));
        // It is polled once, which opens it, and dropped, as when a client resets its stream.
        let is_answered = futures_poll(&mut calling).await;
        assert!(!is_answered);
        drop(calling);
        if number % 1_000 == 0 {
            assert_eq!(echoed(&relay, 1_000).await, 1_000, "others are served meanwhile");
        }
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((relay.counts().active, machine.counts().active), (0, 0));
}

/// Polls a future once.
async fn futures_poll<F: Future + Unpin>(future: &mut F) -> bool {
    std::future::poll_fn(|context| std::task::Poll::Ready(Pin::new(&mut *future).poll(context).is_ready()))
        .await
}

#[tokio::test(start_paused = true)]
async fn small_calls_wait_for_no_more_than_a_frame_of_each_large_one() {
    let (relay, mut frames) = Link::new(LinkSide::Relay, "r");
    let large = Bytes::from(vec![1; 32 * 1024 * 1024]);
    for _ in 0..3 {
        let (relay, large) = (Arc::clone(&relay), large.clone());
        tokio::spawn(async move {
            relay.forward(grpc_request("/x.Y/Z", &[large]), &CallOrigin::of(""), false).await.map(drop)
        });
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    tokio::spawn(async move {
        relay
            .forward(grpc_request("/x.Y/Z", &[grpc::prefixed(b"hi")]), &CallOrigin::of(""), false)
            .await
            .map(drop)
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut before = 0;
    while let Some(frame) = frames.next().await {
        if frame.request_id == "r-4" {
            break;
        }
        before += 1;
    }
    assert!(before <= 3, "{before} frames of large calls went before the head of a small one");
}
