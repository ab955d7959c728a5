//! A small endpoint of the Responses API: lists one model, answers each request with the next given reply,
//! and keeps the requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A running endpoint; ends with the test.
pub(crate) struct Endpoint {
    port: u16,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    replies: VecDeque<Vec<Value>>,
    bodies: Vec<Value>,
    has_no_models: bool,
}

/// A reply of text.
pub(crate) fn said(text: &str) -> Vec<Value> {
    vec![
        json!({"type": "response.output_text.delta", "item_id": "m", "delta": text}),
        json!({"type": "response.completed", "response": {"usage": {"input_tokens": 5, "output_tokens": 1}}}),
    ]
}

/// A reply of calls.
pub(crate) fn called(calls: &[(&str, &str, Value)]) -> Vec<Value> {
    let call = |(id, name, input): &(&str, &str, Value)| {
        let item =
            json!({"type": "function_call", "call_id": id, "name": name, "arguments": input.to_string()});
        json!({"type": "response.output_item.done", "item": item})
    };
    let end = json!({"type": "response.completed", "response": {}});
    calls.iter().map(call).chain([end]).collect()
}

impl Endpoint {
    pub(crate) async fn start(replies: Vec<Vec<Value>>) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let inner = Arc::new(Mutex::new(Inner { replies: replies.into(), ..Inner::default() }));
        let shared = Arc::clone(&inner);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Endpoint { port, inner }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// Returns the request bodies in order.
    pub(crate) fn bodies(&self) -> Vec<Value> {
        self.inner.lock().unwrap().bodies.clone()
    }

    /// Lists no models from now on.
    pub(crate) fn forget_models(&self) {
        self.inner.lock().unwrap().has_no_models = true;
    }
}

/// Answers one request; a client that disconnects meanwhile does not need the answer.
async fn serve(stream: TcpStream, inner: Arc<Mutex<Inner>>) {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).await.unwrap_or(0) == 0 || line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if first.is_empty() {
            first = line;
        }
    }
    let mut body = vec![0; length];
    let _ = reader.read_exact(&mut body).await;
    let (status, kind, answer) = answer(&first, &body, &inner);
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        answer.len()
    );
    let _ = reader.get_mut().write_all(format!("{head}{answer}").as_bytes()).await;
}

fn answer(first: &str, body: &[u8], inner: &Mutex<Inner>) -> (&'static str, &'static str, String) {
    let mut inner = inner.lock().unwrap();
    if first.starts_with("GET") {
        if inner.has_no_models {
            return ("404 Not Found", "text/plain", String::new());
        }
        return ("200 OK", "application/json", json!({"data": [{"id": "test-model"}]}).to_string());
    }
    inner.bodies.push(serde_json::from_slice(body).unwrap_or_default());
    let events = inner.replies.pop_front().unwrap_or_else(|| said("(no more replies)"));
    let text = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    ("200 OK", "text/event-stream", text)
}
