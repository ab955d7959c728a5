//! OpenAI's embeddings API: vectors made of the words of a text, of which some mean the same although they look
//! different. The model's name decides how many numbers a vector has: `small` 48, any other 96.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use http::{HeaderMap, Method, Uri};
use serde_json::{Value, json};

use super::Shared;
use super::exchange::{Refusal, json_response, record};
use super::openai_responses::refuse;
use super::record::Outcome;

/// Words that a model would know to be the same.
const SAME: &[(&str, &str)] =
    &[("automobile", "car"), ("physician", "doctor"), ("feline", "cat"), ("brumbrum", "car")];

pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/v1/embeddings", post(embeddings))
}

async fn embeddings(
    State(shared): State<Shared>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    bytes: Bytes,
) -> Response {
    let request = record(&method, &uri, &headers, &bytes);
    let body = request.body.clone();
    let index = shared.ledger.arrived(request);
    let texts: Option<Vec<&str>> =
        body["input"].as_array().map(|list| list.iter().filter_map(Value::as_str).collect());
    let Some(texts) = texts.filter(|texts| !texts.is_empty()) else {
        return refuse(&shared, index, &Refusal::new(400, "input: a list of texts is required"));
    };
    if texts.iter().any(|text| text.contains("the endpoint is overloaded")) {
        return refuse(&shared, index, &Refusal::new(503, "overloaded"));
    }
    shared.ledger.ended(index, Outcome::Finished);
    let width = if body["model"] == "small" { 48 } else { 96 };
    // The last comes first: clients must go by the index.
    let data: Vec<Value> = texts
        .iter()
        .enumerate()
        .rev()
        .map(|(at, text)| json!({"object": "embedding", "index": at, "embedding": vector(text, width)}))
        .collect();
    let usage = json!({"prompt_tokens": 1, "total_tokens": 1});
    json_response(
        &shared,
        200,
        &json!({"object": "list", "data": data, "model": body["model"], "usage": usage}),
        None,
    )
}

fn vector(text: &str, width: usize) -> Vec<f32> {
    let mut numbers = vec![0f32; width];
    for word in
        text.to_lowercase().split(|letter: char| !letter.is_alphanumeric()).filter(|word| word.len() > 2)
    {
        let meant = SAME.iter().find(|(other, _)| *other == word).map_or(word, |(_, meant)| meant);
        let hash = meant.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let at = usize::try_from((hash >> 20) % width as u64).unwrap_or(0);
        numbers[at] += if hash >> 63 == 0 { 1.0 } else { -1.0 };
    }
    // A text of nothing but short words is still a text.
    numbers[0] += 0.01;
    numbers
}
