//! As much of HTTP/1.1 as the rivals' servers need: one request per connection, and streams of server-sent events read from the
//! bare socket. Blocking, so that the time is taken right after a read.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// A turn may take this long; what is missing then is lost.
const ANSWER_WAIT: Duration = Duration::from_secs(120);
/// A stream that says nothing for this long has ended.
const SILENCE: Duration = Duration::from_secs(5);

fn connect(port: u16) -> Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends a request and returns the JSON of the answer; `Null` if it has no body.
pub(crate) fn call(port: u16, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
    exchange(port, method, path, body, ANSWER_WAIT)
}

fn exchange(port: u16, method: &str, path: &str, body: Option<&Value>, wait: Duration) -> Result<Value> {
    let mut stream = connect(port)?;
    stream.set_read_timeout(Some(wait))?;
    let body = body.map(Value::to_string).unwrap_or_default();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nAccept: application/json\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes())?;
    let (mut answer, mut part) = (Vec::new(), [0; 16_384]);
    while !is_whole(&answer) {
        match stream.read(&mut part)? {
            0 => break,
            got => answer.extend_from_slice(&part[..got]),
        }
    }
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    ensure!(status.starts_with('2'), "{method} {path}: {status} {body}");
    // A chunked body has lengths around it, which are no part of the object.
    let object = |open, close| Some(&body[body.find(open)?..=body.rfind(close)?]);
    let json = [('{', '}'), ('[', ']')].into_iter().filter_map(|(open, close)| object(open, close));
    json.max_by_key(|text| text.len()).map_or(Ok(Value::Null), |text| Ok(serde_json::from_str(text)?))
}

/// Returns whether an answer has come to its end; one that does not say where that is ends with its connection.
fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    let (head, body) = (String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase(), &answer[end + 4..]);
    let length =
        head.split("content-length:").nth(1).and_then(|rest| rest.lines().next()?.trim().parse().ok());
    length.is_some_and(|length: usize| body.len() >= length)
        || (head.contains("chunked") && body.ends_with(b"0\r\n\r\n"))
        || head.contains(" 204 ")
}

/// Opens a stream of server-sent events.
pub(crate) fn events(port: u16, path: &str) -> Result<TcpStream> {
    let mut stream = connect(port)?;
    stream.set_read_timeout(Some(SILENCE))?;
    let head = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: text/event-stream\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    // The headers, byte by byte: what follows them belongs to the reader.
    let (mut got, mut byte) = (Vec::new(), [0]);
    while !got.ends_with(b"\r\n\r\n") {
        ensure!(stream.read(&mut byte)? == 1 && got.len() < 16_384, "{path}: no stream");
        got.push(byte[0]);
    }
    ensure!(got.starts_with(b"HTTP/1.1 200"), "{path}: {}", String::from_utf8_lossy(&got));
    Ok(stream)
}

/// Waits until a server answers a request with success.
pub(crate) fn wait_for(port: u16, path: &str, most: Duration) -> Result<()> {
    let began = Instant::now();
    while began.elapsed() < most {
        // A server may take a request before it can answer it, and then never does.
        if exchange(port, "GET", path, None, Duration::from_millis(500)).is_ok() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    bail!("nothing answers at port {port}")
}

/// Returns a port that nothing listens on.
pub(crate) fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
