//! What clients see: gRPC and plain HTTP on one address, the same over sockets and ports, and a server that
//! shuts down in time.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Notify;
use tonic::Code;
use tonic::service::Routes;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::running::{Running, exchange, soon};
use crate::peer::Access;

fn serving(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

#[tokio::test]
async fn grpc_health_is_served_on_every_listener() {
    let running = Running::start();
    for channel in running.channels().await {
        let mut health = HealthClient::new(channel);
        for service in ["", "obey.local.v1.LocalDaemonService"] {
            let answer = soon(health.check(serving(service))).await.unwrap().into_inner();
            assert_eq!(answer.status(), ServingStatus::Serving, "{service}");
        }
        assert_eq!(soon(health.check(serving("no.Such"))).await.unwrap_err().code(), Code::NotFound);
    }
    running.stop().await;
}

#[tokio::test]
async fn grpc_web_is_served_to_its_own_clients() {
    use tower::Layer as _;
    let running = Running::start();
    let plain =
        hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new()).build_http();
    let client = tonic_web::GrpcWebClientLayer::new().layer(plain);
    let at = format!("http://127.0.0.1:{}", running.port).parse().unwrap();
    let mut health = HealthClient::with_origin(client, at);
    let answer = soon(health.check(serving(""))).await.unwrap().into_inner();
    assert_eq!(answer.status(), ServingStatus::Serving);
    assert_eq!(soon(health.check(serving("no.Such"))).await.unwrap_err().code(), Code::NotFound);
    let mut watched = soon(health.watch(serving(""))).await.unwrap().into_inner();
    let first = soon(watched.message()).await.unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::Serving);
    drop(watched);
    running.stop().await;
}

#[tokio::test]
async fn grpc_web_from_a_foreign_page_is_refused() {
    let running = Running::start();
    for (host, origin, expected) in [
        ("HOST", "", "HTTP/1.1 200"),
        ("HOST", "origin: http://HOST\r\n", "HTTP/1.1 200"),
        ("HOST", "origin: http://evil.example\r\n", "HTTP/1.1 403"),
        ("evil.example", "", "HTTP/1.1 403"),
    ] {
        let request = format!(
            "POST /grpc.health.v1.Health/Check HTTP/1.1\r\nhost: {host}\r\n{origin}\
             content-type: application/grpc-web-text\r\naccept: application/grpc-web-text\r\n\
             content-length: 8\r\nconnection: close\r\n\r\nAAAAAAA="
        );
        let [_, tcp] = running.plain(&request).await;
        assert!(tcp.starts_with(expected), "{host} {origin}: {tcp}");
        // Trailers are the last frame of the body, base64-encoded like all of it.
        assert!(expected.ends_with("403") || tcp.contains("application/grpc-web-text"), "{tcp}");
    }
    running.stop().await;
}

#[tokio::test]
async fn both_reflection_versions_name_our_services() {
    use tonic_reflection::pb::{v1, v1alpha};
    let running = Running::start();
    for channel in running.channels().await {
        let mut client = v1::server_reflection_client::ServerReflectionClient::new(channel.clone());
        let ask = v1::ServerReflectionRequest {
            message_request: Some(v1::server_reflection_request::MessageRequest::ListServices(String::new())),
            ..Default::default()
        };
        let answer = soon(client.server_reflection_info(tokio_stream::once(ask))).await.unwrap();
        let first = soon(answer.into_inner().message()).await.unwrap().unwrap();
        let text = format!("{first:?}");
        assert!(text.contains("obey.local.v1.LocalDaemonService"), "{text}");
        assert!(text.contains("grpc.health.v1.Health"), "{text}");

        let mut client = v1alpha::server_reflection_client::ServerReflectionClient::new(channel);
        let symbol = v1alpha::server_reflection_request::MessageRequest::FileContainingSymbol(
            "obey.local.v1.LocalDaemonService".to_owned(),
        );
        let ask = v1alpha::ServerReflectionRequest { message_request: Some(symbol), ..Default::default() };
        let answer = soon(client.server_reflection_info(tokio_stream::once(ask))).await.unwrap();
        let first = soon(answer.into_inner().message()).await.unwrap().unwrap();
        assert!(format!("{first:?}").contains("FileDescriptorResponse"));
    }
    running.stop().await;
}

#[tokio::test]
async fn plain_http_gets_json() {
    let running = Running::start();
    for answer in running.plain("GET /health HTTP/1.1\r\nhost: HOST\r\nconnection: close\r\n\r\n").await {
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(answer.contains("application/json") && answer.ends_with(r#"{"status":"ok"}"#), "{answer}");
    }
    for answer in running.plain("GET /nothing HTTP/1.1\r\nhost: HOST\r\nconnection: close\r\n\r\n").await {
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
        assert!(answer.contains(r#""error":"nothing is served at this path""#), "{answer}");
        assert!(answer.contains(r#""status":404"#) && answer.contains(r#""code":"OBEY-1001""#), "{answer}");
    }
    for answer in running.plain("DELETE /health HTTP/1.1\r\nhost: HOST\r\nconnection: close\r\n\r\n").await {
        assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
    }
    running.stop().await;
}

#[tokio::test]
async fn an_unknown_method_is_unimplemented() {
    let running = Running::start();
    for channel in running.channels().await {
        for path in ["/no.Such/Method", "/grpc.health.v1.Health/NoSuch"] {
            let mut client = tonic::client::Grpc::new(channel.clone());
            client.ready().await.unwrap();
            let codec = tonic_prost::ProstCodec::<HealthCheckRequest, HealthCheckRequest>::default();
            let request = tonic::Request::new(serving(""));
            let path = http::uri::PathAndQuery::from_static(path);
            let status = soon(client.unary(request, path, codec)).await.unwrap_err();
            assert_eq!(status.code(), Code::Unimplemented);
        }
    }
    running.stop().await;
}

/// Sends a health check as gRPC's C-core sends it to a Unix socket, and returns the type of the frame that
/// answers it.
async fn as_c_core(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> u8 {
    // POST and http from the static table.
    let mut fields = vec![0x83, 0x86];
    for (name, value) in [
        (":path", "/grpc.health.v1.Health/Check"),
        (":authority", "run%2Fuser%2F1000%2Fobey%2Fdaemon.sock"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ] {
        fields.extend(
            [&[0x40, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat(),
        );
    }
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    bytes.extend([0, 0, fields.len() as u8, 1, 4, 0, 0, 0, 1]);
    bytes.extend(fields);
    bytes.extend([0, 0, 5, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
    stream.write_all(&bytes).await.unwrap();
    loop {
        let mut head = [0; 9];
        soon(stream.read_exact(&mut head)).await.unwrap();
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        soon(stream.read_exact(&mut payload)).await.unwrap();
        if head[8] == 1 {
            return head[3];
        }
    }
}

#[tokio::test]
async fn a_socket_path_as_authority_is_served_on_the_socket_only() {
    const HEADERS: u8 = 1;
    const RESET: u8 = 3;
    let running = Running::start();
    let unix = UnixStream::connect(&running.socket).await.unwrap();
    assert_eq!(as_c_core(unix).await, HEADERS);
    let tcp = TcpStream::connect(("127.0.0.1", running.port)).await.unwrap();
    assert_eq!(as_c_core(tcp).await, RESET);
    running.stop().await;
}

/// A client whose write meets a closed socket may discard the answer that it has not read yet, as C-core does.
#[tokio::test]
async fn a_client_may_still_write_while_it_reads_the_last_answer_of_a_server_that_goes() {
    let running = Running::start();
    let mut stream = UnixStream::connect(&running.socket).await.unwrap();
    as_c_core(&mut stream).await;
    let client = tokio::spawn(async move {
        const PING: u8 = 6;
        let mut head = [0; 9];
        while soon(stream.read_exact(&mut head)).await.is_ok() {
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            soon(stream.read_exact(&mut payload)).await.unwrap();
            // The server says that it goes, and waits for this answer.
            if head[3] == PING && head[4] == 0 {
                stream.write_all(&[&[0, 0, 8, PING, 1, 0, 0, 0, 0], &payload[..]].concat()).await.unwrap();
            }
        }
        // The server has closed its half; this client has not noticed yet.
        stream.write_all(&[&[0, 0, 8, PING, 0, 0, 0, 0, 0], &b"my own.."[..]].concat()).await
    });
    running.stop().await;
    soon(client).await.unwrap().unwrap();
}

#[tokio::test]
async fn open_streams_do_not_hold_the_shutdown() {
    let running = Running::start();
    let mut streams = Vec::new();
    for channel in running.channels().await {
        let mut watch = soon(HealthClient::new(channel).watch(serving(""))).await.unwrap().into_inner();
        assert_eq!(soon(watch.message()).await.unwrap().unwrap().status(), ServingStatus::Serving);
        streams.push(watch);
    }
    // One connection that sends nothing and one that stops in the middle of a request.
    let _silent = UnixStream::connect(&running.socket).await.unwrap();
    let mut slow = TcpStream::connect(("127.0.0.1", running.port)).await.unwrap();
    slow.write_all(b"GET /health HTT").await.unwrap();
    let started = Instant::now();
    running.stop().await;
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    for mut stream in streams {
        // The watchers learn of the shutdown; then the stream ends.
        let last = soon(stream.message()).await.unwrap().unwrap();
        assert_eq!(last.status(), ServingStatus::NotServing);
        let end = soon(stream.message()).await.unwrap_err();
        assert_eq!(
            (end.code(), end.message()),
            (Code::Unavailable, "the daemon ends; connect again to go on")
        );
    }
}

#[tokio::test]
async fn who_waits_to_be_accepted_when_the_server_goes_is_answered() {
    let running = Running::start();
    // Accepted before shutdown, but it has sent nothing yet.
    let mut waiting = vec![UnixStream::connect(&running.socket).await.unwrap()];
    tokio::task::yield_now().await;
    // One thread runs all this, so these are not accepted before the server is told to shut down.
    for _ in 0..20 {
        waiting.push(UnixStream::from_std(connect_now(&running.socket)).unwrap());
    }
    let (socket, stopped) = (running.socket.clone(), tokio::spawn(running.stop()));
    for stream in waiting {
        let channel = over(stream).await;
        let answer = soon(HealthClient::new(channel).check(serving(""))).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::NotServing);
        assert!(!socket.exists(), "others wait for the next server");
    }
    stopped.await.unwrap();
}

/// Connects without giving the server a chance to notice.
fn connect_now(socket: &std::path::Path) -> std::os::unix::net::UnixStream {
    let stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    stream.set_nonblocking(true).unwrap();
    stream
}

/// A channel over an existing connection.
async fn over(stream: UnixStream) -> tonic::transport::Channel {
    let mut stream = Some(hyper_util::rt::TokioIo::new(stream));
    let connector = tower::service_fn(move |_| {
        let stream = stream.take();
        async move { stream.ok_or(std::io::Error::from(std::io::ErrorKind::NotConnected)) }
    });
    let endpoint = tonic::transport::Endpoint::from_static("http://localhost");
    soon(endpoint.connect_with_connector(connector)).await.unwrap()
}

#[tokio::test]
async fn a_stream_that_rests_ends_at_once_and_an_answer_in_the_making_is_waited_for() {
    let (entered, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tx, rx) = tokio::sync::mpsc::channel::<Result<&str, std::convert::Infallible>>(1);
    tx.send(Ok("first")).await.unwrap();
    let rx = Arc::new(Mutex::new(Some(rx)));
    let resting = axum::routing::get(async move || {
        let rx = rx.lock().unwrap().take().unwrap();
        axum::body::Body::from_stream(tokio_stream::wrappers::ReceiverStream::new(rx))
    });
    let (told, awaited) = (Arc::clone(&entered), Arc::clone(&release));
    let slow = axum::routing::get(async move || {
        told.notify_one();
        awaited.notified().await;
        "made"
    });
    let router = axum::Router::new().route("/resting", resting).route("/slow", slow);
    let running = Running::start_with(Routes::from(router), Access::default());
    let mut rest = UnixStream::connect(&running.socket).await.unwrap();
    rest.write_all(b"GET /resting HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"first\r\n") {
        soon(rest.read_buf(&mut seen)).await.unwrap();
    }
    let making = UnixStream::connect(&running.socket).await.unwrap();
    let making = tokio::spawn(exchange(making, "GET /slow HTTP/1.1\r\nhost: x\r\n\r\n"));
    soon(entered.notified()).await;
    let stopping = tokio::spawn(running.stop());
    // Cut off, not ended as if complete: the last chunk, of length 0, does not arrive.
    let mut end = Vec::new();
    let _ = soon(rest.read_to_end(&mut end)).await;
    assert!(end.is_empty(), "{end:?}");
    release.notify_one();
    assert!(soon(making).await.unwrap().ends_with("made"));
    soon(stopping).await.unwrap();
    drop(tx);
}

#[tokio::test]
async fn headers_above_the_limit_are_refused() {
    let running = Running::start();
    let huge = "x".repeat(20_000);
    let request =
        format!("GET /health HTTP/1.1\r\nhost: HOST\r\nx-huge: {huge}\r\nconnection: close\r\n\r\n");
    for answer in running.plain(&request).await {
        // A reset, caused by data we did not read, may overtake the answer.
        assert!(answer.starts_with("HTTP/1.1 431") || answer.is_empty(), "{answer}");
    }
    for channel in running.channels().await {
        let mut request = tonic::Request::new(serving(""));
        request.metadata_mut().insert("x-huge", huge.parse().unwrap());
        assert!(soon(HealthClient::new(channel.clone()).check(request)).await.is_err());
        // The connection stays usable.
        soon(HealthClient::new(channel).check(serving(""))).await.unwrap();
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_is_given_up() {
    let take = axum::routing::post(async |body: String| body);
    let running =
        Running::start_with(Routes::from(axum::Router::new().route("/take", take)), Access::default());
    let head = "POST /take HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 4\r\n\r\n";
    let started = tokio::time::Instant::now();
    for (body, is_whole) in [("abcd", true), ("abc", false), ("", false)] {
        let stream = UnixStream::connect(&running.socket).await.unwrap();
        let answer = exchange(stream, &format!("{head}{body}")).await;
        assert_eq!(answer.starts_with("HTTP/1.1 200"), is_whole, "{answer}");
    }
    assert!(started.elapsed() < Duration::from_secs(25), "{:?}", started.elapsed());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_shows_nothing_is_dropped() {
    for first in ["", "P", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET /health HT"] {
        let running = Running::start();
        let mut stream = UnixStream::connect(&running.socket).await.unwrap();
        stream.write_all(first.as_bytes()).await.unwrap();
        // Time advances only while every task waits, so this ends at the server's limit, not after real time.
        let started = tokio::time::Instant::now();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        assert!(started.elapsed() < Duration::from_secs(25), "{first:?}: {:?}", started.elapsed());
        running.stop().await;
    }
}
