//! `POST /api/machines/{machine}/{service}/{method}` and `GET /api/machines/{machine}/sessions/{id}/events`: calls that this daemon
//! makes on another machine for the page. The row of the route holds (never an agent, never a page without a key), and that of the
//! method: what a caller may not do here they may not do there. The other machine decides once more, by the role of this device.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use domain::{Error, ErrorCode};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use http::{Extensions, HeaderValue, Method, Request, StatusCode};
use surface::access::{self, OnlyRead, Summary, Verdict};
use surface::{peer, status};
use wire::access::{Effect, Row};

use crate::{Web, limits, machines};

/// Media types that are passed on. Nothing else may appear under the page's own address.
const MEDIA_TYPES: &[&str] = &["application/json", "application/x-ndjson", "text/event-stream"];

/// Calls a method on another machine, with the message that came.
pub(super) async fn call(
    State(web): State<Web>,
    Path((machine, service, method)): Path<(String, String, String)>,
    request: Request<Body>,
) -> Response {
    let name = format!("{service}/{method}");
    let Some(row) = access::grpc(&name) else {
        return status::rest(&Error::invalid("method", "there is no such method"));
    };
    let answered = async {
        check(row, request.extensions())?;
        let (parts, body) = request.into_parts();
        let bytes = access::read_body(body).await?;
        let mut sent = machines::request(Method::POST, &format!("/{name}"), Body::from(bytes))?;
        if let Some(accept) = parts.headers.get(ACCEPT) {
            sent.headers_mut().insert(ACCEPT, accept.clone());
        }
        pass_on(&web, &machine, sent).await
    };
    let mut response = answered.await.unwrap_or_else(|error| status::rest(&error));
    if row.effect == Effect::Reads {
        response.extensions_mut().insert(OnlyRead);
    }
    let summary = format!("{name} on {}: {}", shown(&machine), response.status());
    response.extensions_mut().insert(Summary(summary));
    response
}

/// Returns events of a session of another machine.
pub(super) async fn events(
    State(web): State<Web>,
    Path((machine, id)): Path<(String, String)>,
    request: Request<Body>,
) -> Response {
    let (parts, _) = request.into_parts();
    let answered = async {
        let row = access::rest("GET", "/api/sessions/{id}/events");
        let row = row.ok_or_else(|| Error::invalid("path", "nothing is served there"))?;
        check(row, &parts.extensions)?;
        let id: String =
            id.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_').collect();
        let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let mut sent =
            machines::request(Method::GET, &format!("/api/sessions/{id}/events{query}"), Body::empty())?;
        sent.headers_mut().remove(CONTENT_TYPE);
        if let Some(accept) = parts.headers.get(ACCEPT) {
            sent.headers_mut().insert(ACCEPT, accept.clone());
        }
        pass_on(&web, &machine, sent).await
    };
    let mut response = answered.await.unwrap_or_else(|error| status::rest(&error));
    response.extensions_mut().insert(OnlyRead);
    response
}

/// Rejects who may not do here what is asked for there.
fn check(row: &Row, extensions: &Extensions) -> Result<(), Error> {
    match access::decide(row, &peer::caller(extensions), true) {
        Verdict::Allowed => Ok(()),
        Verdict::Refused(error) => Err(error),
        Verdict::OwnSession(own) => Err(access::other_session(row, &own)),
    }
}

/// Sends a request and returns its answer. Of the head only the status and the media type are taken.
async fn pass_on(web: &Web, machine: &str, request: Request<Body>) -> Result<Response, Error> {
    let (head, body) = machines::send(&web.about.machines, machine, request).await?.into_parts();
    // The page must not take it for its own key's end.
    if head.status == StatusCode::UNAUTHORIZED {
        let message = "the other machine does not know this device any more; pair again: obey device add there, obey device join here";
        return Err(Error::new(ErrorCode::NotAllowed, message));
    }
    let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim_ascii();
    let Some(kind) = MEDIA_TYPES.iter().find(|known| **known == essence) else {
        let message = format!("the machine answered {} with something that is no JSON", head.status);
        return Err(Error::new(ErrorCode::MachineOffline, message));
    };
    let mut response = Response::new(Body::new(body));
    *response.status_mut() = head.status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// A machine's id as the audit shows it: it is the caller's text.
fn shown(machine: &str) -> String {
    machine
        .chars()
        .filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_')
        .take(limits::NAME_MAX_LETTERS)
        .collect()
}
