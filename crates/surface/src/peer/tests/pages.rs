//! Web pages and tricks with names: every variant of Host, Origin and related headers that is not ours is
//! rejected before any service sees the request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use tokio::net::TcpStream;
use tonic::Code;
use tonic::service::Routes;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::peer::Access;
use crate::server::tests::running::{Running, exchange, soon};

/// Hosts that are not ours, whatever the port.
const HOSTS: &[&str] = &[
    "127.evil.com",
    "127.0.0.1.evil.com",
    "evil.com",
    "localhost.evil.com",
    "evil.localhost",
    "localhost.",
    "localhost.localdomain",
    "LOCALHOST",
    "Localhost",
    "localHost",
    "localhos",
    "localhost1",
    "xlocalhost",
    "ip6-localhost",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[0:0:0:0:0:0:0:1]",
    "[::01]",
    "[::1%25lo]",
    "[::1%lo]",
    "[::]",
    "[::2]",
    "::1",
    "0.0.0.0",
    "0",
    "127.1",
    "127.0.1",
    "127.0.0.2",
    "127.0.0.01",
    "127.0.0.1.",
    "127.000.000.001",
    "0127.0.0.1",
    "0x7f.0.0.1",
    "0x7f000001",
    "2130706433",
    "017700000001",
    "127.0.0.1%00",
    "127.0.0.1%2eevil.com",
    "127.0.0.1@evil.com",
    "evil.com@127.0.0.1",
    "user@localhost",
    "user:pass@127.0.0.1",
    "127.0.0.1#evil.com",
    "127.0.0.1/evil",
    "127.0.0.1,evil.com",
    "127.0.0.1 evil.com",
    "http://127.0.0.1",
    "//127.0.0.1",
    "*",
    "_",
    "-",
    "a.b.c",
    "xn--lcalhost-wxe",
    "192.168.0.1",
    "10.0.0.1",
    "169.254.169.254",
    "metadata.google.internal",
    "host.docker.internal",
    "rebind.network",
    "7f000001.c0a80001.rbndr.us",
    "127-0-0-1.nip.io",
    "127.0.0.1.nip.io",
    "localtest.me",
    "lvh.me",
];

/// Suffixes after one of our hosts that make it a foreign one.
const PORTS: &[&str] = &[
    "",
    ":",
    ":0",
    ":1",
    ":80",
    ":443",
    ":8080",
    ":65536",
    ":-1",
    ":+PORT",
    ":0PORT",
    ":PORT0",
    ":PORT.",
    ":PORT/",
    ":PORTx",
    ":PORT:PORT",
    ":PORT@evil.com",
    ":PORT,localhost:PORT",
    ".:PORT",
    "%00:PORT",
    "@evil.com:PORT",
];

/// Origins that are not ours.
const ORIGINS: &[&str] = &[
    "null",
    "",
    "*",
    "http://",
    "https://evil.com",
    "http://evil.com",
    "http://evil.com:PORT",
    "http://127.evil.com:PORT",
    "https://127.0.0.1:PORT",
    "http://127.0.0.1",
    "http://localhost",
    "http://localhost:1",
    "http://localhost:PORT/",
    "http://localhost:PORT.evil.com",
    "http://localhost:PORT@evil.com",
    "http://evil.com@localhost:PORT",
    "HTTP://localhost:PORT",
    "http://LOCALHOST:PORT",
    "http://localhost.:PORT",
    "http://[::ffff:127.0.0.1]:PORT",
    "http://0.0.0.0:PORT",
    "http://localhost:PORT http://evil.com",
    "localhost:PORT",
    "file://",
    "chrome-extension://abcdef",
    "moz-extension://abcdef",
    "vscode-webview://abcdef",
    "app://localhost",
    "data:",
    "about:blank",
    "ws://localhost:PORT",
    "http:// localhost:PORT",
];

fn counting() -> (Routes, Arc<AtomicUsize>) {
    let served = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&served);
    let serve = move || {
        count.fetch_add(1, Ordering::Relaxed);
        std::future::ready("served")
    };
    (Routes::from(Router::new().route("/touch", axum::routing::any(serve))), served)
}

/// Sends a request with these header lines to the port; `PORT` is replaced by its number.
async fn send(running: &Running, line: &str, headers: &[String]) -> String {
    let head = format!(
        "{line} HTTP/1.1\r\n{}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        headers.join("\r\n")
    );
    let stream = TcpStream::connect(("127.0.0.1", running.port)).await.unwrap();
    exchange(stream, &head.replace("PORT", &running.port.to_string())).await
}

fn refused(answer: &str) -> bool {
    // 400 where the text is not even a valid header or URI.
    answer.starts_with("HTTP/1.1 403") || answer.starts_with("HTTP/1.1 400")
}

#[tokio::test]
async fn every_foreign_host_and_origin_is_refused() {
    let (routes, served) = counting();
    let running = Running::start_with(routes, Access::default());
    let mut requests: Vec<(String, Vec<String>)> = Vec::new();
    let touch = || "GET /touch".to_owned();
    let ours = || "host: 127.0.0.1:PORT".to_owned();
    for host in HOSTS {
        for port in [":PORT", ""] {
            requests.push((touch(), vec![format!("host: {host}{port}")]));
        }
    }
    for host in ["127.0.0.1", "localhost", "[::1]"] {
        for port in PORTS {
            requests.push((touch(), vec![format!("host: {host}{port}")]));
        }
    }
    for origin in ORIGINS {
        requests.push((touch(), vec![ours(), format!("origin: {origin}")]));
    }
    let evil = || "host: evil.com:PORT".to_owned();
    requests.push((touch(), vec!["x-no-host: 1".to_owned()]));
    requests.push((touch(), vec!["host:".to_owned()]));
    requests.push((touch(), vec!["host: 127.0.0.1:PORT\0".to_owned()]));
    requests.push((touch(), vec![ours(), ours()]));
    requests.push((touch(), vec![ours(), evil()]));
    requests.push((touch(), vec![evil(), ours()]));
    requests
        .push((touch(), vec![ours(), "origin: http://localhost:PORT".to_owned(), "origin: null".to_owned()]));
    requests.push(("GET http://evil.com:PORT/touch".to_owned(), vec![ours()]));
    requests.push(("GET http://127.0.0.1:PORT/touch".to_owned(), vec![evil()]));
    requests.push(("GET http://u@127.0.0.1:PORT/touch".to_owned(), vec![ours()]));
    for site in ["cross-site", "same-site", "Cross-Site", "x", ""] {
        requests.push((touch(), vec![ours(), format!("sec-fetch-site: {site}")]));
    }
    let post = || "POST /touch".to_owned();
    requests.push((post(), vec![ours()]));
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "",
        "application/jsonp",
        "text/plain; application/json",
        "application/grpcx",
        "text/json",
        "application/x-json",
        "json",
    ] {
        requests.push((post(), vec![ours(), format!("content-type: {kind}")]));
    }
    let json = || "content-type: application/json".to_owned();
    requests.push((post(), vec![ours(), json(), "content-type: text/plain".to_owned()]));
    requests.push((post(), vec![ours(), json(), "origin: http://evil.com".to_owned()]));
    requests.push((post(), vec![evil(), json()]));
    assert!(requests.len() >= 200, "only {}", requests.len());
    for (line, headers) in &requests {
        let answer = send(&running, line, headers).await;
        assert!(refused(&answer), "{line} {headers:?} got {answer}");
    }
    assert_eq!(served.load(Ordering::Relaxed), 0);
    running.stop().await;
}

#[tokio::test]
async fn our_own_names_are_served() {
    let (routes, served) = counting();
    let running = Running::start_with(routes, Access::default());
    let lines = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let requests = [
        ("GET /touch", lines(&["host: 127.0.0.1:PORT"])),
        ("GET /touch", lines(&["host: localhost:PORT"])),
        ("GET /touch", lines(&["host: [::1]:PORT"])),
        ("GET http://localhost:PORT/touch", lines(&["host: localhost:PORT"])),
        (
            "GET /touch",
            lines(&["host: localhost:PORT", "origin: http://localhost:PORT", "sec-fetch-site: same-origin"]),
        ),
        ("GET /touch", lines(&["host: 127.0.0.1:PORT", "sec-fetch-site: none"])),
        ("POST /touch", lines(&["host: 127.0.0.1:PORT", "content-type: application/json"])),
        ("POST /touch", lines(&["host: 127.0.0.1:PORT", "content-type: Application/JSON ; charset=utf-8"])),
        ("DELETE /touch", lines(&["host: 127.0.0.1:PORT"])),
    ];
    for (line, headers) in &requests {
        let answer = send(&running, line, headers).await;
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.ends_with("served"),
            "{line} {headers:?} got {answer}"
        );
    }
    assert_eq!(served.load(Ordering::Relaxed), requests.len());
    running.stop().await;
}

#[tokio::test]
async fn a_foreign_authority_is_refused_over_grpc() {
    let running = Running::start();
    let check = async |origin: String| {
        let endpoint = Endpoint::try_from(format!("http://127.0.0.1:{}", running.port)).unwrap();
        let channel = soon(endpoint.origin(origin.parse().unwrap()).connect()).await.unwrap();
        soon(HealthClient::new(channel).check(HealthCheckRequest::default())).await
    };
    let port = running.port;
    for host in [
        "evil.com",
        "127.evil.com",
        "localhost.",
        "LOCALHOST",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "u@localhost",
    ] {
        let status = check(format!("http://{host}:{port}")).await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied, "{host}: {status}");
        assert!(status.message().starts_with("OBEY-1002: "), "{status}");
    }
    assert_eq!(check("http://localhost:1".to_owned()).await.unwrap_err().code(), Code::PermissionDenied);
    assert_eq!(check("http://localhost".to_owned()).await.unwrap_err().code(), Code::PermissionDenied);
    for host in ["127.0.0.1", "localhost", "[::1]"] {
        check(format!("http://{host}:{port}")).await.unwrap();
    }
    running.stop().await;
}

#[tokio::test]
async fn the_socket_asks_for_no_names() {
    let (routes, served) = counting();
    let running = Running::start_with(routes, Access::default());
    let stream = tokio::net::UnixStream::connect(&running.socket).await.unwrap();
    let answer =
        exchange(stream, "POST /touch HTTP/1.1\r\nhost: anything\r\nconnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(served.load(Ordering::Relaxed), 1);
    running.stop().await;
}
