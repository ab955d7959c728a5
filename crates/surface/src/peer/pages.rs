//! Pages of browsers on this machine: which requests come from one, and whose key they have. A page without a key may only
//! read, because an agent can drive the browser of its user. Knows neither how a page gets its key nor any service.

use std::net::IpAddr;

use http::header::{CONTENT_TYPE, ORIGIN};
use http::{HeaderMap, Method, Request};

use super::devices::{Credential, NoDevice};
use super::{Access, Caller, Refusal, gate};
use crate::access;
use host::clock;

/// The id of the device behind a request; an extension of requests that have the key of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageKey(pub String);

/// Whether a request comes from a browser, calls a method as JSON or reads the streams beside them, as pages do. No script in
/// a browser can leave these headers out.
pub(super) fn is_page<B>(request: &Request<B>) -> bool {
    let headers = request.headers();
    // Not `sec-fetch-mode`: programs on Node.js send it, and no browser sends it without the site.
    let is_marked = headers.contains_key(ORIGIN) || headers.contains_key("sec-fetch-site");
    let path = request.uri().path();
    let is_stream = path == "/api/live" || path.starts_with("/api/sessions/");
    is_marked || is_json_call(request) || is_stream || path.starts_with("/api/machines/")
}

/// Whether a request calls a gRPC method with a message in JSON.
pub fn is_json_call<B>(request: &Request<B>) -> bool {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim_ascii();
    let path = request.uri().path();
    request.method() == Method::POST
        && essence.eq_ignore_ascii_case("application/json")
        && access::grpc(path.strip_prefix('/').unwrap_or(path)).is_some()
}

/// Returns who a page acts as: the device of its key, or a page that only looks. A key that is not known is refused, so
/// that a page that was signed out learns it.
pub(super) fn identify(
    headers: &HeaderMap,
    from: IpAddr,
    access: &Access,
) -> Result<(Caller, Option<PageKey>), Refusal> {
    let Some(claimed) = gate::authorization(headers).map_err(|_| Refusal::Key)? else {
        return Ok((Caller::Page, None));
    };
    // The daemon's token says nothing that the user of the socket does not.
    if access.token.as_ref().is_some_and(|token| token.is(claimed)) {
        return Ok((Caller::Page, None));
    }
    let devices = access.devices.as_ref().ok_or(Refusal::Key)?;
    match devices.identify(Credential::Token(claimed), from.to_canonical(), clock::now()) {
        Ok((device, id)) => Ok((Caller::Device(device), Some(PageKey(id)))),
        Err(NoDevice::Unknown | NoDevice::Expired) => Err(Refusal::Key),
    }
}

/// Whether a request from another machine may come without a device: the page's own documents, and the login with which a
/// page becomes one. Both have no data, and a login needs a code.
pub(super) fn is_open<B>(request: &Request<B>) -> bool {
    let path = request.uri().path();
    let is_document = request.method() == Method::GET
        && (path == "/"
            || path == "/icon.svg"
            || path == "/manifest.webmanifest"
            || path.starts_with("/assets/"));
    is_document || (path == "/obey.v1.PageService/Login" && is_json_call(request))
}
