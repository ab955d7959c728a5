//! The server as a plain HTTP client sees it; how real agents see it is tested in `tests/it/real_claude_direct.rs`.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::*;

/// One HTTP exchange on a connection of its own; returns head and body as they came, chunk framing included.
pub(super) fn exchange(server: &ModelServer, method: &str, path: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(server.address).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut all = Vec::new();
    // A cut connection may end in a reset; what came before is the answer.
    let _ = stream.read_to_end(&mut all);
    let all = String::from_utf8_lossy(&all).into_owned();
    let (head, body) = all.split_once("\r\n\r\n").unwrap_or((all.as_str(), ""));
    (head.to_owned(), body.to_owned())
}

fn ask(server: &ModelServer, prompt: &str, stream: bool) -> (String, String) {
    let body = json!({"model": "m", "stream": stream, "max_tokens": 9, "tools": [{"name": "Bash"}],
        "messages": [{"role": "user", "content": prompt}, {"role": "system", "content": ""}]});
    exchange(server, "POST", "/v1/messages?beta=true", &body.to_string())
}

pub(super) fn events(body: &str) -> Vec<Value> {
    body.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

fn deltas(events: &[Value], kind: &str) -> String {
    let deltas = events.iter().filter(|event| event["delta"]["type"] == format!("{kind}_delta"));
    let field = if kind == "input_json" { "partial_json" } else { kind };
    deltas.filter_map(|event| event["delta"][field].as_str()).collect()
}

#[test]
fn a_stream_carries_every_kind_of_block_byte_for_byte() {
    let server = ModelServer::start().unwrap();
    let script = r#"k SCRIPT: [[{"thinking":"hm"},{"text":"žlutý\n 🐎","chunks":5},{"tool":"Bash","input":{"command":"ls"}},
        {"tool":"Read","input":{}},{"usage":{"input_tokens":3,"output_tokens":4}}]]"#;
    let (head, body) = ask(&server, script, true);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.contains("text/event-stream"), "{head}");
    let events = events(&body);
    assert_eq!(deltas(&events, "text"), "žlutý\n 🐎");
    assert_eq!(server.sent_text("k"), "žlutý\n 🐎");
    assert_eq!(deltas(&events, "thinking"), "hm");
    assert_eq!(deltas(&events, "input_json"), r#"{"command":"ls"}{}"#);
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!((kinds[0], kinds[kinds.len() - 1]), ("message_start", "message_stop"));
    let delta = &events[events.len() - 2];
    assert_eq!(delta["delta"]["stop_reason"], "tool_use");
    assert_eq!(delta["usage"]["output_tokens"], 4);
    assert_eq!(events[0]["message"]["usage"]["input_tokens"], 3);
    let ids: Vec<&Value> =
        events.iter().map(|e| &e["content_block"]["id"]).filter(|id| !id.is_null()).collect();
    assert_eq!(ids.len(), 2);
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn without_stream_the_same_reply_comes_whole() {
    let server = ModelServer::start().unwrap();
    let (_, body) = ask(&server, r#"SCRIPT: [[{"thinking":"t"},{"text":"whole"}]]"#, false);
    let json = body.lines().find(|line| line.starts_with('{')).unwrap();
    let message: Value = serde_json::from_str(json).unwrap();
    assert_eq!(message["content"][1], json!({"type": "text", "text": "whole"}));
    assert_eq!(message["stop_reason"], "end_turn");
}

#[test]
fn errors_have_status_kind_and_retry_after() {
    let server = ModelServer::start().unwrap();
    let script = r#"SCRIPT: [[{"status":529,"retry_after":2,"times":1},{"text":"second"}]]"#;
    let (head, body) = ask(&server, script, true);
    assert!(head.starts_with("HTTP/1.1 529"), "{head}");
    assert!(head.contains("retry-after: 2"), "{head}");
    assert!(body.contains("overloaded_error"), "{body}");
    let (head, body) = ask(&server, script, true);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(deltas(&events(&body), "text"), "second");
    let (head, body) = ask(&server, r#"SCRIPT: [{"txt":1}]"#, true);
    assert!(head.starts_with("HTTP/1.1 400") && body.contains("bad script"), "{head} {body}");
}

#[test]
fn stream_errors_and_cuts_end_a_stream_early() {
    let server = ModelServer::start().unwrap();
    let (_, body) = ask(&server, r#"SCRIPT: [[{"text":"a"},{"sse_error":"overloaded_error"}]]"#, true);
    let events_seen = events(&body);
    let last = events_seen.last().unwrap();
    assert_eq!(
        (last["type"].as_str(), last["error"]["type"].as_str()),
        (Some("error"), Some("overloaded_error"))
    );
    let (_, body) = ask(&server, r#"cut SCRIPT: [[{"text":"a"},{"drop":true}]]"#, true);
    assert!(body.contains("text_delta") && !body.contains("message_stop"), "{body}");
    assert!(!body.ends_with("0\r\n\r\n"), "a cut stream has no final chunk");
    assert_eq!(server.requests_for("cut")[0].outcome, Outcome::Cut);
}

#[tokio::test]
async fn a_pause_lasts_until_it_is_released() -> Result<()> {
    let server = ModelServer::start()?;
    let address = server.address;
    let reader = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        let body = json!({"stream": true, "tools": [1], "messages": [{"role": "user",
            "content": r#"p SCRIPT: [[{"text":"before"},{"wait":"gate"},{"text":"after"}]]"#}]})
        .to_string();
        let length = body.len();
        write!(
            stream,
            "POST /v1/messages HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        all
    });
    server.wait_until_paused("gate").await?;
    assert_eq!(server.sent_text("p"), "before");
    server.release("gate");
    server.wait_for_request(|request| request.outcome == Outcome::Finished).await?;
    assert_eq!(server.sent_text("p"), "beforeafter");
    assert!(reader.join().unwrap().contains("message_stop"));
    Ok(())
}

#[tokio::test]
async fn a_hang_lasts_until_the_client_goes() -> Result<()> {
    let server = ModelServer::start()?;
    let body = json!({"stream": true, "tools": [1], "messages": [{"role": "user",
        "content": r#"h SCRIPT: [[{"text":"x"},{"hang":true}]]"#}]})
    .to_string();
    let mut stream = TcpStream::connect(server.address)?;
    write!(stream, "POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len())?;
    server.wait_for_request(|request| request.sent_text == "x").await?;
    assert_eq!(server.requests_for("h")[0].outcome, Outcome::Open);
    drop(stream);
    server.wait_for_request(|request| request.outcome == Outcome::ClientGone).await?;
    Ok(())
}

#[test]
fn the_rest_of_the_api_answers_too() {
    let server = ModelServer::start().unwrap();
    let (head, body) = exchange(&server, "POST", "/v1/messages/count_tokens?beta=true", r#"{"messages":[]}"#);
    assert!(head.starts_with("HTTP/1.1 200") && body.contains("input_tokens"), "{head} {body}");
    assert!(exchange(&server, "HEAD", "/api/hello", "").0.starts_with("HTTP/1.1 200"));
    assert!(exchange(&server, "GET", "/nothing", "").0.starts_with("HTTP/1.1 404"));
    assert!(exchange(&server, "POST", "/v1/messages", "no json").0.starts_with("HTTP/1.1 400"));
    assert_eq!(server.requests().len(), 4);
    assert!(server.requests().iter().all(|request| request.purpose == Purpose::Other));
    server.stop();
}
