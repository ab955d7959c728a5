//! The layer in front of every surface: finds the row of a request, decides, and passes on what the table
//! allows. For agents it also reads which session a request is about. Requests without a row never reach a
//! service.

use axum::body::{Body, Bytes};
use axum::middleware::Next;
use axum::response::Response;
use domain::{Error, ErrorCode, SessionId};
use http::{HeaderMap, Method, Request, StatusCode, header};
use tonic::Status;
use wire::access::{Row, SessionIn};

use super::frames::OfSession;
use super::{Tunnelled, Verdict, decide, malformed, other_session};
use crate::peer::{self, Caller};
use crate::{limits, query, status};

/// Serves a request if the table lets its caller.
pub async fn guard(request: Request<Body>, next: Next) -> Response {
    let caller = peer::caller(request.extensions());
    guarded(&caller, request, next).await
}

/// Serves a request of a known caller.
pub(super) async fn guarded(caller: &Caller, request: Request<Body>, next: Next) -> Response {
    let path = request.uri().path();
    match super::grpc(path.strip_prefix('/').unwrap_or(path)) {
        Some(row) => grpc(row, caller, request, next).await,
        None => rest(caller, request, next).await,
    }
}

/// Serves a gRPC request. For an agent, each message is checked for the session it names.
async fn grpc(row: &'static Row, caller: &Caller, request: Request<Body>, next: Next) -> Response {
    if !is_plain_grpc(request.headers()) {
        return unsupported("gRPC methods take `Content-Type: application/grpc`");
    }
    let request = match decide(row, caller, is_tunnelled(&request)) {
        Verdict::Allowed => request,
        Verdict::Refused(error) => return refused(&error),
        Verdict::OwnSession(own) => match row.session {
            SessionIn::Field { path, .. } => {
                request.map(|body| Body::new(OfSession::new(body, row, path, own)))
            }
            SessionIn::None | SessionIn::Caller => return refused(&other_session(row, &own)),
        },
    };
    malformed::named(next.run(request).await, row.client_streams)
}

/// Serves a REST request, or the error for a path without a row.
async fn rest(caller: &Caller, request: Request<Body>, next: Next) -> Response {
    let path = request.uri().path();
    let Some(row) = super::rest(request.method().as_str(), path) else {
        return unserved(&request);
    };
    // A service that reads JSON requires a JSON content type.
    if is_any_grpc(request.headers()) {
        return unsupported("REST takes `Content-Type: application/json`; gRPC has paths of its own");
    }
    let request = match decide(row, caller, is_tunnelled(&request)) {
        Verdict::Allowed => request,
        Verdict::Refused(error) => return status::rest(&error),
        Verdict::OwnSession(own) => match of_session(row, &own, request).await {
            Ok(request) => request,
            Err(error) => return status::rest(&error),
        },
    };
    next.run(request).await
}

fn is_tunnelled(request: &Request<Body>) -> bool {
    request.extensions().get::<Tunnelled>().is_some()
}

/// Checks which session an agent's REST call is about: the body decides, else the query.
async fn of_session(row: &Row, own: &SessionId, request: Request<Body>) -> Result<Request<Body>, Error> {
    let SessionIn::Field { name, .. } = row.session else { return Err(other_session(row, own)) };
    let (parts, body) = request.into_parts();
    let mut bytes = Bytes::new();
    let mut named = None;
    if matches!(parts.method, Method::POST | Method::PUT) {
        bytes = read(body).await?;
        if !bytes.is_empty() {
            named = super::json::object(&bytes).map_err(|error| not_json(&error))?.remove(name);
        }
    }
    let is_own = match &named {
        Some(value) => value.as_str() == Some(own.as_str()),
        None => {
            let mut pairs = query::pairs(parts.uri.query().unwrap_or_default()).into_iter();
            pairs.find(|(known, _)| known == name).is_some_and(|(_, value)| value == own.as_str())
        }
    };
    if !is_own {
        return Err(other_session(row, own));
    }
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

/// Reads the body of a REST call.
pub async fn read(body: Body) -> Result<Bytes, Error> {
    axum::body::to_bytes(body, limits::REST_BODY_MAX_BYTES).await.map_err(|error| {
        let most = limits::REST_BODY_MAX_BYTES >> 20;
        Error::new(ErrorCode::LimitReached, format!("the body cannot be read or is larger than {most} MB"))
            .with_detail(error.to_string())
    })
}

/// Says what is wrong with a body. The words of the reader may quote it; where it is wrong is all a caller needs.
pub fn not_json(error: &serde_json::Error) -> Error {
    let (line, column) = (error.line(), error.column());
    let what = if super::json::is_twice(error) { "names a member twice" } else { "is not a JSON object" };
    Error::new(ErrorCode::InvalidArgument, format!("the body {what}; look at line {line}, column {column}"))
}

/// Whether a request uses gRPC itself; gRPC-Web is another format.
fn is_plain_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map(|kind| kind.as_bytes());
    kind.and_then(|kind| kind.strip_prefix(b"application/grpc"))
        .is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b' ')))
}

fn is_any_grpc(headers: &HeaderMap) -> bool {
    headers.get_all(header::CONTENT_TYPE).iter().any(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

fn refused(error: &Error) -> Response {
    status::grpc(error).into_http()
}

fn unsupported(message: &str) -> Response {
    status::rest_as(&Error::new(ErrorCode::InvalidArgument, message), StatusCode::UNSUPPORTED_MEDIA_TYPE)
}

/// Answers a request that has no row. The path is not repeated: it may contain a secret.
fn unserved(request: &Request<Body>) -> Response {
    if is_any_grpc(request.headers()) {
        return Status::unimplemented("there is no such method in the access table").into_http();
    }
    let (message, code) = if super::has_path(request.uri().path()) {
        ("this path is not served for this method", StatusCode::METHOD_NOT_ALLOWED)
    } else {
        ("nothing is served at this path", StatusCode::NOT_FOUND)
    };
    status::rest_as(&Error::new(ErrorCode::InvalidArgument, message), code)
}
