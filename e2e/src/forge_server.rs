//! A server for tests that answers as GitLab (`/api/v4`) and GitHub (`/api/v3`) do, from a few projects it makes up; some of
//! them answer badly on purpose. It writes down what it was asked and with which token. Published clients of both must
//! take it for the real thing. Runs on a thread of its own and ends when dropped.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::sync::oneshot;

mod git;
mod github;
mod gitlab;
mod misbehave;

/// The token that the server takes.
pub const TOKEN: &str = "glpat-e2eTestTokenForForge1";

/// Rows of the project `group/many`.
pub const MANY: u64 = 250;

/// Bytes of the log of job 902.
pub const HUGE_LOG_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes of the log of job 904.
pub const LARGEST_LOG_BYTES: u64 = 1024 * 1024 * 1024;

/// What the server was asked.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    /// With its query.
    pub path: String,
    /// The value of `Authorization` or `PRIVATE-TOKEN`.
    pub token: Option<String>,
    pub body: String,
}

/// A running server.
pub struct ForgeServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What every answer needs.
pub(crate) struct Shared {
    asked: Mutex<Vec<Asked>>,
    /// The path below which the server is; empty: none.
    prefix: String,
    pub(crate) base: String,
    /// Where logs of job 903 are kept.
    pub(crate) elsewhere: String,
    /// Merge requests that were opened.
    pub(crate) opened: Mutex<Vec<Value>>,
    /// The repository that git reaches as `group/demo.git`, for whoever has the token.
    pub(crate) repository: Mutex<Option<PathBuf>>,
}

/// One request, taken apart.
pub(crate) struct Call {
    pub(crate) method: String,
    /// Where it went, without its query.
    pub(crate) address: String,
    /// The segments behind `/api/v4` or `/api/v3`, decoded.
    pub(crate) segments: Vec<String>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) token: Option<String>,
    pub(crate) body: Value,
}

impl ForgeServer {
    /// Starts a server below a path such as `/git`, or below none. `elsewhere` is another server's address.
    pub fn start(prefix: &str, elsewhere: &str) -> Result<ForgeServer> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("binding the forge server")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            asked: Mutex::default(),
            prefix: prefix.to_owned(),
            base: format!("http://{address}{prefix}"),
            elsewhere: elsewhere.to_owned(),
            opened: Mutex::default(),
            repository: Mutex::default(),
        });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("forge-server".into()).spawn(move || {
            runtime.block_on(async move {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                tokio::select! {
                    _ = axum::serve(listener, router) => {}
                    _ = stopped => {}
                }
            });
            runtime.shutdown_background();
        })?;
        Ok(ForgeServer { address, shared, stop: Some(stop), thread: Some(thread) })
    }

    /// The address of the server, with its path.
    pub fn url(&self) -> String {
        self.shared.base.clone()
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Lets git push to a bare repository, as `group/demo.git`.
    pub fn serve_git(&self, repository: PathBuf) {
        *self.shared.repository.lock().unwrap_or_else(PoisonError::into_inner) = Some(repository);
    }

    /// Everything it was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for ForgeServer {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap_or_default();
    let path = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let token = token(&head.headers);
    let asked = Asked {
        method: head.method.to_string(),
        path: path.clone(),
        token: token.clone(),
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    shared.asked.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
    let (path, query) = path.split_once('?').unwrap_or((&path, ""));
    let Some(path) = path.strip_prefix(shared.prefix.as_str()) else { return plain(404, "not here") };
    if let Some(name) = path.strip_prefix("/stored/") {
        return plain(200, &format!("stored log {name}\n"));
    }
    if let Some(rest) = path.strip_prefix("/group/demo.git/") {
        return git::answer(&shared, &head, rest, query, &body).await;
    }
    let call = |rest: &str| Call {
        method: head.method.to_string(),
        address: format!("{}{path}", shared.base),
        segments: rest.trim_matches('/').split('/').map(decoded).collect(),
        query: query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (decoded(name), decoded(&value.replace('+', " "))))
            .collect(),
        token,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    if let Some(rest) = path.strip_prefix("/api/v4/") {
        return gitlab::answer(&shared, &call(rest));
    }
    if let Some(rest) = path.strip_prefix("/api/v3/") {
        return github::answer(&shared, &call(rest));
    }
    plain(404, "<html>no such page</html>")
}

fn token(headers: &HeaderMap) -> Option<String> {
    let value = headers.get("authorization").or_else(|| headers.get("private-token"))?.to_str().ok()?;
    let bare = ["Bearer ", "bearer ", "token "].iter().find_map(|scheme| value.strip_prefix(scheme));
    Some(bare.unwrap_or(value).to_owned())
}

/// Decodes percent signs.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Call {
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn number(&self, name: &str, default: u64) -> u64 {
        self.parameter(name).and_then(|value| value.parse().ok()).unwrap_or(default)
    }

    /// Returns the page's number and size.
    pub(crate) fn page(&self, largest: u64) -> (u64, u64) {
        (self.number("page", 1).max(1), self.number("per_page", 20).clamp(1, largest))
    }
}

/// Cuts a page out of a list.
pub(crate) fn cut(rows: &[Value], page: u64, size: u64) -> Vec<Value> {
    let skipped = usize::try_from((page - 1) * size).unwrap_or(usize::MAX);
    rows.iter().skip(skipped).take(usize::try_from(size).unwrap_or(0)).cloned().collect()
}

pub(crate) fn json_answer(status: u16, body: &Value) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [("content-type", "application/json")], body.to_string()).into_response()
}

pub(crate) fn refused(status: u16, message: &str) -> Response {
    json_answer(status, &json!({"message": message}))
}

pub(crate) fn plain(status: u16, text: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [("content-type", "text/html")], text.to_owned()).into_response()
}

pub(crate) fn redirect(to: &str) -> Response {
    (StatusCode::FOUND, [("location", to.to_owned())]).into_response()
}

/// A log of many megabytes, in pieces.
pub(crate) fn huge_log(bytes: u64) -> Response {
    let piece = Bytes::from(
        "a line of a very long log, which goes on and on, as logs of builds like to do...\n".repeat(1024),
    );
    let count = bytes / piece.len() as u64;
    let mut sent = 0;
    let stream = std::iter::from_fn(move || {
        sent += 1;
        match sent {
            _ if sent <= count => Some(Ok::<Bytes, std::io::Error>(piece.clone())),
            _ if sent == count + 1 => Some(Ok(Bytes::from_static(b"the last line\n"))),
            _ => None,
        }
    });
    Body::from_stream(tokio_stream::iter(stream)).into_response()
}
