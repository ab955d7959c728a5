//! One HTTP request to a daemon over TCP or its Unix socket, with any headers: a check must be able to send what a library
//! would not.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};

/// How long an answer may take; the slowest check runs a command for a second.
const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// Longest answer; documents have some hundred kilobytes.
const ANSWER_MAX_BYTES: u64 = 16 << 20;

/// Where a daemon is reached.
#[derive(Clone, Debug)]
pub(super) enum Target {
    Tcp(String),
    Unix(PathBuf),
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

impl Answer {
    /// Returns the body as JSON, null if it is none.
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

impl Target {
    /// Sends a request. `headers` are added, or take the place of the usual ones.
    pub(super) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Answer, String> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let host = match self {
            Self::Tcp(address) => address.as_str(),
            Self::Unix(_) => "localhost",
        };
        let length = body.len().to_string();
        let mut all = vec![("Host", host), ("Connection", "close"), ("Content-Length", length.as_str())];
        if !body.is_empty() {
            all.push(("Content-Type", "application/json"));
        }
        all.retain(|(name, _)| !headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)));
        all.extend_from_slice(headers);
        let mut text = format!("{method} {path} HTTP/1.1\r\n");
        for (name, value) in all {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("\r\n{body}"));
        let exchange = async {
            match self {
                Self::Tcp(address) => exchange(TcpStream::connect(address).await?, &text).await,
                Self::Unix(path) => exchange(UnixStream::connect(path).await?, &text).await,
            }
        };
        let answered = tokio::time::timeout(ANSWER_WAIT, exchange).await;
        let bytes =
            answered.map_err(|_| "no answer in time".to_owned())?.map_err(|error| error.to_string())?;
        parse(&bytes).ok_or_else(|| "the answer is no HTTP".to_owned())
    }
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, text: &str) -> std::io::Result<Vec<u8>> {
    stream.write_all(text.as_bytes()).await?;
    let mut bytes = Vec::new();
    stream.take(ANSWER_MAX_BYTES).read_to_end(&mut bytes).await?;
    Ok(bytes)
}

/// Parses an answer with a body of a given length, in chunks, or up to the end.
fn parse(bytes: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { unchunked(body)? } else { body.to_owned() };
    Some(Answer { status, body })
}

fn unchunked(mut rest: &str) -> Option<String> {
    let mut body = String::new();
    loop {
        let (size, after) = rest.split_once("\r\n")?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.push_str(after.get(..size)?);
        rest = after.get(size + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_whole_or_in_chunks() {
        let plain = parse(b"HTTP/1.1 404 Not Found\r\nA: b\r\n\r\n{\"error\": \"x\"}").unwrap();
        assert_eq!((plain.status, plain.json()["error"].as_str()), (404, Some("x")));
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\n\r\n";
        assert_eq!(parse(head).unwrap().body, "abcde");
        assert!(parse(b"nothing").is_none());
    }
}
