//! The documents at `/docs/…`, as the binary contains them. Made of `docs/` when the program is built; they load nothing and
//! run nothing.

use axum::extract::{Path, State};
use axum::response::{Html, IntoResponse as _, Response};
use domain::{Error, ErrorCode};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};
use surface::status;

use crate::Web;

include!(concat!(env!("OUT_DIR"), "/documents.rs"));

/// One document.
pub(super) struct Document {
    /// Below `/docs/`.
    address: &'static str,
    title: &'static str,
    /// HTML.
    body: &'static str,
}

/// Every page has the same style, named by its hash; nothing else is allowed.
const STYLE: &str = ":root{color-scheme:light dark;font:16px/1.6 system-ui,sans-serif}\
    body{max-width:52rem;margin:2rem auto;padding:0 1rem}\
    code,pre{font:14px/1.45 ui-monospace,monospace}\
    pre{overflow:auto;background:#8881;padding:.8rem;border-radius:6px}\
    table{border-collapse:collapse;display:block;overflow:auto}\
    td,th{text-align:left;vertical-align:top;padding:.3rem .8rem .3rem 0;border-top:1px solid #8884}\
    nav{border-bottom:1px solid #8884;padding-bottom:.5rem}";

/// Serves a document of the first level, such as `/docs/cli`.
pub(super) async fn serve(State(_): State<Web>, Path(page): Path<String>) -> Response {
    show(&page)
}

/// Serves a document in a folder, such as `/docs/guide/terminal`.
pub(super) async fn serve_below(
    State(_): State<Web>,
    Path((folder, page)): Path<(String, String)>,
) -> Response {
    show(&format!("{folder}/{page}"))
}

fn show(address: &str) -> Response {
    let Some(document) = DOCUMENTS.iter().find(|document| document.address == address) else {
        let error = Error::new(ErrorCode::InvalidArgument, "there is no such document; see /docs/contents");
        return status::rest_as(&error, StatusCode::NOT_FOUND);
    };
    let Document { title, body, .. } = document;
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title} - obey</title><style>{STYLE}</style></head><body>\
         <nav><a href=\"/docs/guide\">Guide</a> · <a href=\"/docs/contents\">All documents</a> · \
         <a href=\"/docs\">REST</a></nav>{body}</body></html>",
        title = escaped(title)
    );
    let mut response = Html(html).into_response();
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(policy) = HeaderValue::try_from(policy()) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    response
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// Returns what a document may do: have its style.
fn policy() -> String {
    use base64::Engine as _;
    use sha2::Digest as _;
    let hash = base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(STYLE.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_link_to_each_other_and_run_nothing() {
        let addresses: Vec<&str> = DOCUMENTS.iter().map(|document| document.address).collect();
        for wanted in ["cli", "config", "guide", "guide/terminal", "errors", "errors/OBEY-2001", "contents"] {
            assert!(addresses.contains(&wanted), "{wanted} is missing");
        }
        for document in DOCUMENTS {
            assert!(!document.title.is_empty(), "{}", document.address);
            assert!(
                !document.body.contains("<script") && !document.body.contains("<img"),
                "{}",
                document.address
            );
            for link in document.body.split("href=\"/docs/").skip(1) {
                let target = link.split(['"', '#']).next().unwrap_or_default();
                assert!(addresses.contains(&target), "{} links to {target}", document.address);
            }
        }
    }
}
