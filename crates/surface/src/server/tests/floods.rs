//! Clients that abuse HTTP/2 lose their connection; all others are served meanwhile. The frames are written
//! by hand: no client library would send them.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::running::{Running, soon};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;

const END_HEADERS: u8 = 4;
const END_STREAM: u8 = 1;

/// `POST http://localhost/` from the static table, with a literal authority.
const BLOCK: &[u8] = b"\x83\x86\x84\x41\x09localhost";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Writes a flood until the server closes the connection, and returns the last bytes it sent.
async fn hung_up_on(running: &Running, mut flood: impl FnMut(u32) -> Vec<u8>) -> Vec<u8> {
    let stream = UnixStream::connect(&running.socket).await.unwrap();
    let (mut read, mut write) = stream.into_split();
    let talk = async {
        write.write_all(PREFACE).await?;
        write.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
        for round in 0_u32.. {
            write.write_all(&flood(round)).await?;
        }
        Ok::<_, std::io::Error>(())
    };
    let mut heard = Vec::new();
    let listen = async {
        // A reset is accepted as an end as well.
        let _ = read.read_to_end(&mut heard).await;
    };
    // A failed write is expected: the server has closed the connection.
    let (_, ()) = soon(async { tokio::join!(talk, listen) }).await;
    heard
}

/// Clients take a stream that is reset for a failure, whatever was answered before.
#[tokio::test]
async fn an_answer_to_an_unread_body_is_not_followed_by_a_reset() {
    const DATA: u8 = 0;
    const PING: u8 = 6;
    let running = Running::start();
    let mut stream = UnixStream::connect(&running.socket).await.unwrap();
    let mut said = [PREFACE.to_vec(), frame(SETTINGS, 0, 0, &[])].concat();
    said.extend(frame(HEADERS, END_HEADERS, 1, BLOCK));
    stream.write_all(&said).await.unwrap();
    let mut seen = Vec::new();
    let mut is_answered = false;
    while !seen.contains(&PING) {
        let mut head = [0; 9];
        soon(stream.read_exact(&mut head)).await.unwrap();
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        soon(stream.read_exact(&mut payload)).await.unwrap();
        let (kind, flags) = (head[3], head[4]);
        let of_stream = head[5..] == [0, 0, 0, 1];
        if of_stream || kind == PING {
            seen.push(kind);
        }
        // What comes with the answer comes before the answer to what is sent after it.
        if of_stream && flags & END_STREAM != 0 && !std::mem::replace(&mut is_answered, true) {
            stream.write_all(&frame(PING, 0, 0, &[0; 8])).await.unwrap();
        }
    }
    assert!(is_answered && !seen.contains(&RST_STREAM), "{seen:?}");
    stream.write_all(&frame(DATA, END_STREAM, 1, b"late")).await.unwrap();
    is_served(&running).await;
    running.stop().await;
}

async fn is_served(running: &Running) {
    for channel in running.channels().await {
        let request = HealthCheckRequest { service: String::new() };
        soon(HealthClient::new(channel).check(request)).await.unwrap();
    }
}

fn has_goaway(mut heard: &[u8]) -> bool {
    while let Some((head, rest)) = heard.split_first_chunk::<9>() {
        if head[3] == GOAWAY {
            return true;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        heard = rest.get(length..).unwrap_or_default();
    }
    false
}

#[tokio::test]
async fn streams_opened_and_reset_without_end_cost_the_connection() {
    let running = Running::start();
    let heard = hung_up_on(&running, |round| {
        let stream = 2 * round + 1;
        let mut frames = frame(HEADERS, END_HEADERS | END_STREAM, stream, BLOCK);
        frames.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
        frames
    });
    let (heard, ()) = tokio::join!(heard, is_served(&running));
    assert!(has_goaway(&heard), "{} bytes", heard.len());
    is_served(&running).await;
    running.stop().await;
}

#[tokio::test]
async fn headers_that_never_end_cost_the_connection() {
    let running = Running::start();
    let filler = vec![0x86; 16_000];
    let heard = hung_up_on(&running, |round| match round {
        0 => frame(HEADERS, 0, 1, BLOCK),
        _ => frame(CONTINUATION, 0, 1, &filler),
    });
    let (_, ()) = tokio::join!(heard, is_served(&running));
    is_served(&running).await;
    running.stop().await;
}

#[tokio::test]
async fn a_client_that_leaves_with_its_window_shut_takes_nothing_with_it() {
    let running = Running::start();
    for _ in 0..200 {
        let mut stream = UnixStream::connect(&running.socket).await.unwrap();
        // SETTINGS_INITIAL_WINDOW_SIZE = 0: the client sends requests but accepts no answer.
        let shut = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
        let ask = frame(HEADERS, END_HEADERS | END_STREAM, 1, BLOCK);
        stream.write_all(&[PREFACE, &shut, &ask].concat()).await.unwrap();
    }
    is_served(&running).await;
    running.stop().await;
}
