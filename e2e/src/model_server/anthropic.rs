//! The Anthropic Messages API, as much of it as Claude Code uses: messages (streamed and whole), token counts, the
//! greeting, errors. Translates requests into script entries and frames into server-sent events. Decides nothing about
//! replies: scripts and the player do.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use axum::routing::{head, post};
use http::{HeaderMap, Method, StatusCode, Uri};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::Shared;
use super::play::{Encoder, Player};
use super::record::{Outcome, Purpose, Request};
use super::script::{Block, Choice, Reply, choose};

mod conversation;
mod encode;

/// Frames that may be on their way inside the server. Small, so that `sent_text` is close to what the client has.
const BODY_FRAMES_MAX: usize = 1;

/// Why a request is answered with an error.
struct Refusal {
    code: u16,
    kind: String,
    message: String,
    retry_after: Option<String>,
}

pub(crate) fn routes() -> Router<Shared> {
    Router::new()
        .route("/v1/messages", post(messages))
        .route("/v1/messages/count_tokens", post(count_tokens))
        .route("/api/hello", head(hello))
        .fallback(unknown)
}

async fn messages(
    State(shared): State<Shared>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    bytes: Bytes,
) -> Response {
    let mut request = record(&method, &uri, &headers, &bytes);
    if !request.body["messages"].is_array() {
        let index = shared.ledger.arrived(request);
        return refuse(&shared, index, &invalid("messages: a list is required"));
    }
    request.purpose = conversation::purpose(&request.body);
    let choice = match request.purpose {
        Purpose::Turn => choose(&conversation::entries(&request.body)),
        side => Choice { key: String::new(), step: 0, reply: Ok(conversation::side_reply(side)) },
    };
    request.key.clone_from(&choice.key);
    request.step = choice.step;
    let step = step_name(&request);
    let body = request.body.clone();
    let index = shared.ledger.arrived(request);
    let reply = match choice.reply {
        Ok(reply) => reply,
        Err(mistake) => return refuse(&shared, index, &invalid(&format!("bad script: {mistake}"))),
    };
    let attempt = shared.ledger.attempt(step);
    let streamed = body["stream"] == json!(true);
    match refusal(&reply, attempt, streamed) {
        Some(refusal) => refuse(&shared, index, &refusal),
        None => respond(shared, index, attempt, &body, reply),
    }
}

async fn count_tokens(
    State(shared): State<Shared>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    bytes: Bytes,
) -> Response {
    let index = shared.ledger.arrived(record(&method, &uri, &headers, &bytes));
    shared.ledger.ended(index, Outcome::Finished);
    json_response(&shared, 200, &json!({"input_tokens": (bytes.len() / 4).max(1)}), None)
}

async fn hello(State(shared): State<Shared>, method: Method, uri: Uri, headers: HeaderMap) -> StatusCode {
    let index = shared.ledger.arrived(record(&method, &uri, &headers, &Bytes::new()));
    shared.ledger.ended(index, Outcome::Finished);
    StatusCode::OK
}

async fn unknown(
    State(shared): State<Shared>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    bytes: Bytes,
) -> Response {
    let index = shared.ledger.arrived(record(&method, &uri, &headers, &bytes));
    let refusal = Refusal {
        code: 404,
        kind: kind_of(404).to_owned(),
        message: format!("no such path: {}", uri.path()),
        retry_after: None,
    };
    refuse(&shared, index, &refusal)
}

fn record(method: &Method, uri: &Uri, headers: &HeaderMap, bytes: &Bytes) -> Request {
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

/// Names one step of one conversation. A retry sends the same conversation again and so has the same name.
fn step_name(request: &Request) -> String {
    let session = request.header("x-claude-code-session-id").unwrap_or_default();
    let length = request.body["messages"].as_array().map_or(0, Vec::len);
    format!("{session} {length} {} {}", request.step, request.key)
}

/// The error a reply begins with, if any.
fn refusal(reply: &Reply, attempt: u64, streamed: bool) -> Option<Refusal> {
    reply.blocks.iter().find_map(|block| match block {
        Block::Status { code, kind, message, retry_after, times }
            if times.is_none_or(|times| attempt <= times) =>
        {
            Some(Refusal {
                code: *code,
                kind: kind.clone().unwrap_or_else(|| kind_of(*code).to_owned()),
                message: message.clone(),
                retry_after: retry_after.clone(),
            })
        }
        // A reply that is not streamed has no middle in which an error could come.
        Block::StreamError { kind, message } if !streamed => {
            Some(Refusal { code: 529, kind: kind.clone(), message: message.clone(), retry_after: None })
        }
        _ => None,
    })
}

fn respond(shared: Shared, request: usize, attempt: u64, body: &Value, reply: Reply) -> Response {
    let head = encode::Head::new(shared.ids.next("msg"), body, &reply);
    if body["stream"] == json!(true) {
        let encoder = encode::Events::new(head);
        stream(shared, request, attempt, reply, encoder, "text/event-stream; charset=utf-8")
    } else {
        let encoder = encode::Whole::new(head);
        stream(shared, request, attempt, reply, encoder, "application/json")
    }
}

fn stream(
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

fn invalid(message: &str) -> Refusal {
    Refusal { code: 400, kind: kind_of(400).to_owned(), message: message.to_owned(), retry_after: None }
}

fn refuse(shared: &Shared, request: usize, refusal: &Refusal) -> Response {
    shared.ledger.ended(request, Outcome::Refused(refusal.code));
    let body = encode::error(&refusal.kind, &refusal.message);
    json_response(shared, refusal.code, &body, refusal.retry_after.as_deref())
}

fn json_response(shared: &Shared, code: u16, body: &Value, retry_after: Option<&str>) -> Response {
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

fn kind_of(code: u16) -> &'static str {
    match code {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    }
}
