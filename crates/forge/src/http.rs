//! Requests to a server: with its token, with limits, and with redirects that cannot carry the token elsewhere. Turns what
//! a server answers into our errors. Knows no route.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use domain::{Error, ErrorCode};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Client, Method, Response, StatusCode, Url};
use scrub::{KnownSecret, Scrubber};
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::instance::{self, Instance};
use crate::project::is_loopback;
use crate::types::ForgeKind;
use crate::{json, limits, rate};

/// One server and how it is called.
pub(crate) struct Api {
    pub(crate) instance: Arc<Instance>,
    client: Client,
    token: Option<HeaderValue>,
    /// The token itself, which is removed from what the server says.
    known: Option<KnownSecret>,
    /// Knows every secret but the token.
    scrubber: Scrubber,
    /// The same with the token. Made when it is needed: that takes milliseconds, and lists need none.
    own_scrubber: OnceLock<Result<Scrubber, Error>>,
    calls: Arc<Semaphore>,
}

/// An answer whose body was read.
pub(crate) struct Answer {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

/// Where a redirect may lead.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Redirects {
    /// The server itself only: lists and items are not believed from anybody else.
    SameServer,
    /// Anywhere, without the token: logs are kept by others.
    Anywhere,
    Never,
}

impl Api {
    /// Reads the token, which may be in a file.
    pub(crate) fn new(
        instance: Arc<Instance>,
        client: Client,
        scrubber: &Scrubber,
        calls: Arc<Semaphore>,
    ) -> Result<Self, Error> {
        let token = instance.token()?;
        let known = token.as_deref().map(|token| KnownSecret::new("forge token", token));
        let token = token.map(|token| instance::bearer(&token)).transpose()?;
        let (scrubber, own_scrubber) = (scrubber.clone(), OnceLock::new());
        Ok(Self { instance, client, token, known, scrubber, own_scrubber, calls })
    }

    /// Returns what removes secrets from what the server says, this server's token among them.
    pub(crate) fn scrubber(&self) -> Result<&Scrubber, Error> {
        let made = self.own_scrubber.get_or_init(|| match &self.known {
            Some(token) => self.scrubber.adding_known(std::slice::from_ref(token)),
            None => Ok(self.scrubber.clone()),
        });
        made.as_ref().map_err(Clone::clone)
    }

    /// Removes secrets from a text; nothing is left of one that cannot be scrubbed.
    fn scrubbed(&self, text: &str) -> String {
        self.scrubber().map(|scrubber| scrubber.scrub_text(text)).unwrap_or_default()
    }

    /// Returns the address of a route; each segment is encoded, so that a slash in one stays in it.
    pub(crate) fn route(&self, segments: &[&str]) -> Url {
        let mut url = self.instance.api.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }

    /// Gets JSON.
    pub(crate) async fn get(&self, url: &Url) -> Result<Answer, Error> {
        let _turn = self.turn().await?;
        let response = self.send(&Method::GET, url, None, Redirects::SameServer).await?;
        self.read(response).await
    }

    /// Posts JSON.
    pub(crate) async fn post(&self, url: &Url, body: &Value) -> Result<Answer, Error> {
        let _turn = self.turn().await?;
        let response = self.send(&Method::POST, url, Some(body), Redirects::Never).await?;
        self.read(response).await
    }

    /// Gets a text of any length, piece by piece.
    pub(crate) async fn stream(&self, url: &Url, mut each: impl FnMut(&[u8])) -> Result<(), Error> {
        let _turn = self.turn().await?;
        let mut response = self.send(&Method::GET, url, None, Redirects::Anywhere).await?;
        let until = tokio::time::Instant::now() + limits::LOG_WAIT;
        loop {
            let next = until.min(tokio::time::Instant::now() + limits::LOG_PAUSE_WAIT);
            let slow = |_| self.unavailable("the log did not come in time");
            match tokio::time::timeout_at(next, response.chunk()).await.map_err(slow)? {
                Ok(Some(piece)) => each(&piece),
                Ok(None) => return Ok(()),
                Err(error) => return Err(self.unsent(&error)),
            }
        }
    }

    /// Waits until fewer requests are under way.
    async fn turn(&self) -> Result<SemaphorePermit<'_>, Error> {
        self.calls.acquire().await.map_err(|_| self.unavailable("the daemon ends"))
    }

    /// Sends a request, again if the server says that there were too many.
    async fn send(
        &self,
        method: &Method,
        url: &Url,
        body: Option<&Value>,
        redirects: Redirects,
    ) -> Result<Response, Error> {
        let mut attempt = 0;
        loop {
            let response = self.follow(method, url, body, redirects).await?;
            if response.status().is_success() {
                return Ok(response);
            }
            let Some(limit) = rate::of(response.status(), response.headers(), now_secs()) else {
                return Err(self.refusal(response).await);
            };
            let Some(pause) = limit.pause(attempt) else { return Err(self.rate_limited(limit.wait)) };
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    /// Sends a request and follows redirects. The token goes to the server's own address only, and to nobody after a
    /// redirect elsewhere.
    async fn follow(
        &self,
        method: &Method,
        url: &Url,
        body: Option<&Value>,
        redirects: Redirects,
    ) -> Result<Response, Error> {
        let mut at = url.clone();
        let mut is_own = true;
        for _ in 0..=limits::REDIRECTS_MAX {
            is_own = is_own && at.origin() == self.instance.api.origin();
            let mut request = self.client.request(method.clone(), at.clone());
            if is_own {
                request = request.header(ACCEPT, self.accepted());
                if let Some(token) = &self.token {
                    request = request.header(AUTHORIZATION, token.clone());
                }
            }
            if let Some(body) = body {
                request = request.header(CONTENT_TYPE, "application/json").body(body.to_string());
            }
            let sent = tokio::time::timeout(limits::REQUEST_WAIT, request.send()).await;
            let response = sent
                .map_err(|_| self.unavailable("no answer came in time"))?
                .map_err(|error| self.unsent(&error))?;
            let Some(next) = self.redirect(&response, &at, redirects)? else { return Ok(response) };
            at = next;
        }
        Err(self.unavailable("it redirects in a circle"))
    }

    /// Returns where an answer redirects to, if that may be followed.
    fn redirect(&self, response: &Response, at: &Url, allowed: Redirects) -> Result<Option<Url>, Error> {
        if !response.status().is_redirection() || response.status() == StatusCode::NOT_MODIFIED {
            return Ok(None);
        }
        let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        let next = location.and_then(|location| at.join(location).ok());
        let next = next.ok_or_else(|| self.unavailable("it redirects to no address"))?;
        let host = next.host_str().unwrap_or_default().to_owned();
        let is_same = next.origin() == self.instance.api.origin();
        let is_allowed = match allowed {
            Redirects::Never => false,
            Redirects::SameServer => is_same,
            // A server elsewhere must not make the daemon read what this machine serves to itself only.
            Redirects::Anywhere => {
                is_same
                    || (next.scheme() == "https" && !is_loopback(&next))
                    || is_loopback(&self.instance.api)
            }
        };
        if !is_allowed || !matches!(next.scheme(), "http" | "https") {
            return Err(self.unavailable(&format!("it redirects to {host}, which is not followed")));
        }
        Ok(Some(next))
    }

    fn accepted(&self) -> &'static str {
        match self.instance.kind {
            ForgeKind::GitLab => "application/json, text/plain",
            ForgeKind::GitHub => "application/vnd.github+json",
        }
    }

    /// Reads a body as JSON, up to the limit.
    async fn read(&self, response: Response) -> Result<Answer, Error> {
        let headers = response.headers().clone();
        let bytes = tokio::time::timeout(limits::REQUEST_WAIT, self.body(response, limits::BODY_MAX_BYTES));
        let bytes = bytes.await.map_err(|_| self.unavailable("its answer did not come in time"))??;
        let body = serde_json::from_slice(&bytes).map_err(|_| {
            let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("something");
            let kind = json::cleaned(kind, limits::FIELD_MAX_BYTES);
            self.unavailable(&format!("it sent {kind} that is no JSON; is it a {}?", self.title()))
        })?;
        Ok(Answer { headers, body })
    }

    async fn body(&self, mut response: Response, max: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| self.unsent(&error))? {
            if bytes.len() + piece.len() > max {
                return Err(self.unavailable(&format!("its answer is longer than {max} bytes")));
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }

    fn title(&self) -> &'static str {
        self.instance.kind.title()
    }

    /// Returns the error for an answer that is none.
    async fn refusal(&self, response: Response) -> Error {
        let status = response.status();
        let wait =
            tokio::time::timeout(limits::REQUEST_WAIT, self.body(response, limits::ERROR_BODY_MAX_BYTES));
        let bytes = wait.await.ok().and_then(Result::ok).unwrap_or_default();
        let said = self.quoted(&bytes);
        let (name, server) = (self.instance.kind.name(), &self.instance.base);
        let (code, message) = match status {
            StatusCode::UNAUTHORIZED if self.token.is_none() => (
                ErrorCode::ForgeUnauthenticated,
                format!(
                    "{server} wants a token; set {name}.token_file or {}",
                    token_variable(self.instance.kind)
                ),
            ),
            StatusCode::UNAUTHORIZED => {
                (ErrorCode::ForgeUnauthenticated, format!("{server} does not take the token{said}"))
            }
            StatusCode::FORBIDDEN => {
                (ErrorCode::ForgeDenied, format!("{server}: the token does not allow this{said}"))
            }
            StatusCode::NOT_FOUND => (
                ErrorCode::ForgeNotFound,
                format!(
                    "{server}: there is no such thing, or it is private and the token does not show it{said}"
                ),
            ),
            StatusCode::BAD_REQUEST | StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY => {
                (ErrorCode::ForgeRefused, format!("{server} refuses this ({}){said}", status.as_u16()))
            }
            _ => (ErrorCode::ForgeUnavailable, format!("{server} answers {}{said}", status.as_u16())),
        };
        Error::new(code, message)
    }

    /// Returns what a server says of its error, without secrets.
    fn quoted(&self, bytes: &[u8]) -> String {
        let body: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let said = ["message", "error_description", "error"].iter().map(|key| &body[*key]);
        let said = said.map(|said| match said {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        });
        let Some(said) = said.into_iter().find(|said| !said.is_empty()) else { return String::new() };
        let said = self.scrubbed(&json::cleaned(&said, limits::ERROR_BODY_MAX_BYTES));
        let said: String = said.replace('\n', " ").chars().take(limits::ERROR_QUOTE_MAX_LETTERS).collect();
        format!("; it says: {said}")
    }

    fn rate_limited(&self, wait: Option<Duration>) -> Error {
        let when = match wait {
            Some(wait) => format!("in {} s", wait.as_secs()),
            None => "later".to_owned(),
        };
        let message = format!("{} takes no more requests for now; retry {when}", self.instance.base);
        Error::new(ErrorCode::ForgeRateLimited, message)
    }

    /// Returns the error of a server that cannot be used.
    pub(crate) fn unavailable(&self, problem: &str) -> Error {
        Error::new(ErrorCode::ForgeUnavailable, format!("{}: {problem}", self.instance.base))
    }

    /// Returns the error of a request that got no answer. The address is not repeated: it may contain a signature.
    fn unsent(&self, error: &reqwest::Error) -> Error {
        let mut problem = match () {
            () if error.is_timeout() => "no answer came in time".to_owned(),
            () if error.is_connect() => "cannot be reached".to_owned(),
            () => "the connection broke".to_owned(),
        };
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            if cause.source().is_none() {
                problem = format!("{problem} ({cause})");
            }
            source = cause.source();
        }
        self.unavailable(&self.scrubbed(&problem))
    }
}

/// The variable of the daemon's environment that holds a token.
fn token_variable(kind: ForgeKind) -> &'static str {
    match kind {
        ForgeKind::GitLab => "GITLAB_TOKEN",
        ForgeKind::GitHub => "GITHUB_TOKEN",
    }
}

fn now_secs() -> u64 {
    u64::try_from(host::clock::now().0 / 1_000_000).unwrap_or(0)
}

/// Makes the client of a server. It follows no redirect by itself.
pub(crate) fn client(instance: &Instance) -> Result<Client, Error> {
    // An error means that a provider is already installed, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .connect_timeout(limits::CONNECT_WAIT)
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .user_agent(concat!("obey/", env!("CARGO_PKG_VERSION")));
    if is_loopback(&instance.base) {
        builder = builder.no_proxy();
    }
    if let Some(file) = &instance.ca_file {
        let bad = |error: String| {
            let key = format!("{}.ca_file", instance.kind.name());
            Error::new(ErrorCode::ConfigInvalid, format!("{key}: {}: {error}", file.display()))
        };
        let pem = std::fs::read(file).map_err(|error| bad(error.to_string()))?;
        let certificates =
            reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| bad(error.to_string()))?;
        builder = builder.tls_certs_merge(certificates);
    }
    builder.build().map_err(|error| {
        Error::new(ErrorCode::ForgeUnavailable, "an HTTP client cannot be made")
            .with_detail(error.to_string())
    })
}
