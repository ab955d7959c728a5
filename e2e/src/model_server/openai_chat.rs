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
use super::names::as_offered;
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
    let is_side =
        request.body["response_format"]["type"] == "json_schema" || names_a_conversation(&request.body);
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

/// Whether an agent asks for a title of its conversation, as opencode does beside the first turn.
fn names_a_conversation(body: &Value) -> bool {
    let first = body["messages"].as_array().and_then(|messages| messages.first());
    first.is_some_and(|first| texts(first).iter().any(|text| text.contains("You are a title generator")))
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
            Some("user") if texts(message).is_empty() => {}
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
    let said: Vec<&str> = match &message["content"] {
        Value::String(text) => vec![text],
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => Vec::new(),
    };
    let own = said.into_iter().map(without_reminder);
    own.filter(|text| !text.is_empty()).collect()
}

/// A text without what agents add to it: goose and OpenClaw the time, the folder, their notes.
fn without_reminder(text: &str) -> &str {
    if text.starts_with("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>") {
        return "";
    }
    // [Sun 2026-11-15 02:33 UTC] what the person said
    if let Some((time, said)) = text.strip_prefix('[').and_then(|rest| rest.split_once("] "))
        && time.len() < 40
        && time.ends_with("UTC")
    {
        return said;
    }
    let Some((before, rest)) = text.split_once("<info-msg>") else { return text };
    let after = rest.split_once("</info-msg>").map_or("", |(_, after)| after).trim();
    if after.is_empty() { before.trim() } else { after }
}

/// The tools of a request, with what each takes.
fn offered(body: &Value) -> Vec<(&str, &Value)> {
    let tools = body["tools"].as_array().into_iter().flatten().map(|tool| &tool["function"]);
    tools.filter_map(|tool| Some((tool["name"].as_str()?, &tool["parameters"]))).collect()
}

fn respond(shared: Shared, begun: Begun) -> Response {
    let Begun { request, attempt, body, reply } = begun;
    let reply = as_offered(reply, &offered(&body));
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
