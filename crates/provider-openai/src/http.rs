//! Talks to an endpoint: one request, one stream of pieces, and every failure as a message for a person. Does
//! not retry. The key is sent and never shown.

use std::collections::VecDeque;
use std::error::Error as _;
use std::sync::OnceLock;
use std::time::{Duration, UNIX_EPOCH};

use domain::{Error, ErrorCode};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Response};
use serde_json::Value;

use super::reply::{FailureKind, ReplyFailure, ReplyPiece};
use super::request::ReplyReader;
use super::retry;
use super::settings::WireApi;
use super::sse::SseDecoder;
use crate::limits::{ANSWER_MAX_BYTES, CONNECT_WAIT, MODELS_WAIT, REPLY_SILENCE_WAIT};
use provider_common::json_fields::Look;
use provider_common::secrets::Secrets;

/// Connections, shared by all sessions of the daemon.
#[derive(Default)]
pub(super) struct HttpConnections {
    client: OnceLock<Result<Client, String>>,
}

impl HttpConnections {
    /// Returns the client, created at its first use: reading the machine's certificates takes a while.
    pub(super) fn client(&self) -> Result<Client, Error> {
        let made = self.client.get_or_init(|| make_client().map_err(|error| chain(&error)));
        made.clone().map_err(|message| {
            Error::new(ErrorCode::ProviderNotReady, format!("no connection can be made: {message}"))
        })
    }
}

fn make_client() -> Result<Client, reqwest::Error> {
    provider_common::tls::use_ring();
    Client::builder()
        .connect_timeout(CONNECT_WAIT)
        .read_timeout(REPLY_SILENCE_WAIT)
        .redirect(reqwest::redirect::Policy::limited(3))
        .user_agent(concat!("obey/", env!("CARGO_PKG_VERSION")))
        .build()
}

/// An endpoint of one session.
pub(super) struct Endpoint {
    client: Client,
    base_url: String,
    wire: WireApi,
    headers: HeaderMap,
    /// The key, which no error message may contain.
    secrets: Secrets,
}

impl Endpoint {
    /// Creates an endpoint; `key` may be empty if it needs none.
    pub(super) fn new(client: Client, base_url: String, wire: WireApi, key: &str) -> Result<Self, Error> {
        let mut headers = HeaderMap::new();
        if !key.is_empty() {
            let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| {
                Error::new(ErrorCode::ProviderNotReady, "the key has characters that no key has; set it anew")
            })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(Self { client, base_url, wire, headers, secrets: Secrets::new([key.to_owned()]) })
    }

    pub(super) fn wire(&self) -> WireApi {
        self.wire
    }

    /// Returns the names of the endpoint's models, in its own order.
    pub(super) async fn models(&self) -> Result<Vec<String>, ReplyFailure> {
        self.list().await.map_err(|failure| failure.told(&self.secrets))
    }

    async fn list(&self) -> Result<Vec<String>, ReplyFailure> {
        let url = format!("{}/models", self.base_url);
        let request = self.client.get(url).headers(self.headers.clone()).timeout(MODELS_WAIT);
        let response = request.send().await.map_err(|error| self.unsent(&error))?;
        let (status, body) = self.whole(response).await?;
        if !(200..300).contains(&status) {
            let failure = ReplyFailure::of_answer(status, &body);
            // Whatever the message says: no model was asked for, so none can be missing.
            let kind = if matches!(status, 404 | 405 | 501) { FailureKind::NotFound } else { failure.kind };
            return Err(ReplyFailure { kind, ..failure });
        }
        let list: Value = serde_json::from_str(&body).unwrap_or_default();
        let name = |model: &Value| match model {
            Value::String(name) => name.clone(),
            other => other.text("id").to_owned(),
        };
        let entries =
            if list.is_array() { list.as_array().cloned() } else { list.under("data").as_array().cloned() };
        Ok(entries.unwrap_or_default().iter().map(name).filter(|name| !name.is_empty()).collect())
    }

    /// Sends a request and returns its reply as a stream.
    pub(super) async fn ask(&self, body: String) -> Result<ReplyStream, ReplyFailure> {
        self.open(body).await.map_err(|failure| failure.told(&self.secrets))
    }

    /// Sends a request; an error response becomes a failure with its retry time.
    async fn open(&self, body: String) -> Result<ReplyStream, ReplyFailure> {
        let url = format!("{}{}", self.base_url, self.wire.path());
        let request = self
            .client
            .post(url)
            .headers(self.headers.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream")
            .body(body);
        let response = request.send().await.map_err(|error| self.unsent(&error))?;
        if response.status().is_success() {
            return Ok(ReplyStream {
                response,
                sse: SseDecoder::default(),
                reader: self.wire.reader(),
                pieces: VecDeque::new(),
                at_end: false,
                secrets: self.secrets.clone(),
            });
        }
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let headers = retry::RetryHeaders {
            after: header("retry-after"),
            after_ms: header("retry-after-ms"),
            date: header("date"),
        };
        let now = Duration::from_micros(u64::try_from(host::clock::now().0).unwrap_or(0));
        let retry_after = retry::retry_after(headers, UNIX_EPOCH + now);
        let (status, body) = self.whole(response).await?;
        Err(ReplyFailure { retry_after, ..ReplyFailure::of_answer(status, &body) })
    }

    async fn whole(&self, mut response: Response) -> Result<(u16, String), ReplyFailure> {
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unsent(&error))? {
            if body.len() + chunk.len() > ANSWER_MAX_BYTES {
                return Err(ReplyFailure::new(FailureKind::Lasting, "the endpoint's answer is too long"));
            }
            body.extend_from_slice(&chunk);
        }
        // Before it is truncated: half a key is still a secret.
        Ok((status, self.secrets.hide(&String::from_utf8_lossy(&body))))
    }

    /// Returns why there was no response.
    fn unsent(&self, error: &reqwest::Error) -> ReplyFailure {
        let (reason, at) = (chain(error), &self.base_url);
        if error.is_timeout() {
            return ReplyFailure::new(FailureKind::Unreachable, format!("{at} does not answer in time"));
        }
        let lower = reason.to_lowercase();
        if ["certificate", "tls", "handshake", "received corrupt message"]
            .iter()
            .any(|word| lower.contains(word))
        {
            return ReplyFailure::new(FailureKind::Lasting, format!("no TLS connection to {at}: {reason}"));
        }
        if error.is_connect() {
            return ReplyFailure::new(FailureKind::Unreachable, format!("{at} cannot be reached: {reason}"));
        }
        ReplyFailure::new(FailureKind::Passing, format!("the connection to {at} was lost: {reason}"))
    }
}

/// Returns the innermost cause of an error, which says most.
fn chain(error: &reqwest::Error) -> String {
    let mut cause = error.source();
    let mut last = error.to_string();
    while let Some(found) = cause {
        last = found.to_string();
        cause = found.source();
    }
    last
}

/// A reply in progress. Dropping it closes the connection.
pub(super) struct ReplyStream {
    response: Response,
    sse: SseDecoder,
    reader: ReplyReader,
    pieces: VecDeque<ReplyPiece>,
    at_end: bool,
    secrets: Secrets,
}

impl ReplyStream {
    /// Returns the next piece; `None` after the last, which is an end or a failure unless the reply was cut
    /// off. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Option<ReplyPiece>, ReplyFailure> {
        match self.read().await {
            Ok(Some(ReplyPiece::Failed(failure))) => {
                Ok(Some(ReplyPiece::Failed(failure.told(&self.secrets))))
            }
            Ok(piece) => Ok(piece),
            Err(failure) => Err(failure.told(&self.secrets)),
        }
    }

    /// Reads chunks until there is a piece or the stream ends.
    async fn read(&mut self) -> Result<Option<ReplyPiece>, ReplyFailure> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Ok(Some(piece));
            }
            if self.at_end || self.reader.is_over() {
                return Ok(None);
            }
            let chunk = self.response.chunk().await;
            let read = match &chunk {
                Ok(Some(bytes)) => self.sse.push(bytes),
                Ok(None) => {
                    self.at_end = true;
                    self.sse.finish()
                }
                Err(error) if error.is_timeout() => {
                    return Err(ReplyFailure::new(FailureKind::Passing, silence(REPLY_SILENCE_WAIT)));
                }
                Err(error) => {
                    let message =
                        format!("the connection was lost in the middle of a reply: {}", chain(error));
                    return Err(ReplyFailure::new(FailureKind::Passing, message));
                }
            };
            let events = read
                .map_err(|_| ReplyFailure::new(FailureKind::Lasting, "the endpoint sent an endless event"))?;
            let mut pieces = Vec::new();
            for event in events {
                self.reader.take(&event, &mut pieces);
            }
            if self.at_end {
                self.reader.finish(&mut pieces);
            }
            self.pieces.extend(pieces);
        }
    }
}

fn silence(wait: Duration) -> String {
    format!("the endpoint said nothing for {} s", wait.as_secs())
}
