//! The files of the page, as the binary contains them: with a strong tag each, for ever where the name has a hash. Nothing
//! of a session is in them. Reads no file at run time.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::LazyLock;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use domain::{Error, ErrorCode};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    HeaderName, IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use surface::peer::{Peer, Via};
use surface::status;

use crate::Web;

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// One file of the page.
pub(super) struct Asset {
    path: &'static str,
    /// SHA-256 of its bytes.
    hash: &'static str,
    bytes: &'static [u8],
}

/// Every address of the page; all of them are the same document. `proto/access.toml` has a row for each.
pub(super) const PAGES: &[&str] =
    &["/", "/s/{id}", "/s/{id}/{view}", "/new", "/search", "/usage", "/audit", "/memory", "/settings"];

/// What the page may load and do: its own files and calls, nothing else, and no script that is not one of its files.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data: blob:; font-src 'self'; manifest-src 'self'; worker-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types svelte-trusted-html obey-worker";

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Files that are neither the document nor below `/assets`. `proto/access.toml` has a row for each.
pub(super) const NAMED: &[&str] = &[
    "/manifest.webmanifest",
    "/icon.svg",
    "/icon-needs.svg",
    "/icon-192.png",
    "/icon-512.png",
    "/service-worker.js",
];

/// The files that get smaller by it, compressed once for clients on other machines. On loopback it would only cost time.
static COMPRESSED: LazyLock<BTreeMap<&'static str, Vec<u8>>> = LazyLock::new(|| {
    let texts = ASSETS.iter().filter(|asset| !asset.path.ends_with(".png"));
    texts.filter_map(|asset| Some((asset.path, compress(asset.bytes)?))).collect()
});

fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

/// Serves the document of the page.
pub(super) async fn shell(State(_): State<Web>, request: Request<Body>) -> Response {
    file("index.html", &request)
}

/// Serves a file whose name has the hash of its content.
pub(super) async fn hashed(
    State(_): State<Web>,
    Path(name): Path<String>,
    request: Request<Body>,
) -> Response {
    file(&format!("assets/{name}"), &request)
}

/// Serves a file that has a name of its own.
pub(super) async fn named(State(_): State<Web>, request: Request<Body>) -> Response {
    file(request.uri().path().trim_start_matches('/'), &request)
}

/// Whether the client is on another machine and takes compressed files.
fn takes_gzip(request: &Request<Body>) -> bool {
    let is_remote =
        request.extensions().get::<Peer>().is_some_and(|peer| matches!(peer.via, Via::Tls | Via::Tunnel));
    let accepted = request.headers().get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    is_remote && accepted.flat_map(|value| value.split(',')).any(|one| one.trim().starts_with("gzip"))
}

fn file(path: &str, request: &Request<Body>) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.path == path) else {
        let error = Error::new(ErrorCode::InvalidArgument, "the page has no such file; load the page again");
        return status::rest_as(&error, StatusCode::NOT_FOUND);
    };
    let compressed = if takes_gzip(request) { COMPRESSED.get(asset.path) } else { None };
    // Other bytes, another tag.
    let tag = format!("\"{}{}\"", asset.hash, if compressed.is_some() { "-gzip" } else { "" });
    let is_known = request.headers().get_all(IF_NONE_MATCH).iter().any(|known| {
        known
            .to_str()
            .is_ok_and(|known| known.split(',').any(|one| one.trim().trim_start_matches("W/") == tag))
    });
    let mut response = match (is_known, compressed) {
        (true, _) => StatusCode::NOT_MODIFIED.into_response(),
        (false, Some(bytes)) => Body::from(bytes.as_slice()).into_response(),
        (false, None) => Body::from(asset.bytes).into_response(),
    };
    let kept = match path.starts_with("assets/") {
        true => "public, max-age=31536000, immutable",
        false => "no-cache",
    };
    let all = response.headers_mut();
    all.insert(CACHE_CONTROL, HeaderValue::from_static(kept));
    all.insert(CONTENT_TYPE, HeaderValue::from_static(media_type(path)));
    all.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if compressed.is_some() && !is_known {
        all.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if let Ok(tag) = HeaderValue::try_from(tag) {
        all.insert(ETAG, tag);
    }
    protect(all);
    response
}

/// Adds the headers that every answer to a browser has.
pub(super) fn protect(headers: &mut HeaderMap) {
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "webmanifest" => "application/manifest+json",
        "woff2" => "font/woff2",
        "png" => "image/png",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_has_a_media_type_and_every_address_of_the_page_a_row() {
        assert!(ASSETS.iter().any(|asset| asset.path == "index.html"));
        for asset in ASSETS {
            assert_ne!(media_type(asset.path), "application/octet-stream", "{}", asset.path);
        }
        for name in NAMED {
            assert!(ASSETS.iter().any(|asset| format!("/{}", asset.path) == *name), "{name}");
        }
        for page in PAGES.iter().chain(NAMED) {
            let path = page.replace("{id}", "sess_1").replace("{view}", "review");
            let row = surface::access::rest("GET", &path);
            assert!(row.is_some_and(|row| row.who == wire::access::Who::Anyone), "{page}");
        }
    }

    #[test]
    fn files_are_compressed_for_clients_elsewhere_that_ask_and_are_the_same_bytes() {
        use std::io::Read as _;
        let request = |via, encoding: &'static str| {
            let mut request = Request::new(Body::empty());
            request.extensions_mut().insert(Peer { uid: None, pid: None, via, from: None });
            request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static(encoding));
            request
        };
        for asset in ASSETS {
            let response = file(asset.path, &request(Via::Tls, "br, gzip;q=0.8"));
            let is_compressed = response.headers().contains_key(CONTENT_ENCODING);
            assert_eq!(is_compressed, !asset.path.ends_with(".png"), "{}", asset.path);
            if let Some(bytes) = COMPRESSED.get(asset.path) {
                let mut plain = Vec::new();
                flate2::read::GzDecoder::new(bytes.as_slice()).read_to_end(&mut plain).unwrap();
                assert_eq!(plain, asset.bytes);
            }
        }
        for (via, encoding) in [(Via::Tcp, "gzip"), (Via::Tls, "br"), (Via::Tls, "")] {
            let response = file("index.html", &request(via, encoding));
            assert!(!response.headers().contains_key(CONTENT_ENCODING), "{via:?} {encoding}");
        }
        let mut known = request(Via::Tls, "gzip");
        let tag = file("index.html", &known).headers()[ETAG].clone();
        known.headers_mut().insert(IF_NONE_MATCH, tag);
        assert_eq!(file("index.html", &known).status(), StatusCode::NOT_MODIFIED);
    }

    #[test]
    fn the_document_has_no_inline_script_style_or_foreign_address() {
        let document = ASSETS.iter().find(|asset| asset.path == "index.html").unwrap();
        let text = std::str::from_utf8(document.bytes).unwrap();
        for forbidden in ["<style", " style=", " onload", "http://", "https://", "javascript:"] {
            assert!(!text.contains(forbidden), "{forbidden}");
        }
        for tag in text.split("<script").skip(1) {
            assert!(tag.split('>').next().unwrap().contains(" src=\"/assets/"), "{tag}");
        }
        assert!(!POLICY.contains("unsafe"));
    }
}
