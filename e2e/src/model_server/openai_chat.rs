//! OpenAI's Chat Completions API, streamed and whole, as agents and the daemon's own client use it. Translates
//! requests into script entries and frames into chunks. Decides nothing about replies: scripts and the player do.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use http::{HeaderMap, Method, Uri};
use serde_json::{Value, json};

use super::Shared;
use super::exchange::{record, stream};
use super::openai_responses::conversation::{SUMMARY, asks_for_summary};
use super::openai_responses::{Begun, begin, side_choice, wrong};
use super::record::Purpose;
use super::script::{Choice, Entry, Reply, choose};

mod encode;

pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/v1/chat/completions", post(completions))
}

async fn completions(
    State(shared): State<Shared>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    bytes: Bytes,
) -> Response {
    let request = record(&method, &uri, &headers, &bytes);
    let is_side = request.body["response_format"]["type"] == "json_schema";
    let (purpose, choice) = match &request.body["messages"] {
        Value::Array(_) if is_side => (Purpose::Other, side_choice(Reply::text("{}"))),
        Value::Array(messages) if wants_summary(messages) => {
            (Purpose::Compaction, side_choice(Reply::text(SUMMARY)))
        }
        Value::Array(messages) => (Purpose::Turn, choose(&entries(messages))),
        _ => (Purpose::Other, wrong("messages: a list is required")),
    };
    let step = step_name(&request.body, &choice);
    match begin(&shared, request, purpose, choice, &step) {
        Ok(begun) => respond(shared, begun),
        Err(response) => *response,
    }
}

fn wants_summary(messages: &[Value]) -> bool {
    messages
        .last()
        .is_some_and(|last| last["role"] == "user" && texts(last).iter().any(|t| asks_for_summary(t)))
}

/// Names one step of one conversation. A retry sends the same conversation again and so has the same name.
fn step_name(body: &Value, choice: &Choice) -> String {
    let length = body["messages"].as_array().map_or(0, Vec::len);
    format!("chat {length} {} {}", choice.step, choice.key)
}

/// The conversation as scripts see it. Some agents add messages of their own in the user's name behind the prompt;
/// such a message has no script, so the last one that has one is the prompt.
fn entries(messages: &[Value]) -> Vec<Entry> {
    let has_script = |message: &&Value| texts(message).iter().any(|text| text.contains("SCRIPT:"));
    let scripted = messages.iter().filter(|message| message["role"] == "user").any(|m| has_script(&m));
    let mut entries = Vec::new();
    let mut replies_since = 0_usize;
    for message in messages {
        match message["role"].as_str() {
            Some("assistant") => {
                replies_since += 1;
                entries.push(Entry::Assistant);
            }
            // Right behind a script, without a reply between, only a script replaces it.
            Some("user")
                if scripted && replies_since == 0 && !has_script(&message) && !entries.is_empty() => {}
            Some("user") => {
                replies_since = 0;
                entries.extend(texts(message).into_iter().map(|text| Entry::Prompt(text.trim().to_owned())));
            }
            _ => {}
        }
    }
    entries
}

fn texts(message: &Value) -> Vec<&str> {
    match &message["content"] {
        Value::String(text) => vec![text],
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => Vec::new(),
    }
}

fn respond(shared: Shared, begun: Begun) -> Response {
    let Begun { request, attempt, body, reply } = begun;
    let head = encode::Head::new(shared.ids.next("chatcmpl"), &body, &reply);
    if body["stream"] == json!(true) {
        let encoder = encode::Chunks::new(head);
        stream(shared, request, attempt, reply, encoder, "text/event-stream; charset=utf-8")
    } else {
        let encoder = encode::Whole::new(head);
        stream(shared, request, attempt, reply, encoder, "application/json")
    }
}

#[cfg(test)]
mod tests;
