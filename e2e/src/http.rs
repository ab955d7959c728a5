//! A small HTTP/1.1 client for REST tests: one request on a connection of its own, JSON in and out. Knows no route.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::deadline::within;

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// Reads the body as JSON.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.body).with_context(|| format!("no JSON: {} {}", self.status, self.body))
    }
}

/// Sends a request as `curl` would and returns the answer.
pub async fn send(to: SocketAddr, method: &str, path: &str, body: Option<&str>) -> Result<Answer> {
    let body = body.unwrap_or_default();
    let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {to}\r\n{kind}content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    within("an HTTP answer", exchange(to, format!("{head}{body}"))).await?
}

/// The same with a token.
pub async fn send_with(
    to: SocketAddr,
    token: &str,
    method: &str,
    path: &str,
    body: Option<&str>,
) -> Result<Answer> {
    let body = body.unwrap_or_default();
    let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {to}\r\nauthorization: Bearer {token}\r\n{kind}content-length: \
         {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    within("an HTTP answer", exchange(to, format!("{head}{body}"))).await?
}

/// Sends a request as it stands, for requests no client would make.
pub async fn exchange(to: SocketAddr, request: String) -> Result<Answer> {
    let mut stream = TcpStream::connect(to).await.context("connecting")?;
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").context("no answer")?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).context("no status")?;
    ensure!(
        !head.to_lowercase().contains("transfer-encoding: chunked"),
        "chunked answers are not read here: {head}"
    );
    Ok(Answer { status, head: head.to_owned(), body: body.to_owned() })
}
