//! The Anthropic Messages API, as much of it as Claude Code uses: messages (streamed and whole), token counts, the
//! greeting, errors. Translates requests into script entries and frames into server-sent events. Decides nothing about
//! replies: scripts and the player do.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{head, post};
use http::{HeaderMap, Method, StatusCode, Uri};
use serde_json::{Value, json};

use super::Shared;
use super::exchange::{self, Refusal, json_response, record, refusal, stream};
use super::record::{Outcome, Purpose, Request};
use super::script::{Choice, Reply, choose};

mod conversation;
mod encode;

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
    let refusal = Refusal::new(404, format!("no such path: {}", uri.path()));
    refuse(&shared, index, &refusal)
}

/// Names one step of one conversation. A retry sends the same conversation again and so has the same name.
fn step_name(request: &Request) -> String {
    let session = request.header("x-claude-code-session-id").unwrap_or_default();
    let length = request.body["messages"].as_array().map_or(0, Vec::len);
    format!("{session} {length} {} {}", request.step, request.key)
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

fn invalid(message: &str) -> Refusal {
    Refusal::new(400, message)
}

fn refuse(shared: &Shared, request: usize, refusal: &Refusal) -> Response {
    let kind = refusal.kind.as_deref().unwrap_or_else(|| kind_of(refusal.code));
    let headers = refusal.plan_resets_at.map(plan_headers).unwrap_or_default();
    exchange::refuse_with(shared, request, refusal, headers, &encode::error(kind, &refusal.message))
}

/// How the service tells a user who is logged in with a plan that its limit of five hours is used up.
fn plan_headers(resets_at: u64) -> Vec<(&'static str, String)> {
    vec![
        ("anthropic-ratelimit-unified-status", "rejected".to_owned()),
        ("anthropic-ratelimit-unified-reset", resets_at.to_string()),
        ("anthropic-ratelimit-unified-representative-claim", "five_hour".to_owned()),
        ("anthropic-ratelimit-unified-overage-status", "rejected".to_owned()),
    ]
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
