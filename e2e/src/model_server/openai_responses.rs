//! OpenAI's Responses API, as much of it as Codex uses: responses (streamed and whole), the list of models, errors.
//! Translates requests into script entries and frames into server-sent events. Decides nothing about replies: scripts
//! and the player do.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use http::{HeaderMap, Method, Uri};
use serde_json::{Value, json};

use super::Shared;
use super::exchange::{self, Refusal, json_response, record, refusal, stream};
use super::record::{Outcome, Purpose, Request};
use super::script::{Choice, Reply, choose};

pub(super) mod conversation;
mod encode;
mod tools;

/// Models that `/v1/models` lists; every other name is served as well.
const MODELS: &[&str] = &["gpt-5.5", "scripted"];

pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/v1/responses", post(responses).get(upgrade)).route("/v1/models", get(models))
}

async fn responses(
    State(shared): State<Shared>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    bytes: Bytes,
) -> Response {
    let request = record(&method, &uri, &headers, &bytes);
    let is_conversation = request.body["input"].is_array() || request.body["input"].is_string();
    let purpose = conversation::purpose(&request.body);
    let choice = match purpose {
        _ if !is_conversation => wrong("input: a list or a text is required"),
        Purpose::Turn => choose(&conversation::entries(&request.body)),
        side => side_choice(conversation::side_reply(side, &request.body)),
    };
    let step = conversation::step_name(&request.body, &choice);
    match begin(&shared, request, purpose, choice, &step) {
        Ok(begun) => respond(shared, begun),
        Err(response) => *response,
    }
}

/// Codex may ask for a WebSocket first; told that there is none, it uses plain HTTP.
async fn upgrade(State(shared): State<Shared>, method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let index = shared.ledger.arrived(record(&method, &uri, &headers, &Bytes::new()));
    refuse(&shared, index, &Refusal::new(426, "there is no WebSocket here"))
}

async fn models(State(shared): State<Shared>, method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let index = shared.ledger.arrived(record(&method, &uri, &headers, &Bytes::new()));
    shared.ledger.ended(index, Outcome::Finished);
    let model = |id: &&str| json!({"id": id, "object": "model", "created": 1, "owned_by": "scripted"});
    let data: Vec<Value> = MODELS.iter().map(model).collect();
    // The second list is where Codex looks; empty, it goes on with the models it knows.
    json_response(&shared, 200, &json!({"object": "list", "data": data, "models": []}), None)
}

/// A request whose reply is decided and will be sent.
pub(super) struct Begun {
    pub(super) request: usize,
    pub(super) attempt: u64,
    pub(super) body: Value,
    pub(super) reply: Reply,
}

/// Notes the request and its choice; answers at once where the choice is an error.
pub(super) fn begin(
    shared: &Shared,
    mut request: Request,
    purpose: Purpose,
    choice: Choice,
    step: &str,
) -> Result<Begun, Box<Response>> {
    request.purpose = purpose;
    request.key = choice.key;
    request.step = choice.step;
    let body = request.body.clone();
    let index = shared.ledger.arrived(request);
    if let Some(answer) = shared.ceiling.refusal(&body) {
        return Err(Box::new(exchange::refuse(shared, index, &Refusal::new(400, ""), &answer)));
    }
    let reply = choice
        .reply
        .map_err(|mistake| refuse(shared, index, &Refusal::new(400, format!("bad script: {mistake}"))))?;
    let attempt = shared.ledger.attempt(step.to_owned());
    match refusal(&reply, attempt, body["stream"] == json!(true)) {
        Some(refusal) => Err(Box::new(refuse(shared, index, &refusal))),
        None => Ok(Begun { request: index, attempt, body, reply }),
    }
}

/// A choice that ends in an error answer.
pub(super) fn wrong(message: &str) -> Choice {
    Choice { key: String::new(), step: 0, reply: Err(message.to_owned()) }
}

/// The choice for a request that is not part of a conversation.
pub(super) fn side_choice(reply: Reply) -> Choice {
    Choice { key: String::new(), step: 0, reply: Ok(reply) }
}

fn respond(shared: Shared, begun: Begun) -> Response {
    let Begun { request, attempt, body, reply } = begun;
    let (reply, forms) = tools::as_offered(reply, &body, &shared.ids);
    let head = encode::Head::new(shared.ids.clone(), &body, &reply, forms);
    if body["stream"] == json!(true) {
        let encoder = encode::Events::new(head);
        stream(shared, request, attempt, reply, encoder, "text/event-stream; charset=utf-8")
    } else {
        let encoder = encode::Whole::new(head);
        stream(shared, request, attempt, reply, encoder, "application/json")
    }
}

/// Answers with an error in OpenAI's form.
pub(super) fn refuse(shared: &Shared, request: usize, refusal: &Refusal) -> Response {
    let kind = refusal.kind.as_deref().unwrap_or_else(|| kind_of(refusal.code));
    let code = if refusal.code == 401 { "invalid_api_key" } else { kind };
    let mut body = json!({"error": {"message": refusal.message, "type": kind, "param": null, "code": code}});
    let Some(resets_at) = refusal.plan_resets_at else {
        return exchange::refuse(shared, request, refusal, &body);
    };
    // How the service tells a user who is logged in with a plan that its limit of five hours is used up.
    body["error"] = json!({
        "message": refusal.message, "type": "usage_limit_reached", "plan_type": "plus", "resets_at": resets_at,
    });
    let headers = vec![
        ("x-codex-primary-used-percent", "100".to_owned()),
        ("x-codex-primary-window-minutes", "300".to_owned()),
        ("x-codex-primary-reset-at", resets_at.to_string()),
    ];
    exchange::refuse_with(shared, request, refusal, headers, &body)
}

fn kind_of(code: u16) -> &'static str {
    match code {
        400 | 401 | 404 => "invalid_request_error",
        403 => "permission_error",
        429 => "rate_limit_exceeded",
        _ => "server_error",
    }
}

#[cfg(test)]
mod tests;
