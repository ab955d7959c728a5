//! A model for benchmarks: an endpoint of the Responses API that says when it said what. A thread per connection; ends
//! with the program.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::Result;

use crate::clock;

/// A running endpoint.
pub(crate) struct Endpoint {
    address: SocketAddr,
}

impl Endpoint {
    /// Starts one whose replies have `chunks` pieces, `gap` apart, each the time at which it was sent.
    pub(crate) fn start(chunks: u64, gap: Duration) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || drop(serve(stream, chunks, gap)));
            }
        });
        Ok(Self { address })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }
}

/// Answers requests until the client goes away.
fn serve(stream: TcpStream, chunks: u64, gap: Duration) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    loop {
        let (mut first, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line == "\r\n" {
                break;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
            if first.is_empty() {
                first = line;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        if first.starts_with("GET") {
            let list = r#"{"data":[{"id":"bench"}]}"#;
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                list.len()
            );
            reader.get_mut().write_all(format!("{head}{list}").as_bytes())?;
        } else {
            reply(reader.get_mut(), chunks, gap)?;
        }
    }
}

fn reply(stream: &mut TcpStream, chunks: u64, gap: Duration) -> Result<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes())?;
    for _ in 0..chunks {
        let now = clock::monotonic_ns();
        let event = format!(
            "data: {{\"type\":\"response.output_text.delta\",\"item_id\":\"m\",\"delta\":\"{now} \"}}\n\n"
        );
        write!(stream, "{:x}\r\n{event}\r\n", event.len())?;
        std::thread::sleep(gap);
    }
    let end = "data: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n";
    Ok(write!(stream, "{:x}\r\n{end}\r\n0\r\n\r\n", end.len())?)
}
