//! The Responses API as a plain HTTP client sees it; how the real Codex sees it is tested in
//! `tests/it/real_codex_direct.rs`.

use serde_json::{Value, json};

use crate::model_server::ModelServer;
use crate::model_server::record::{Outcome, Purpose};
use crate::model_server::tests::{events, exchange};

fn ask(server: &ModelServer, prompt: &str, more: Value) -> (String, Vec<Value>) {
    let mut body = json!({
        "model": "gpt-5.5", "stream": true, "prompt_cache_key": "thread",
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": prompt}]}],
        "tools": [
            {"type": "function", "name": "exec_command"},
            {"type": "custom", "name": "apply_patch"},
            {"type": "function", "name": "update_plan"},
            {"type": "namespace", "name": "mcp__lab", "tools": [{"type": "function", "name": "echo"}]},
        ],
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        body[key] = value.clone();
    }
    let (head, body) = exchange(server, "POST", "/v1/responses", &body.to_string());
    (head, events(&body))
}

fn items(events: &[Value]) -> Vec<&Value> {
    let done = events.iter().filter(|event| event["type"] == "response.output_item.done");
    done.map(|event| &event["item"]).collect()
}

#[test]
fn a_stream_carries_every_kind_of_item() {
    let server = ModelServer::start().unwrap();
    let script = r#"k SCRIPT: [[{"thinking":"hm"},{"text":"žlutý 🐎","chunks":3},
        {"tool":"Bash","input":{"command":"ls","login":false}},{"tool":"mcp__lab__echo","input":{"a":1}},
        {"tool":"Write","input":{"file_path":"a.txt","content":"x\ny\n"}},{"todo":["one"]},
        {"usage":{"input_tokens":3,"output_tokens":4,"cache_read_input_tokens":2}}]]"#;
    let (head, events) = ask(&server, script, json!({}));
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/event-stream"), "{head}");
    let deltas = |kind: &str| -> String {
        let parts = events.iter().filter(|event| event["type"] == kind);
        parts.filter_map(|event| event["delta"].as_str()).collect()
    };
    assert_eq!(deltas("response.output_text.delta"), "žlutý 🐎");
    assert_eq!(server.sent_text("k"), "žlutý 🐎");
    assert_eq!(deltas("response.reasoning_summary_text.delta"), "hm");
    let items = items(&events);
    let calls: Vec<Value> = items[2..]
        .iter()
        .map(|item| json!([item["type"], item["namespace"], item["name"], item["arguments"], item["input"]]))
        .collect();
    assert_eq!(
        calls,
        [
            json!(["function_call", null, "exec_command", r#"{"login":false,"cmd":"ls"}"#, null]),
            json!(["function_call", "mcp__lab", "echo", r#"{"a":1}"#, null]),
            json!([
                "custom_tool_call",
                null,
                "apply_patch",
                null,
                "*** Begin Patch\n*** Add File: a.txt\n+x\n+y\n*** End Patch\n"
            ]),
            json!([
                "function_call",
                null,
                "update_plan",
                r#"{"plan":[{"step":"one","status":"pending"}]}"#,
                null
            ]),
        ]
    );
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.completed");
    assert_eq!(last["response"]["usage"]["input_tokens"], 5);
    assert_eq!(last["response"]["usage"]["input_tokens_details"]["cached_tokens"], 2);
    assert_eq!(last["response"]["output"].as_array().map(Vec::len), Some(items.len()));
    let numbers: Vec<Option<u64>> = events.iter().map(|event| event["sequence_number"].as_u64()).collect();
    assert_eq!(numbers, (0..events.len() as u64).map(Some).collect::<Vec<_>>());
}

#[test]
fn the_next_step_follows_the_replies_that_came_back() {
    let server = ModelServer::start().unwrap();
    let prompt = r#"k SCRIPT: [{"tool":"Bash","input":{"command":"ls"}},{"text":"second"}]"#;
    let (_, first) = ask(&server, prompt, json!({}));
    let mut call = items(&first)[0].clone();
    call["id"] = Value::Null;
    let output = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "x"});
    let user = json!({"type": "message", "role": "user", "content": prompt});
    let (_, second) = ask(&server, prompt, json!({"input": [user, call, output]}));
    assert_eq!(items(&second)[0]["content"][0]["text"], "second");
}

#[test]
fn errors_and_ends_have_openais_form() {
    let server = ModelServer::start().unwrap();
    let script = r#"e SCRIPT: [[{"status":429,"retry_after":2,"times":1},{"text":"second"}]]"#;
    let (head, _) = ask(&server, script, json!({}));
    assert!(head.starts_with("HTTP/1.1 429") && head.contains("retry-after: 2"), "{head}");
    let (head, _) = ask(&server, script, json!({}));
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let (_, events) = ask(&server, r#"SCRIPT: [{"sse_error":"context_length_exceeded"}]"#, json!({}));
    let last = events.last().unwrap();
    assert_eq!(last["response"]["error"]["code"], "context_length_exceeded");
    let (_, events) = ask(&server, r#"SCRIPT: [[{"text":"a"},{"stop_reason":"max_tokens"}]]"#, json!({}));
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.incomplete");
    assert_eq!(last["response"]["incomplete_details"]["reason"], "max_output_tokens");
    let (_, events) = ask(&server, r#"cut SCRIPT: [[{"text":"a"},{"drop":true}]]"#, json!({}));
    assert!(!events.iter().any(|event| event["type"] == "response.completed"));
    assert_eq!(server.requests_for("cut")[0].outcome, Outcome::Cut);
    let (head, _) = ask(&server, "x", json!({"input": 1}));
    assert!(head.starts_with("HTTP/1.1 400"), "{head}");
}

#[test]
fn side_requests_and_models_are_answered() {
    let server = ModelServer::start().unwrap();
    let schema = json!({"type": "object", "properties": {"title": {"type": "string"}}});
    let form = json!({"text": {"format": {"type": "json_schema", "schema": schema}}, "stream": false});
    let (head, _) = ask(&server, "name this SCRIPT: [{\"text\":\"no\"}]", form);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(server.requests()[0].purpose, Purpose::Other);
    let (head, body) = exchange(&server, "GET", "/v1/models", "");
    assert!(head.starts_with("HTTP/1.1 200") && body.contains("gpt-5.5"), "{head} {body}");
    let (head, _) = exchange(&server, "GET", "/v1/responses", "");
    assert!(head.starts_with("HTTP/1.1 426"), "{head}");
}
