//! One HTTP exchange, the same for every model API: how a request is noted, how a reply is streamed, how an error is
//! answered. Knows no API's message format; the API modules hand in their own bodies.

use axum::body::{Body, Bytes};
use axum::response::Response;
use http::{HeaderMap, Method, StatusCode, Uri};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::Shared;
use super::play::{Encoder, Player};
use super::record::{Outcome, Purpose, Request};
use super::script::{Block, Reply};

/// Frames that may be on their way inside the server. Small, so that `sent_text` is close to what the client has.
const BODY_FRAMES_MAX: usize = 1;

/// Why a request is answered with an error.
pub(super) struct Refusal {
    pub(super) code: u16,
    /// The API's own word for the error; absent: the one that belongs to the code.
    pub(super) kind: Option<String>,
    pub(super) message: String,
    pub(super) retry_after: Option<String>,
    /// When the used-up limit of the user's plan ends, in seconds since 1970.
    pub(super) plan_resets_at: Option<u64>,
}

impl Refusal {
    pub(super) fn new(code: u16, message: impl Into<String>) -> Refusal {
        Refusal { code, kind: None, message: message.into(), retry_after: None, plan_resets_at: None }
    }
}

/// Notes a request as it arrived.
pub(super) fn record(method: &Method, uri: &Uri, headers: &HeaderMap, bytes: &Bytes) -> Request {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let body = match serde_json::from_slice(bytes) {
        Ok(body) => body,
        Err(_) if bytes.is_empty() => Value::Null,
        Err(_) => Value::String(String::from_utf8_lossy(bytes).into_owned()),
    };
    Request {
        index: 0,
        method: method.to_string(),
        path: uri.path().to_owned(),
        query: uri.query().unwrap_or_default().to_owned(),
        headers: headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect(),
        body,
        purpose: Purpose::Other,
        key: String::new(),
        step: 0,
        sent_text: String::new(),
        outcome: Outcome::Open,
    }
}

/// The error a reply begins with, if any.
pub(super) fn refusal(reply: &Reply, attempt: u64, streamed: bool) -> Option<Refusal> {
    reply.blocks.iter().find_map(|block| match block {
        Block::Status { code, kind, message, retry_after, plan_resets_in_secs, times }
            if times.is_none_or(|times| attempt <= times) =>
        {
            Some(Refusal {
                code: *code,
                kind: kind.clone(),
                message: message.clone(),
                retry_after: retry_after.clone(),
                plan_resets_at: plan_resets_in_secs.map(|wait| now_secs() + wait),
            })
        }
        // A reply that is not streamed has no middle in which an error could come.
        Block::StreamError { kind, message } if !streamed => {
            Some(Refusal { kind: Some(kind.clone()), ..Refusal::new(529, message) })
        }
        _ => None,
    })
}

/// Plays a reply as the body of a response.
pub(super) fn stream(
    shared: Shared,
    request: usize,
    attempt: u64,
    reply: Reply,
    encoder: impl Encoder,
    content_type: &str,
) -> Response {
    let (body, frames) = mpsc::channel(BODY_FRAMES_MAX);
    let request_id = shared.ids.next("req");
    let player = Player { ledger: shared.ledger, request, encoder, body, ids: shared.ids, attempt };
    tokio::spawn(player.play(reply));
    finish(
        Response::builder()
            .status(StatusCode::OK)
            .header("content-type", content_type)
            .header("cache-control", "no-cache")
            .header("request-id", request_id)
            .body(Body::from_stream(ReceiverStream::new(frames))),
    )
}

/// Answers with an error whose body the API made.
pub(super) fn refuse(shared: &Shared, request: usize, refusal: &Refusal, body: &Value) -> Response {
    shared.ledger.ended(request, Outcome::Refused(refusal.code));
    json_response(shared, refusal.code, body, refusal.retry_after.as_deref())
}

/// The same with headers of the API's own.
pub(super) fn refuse_with(
    shared: &Shared,
    request: usize,
    refusal: &Refusal,
    headers: Vec<(&'static str, String)>,
    body: &Value,
) -> Response {
    let mut response = refuse(shared, request, refusal, body);
    for (name, value) in headers {
        // Digits and words of this server's own are always a header's value.
        if let Ok(value) = value.parse() {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// Seconds since 1970.
fn now_secs() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

/// Answers with one JSON value.
pub(super) fn json_response(shared: &Shared, code: u16, body: &Value, retry_after: Option<&str>) -> Response {
    let mut response = Response::builder()
        .status(code)
        .header("content-type", "application/json")
        .header("request-id", shared.ids.next("req"));
    if let Some(seconds) = retry_after {
        response = response.header("retry-after", seconds);
    }
    finish(response.body(Body::from(body.to_string())))
}

/// A header or status that HTTP does not allow can only come from a script; say so instead of failing the server.
fn finish(response: Result<Response, http::Error>) -> Response {
    response.unwrap_or_else(|error| {
        let mut response =
            Response::new(Body::from(format!("the script asks for what HTTP forbids: {error}")));
        *response.status_mut() = StatusCode::BAD_REQUEST;
        response
    })
}
