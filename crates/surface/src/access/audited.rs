//! What the layer in front of every surface writes to the audit: every call that acts or administers, after
//! it is answered, and every refusal. A call is answered truthfully even if its row cannot be written, for
//! example on a full disk; the next row then states how many are missing. The workbench writes its own rows,
//! with more detail; of its calls, only refusals are written here.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::State;
use axum::middleware::Next;
use axum::response::Response;
use domain::{ErrorCode, Timestamp};
use host::{clock, metric};
use http::{Extensions, Request};
use hyper::body::{Frame, SizeHint};
use storage::audit::{Audit, AuditEntry, AuditOutcome};
use wire::access::{Effect, Protocol, Row, SessionIn};

use super::frames;
use crate::peer::{self, Caller, Calling, Peer, Via};
use crate::{limits, status};

/// Who calls without having shown who they are.
const STRANGER: &str = "stranger";

tokio::task_local! {
    /// The origin of the request that this task serves.
    static SERVED: Option<Peer>;
}

/// Does work for a request in a task that did not receive it.
pub fn served_from<F: Future>(extensions: &Extensions, work: F) -> impl Future<Output = F::Output> {
    SERVED.scope(extensions.get::<Peer>().copied(), work)
}

/// Says from where the request comes that the current task serves; nothing outside of one.
pub fn origin_here() -> String {
    SERVED.try_with(|peer| peer.map(origin)).ok().flatten().unwrap_or_default()
}

/// Additional text for the row of a call; an extension of the response.
#[derive(Clone, Debug)]
pub struct Summary(pub String);

/// Marks the response of a call that only read, whatever its row says; an extension of the response. Calls on other machines share
/// one row.
#[derive(Clone, Copy, Debug)]
pub struct OnlyRead;

/// Where rows are written; `None` writes nothing, for programs that embed a surface.
#[derive(Clone)]
pub struct Recorder(Option<Arc<Inner>>);

struct Inner {
    audit: Audit,
    refusals: Mutex<Refusals>,
    /// Rows that could not be written since the last successful one.
    missing: AtomicU64,
}

impl Inner {
    /// Whether a refusal is written, which then says how many before it were not.
    fn takes_refusal(&self, entry: &mut AuditEntry) -> bool {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        match refusals.take(&entry.caller, Instant::now()) {
            None => return false,
            Some(0) => {}
            Some(more) => entry.summary = format!("and {more} more refusals before, not written one by one"),
        }
        true
    }

    /// Writes a row, with the number of those that could not be written before it.
    async fn append(&self, mut entry: AuditEntry) {
        let missing = self.missing.swap(0, Ordering::Relaxed);
        if missing > 0 {
            let separator = if entry.summary.is_empty() { "" } else { "; " };
            entry
                .summary
                .push_str(&format!("{separator}{missing} rows before this one could not be written"));
        }
        let operation = entry.operation.clone();
        if let Err(error) = self.audit.append(entry).await {
            self.missing.fetch_add(missing + 1, Ordering::Relaxed);
            tracing::error!(%error, operation, "a call is missing from the audit");
        }
    }
}

impl Recorder {
    pub fn new(audit: Option<Audit>) -> Self {
        Self(
            audit.map(|audit| {
                Arc::new(Inner { audit, refusals: Mutex::default(), missing: AtomicU64::new(0) })
            }),
        )
    }
}

impl Recorder {
    /// Writes down a request that was refused before anybody was known to have sent it.
    pub async fn turned_away(&self, row: &Row, peer: Peer) {
        metric::call_refused(STRANGER);
        let Some(inner) = &self.0 else { return };
        let seen = Seen { at: clock::now(), began: Instant::now(), peer: Some(peer), calling: None };
        let mut entry = seen.entry(row, &Caller::Unknown, String::new());
        entry.caller = STRANGER.to_owned();
        entry.outcome = AuditOutcome::Failed(ErrorCode::NotAllowed);
        if inner.takes_refusal(&mut entry) {
            inner.append(entry).await;
        }
    }
}

impl Recorder {
    /// Writes down the refusal of a call that does not travel over HTTP.
    pub async fn refused(&self, row: &Row, caller: &Caller, session: &str, peer: Option<Peer>) {
        metric::call_refused(kind_of(caller));
        let Some(inner) = &self.0 else { return };
        let seen = Seen { at: clock::now(), began: Instant::now(), peer, calling: None };
        // It is the caller's text: an id, or nothing.
        let is_id = session.len() <= limits::AUDIT_SESSION_MAX_BYTES && session.is_ascii();
        let session = if is_id { session.to_owned() } else { String::new() };
        let mut entry = seen.entry(row, caller, session);
        let [(_, method), ..] = super::cells(row);
        entry.operation = method;
        entry.outcome = AuditOutcome::Failed(ErrorCode::NotAllowed);
        if inner.takes_refusal(&mut entry) {
            inner.append(entry).await;
        }
    }
}

/// Returns the row of a request.
pub fn row_of(request: &Request<Body>) -> Option<&'static Row> {
    let path = request.uri().path();
    super::grpc(path.strip_prefix('/').unwrap_or(path))
        .or_else(|| super::rest(request.method().as_str(), path))
}

/// Serves a request and writes it down.
pub async fn record(State(recorder): State<Recorder>, request: Request<Body>, next: Next) -> Response {
    let Some(inner) = recorder.0 else { return next.run(request).await };
    // Without a row nothing is done.
    let Some(row) = row_of(&request) else { return next.run(request).await };
    let seen = Seen {
        at: clock::now(),
        began: Instant::now(),
        peer: request.extensions().get::<Peer>().copied(),
        calling: request.extensions().get::<Calling>().cloned(),
    };
    let (request, head) = watched(row, request);
    let response = SERVED.scope(seen.peer, next.run(request)).await;
    let outcome = status::code_of(&response);
    let is_refusal = outcome == Some(ErrorCode::NotAllowed);
    measure(row, &seen, outcome);
    let only_read = row.effect == Effect::Reads || response.extensions().get::<OnlyRead>().is_some();
    if !is_refusal && (only_read || is_of_workbench(row)) {
        return response;
    }
    let caller = seen.calling.as_ref().map_or(Caller::Unknown, Calling::caller);
    let mut entry = seen.entry(row, &caller, head.session(row));
    entry.outcome = AuditOutcome::of(outcome);
    if let Some(Summary(text)) = response.extensions().get() {
        entry.summary.clone_from(text);
    }
    if !is_refusal || inner.takes_refusal(&mut entry) {
        inner.append(entry).await;
    }
    response
}

/// Counts a call over HTTP that was answered.
fn measure(row: &Row, seen: &Seen, outcome: Option<ErrorCode>) {
    let protocol = match row.protocol {
        Protocol::Grpc => "grpc",
        Protocol::Rest => "rest",
        Protocol::Tool => "tool",
        Protocol::Acp => "acp",
    };
    let word = match outcome {
        None => "ok",
        Some(ErrorCode::NotAllowed) => "refused",
        Some(_) => "error",
    };
    metric::call_answered(protocol, word, seen.began.elapsed());
    if outcome == Some(ErrorCode::NotAllowed) {
        let caller = seen.calling.as_ref().map_or(Caller::Unknown, Calling::caller);
        metric::call_refused(kind_of(&caller));
    }
}

/// Returns the kind of a caller as a label.
fn kind_of(caller: &Caller) -> &'static str {
    match caller {
        Caller::User => "user",
        Caller::Agent(_) => "agent",
        Caller::Unknown => "unknown",
        Caller::Token => "token",
        Caller::Page => "page",
        Caller::Device(_) => "device",
        Caller::ApiKey(_) => "key",
    }
}

/// What is known of a call before it is served.
struct Seen {
    at: Timestamp,
    began: Instant,
    peer: Option<Peer>,
    calling: Option<Calling>,
}

impl Seen {
    /// Returns the row of the call; the caller adds its outcome.
    fn entry(&self, row: &Row, caller: &Caller, session: String) -> AuditEntry {
        AuditEntry {
            at: self.at,
            session,
            caller: peer::named(caller),
            operation: row.method.to_owned(),
            duration_us: u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX),
            origin: self.peer.map(origin).unwrap_or_default(),
            ..AuditEntry::default()
        }
    }
}

/// Formats the origin of a call: the kind of connection, with the user and process ids where known.
fn origin(peer: Peer) -> String {
    let mut text = match peer.via {
        Via::Unix => "unix".to_owned(),
        Via::Tcp => "tcp".to_owned(),
        Via::Tls => "tls".to_owned(),
        Via::Tunnel => "tunnel".to_owned(),
    };
    if let Some(from) = peer.from {
        text.push_str(&format!(" {from}"));
    }
    for (name, value) in [("uid", peer.uid.map(i64::from)), ("pid", peer.pid.map(i64::from))] {
        if let Some(value) = value {
            text.push_str(&format!(" {name} {value}"));
        }
    }
    text
}

/// Whether the workbench records the calls of a row itself.
fn is_of_workbench(row: &Row) -> bool {
    match row.protocol {
        // The bridge forwards tool calls. Most of them belong to the workbench, which records them itself.
        Protocol::Grpc => {
            ["contextd.v1.", "obey.v1.BridgeService/"].iter().any(|of| row.method.starts_with(of))
        }
        // Everything else that REST and MCP do belongs to the workbench.
        Protocol::Rest => !row.method.contains(" /api/machines/"),
        Protocol::Tool => true,
        Protocol::Acp => false,
    }
}

/// Limits how many refusals of each caller are written.
#[derive(Default)]
struct Refusals {
    callers: HashMap<String, Window>,
}

/// The refusals of one caller in the current time window.
struct Window {
    since: Instant,
    written: u32,
    left_out: u64,
}

impl Refusals {
    /// Returns how many refusals were left out since the last written one; `None` if this one is left out,
    /// too.
    fn take(&mut self, caller: &str, now: Instant) -> Option<u64> {
        if self.callers.len() >= limits::AUDIT_CALLERS_MAX {
            self.callers.retain(|_, window| now.duration_since(window.since) < limits::AUDIT_REFUSALS_WINDOW);
        }
        let fresh = Window { since: now, written: 0, left_out: 0 };
        let window = self.callers.entry(caller.to_owned()).or_insert(fresh);
        if now.duration_since(window.since) >= limits::AUDIT_REFUSALS_WINDOW {
            (window.since, window.written) = (now, 0);
        }
        if window.written >= limits::AUDIT_REFUSALS_MAX {
            window.left_out += 1;
            return None;
        }
        window.written += 1;
        Some(std::mem::take(&mut window.left_out))
    }
}

/// The beginning of a request's body, copied as it passes.
#[derive(Clone, Default)]
struct Beginning(Option<Arc<Mutex<Vec<u8>>>>);

impl Beginning {
    /// Returns the session that a gRPC request names.
    fn session(&self, row: &Row) -> String {
        let SessionIn::Field { path, .. } = row.session else { return String::new() };
        let Some(kept) = &self.0 else { return String::new() };
        let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let named = kept
            .get(frames::HEADER_BYTES..)
            .and_then(|message| frames::text_at(message, path).ok().flatten());
        // The text comes from the caller: only a plausible id is accepted.
        let is_id = |text: &String| text.len() <= limits::AUDIT_SESSION_MAX_BYTES && text.is_ascii();
        named.filter(is_id).unwrap_or_default()
    }
}

/// Keeps a copy of the body's beginning if the row needs the session that the body names.
fn watched(row: &Row, request: Request<Body>) -> (Request<Body>, Beginning) {
    let names_session = matches!(row.session, SessionIn::Field { .. });
    if row.protocol != Protocol::Grpc || row.effect == Effect::Reads || !names_session {
        return (request, Beginning::default());
    }
    let kept = Arc::new(Mutex::new(Vec::new()));
    let beginning = Beginning(Some(Arc::clone(&kept)));
    (request.map(|body| Body::new(Watched { body, kept })), beginning)
}

/// A body that copies its first bytes as they pass.
struct Watched {
    body: Body,
    kept: Arc<Mutex<Vec<u8>>>,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(bytes) = frame.data_ref()
        {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let room = limits::AUDIT_BODY_MAX_BYTES.saturating_sub(kept.len()).min(bytes.len());
            kept.extend_from_slice(&bytes[..room]);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_one_caller_do_not_fill_the_audit_nor_hide_those_of_others() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        for _ in 0..limits::AUDIT_REFUSALS_MAX {
            assert_eq!(refusals.take("agent a", now), Some(0));
        }
        for _ in 0..5 {
            assert_eq!(refusals.take("agent a", now), None);
        }
        assert_eq!(refusals.take("agent b", now), Some(0));
        assert_eq!(refusals.take("agent a", now + limits::AUDIT_REFUSALS_WINDOW), Some(5));
    }

    #[test]
    fn an_origin_says_what_is_known() {
        let peer = Peer { uid: Some(7), pid: None, via: Via::Tcp, from: None };
        assert_eq!(origin(peer), "tcp uid 7");
        assert_eq!(origin(Peer { pid: Some(3), via: Via::Unix, ..peer }), "unix uid 7 pid 3");
        let from = "10.1.2.3:45".parse().ok();
        assert_eq!(origin(Peer { uid: None, via: Via::Tls, from, ..peer }), "tls 10.1.2.3:45");
    }
}
