//! More clients than there is room for: they wait, and the accept loop survives every shortage.

use std::fs::File;
use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixSocket, UnixStream};

use super::running::{Running, exchange, soon};
use crate::server::{accept, limits};

const REQUEST: &str = "GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

/// Reads the answer of one connection; `None` if there is no answer yet.
async fn answer_within_pauses(stream: &mut UnixStream) -> Option<String> {
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    tokio::time::timeout(limits::ACCEPT_PAUSE * 4, read).await.ok()?.unwrap();
    Some(answer)
}

/// Connects a client and waits for an answer, which proves that it was accepted; it stays connected.
async fn settled(socket: &Path) -> UnixStream {
    let mut stream = soon(UnixStream::connect(socket)).await.unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut first = [0; 12];
    soon(stream.read_exact(&mut first)).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    stream
}

/// Lowers the limit of file descriptors. Only where every test runs in its own process.
fn lower_descriptors(to: u64) -> bool {
    if std::env::var_os("NEXTEST").is_none() {
        println!("skipped: lowering the descriptor limit needs a process per test (cargo nextest)");
        return false;
    }
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(to), maximum }).unwrap();
    true
}

#[tokio::test]
async fn a_full_listener_serves_again_when_somebody_leaves() {
    if !lower_descriptors(256) {
        return;
    }
    let running = Running::start();
    let mut clients = Vec::new();
    for _ in 0..accept::connections_max() {
        clients.push(settled(&running.socket).await);
    }
    assert_eq!(clients.len(), 64);
    let mut waiting = UnixStream::connect(&running.socket).await.unwrap();
    waiting.write_all(REQUEST.as_bytes()).await.unwrap();
    assert_eq!(answer_within_pauses(&mut waiting).await, None, "there is no room");
    clients.pop();
    let mut answer = String::new();
    soon(waiting.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(clients);
    running.stop().await;
}

#[tokio::test]
async fn the_accept_loop_survives_a_lack_of_descriptors() {
    if !lower_descriptors(256) {
        return;
    }
    let running = Running::start();
    let client = UnixSocket::new_stream().unwrap();
    let hoard: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    let mut waiting = client.connect(&running.socket).await.unwrap();
    waiting.write_all(REQUEST.as_bytes()).await.unwrap();
    assert_eq!(answer_within_pauses(&mut waiting).await, None, "there is no descriptor");
    drop(hoard);
    let mut answer = String::new();
    soon(waiting.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let again = UnixStream::connect(&running.socket).await.unwrap();
    assert!(exchange(again, REQUEST).await.starts_with("HTTP/1.1 200"));
    running.stop().await;
}
