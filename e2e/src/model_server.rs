//! A model for tests: a server on loopback that answers model APIs from scripts inside the prompts themselves, so one
//! server serves many agents at once. This file owns the server's life and the handle that tests hold; how replies
//! are chosen, played and encoded lives in the modules below. It never contacts any other machine.

use std::fs::OpenOptions;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::deadline::within;

mod anthropic;
mod ceiling;
mod exchange;
mod gemini;
mod names;
mod openai_chat;
mod openai_embeddings;
mod openai_responses;
mod play;
mod record;
mod script;
pub mod stamp;

pub use record::{Outcome, Purpose, Request};

/// Largest request body. Agents send the whole conversation each time, images included.
const BODY_MAX_BYTES: usize = 64 << 20;

/// A running server. Stops when dropped.
///
/// It runs on a thread of its own, so tests may block without stalling it.
pub struct ModelServer {
    address: SocketAddr,
    ledger: record::Ledger,
    ceiling: ceiling::Ceiling,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What every API module needs to answer a request.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) ledger: record::Ledger,
    pub(crate) ids: Ids,
    pub(crate) ceiling: ceiling::Ceiling,
}

/// Names for messages, tool calls and requests. Unique across servers of one machine, because a session may be resumed
/// against a second server while its history still names calls of the first.
#[derive(Clone)]
pub(crate) struct Ids {
    tag: Arc<str>,
    count: Arc<AtomicU64>,
}

impl Ids {
    pub(crate) fn next(&self, kind: &str) -> String {
        let n = self.count.fetch_add(1, Ordering::Relaxed);
        format!("{kind}_{}{n:06}", self.tag)
    }
}

impl ModelServer {
    /// Starts a server on a free port of 127.0.0.1.
    pub fn start() -> Result<ModelServer> {
        ModelServer::start_on(0, None)
    }

    /// Starts a server on a given port (0: any), which writes a JSON line per request arrived and ended to `log`.
    pub fn start_on(port: u16, log: Option<PathBuf>) -> Result<ModelServer> {
        let log = log
            .map(|path| {
                let file = OpenOptions::new().create(true).append(true).open(&path);
                file.with_context(|| format!("opening {}", path.display()))
            })
            .transpose()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).context("binding the model server")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let ledger = record::Ledger::new(log);
        let tag = format!("{:x}p{}n", std::process::id(), address.port());
        let ids = Ids { tag: tag.into(), count: Arc::new(AtomicU64::new(1)) };
        let ceiling = ceiling::Ceiling::default();
        let router = router(Shared { ledger: ledger.clone(), ids, ceiling: ceiling.clone() });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("model-server".into()).spawn(move || {
            runtime.block_on(async move {
                tokio::select! {
                    () = serve(listener, router) => {}
                    // Either a call to stop() or the handle's end; both mean the same.
                    _ = stopped => {}
                }
            });
            // Open streams hang on purpose: end them with the runtime instead of waiting.
            runtime.shutdown_background();
        })?;
        Ok(ModelServer { address, ledger, ceiling, stop: Some(stop), thread: Some(thread) })
    }

    /// What `ANTHROPIC_BASE_URL` must be: no path, no final slash.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What agents that speak OpenAI's APIs must be given.
    pub fn openai_base_url(&self) -> String {
        format!("{}/v1", self.base_url())
    }

    /// Every request so far, in order of arrival.
    pub fn requests(&self) -> Vec<Request> {
        self.ledger.read(|inner| inner.requests().to_vec())
    }

    /// The requests that belong to the prompt with this key, in order of arrival.
    pub fn requests_for(&self, key: &str) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.key == key).collect()
    }

    /// Forgets every request so far, so that the next scenario may use the same keys.
    pub fn forget(&self) {
        self.ledger.forget();
    }

    /// Waits until at least `count` requests of conversations have arrived, side requests not counted.
    pub async fn wait_for_requests(&self, count: usize) -> Result<Vec<Request>> {
        self.wait(&format!("{count} requests"), |inner| {
            let turns: Vec<&Request> =
                inner.requests().iter().filter(|r| r.purpose == Purpose::Turn).collect();
            (turns.len() >= count).then(|| turns.into_iter().cloned().collect())
        })
        .await
    }

    /// Waits for a request that fulfils the condition; looks at past ones first, and again after each change, so it
    /// can wait for an outcome too.
    pub async fn wait_for_request(&self, mut wanted: impl FnMut(&Request) -> bool) -> Result<Request> {
        self.wait("a request", |inner| inner.requests().iter().find(|request| wanted(request)).cloned()).await
    }

    /// Waits until some stream has paused at `{"wait": name}`.
    pub async fn wait_until_paused(&self, name: &str) -> Result<()> {
        self.wait(&format!("a pause at {name:?}"), |inner| inner.reached.contains(name).then_some(())).await
    }

    /// Lets every stream that pauses at `{"wait": name}`, now or later, go on.
    pub fn release(&self, name: &str) {
        self.ledger.release(name);
    }

    /// Refuses requests of OpenAI's APIs with a longer body from now on, with HTTP 400 and this answer, as an endpoint does
    /// whose model has a small window.
    pub fn refuse_above(&self, bytes: usize, answer: Value) {
        self.ceiling.set(bytes, answer);
    }

    /// The visible text sent so far for the prompt with this key, over all its requests, byte for byte.
    pub fn sent_text(&self, key: &str) -> String {
        self.requests_for(key).into_iter().map(|request| request.sent_text).collect()
    }

    /// Stops the server and cuts every open stream.
    pub fn stop(mut self) {
        self.shut();
    }

    fn shut(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The thread may have ended already; then there is nobody to tell.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    async fn wait<T>(&self, what: &str, look: impl FnMut(&record::Inner) -> Option<T>) -> Result<T> {
        within(what, self.ledger.until(look)).await.with_context(|| {
            let seen: Vec<String> = self.requests().iter().map(describe).collect();
            format!("the model server saw {} requests:\n{}", seen.len(), seen.join("\n"))
        })
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shut();
    }
}

fn describe(request: &Request) -> String {
    let Request { method, path, purpose, key, step, outcome, .. } = request;
    format!("  {method} {path} {purpose:?} key={key:?} step={step} {outcome:?}")
}

/// One set of routes per API. Each API joins as a sibling of `anthropic` with its own paths.
fn router(shared: Shared) -> Router {
    anthropic::routes()
        .merge(openai_responses::routes())
        .merge(openai_chat::routes())
        .merge(openai_embeddings::routes())
        .merge(gemini::routes())
        .with_state(shared)
        .layer(DefaultBodyLimit::max(BODY_MAX_BYTES))
}

async fn serve(listener: TcpListener, router: Router) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    // Serving ends only with the runtime; an error here shows up as refused connections in the test.
    let _ = axum::serve(listener, router).await;
}

#[cfg(test)]
mod tests;
