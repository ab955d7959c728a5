//! The checks every request on a TCP listener must pass, so that no web page can use a browser to reach the daemon
//! (DNS rebinding, cross-site requests, forms). Exact comparisons only. Looks at headers, never at bodies.

use std::net::SocketAddr;

use axum::response::Response;
use domain::{Error, ErrorCode};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, ORIGIN};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use tonic::Status;

use super::Token;
use crate::{server, status};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Host,
    Origin,
    Site,
    ContentType,
    Token,
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
    // `same-site` is not ours either: browsers count every port of this machine as one site.
    if !headers.get_all(SEC_FETCH_SITE).iter().all(|site| site == "same-origin" || site == "none") {
        return Err(Refusal::Site);
    }
    // What a form can send needs no permission from us, JSON and gRPC do; and permission is never given.
    if request.method() == Method::POST && !is_json_or_grpc(headers) {
        return Err(Refusal::ContentType);
    }
    Ok(())
}

/// Checks that a caller we do not trust by its user has the token.
pub(super) fn check_token(headers: &HeaderMap, token: Option<&Token>) -> Result<(), Refusal> {
    let mut claims = headers.get_all(AUTHORIZATION).iter();
    let claim = match (claims.next(), claims.next()) {
        (Some(claim), None) => claim.as_bytes(),
        _ => return Err(Refusal::Token),
    };
    let bearer = claim.split_at_checked(7).filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"bearer "));
    match (bearer, token) {
        (Some((_, claimed)), Some(token)) if token.is(claimed) => Ok(()),
        _ => Err(Refusal::Token),
    }
}

/// Every place that names a host must name us: HTTP/2's authority, an absolute URI, the header. HTTP/1 has exactly one
/// header.
fn is_host_ours<B>(request: &Request<B>, at: SocketAddr) -> bool {
    let mut headers = request.headers().get_all(HOST).iter();
    let header = headers.next();
    if headers.next().is_some() {
        return false;
    }
    let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    let mut named = authority.into_iter().chain(header.map(HeaderValue::as_bytes)).peekable();
    named.peek().is_some() && named.all(|host| is_ours(host, at))
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

/// Whether a request names exactly one content type, JSON's or gRPC's.
fn is_json_or_grpc(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(kind), None) = (types.next(), types.next()) else { return false };
    let Ok(kind) = kind.to_str() else { return false };
    let essence = kind.split(';').next().unwrap_or_default().trim_ascii();
    essence.eq_ignore_ascii_case("application/json") || server::is_grpc(headers)
}

impl Refusal {
    fn error(self) -> Error {
        let message = match self {
            Refusal::Host => {
                "the Host of this request is not this daemon; use 127.0.0.1, [::1] or localhost with its port"
            }
            Refusal::Origin => "web pages may not call this daemon",
            Refusal::Site => "requests from other sites are not answered",
            Refusal::ContentType => "POST needs `Content-Type: application/json` (or gRPC's)",
            Refusal::Token => {
                "callers that are not the daemon's own user need `Authorization: Bearer TOKEN`; the token is in the \
                 file `token` beside the daemon's socket"
            }
        };
        Error::new(ErrorCode::NotAllowed, message)
    }

    /// Answers in the protocol of the request; 401 for a missing token, 403 for everything else.
    pub(crate) fn into_response(self, headers: &HeaderMap) -> Response {
        let error = self.error();
        let code = if self == Refusal::Token { StatusCode::UNAUTHORIZED } else { StatusCode::FORBIDDEN };
        tracing::debug!(%error, "refused a request");
        if server::is_grpc(headers) {
            let status = match self {
                Refusal::Token => Status::unauthenticated(error.to_string()),
                _ => status::grpc(&error),
            };
            let mut response = status.into_http::<axum::body::Body>();
            *response.status_mut() = code;
            return response;
        }
        status::rest_as(&error, code)
    }
}
