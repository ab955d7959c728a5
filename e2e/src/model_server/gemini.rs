//! Gemini's API, as much of it as its command line uses: contents (streamed and whole), token counts, errors. Translates
//! requests into script entries and frames into its events. Decides nothing about replies: scripts and the player do.

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::post;
use http::{HeaderMap, Method, Uri};
use serde_json::{Value, json};

use super::Shared;
use super::exchange::{self, Refusal, json_response, record, refusal, stream};
use super::names::as_offered;
use super::record::{Outcome, Purpose};
use super::script::{Entry, Reply, choose};

mod encode;

pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/v1beta/models/{call}", post(call))
}

/// Takes a call: the path's last part is the model's name, a colon and what is wanted of it.
async fn call(
    State(shared): State<Shared>,
    Path(call): Path<String>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    bytes: Bytes,
) -> Response {
    let mut request = record(&method, &uri, &headers, &bytes);
    let verb = call.rsplit_once(':').map(|(_, verb)| verb.to_owned()).unwrap_or_default();
    if verb == "countTokens" {
        let index = shared.ledger.arrived(request);
        shared.ledger.ended(index, Outcome::Finished);
        return json_response(&shared, 200, &json!({"totalTokens": 10}), None);
    }
    let body = request.body.clone();
    let streamed = verb == "streamGenerateContent";
    let reply = if is_side(&body) {
        Reply::text("{}")
    } else {
        let choice = choose(&entries(&body));
        request.purpose = Purpose::Turn;
        request.key.clone_from(&choice.key);
        request.step = choice.step;
        match choice.reply {
            Ok(reply) => reply,
            Err(mistake) => {
                let index = shared.ledger.arrived(request);
                return refuse(&shared, index, &Refusal::new(400, format!("bad script: {mistake}")));
            }
        }
    };
    let step = format!("gemini {} {} {}", contents(&body).len(), request.step, request.key);
    let index = shared.ledger.arrived(request);
    let attempt = shared.ledger.attempt(step);
    if let Some(refusal) = refusal(&reply, attempt, streamed) {
        return refuse(&shared, index, &refusal);
    }
    let reply = as_offered(reply, &offered(&body));
    let head = encode::Head::new(&reply);
    if streamed {
        stream(shared, index, attempt, reply, encode::Events::new(head), "text/event-stream")
    } else {
        stream(shared, index, attempt, reply, encode::Whole::new(head), "application/json")
    }
}

/// Whether the request is not part of a conversation: a form to be filled in.
fn is_side(body: &Value) -> bool {
    let wanted = &body["generationConfig"];
    wanted["responseJsonSchema"].is_object() || wanted["responseSchema"].is_object()
}

fn contents(body: &Value) -> &[Value] {
    body["contents"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The tools of a request, with what each takes.
fn offered(body: &Value) -> Vec<(&str, &Value)> {
    let groups = body["tools"].as_array().into_iter().flatten();
    let tools = groups.flat_map(|group| group["functionDeclarations"].as_array().into_iter().flatten());
    tools
        .filter_map(|tool| {
            let takes = ["parametersJsonSchema", "parameters"].map(|key| &tool[key]);
            let takes = takes.into_iter().find(|takes| takes.is_object()).unwrap_or(&Value::Null);
            Some((tool["name"].as_str()?, takes))
        })
        .collect()
}

/// The conversation as scripts see it. The agent writes messages of its own in the user's name, before the first prompt
/// and behind it; they have no script. Neighbouring contents of the model are one reply.
fn entries(body: &Value) -> Vec<Entry> {
    let texts = |content: &Value| -> Vec<String> {
        let parts = content["parts"].as_array().into_iter().flatten();
        parts.filter_map(|part| Some(part["text"].as_str()?.trim().to_owned())).collect()
    };
    let is_script = |text: &String| text.contains("SCRIPT:");
    let users = || contents(body).iter().filter(|content| content["role"] != "model");
    let scripted = users().any(|content| texts(content).iter().any(is_script));
    let mut entries = Vec::new();
    let mut in_reply = false;
    for content in contents(body) {
        if content["role"] == "model" {
            if !in_reply {
                entries.push(Entry::Assistant);
            }
            in_reply = true;
            continue;
        }
        in_reply = false;
        let said = texts(content).into_iter().filter(|text| !text.is_empty());
        entries.extend(said.filter(|text| !scripted || is_script(text)).map(Entry::Prompt));
    }
    entries
}

fn refuse(shared: &Shared, request: usize, refusal: &Refusal) -> Response {
    let status = match refusal.code {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        _ => "INTERNAL",
    };
    let body = json!({"error": {"code": refusal.code, "message": refusal.message, "status": status}});
    exchange::refuse(shared, request, refusal, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_found_behind_what_the_agent_adds() {
        let said = |role: &str, text: &str| json!({"role": role, "parts": [{"text": text}]});
        let call = json!({"role": "model", "parts": [{"functionCall": {"name": "run_shell_command"}}]});
        let result = json!({"role": "user", "parts": [{"functionResponse": {"name": "run_shell_command"}}]});
        let body = json!({"contents": [
            said("user", "<session_context>"), said("user", "one SCRIPT: []"), said("model", "hm"), call, result,
        ]});
        assert_eq!(entries(&body), [Entry::Prompt("one SCRIPT: []".into()), Entry::Assistant]);
        assert_eq!(entries(&json!({"contents": [said("user", "hi")]})), [Entry::Prompt("hi".into())]);
        assert!(is_side(&json!({"generationConfig": {"responseJsonSchema": {}}})));
    }
}
