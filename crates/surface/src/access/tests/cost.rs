//! What the guard costs a call. Measures and prints; judges nothing. Run it with
//! `cargo nextest run --release -p surface access::tests::cost --run-ignored all --no-capture`.

#![allow(clippy::print_stdout, reason = "a measurement is its output")]

use std::hint::black_box;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use domain::SessionId;
use http::Request;
use prost::Message as _;
use tower::ServiceExt as _;
use wire::obey::v1::ReadEventsRequest;

use super::super::guard::guarded;
use super::OWN;
use crate::access::{decide, grpc};
use crate::peer::Caller;

const CALLS: u32 = 100_000;
const METHOD: &str = "obey.v1.EventService/ReadEvents";

async fn serve(request: Request<Body>) -> Response {
    let bytes = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
    Response::new(Body::from(bytes))
}

fn request() -> Request<Body> {
    let message = ReadEventsRequest { session_id: OWN.to_owned(), ..Default::default() }.encode_to_vec();
    let mut frame = vec![0];
    frame.extend_from_slice(&(message.len() as u32).to_be_bytes());
    frame.extend_from_slice(&message);
    let request = Request::post(format!("/{METHOD}")).header("content-type", "application/grpc");
    request.body(Body::from(frame)).unwrap()
}

async fn nanoseconds(router: &Router) -> f64 {
    let began = Instant::now();
    for _ in 0..CALLS {
        black_box(serve(request()).await);
        black_box(router.clone().oneshot(request()).await.unwrap());
    }
    began.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

fn behind_a_guard(caller: Caller) -> Router {
    let guard = move |request, next| {
        let caller = caller.clone();
        async move { guarded(&caller, request, next).await }
    };
    Router::new().fallback(serve).layer(axum::middleware::from_fn(guard))
}

#[tokio::test]
#[ignore = "a measurement, which judges nothing: run by make test-all"]
async fn a_call_through_the_guard() {
    let agent = Caller::Agent(SessionId::new(OWN));
    let began = Instant::now();
    for _ in 0..CALLS {
        black_box(decide(grpc(black_box(METHOD)).unwrap(), black_box(&agent), false));
    }
    println!("row and decision: {:.0} ns", began.elapsed().as_nanos() as f64 / f64::from(CALLS));
    // A layer that does nothing gives the base cost of every layer.
    let plain =
        axum::middleware::from_fn(|request: Request<Body>, next: axum::middleware::Next| next.run(request));
    let plain = nanoseconds(&Router::new().fallback(serve).layer(plain)).await;
    for (name, caller) in [("user", Caller::User), ("agent", agent)] {
        let guarded = nanoseconds(&behind_a_guard(caller)).await;
        println!("guard for the {name}: {:.0} ns over an empty layer", guarded - plain);
    }
}
