//! How requests reach a collector: the daemon's own HTTP client, on its own runtime. The threads that collect have none.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use opentelemetry_http::{Bytes, HttpError, Request, Response};
use tokio::runtime::Handle;

use crate::limits;

/// Sends what was collected.
#[derive(Debug)]
pub(super) struct HttpClient {
    client: reqwest::Client,
    runtime: Handle,
    /// Whether the last request failed: a collector that is away is told once.
    is_failing: AtomicBool,
}

impl HttpClient {
    pub(super) fn new(runtime: Handle) -> anyhow::Result<Self> {
        // An error means that a provider is already installed, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .timeout(limits::TELEMETRY_WAIT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("obey/", env!("CARGO_PKG_VERSION")))
            .build()
            .context("telemetry: no HTTP client")?;
        Ok(Self { client, runtime, is_failing: AtomicBool::new(false) })
    }

    /// Logs the first of several failures, and the first success after them.
    fn note(&self, problem: Option<&str>) {
        let was_failing = self.is_failing.swap(problem.is_some(), Ordering::Relaxed);
        match problem {
            Some(problem) if !was_failing => {
                tracing::warn!(problem, "traces and logs do not reach telemetry.endpoint");
            }
            None if was_failing => tracing::info!("traces and logs reach telemetry.endpoint again"),
            _ => {}
        }
    }
}

#[tonic::async_trait]
impl opentelemetry_http::HttpClient for HttpClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sent = self.runtime.spawn(async move { send(&client, request).await }).await;
        let sent = sent.unwrap_or_else(|_| Err("the daemon ends".to_owned()));
        let refused = sent.as_ref().is_ok_and(|answer| !answer.status().is_success());
        match &sent {
            Ok(answer) if refused => self.note(Some(&format!("it answered {}", answer.status()))),
            Ok(_) => self.note(None),
            Err(problem) => self.note(Some(problem)),
        }
        sent.map_err(HttpError::from)
    }
}

async fn send(client: &reqwest::Client, request: Request<Bytes>) -> Result<Response<Bytes>, String> {
    // The address may contain a secret.
    let plain = |error: reqwest::Error| error.without_url().to_string();
    let request = reqwest::Request::try_from(request).map_err(plain)?;
    let mut answer = client.execute(request).await.map_err(plain)?;
    let mut body = Vec::new();
    while let Some(part) = answer.chunk().await.map_err(plain)? {
        if body.len() + part.len() > limits::TELEMETRY_ANSWER_MAX_BYTES {
            return Err("its answer is too long".to_owned());
        }
        body.extend_from_slice(&part);
    }
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = answer.status();
    *response.headers_mut() = answer.headers().clone();
    Ok(response)
}
