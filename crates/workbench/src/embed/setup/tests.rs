//! Fetching against a server of the test's own: cut off, resumed, with a wrong file, from a folder.

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;

use super::*;

/// The content that is served, and its hash.
const CONTENT: &[u8] = b"some words\nof a vocabulary\n";
const FILE: ModelFile = ModelFile {
    name: "vocab.txt",
    bytes: CONTENT.len() as u64,
    sha256: "39c6ae5d6e8fd26df6dbf7fbdf54c290b1860464d64144428a95d9c0d56bb22f",
};

/// Serves the content; the first answer is cut off after ten bytes. Returns the address; ranges that were asked for arrive on
/// the channel.
async fn server() -> (String, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (asked, ranges) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut is_first = true;
        while let Ok((stream, _)) = listener.accept().await {
            let (read, mut write) = stream.into_split();
            let mut lines = BufReader::new(read).lines();
            let mut range = String::new();
            while let Ok(Some(line)) = lines.next_line().await {
                if line.is_empty() {
                    break;
                }
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
                    range = value.to_owned();
                }
            }
            let from: usize = range.trim_end_matches('-').parse().unwrap_or(0);
            let _ = asked.send(range);
            let status = if from > 0 { "206 Partial Content" } else { "200 OK" };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                CONTENT.len() - from
            );
            let _ = write.write_all(head.as_bytes()).await;
            let end = if std::mem::take(&mut is_first) { 10 } else { CONTENT.len() };
            let _ = write.write_all(&CONTENT[from..end]).await;
        }
    });
    (address, ranges)
}

#[tokio::test]
async fn a_download_that_was_cut_off_is_resumed_and_checked() {
    let dir = tempfile::tempdir().unwrap();
    let to = folder(dir.path());
    let (address, mut ranges) = server().await;
    fetch(&[FILE], &address, &to, |_, _, _| {}).await.unwrap_err();
    assert!(!is_set_up(dir.path()));
    let mut seen = Vec::new();
    fetch(&[FILE], &address, &to, |_, there, all| seen.push((there, all))).await.unwrap();
    assert_eq!(seen.last(), Some(&(FILE.bytes, FILE.bytes)));
    assert_eq!(
        (ranges.recv().await.unwrap(), ranges.recv().await.unwrap()),
        (String::new(), "10-".to_owned())
    );
    assert!(is_set_up(dir.path()));
    assert_eq!(std::fs::read(to.join("vocab.txt")).unwrap(), CONTENT);
    // What is there is not fetched again.
    fetch(&[FILE], "http://127.0.0.1:1", &to, |_, _, _| {}).await.unwrap();
}

#[tokio::test]
async fn a_file_that_is_not_the_expected_one_is_refused_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let source = tempfile::tempdir().unwrap();
    std::fs::write(source.path().join("vocab.txt"), "something else").unwrap();
    let from = source.path().to_str().unwrap();
    let error = fetch(&[FILE], from, dir.path(), |_, _, _| {}).await.unwrap_err();
    assert!(error.message.contains("SHA-256") && error.message.contains("vocab.txt"), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    std::fs::write(source.path().join("vocab.txt"), CONTENT).unwrap();
    fetch(&[FILE], from, dir.path(), |_, _, _| {}).await.unwrap();
    // One of the files means their folder, with or without a scheme.
    for from in [format!("{from}/vocab.txt"), format!("file://{from}")] {
        let to = tempfile::tempdir().unwrap();
        fetch(&[FILE], &from, to.path(), |_, _, _| {}).await.unwrap();
        assert_eq!(std::fs::read(to.path().join("vocab.txt")).unwrap(), CONTENT);
    }
    let missing = fetch(&[FILE], "/no/such/folder", &dir.path().join("x"), |_, _, _| {}).await.unwrap_err();
    assert!(missing.message.starts_with("from: /no/such/folder"), "{missing}");
}
