//! Other users of the machine. Becoming one needs root and curl; without them a line says what was skipped.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use axum::Router;
use http::{HeaderMap, HeaderValue, StatusCode};
use tonic::service::Routes;

use crate::peer::{self, Access, Refusal, Token};
use crate::server::tests::private_home;
use crate::server::tests::running::Running;

/// A user that is neither root nor the one that runs the tests.
const NOBODY: u32 = 65_534;

fn can_be_somebody_else() -> bool {
    let can = host::own_uid() == 0 && Path::new("/usr/bin/curl").exists();
    if !can {
        println!("skipped: being another user needs root and /usr/bin/curl");
    }
    can
}

async fn curl_as_nobody(arguments: Vec<String>) -> Output {
    let run = move || {
        let mut curl = Command::new("/usr/bin/curl");
        curl.uid(NOBODY).gid(NOBODY).args([
            "--silent",
            "--show-error",
            "--noproxy",
            "*",
            "--max-time",
            "20",
            "--include",
        ]);
        curl.args(arguments).output().unwrap()
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

fn routes() -> Routes {
    async fn whoever(request: http::Request<axum::body::Body>) -> String {
        format!("{:?}", peer::caller(request.extensions()))
    }
    let router = Router::new().route("/touch", axum::routing::get(|| std::future::ready("served")));
    Routes::from(router.route("/whoever", axum::routing::get(whoever)))
}

#[tokio::test]
async fn another_user_needs_the_token_on_a_port() {
    if !can_be_somebody_else() {
        return;
    }
    let home = private_home();
    let token = Token::create_or_load(home.path()).unwrap();
    let text = fs::read_to_string(token.path()).unwrap().trim().to_owned();
    let access = Access { token: Some(token.clone()), ..Access::default() };
    let running = Running::start_with(routes(), access);
    let url = format!("http://127.0.0.1:{}/touch", running.port);
    let wrong = "0".repeat(64);
    for claim in [
        "",
        "Bearer",
        "Bearer ",
        &format!("Bearer {wrong}"),
        &text,
        &format!("Basic {text}"),
        &format!("Bearer  {text}"),
    ] {
        let output =
            curl_as_nobody(vec!["-H".to_owned(), format!("authorization: {claim}"), url.clone()]).await;
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(answer.starts_with("HTTP/1.1 401"), "{claim}: {answer}");
    }
    for path in ["/touch", "/health", "/nothing"] {
        let url = format!("http://127.0.0.1:{}{path}", running.port);
        let answer = curl_as_nobody(vec![url]).await.stdout;
        assert!(answer.starts_with(b"HTTP/1.1 401"), "{path}");
    }
    let bearer = format!("authorization: Bearer {text}");
    let answer = curl_as_nobody(vec!["-H".to_owned(), bearer.clone(), url.clone()]).await.stdout;
    assert!(String::from_utf8_lossy(&answer).ends_with("served"));
    // A new token is valid from the next request on.
    fs::remove_file(token.path()).unwrap();
    Token::create_or_load(home.path()).unwrap();
    let answer = curl_as_nobody(vec!["-H".to_owned(), bearer, url.clone()]).await.stdout;
    assert!(answer.starts_with(b"HTTP/1.1 401"));
    running.stop().await;
}

#[tokio::test]
async fn another_user_with_the_token_is_the_user_only_where_configured() {
    if !can_be_somebody_else() {
        return;
    }
    for (token_users, expected) in [(vec![], "Token"), (vec![1, NOBODY + 1], "Token"), (vec![NOBODY], "User")]
    {
        let home = private_home();
        let token = Token::create_or_load(home.path()).unwrap();
        let bearer = format!("authorization: Bearer {}", fs::read_to_string(token.path()).unwrap().trim());
        let token_users = token_users.into_iter().collect();
        let access = Access { token: Some(token), token_users, ..Access::default() };
        let running = Running::start_with(routes(), access);
        let url = format!("http://127.0.0.1:{}/whoever", running.port);
        let without = curl_as_nobody(vec![url.clone()]).await.stdout;
        assert!(without.starts_with(b"HTTP/1.1 401"));
        let answer = curl_as_nobody(vec!["-H".to_owned(), bearer, url]).await.stdout;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.ends_with(expected), "{expected}: {answer}");
        running.stop().await;
    }
}

#[tokio::test]
async fn another_user_is_not_served_on_the_socket() {
    if !can_be_somebody_else() {
        return;
    }
    let running = Running::start_with(routes(), Access::default());
    // As if folder and socket had been opened to all users by mistake.
    let folder = running.socket.parent().unwrap();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&running.socket, fs::Permissions::from_mode(0o777)).unwrap();
    let socket = running.socket.display().to_string();
    let output =
        curl_as_nobody(vec!["--unix-socket".to_owned(), socket, "http://localhost/touch".to_owned()]).await;
    assert!(output.stdout.is_empty(), "{output:?}");
    // Cut right after connecting: 52 is an empty reply, 55 and 56 are a failed send and receive, 7 is a
    // connection that broke before curl used it.
    assert!(matches!(output.status.code(), Some(7 | 52 | 55 | 56)), "{output:?}");
    running.stop().await;
}

#[test]
fn a_missing_token_is_said_in_the_callers_protocol() {
    let mut headers = HeaderMap::new();
    let plain = Refusal::Token.into_response(&headers);
    assert_eq!(plain.status(), StatusCode::UNAUTHORIZED);
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    let grpc = Refusal::Token.into_response(&headers);
    assert_eq!(grpc.headers()["grpc-status"], "16");
    assert_eq!(Refusal::Host.into_response(&headers).headers()["grpc-status"], "7");
    assert_eq!(Refusal::Host.into_response(&headers).status(), StatusCode::FORBIDDEN);
}
