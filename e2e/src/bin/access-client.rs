//! A client that calls every gRPC method once and prints how each was answered: `access-client ADDRESS SESSION [METHOD…]`.
//! ADDRESS is `unix:/path` or `127.0.0.1:PORT`; each request holds nothing but SESSION in the field that names one.
//! In the place of a session `-` sends nothing at all, `malformed` bytes that are no message, and `too-large` the
//! beginning of a message that nobody reads. METHODs are left out. With ACCESS_TOKEN in its environment it presents
//! that, with ACCESS_CONTENT_TYPE it speaks that kind of gRPC. A line is a method, the name of the status, and the code of the error where there is one.

#![allow(clippy::print_stdout, reason = "what it is answered is this program's output")]

use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use axum::body::HttpBody as _;
use e2e::clients::Clients;
use http::Request;
use tonic::body::Body;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tower::{Service as _, ServiceExt as _};
use wire::access::{GRPC, Row, SessionIn};

/// How long an answer may take to begin. A stream has begun with its headers.
const ANSWER_WAIT: Duration = Duration::from_secs(30);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let usage = "usage: access-client ADDRESS SESSION [METHOD…]";
    let mut words = std::env::args().skip(1);
    let (address, session) = words.next().zip(words.next()).context(usage)?;
    let left_out: Vec<String> = words.collect();
    let token = std::env::var("ACCESS_TOKEN").ok();
    let kind = std::env::var("ACCESS_CONTENT_TYPE").unwrap_or_else(|_| "application/grpc".to_owned());
    let channel = connect(&address).await?;
    let host = address.strip_prefix("unix:").map_or(address.as_str(), |_| "localhost");
    // What is wrong with a message may be said at the end of a stream.
    let is_broken = matches!(session.as_str(), "malformed" | "too-large");
    for row in GRPC.iter().filter(|row| !left_out.iter().any(|method| method == row.method)) {
        let mut request = Request::post(format!("http://{host}/{}", row.method))
            .header("content-type", &kind)
            .header("te", "trailers");
        if let Some(token) = &token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Body::new(axum::body::Body::from(frame(row, &session))))?;
        let answer = tokio::time::timeout(ANSWER_WAIT, call(channel.clone(), request, is_broken)).await;
        let (code, obey) = answer.with_context(|| format!("{} is not answered", row.method))??;
        println!("{} {code:?} {obey}", row.method);
    }
    Ok(())
}

async fn connect(address: &str) -> Result<Channel> {
    match address.strip_prefix("unix:") {
        Some(path) => Ok(Clients::connect(Path::new(path)).await?.channel),
        None => Ok(Endpoint::from_shared(format!("http://{address}"))?.connect().await?),
    }
}

/// Returns the status of an answer: of its headers, where they have one, else, if wanted, of its end.
async fn call(mut channel: Channel, request: Request<Body>, to_the_end: bool) -> Result<(Code, String)> {
    let response = channel.ready().await?.call(request).await?;
    let found = |status: &Status| {
        let obey = status.metadata().get("obey-code").and_then(|code| code.to_str().ok());
        (status.code(), obey.unwrap_or_default().to_owned())
    };
    if let Some(status) = Status::from_header_map(response.headers()) {
        return Ok(found(&status));
    }
    let mut body = response.into_body();
    if !to_the_end {
        return Ok((Code::Ok, String::new()));
    }
    loop {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        let Some(frame) = frame else { return Ok((Code::Ok, String::new())) };
        let frame = frame.map_err(|status| anyhow!("the answer broke: {status}"))?;
        if let Some(status) = frame.trailers_ref().and_then(Status::from_header_map) {
            return Ok(found(&status));
        }
    }
}

/// A message with the session where the method wants it, or what stands in its place.
fn frame(row: &Row, session: &str) -> Vec<u8> {
    let mut message = Vec::new();
    match (session, row.session) {
        ("malformed", _) => message.extend_from_slice(b"\xff\xff\xff"),
        ("too-large", _) => return vec![0, 0x7f, 0xff, 0xff, 0xff, 0],
        ("-", _) => {}
        (session, SessionIn::Field { path, .. }) => {
            message.extend_from_slice(session.as_bytes());
            for number in path.iter().rev() {
                let mut outer = Vec::new();
                varint(&mut outer, (u64::from(*number) << 3) | 2);
                varint(&mut outer, message.len() as u64);
                outer.extend_from_slice(&message);
                message = outer;
            }
        }
        (_, SessionIn::None | SessionIn::Caller) => {}
    }
    let mut frame = vec![0];
    frame.extend_from_slice(&(message.len() as u32).to_be_bytes());
    frame.extend_from_slice(&message);
    frame
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
