//! Git's own protocol over HTTP, with `git http-backend`, for whoever has the token as a password.

use std::process::Stdio;
use std::sync::PoisonError;

use axum::body::Body;
use axum::http::request::Parts;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::AsyncWriteExt as _;

use super::{Shared, TOKEN, plain};

/// Answers as the program does; 401 without the token.
pub(super) async fn answer(shared: &Shared, head: &Parts, rest: &str, query: &str, body: &[u8]) -> Response {
    let repository = shared.repository.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let given = head.headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let wanted = format!("Basic {}", STANDARD.encode(format!("oauth2:{TOKEN}")));
    if given != wanted {
        let mut response = plain(401, "who are you?");
        if let Ok(realm) = "Basic realm=\"git\"".parse() {
            response.headers_mut().insert("www-authenticate", realm);
        }
        return response;
    }
    let Some(repository) = repository else { return plain(404, "no such repository") };
    let header = |name: &str| {
        head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    let spawned = tokio::process::Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", &repository)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REMOTE_USER", "oauth2")
        .env("REQUEST_METHOD", head.method.as_str())
        .env("PATH_INFO", format!("/{rest}"))
        .env("QUERY_STRING", query)
        .env("CONTENT_TYPE", header("content-type"))
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = spawned else { return plain(500, "git cannot be started") };
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(body).await;
    }
    let Ok(done) = child.wait_with_output().await else { return plain(500, "git failed") };
    let split = done.stdout.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(done.stdout.len());
    let mut response = Response::builder();
    for line in String::from_utf8_lossy(&done.stdout[..split]).lines() {
        response = match line.split_once(": ") {
            Some(("Status", status)) => response.status(status.get(..3).unwrap_or("500")),
            Some((name, value)) => response.header(name, value),
            None => response,
        };
    }
    let body = done.stdout.get(split + 4..).unwrap_or_default().to_vec();
    response.body(Body::from(body)).unwrap_or_else(|_| plain(500, "git said nothing"))
}
