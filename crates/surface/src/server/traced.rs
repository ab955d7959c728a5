//! The span of each call, for a receiver of traces: continues the trace that the caller names in `traceparent`, and is the
//! parent of what the call starts. Has the method's name and how the call ended; nothing of what was sent.

use axum::body::Body;
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, Request};
use runtime::trace::{self, TraceParent};
use tracing::Instrument as _;
use wire::access::Protocol;

use crate::access;

/// Serves a request inside its span.
pub(super) async fn traced(request: Request<Body>, next: Next) -> Response {
    let row = if trace::is_enabled() { access::row_of(&request) } else { None };
    let Some(row) = row else { return next.run(request).await };
    let protocol = if row.protocol == Protocol::Grpc { "grpc" } else { "http" };
    let span = trace::call_span(row.method, protocol, &place_in(request.headers()));
    let response = next.run(request).instrument(span.clone()).await;
    if is_failure(&response) {
        span.record("otel.status_code", "ERROR");
    }
    response
}

/// Reads the caller's place in a trace; the receiver ignores what is no such place.
fn place_in(headers: &HeaderMap) -> TraceParent {
    let text =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    TraceParent { parent: text("traceparent"), state: text("tracestate") }
}

/// Whether a call failed at once. The status of a stream comes after its messages and is not waited for.
fn is_failure(response: &Response) -> bool {
    let status = response.headers().get("grpc-status").map(http::HeaderValue::as_bytes);
    response.status().is_server_error() || status.is_some_and(|status| status != b"0")
}
