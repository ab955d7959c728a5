//! The checks every request on a TCP listener must pass, so that no web page can use a browser to reach the
//! daemon (DNS rebinding, cross-site requests, forms). Exact comparisons only. Examines headers, never
//! bodies.

use std::net::SocketAddr;

use axum::response::Response;
use domain::{Error, ErrorCode};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use tonic::{Code, Status};
use wire::access::Who;

use super::Token;
use crate::{access, server, status};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Why a request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Host,
    Origin,
    Site,
    ContentType,
    Token,
    Device,
    Expired,
    /// A page whose key is not known, or no longer.
    Key,
    /// An API key that is not known, or no longer.
    ApiKey,
}

/// Checks the headers of a request to the listener at `at`.
pub(super) fn check<B>(request: &Request<B>, at: SocketAddr) -> Result<(), Refusal> {
    if !is_host_ours(request, at) {
        return Err(Refusal::Host);
    }
    let headers = request.headers();
    let mut origins = headers.get_all(ORIGIN).iter();
    if let Some(origin) = origins.next()
        && (origins.next().is_some() || !is_origin_ours(origin, at))
    {
        return Err(Refusal::Origin);
    }
    check_site(request)
}

/// Checks the headers of a request from another machine. Ours are the names that our certificate has; the port is not
/// compared, because what leads here may have another. An origin must be that host, with this scheme.
pub(super) fn check_remote<B>(
    request: &Request<B>,
    scheme: &[u8],
    is_ours: &dyn Fn(&str) -> bool,
) -> Result<(), Refusal> {
    let named = hosts(request).ok_or(Refusal::Host)?;
    let host = |named: &[u8]| {
        let authority = Authority::try_from(named).ok()?;
        let host = authority.host();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        (!authority.as_str().contains('@') && is_ours(host)).then_some(())
    };
    if named.is_empty() || !named.iter().all(|named| host(named).is_some()) {
        return Err(Refusal::Host);
    }
    let mut origins = request.headers().get_all(ORIGIN).iter();
    if let Some(origin) = origins.next() {
        let origin = origin.as_bytes().strip_prefix(scheme);
        if origins.next().is_some() || !named.iter().all(|named| origin == Some(*named)) {
            return Err(Refusal::Origin);
        }
    }
    check_site(request)
}

/// Whether a host is a name of the machine that asks.
pub(super) fn is_loopback_name(host: &str) -> bool {
    matches!(host, "localhost" | "127.0.0.1" | "::1")
}

fn check_site<B>(request: &Request<B>) -> Result<(), Refusal> {
    let headers = request.headers();
    // A link in a mail or a chat opens the page, which has no data of its own. Whoever links cannot read or frame it.
    if is_link_to_document(request) {
        return Ok(());
    }
    // `same-site` is not ours either: browsers count every port of this machine as one site.
    if !headers.get_all(SEC_FETCH_SITE).iter().all(|site| site == "same-origin" || site == "none") {
        return Err(Refusal::Site);
    }
    // A browser sends forms without a preflight request; JSON and gRPC need one, and a preflight is never
    // granted.
    if request.method() == Method::POST && !is_json_or_grpc(headers) {
        return Err(Refusal::ContentType);
    }
    Ok(())
}

/// Whether a browser follows a link, in a window of its own, to a document that everybody may read.
fn is_link_to_document<B>(request: &Request<B>) -> bool {
    let is_one = |name: HeaderName, value: &str| {
        let mut values = request.headers().get_all(name).iter();
        values.next().is_some_and(|found| found == value) && values.next().is_none()
    };
    request.method() == Method::GET
        && is_one(SEC_FETCH_MODE, "navigate")
        && is_one(SEC_FETCH_DEST, "document")
        && access::rest("GET", request.uri().path()).is_some_and(|row| row.who == Who::Anyone)
}

/// Checks that a caller whose user is not trusted has the token.
pub(super) fn check_token(headers: &HeaderMap, token: Option<&Token>) -> Result<(), Refusal> {
    match (authorization(headers)?, token) {
        (Some(claimed), Some(token)) if token.is(claimed) => Ok(()),
        _ => Err(Refusal::Token),
    }
}

/// Returns the one token a request presents, if it presents any.
pub(super) fn authorization(headers: &HeaderMap) -> Result<Option<&[u8]>, Refusal> {
    let mut claims = headers.get_all(AUTHORIZATION).iter();
    let claim = match (claims.next(), claims.next()) {
        (None, _) => return Ok(None),
        (Some(claim), None) => claim.as_bytes(),
        _ => return Err(Refusal::Token),
    };
    let bearer = claim.split_at_checked(7).filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"bearer "));
    bearer.map(|(_, claimed)| Some(claimed)).ok_or(Refusal::Token)
}

/// Every place that names a host must name this listener: HTTP/2's authority, an absolute URI, and the
/// header. HTTP/1 has exactly one header.
fn is_host_ours<B>(request: &Request<B>, at: SocketAddr) -> bool {
    hosts(request).is_some_and(|named| !named.is_empty() && named.iter().all(|host| is_ours(host, at)))
}

/// Returns every host a request names; nothing where it has two headers.
fn hosts<B>(request: &Request<B>) -> Option<Vec<&[u8]>> {
    let mut headers = request.headers().get_all(HOST).iter();
    let header = headers.next();
    if headers.next().is_some() {
        return None;
    }
    let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    Some(authority.into_iter().chain(header.map(HeaderValue::as_bytes)).collect())
}

fn is_origin_ours(origin: &HeaderValue, at: SocketAddr) -> bool {
    origin.as_bytes().strip_prefix(b"http://").is_some_and(|host| is_ours(host, at))
}

/// Whether `host:port` is a name of this listener. A name without a port means port 80.
fn is_ours(named: &[u8], at: SocketAddr) -> bool {
    let port = at.port();
    let mut names = vec![
        format!("127.0.0.1:{port}"),
        format!("[::1]:{port}"),
        format!("localhost:{port}"),
        at.to_string(),
    ];
    if port == 80 {
        names.extend(["127.0.0.1".to_owned(), "[::1]".to_owned(), "localhost".to_owned()]);
    }
    names.iter().any(|name| name.as_bytes() == named)
}

/// Whether a request has exactly one content type, and it is JSON's or gRPC's.
fn is_json_or_grpc(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(kind), None) = (types.next(), types.next()) else { return false };
    let Ok(kind) = kind.to_str() else { return false };
    let essence = kind.split(';').next().unwrap_or_default().trim_ascii();
    essence.eq_ignore_ascii_case("application/json") || server::is_grpc(headers)
}

impl Refusal {
    pub fn error(self) -> Error {
        let message = match self {
            Refusal::Host => {
                "the Host of this request is not this daemon; use 127.0.0.1, [::1] or localhost with its port, or from \
                 another machine a name that its certificate has"
            }
            Refusal::Origin => "web pages may not call this daemon",
            Refusal::Site => "requests from other sites are not answered",
            Refusal::ContentType => "POST needs `Content-Type: application/json` (or gRPC's)",
            Refusal::Token => {
                "callers that are not the daemon's own user need `Authorization: Bearer TOKEN`; the token is in the \
                 file `token` beside the daemon's socket"
            }
            Refusal::Device => {
                "this device is not known here, or was revoked; add it on the daemon's machine with obey device add, and \
                 pair here with obey device join LINE, or send `Authorization: Bearer TOKEN` of a device"
            }
            Refusal::Key => {
                "signed out: the key of this page was revoked or has expired; run obey web for a new one"
            }
            Refusal::ApiKey => {
                "invalid or revoked API key; obey key create makes one on the daemon's machine"
            }
            Refusal::Expired => {
                "this device has expired; its owner can add it again on the daemon's machine: obey device revoke, obey \
                 device add"
            }
        };
        Error::new(ErrorCode::NotAllowed, message)
    }

    /// Answers in the protocol of the request; 401 for a missing token, 403 for everything else.
    pub fn into_response(self, headers: &HeaderMap) -> Response {
        let error = self.error();
        let code = match self {
            Refusal::Token | Refusal::Device | Refusal::Expired | Refusal::Key | Refusal::ApiKey => {
                StatusCode::UNAUTHORIZED
            }
            _ => StatusCode::FORBIDDEN,
        };
        tracing::debug!(%error, "refused a request");
        if server::is_grpc(headers) {
            let status = match self {
                Refusal::Token | Refusal::Device | Refusal::Expired | Refusal::Key | Refusal::ApiKey => {
                    let metadata = status::grpc(&error).metadata().clone();
                    Status::with_metadata(Code::Unauthenticated, error.to_string(), metadata)
                }
                _ => status::grpc(&error),
            };
            let mut response = status.into_http::<axum::body::Body>();
            *response.status_mut() = code;
            return response;
        }
        status::rest_as(&error, code)
    }
}
