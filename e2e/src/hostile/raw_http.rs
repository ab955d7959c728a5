//! HTTP/1.1 requests as they stand, over any connection: REST routes, MCP over HTTP, and gRPC-Web. Prints the whole answer.

use std::io::{Read, Write};

use anyhow::{Context, Result};

use super::connection::{self, Stream};
use super::message::Descriptors;
use super::say;

/// How much of an answer is printed.
const ANSWER_MAX: u64 = 256 * 1024;

/// Sends a request; further words are a body, or `header: value` lines.
pub(super) fn request(address: &str, verb: &str, path: &str, rest: &[&str]) -> Result<()> {
    let is_body = |word: &&&str| word.starts_with('{') || word.starts_with('[');
    let body = rest.iter().find(is_body).copied().unwrap_or_default();
    let headers: String =
        rest.iter().filter(|word| !is_body(word)).map(|header| format!("{header}\r\n")).collect();
    let kind = if body.is_empty() || headers.to_lowercase().contains("content-type") {
        ""
    } else {
        "content-type: application/json\r\n"
    };
    exchange(address, verb, path, &format!("{kind}{headers}"), body.as_bytes())
}

/// Calls a method as a browser's gRPC client would.
pub(super) fn grpc_web(address: &str, method: &str, fields: &[&str]) -> Result<()> {
    let descriptors = Descriptors::read()?;
    let method = descriptors.method(method)?;
    let message = descriptors.encode(&method.input, fields)?;
    let mut frame = vec![0];
    frame.extend_from_slice(&(message.len() as u32).to_be_bytes());
    frame.extend_from_slice(&message);
    let headers = "content-type: application/grpc-web+proto\r\nx-grpc-web: 1\r\n";
    exchange(address, "POST", &format!("/{}", method.path), headers, &frame)
}

fn exchange(address: &str, verb: &str, path: &str, headers: &str, body: &[u8]) -> Result<()> {
    let mut stream = connection::connect(address)?;
    send(&mut stream, address, verb, path, headers, body)?;
    let mut answer = Vec::new();
    // An answer that is cut off is shown as far as it came.
    let _ = stream.take(ANSWER_MAX).read_to_end(&mut answer);
    say(&String::from_utf8_lossy(&answer));
    Ok(())
}

/// Writes a request and does not wait for its answer.
pub(super) fn send(
    stream: &mut Stream,
    address: &str,
    verb: &str,
    path: &str,
    headers: &str,
    body: &[u8],
) -> Result<()> {
    let host = connection::host(address);
    let head = format!(
        "{verb} {path} HTTP/1.1\r\nhost: {host}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).context("sending")
}
