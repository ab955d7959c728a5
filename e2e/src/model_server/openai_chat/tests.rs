//! Chat Completions as a plain HTTP client sees them.

use serde_json::{Value, json};

use super::entries;
use crate::model_server::ModelServer;
use crate::model_server::script::Entry;
use crate::model_server::tests::exchange;

fn ask(server: &ModelServer, prompt: &str, stream: bool) -> (String, String) {
    let body = json!({
        "model": "m", "stream": stream, "stream_options": {"include_usage": true},
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": prompt}],
    });
    exchange(server, "POST", "/v1/chat/completions", &body.to_string())
}

fn chunks(body: &str) -> Vec<Value> {
    let lines = body.lines().filter_map(|line| line.strip_prefix("data: "));
    lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn a_stream_carries_text_reasoning_calls_and_usage() {
    let server = ModelServer::start().unwrap();
    let script = r#"k SCRIPT: [[{"thinking":"hm"},{"text":"hello","chunks":2},{"tool":"look","input":{"a":1}},
        {"usage":{"input_tokens":3,"output_tokens":4}}]]"#;
    let (head, body) = ask(&server, script, true);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(body.contains("data: [DONE]"), "{body}");
    let chunks = chunks(&body);
    let field = |name: &str| -> String {
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"][name].as_str()).collect()
    };
    assert_eq!((field("content"), field("reasoning_content")), ("hello".to_owned(), "hm".to_owned()));
    let call = |chunk: &Value| chunk["choices"][0]["delta"]["tool_calls"][0]["function"].clone();
    let arguments: String =
        chunks.iter().filter_map(|chunk| call(chunk)["arguments"].as_str().map(str::to_owned)).collect();
    assert_eq!(arguments, r#"{"a":1}"#);
    assert!(chunks.iter().any(|chunk| call(chunk)["name"] == "look"));
    assert!(chunks.iter().any(|chunk| chunk["choices"][0]["finish_reason"] == "tool_calls"));
    assert_eq!(chunks.last().unwrap()["usage"]["total_tokens"], 7);
}

#[test]
fn without_stream_the_same_reply_comes_whole() {
    let server = ModelServer::start().unwrap();
    let (_, body) = ask(&server, r#"SCRIPT: [[{"text":"whole"},{"tool":"look","input":{}}]]"#, false);
    let json = body.lines().find(|line| line.starts_with('{')).unwrap();
    let message: Value = serde_json::from_str(json).unwrap();
    let choice = &message["choices"][0];
    assert_eq!(choice["message"]["content"], "whole");
    assert_eq!(choice["message"]["tool_calls"][0]["function"]["arguments"], "{}");
    assert_eq!(choice["finish_reason"], "tool_calls");
    let (head, body) = ask(&server, r#"SCRIPT: [{"status":401,"message":"no"}]"#, false);
    assert!(head.starts_with("HTTP/1.1 401") && body.contains("invalid_api_key"), "{head} {body}");
}

#[test]
fn what_agents_add_behind_a_script_is_no_prompt() {
    let messages = [
        json!({"role": "user", "content": "a SCRIPT: []"}),
        json!({"role": "user", "content": "context only"}),
        json!({"role": "assistant", "content": "x"}),
        json!({"role": "tool", "content": "SCRIPT: []"}),
    ];
    assert_eq!(entries(&messages), [Entry::Prompt("a SCRIPT: []".into()), Entry::Assistant]);
    let plain = [json!({"role": "user", "content": "a"}), json!({"role": "user", "content": "b"})];
    assert_eq!(entries(&plain), [Entry::Prompt("a".into()), Entry::Prompt("b".into())]);
}
