//! REST: serves the table of operations as routes, with JSON input and output. Knows HTTP, and not what
//! operations do.

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post, put};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::Error;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, StatusCode};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::operations::{HttpMethod, OPERATIONS, Operation};
use super::{Contextd, document};
use surface::asking::Asking;
use surface::{access, peer, query, status};

/// The page that shows the OpenAPI document; it loads nothing from other hosts.
const DOCS: &str = include_str!("docs.html");

/// Returns the routes of every operation and of the documents that describe them.
pub(super) fn router(contextd: Contextd) -> Router {
    let mut router: Router<Contextd> = Router::new();
    for operation in OPERATIONS {
        router = router.route(operation.path, route(operation));
    }
    router
        .route("/openapi.json", get(open_api))
        .route("/docs", get(docs))
        .route("/tools/TOOL.md", get(tool_md))
        .route("/tools/schema.json", get(schema_json))
        .route("/tools/schema/{tool}", get(tool_schema))
        .with_state(contextd)
}

/// Returns the route of an operation.
fn route(operation: &'static Operation) -> MethodRouter<Contextd> {
    let handler = move |state: State<Contextd>, path: Option<Path<String>>, request: Request<Body>| {
        answer(operation, state, path, request)
    };
    match operation.verb {
        HttpMethod::Get => get(handler),
        HttpMethod::Post => post(handler),
        HttpMethod::Put => put(handler),
        HttpMethod::Delete => delete(handler),
    }
}

/// Parses a request, runs its operation, and formats the result or the error.
async fn answer(
    operation: &'static Operation,
    State(contextd): State<Contextd>,
    path: Option<Path<String>>,
    request: Request<Body>,
) -> Response {
    match take(operation, path.map(|Path(id)| id), request).await {
        Ok((caller, input)) => match contextd.call(operation, caller, input, Asking::Unnamed).await {
            Ok(value) => json(StatusCode::OK, &value),
            Err(error) => status::rest(&error),
        },
        Err(error) => status::rest(&error),
    }
}

/// Builds a request from its path, query and body.
async fn take(
    operation: &Operation,
    id: Option<String>,
    request: Request<Body>,
) -> Result<(peer::Caller, Map<String, Value>), Error> {
    let (parts, body) = request.into_parts();
    let mut input = Map::new();
    if matches!(operation.verb, HttpMethod::Post | HttpMethod::Put) {
        input = object(&access::read_body(body).await?)?;
    }
    for (name, value) in query::pairs(parts.uri.query().unwrap_or_default()) {
        input.entry(name).or_insert(Value::String(value));
    }
    if let Some(id) = id {
        match input.get("id").and_then(Value::as_str) {
            Some(other) if other != id => {
                return Err(Error::invalid("id", "in the body is not the one in the path"));
            }
            _ => input.insert("id".to_owned(), Value::String(id)),
        };
    }
    Ok((peer::caller(&parts.extensions), input))
}

/// Parses a body; an empty one is an empty object.
pub(super) fn object(bytes: &[u8]) -> Result<Map<String, Value>, Error> {
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    access::json::object(bytes).map_err(|error| access::not_json(&error))
}

fn json(code: StatusCode, value: &Value) -> Response {
    typed(code, "application/json", value.to_string())
}

fn typed(code: StatusCode, kind: &'static str, body: String) -> Response {
    let mut response = (code, body).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

async fn open_api(State(contextd): State<Contextd>) -> Response {
    json(StatusCode::OK, &document::open_api(&contextd.version))
}

/// Serves the page that shows the OpenAPI document.
async fn docs() -> Response {
    let mut response = typed(StatusCode::OK, "text/html; charset=utf-8", DOCS.to_owned());
    // Whatever the document contains, the page runs only its own script and connects only to this server.
    if let Ok(policy) = HeaderValue::try_from(docs_policy()) {
        response.headers_mut().insert(http::header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// Returns what the page may do: its own script and style are named by their hashes, no other runs.
fn docs_policy() -> String {
    let hash = |tag: &str| {
        let text =
            DOCS.split_once(&format!("<{tag}>")).and_then(|(_, rest)| rest.split_once(&format!("</{tag}>")));
        STANDARD.encode(Sha256::digest(text.map_or("", |(text, _)| text).as_bytes()))
    };
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; connect-src 'self'; frame-ancestors 'none'; \
         base-uri 'none'; form-action 'none'",
        hash("style"),
        hash("script")
    )
}

async fn tool_md() -> Response {
    typed(StatusCode::OK, "text/markdown; charset=utf-8", document::tool_md())
}

async fn schema_json() -> Response {
    json(StatusCode::OK, &document::schema_json())
}

/// Serves the schema of one tool: `/tools/schema/safe_bash.json`.
async fn tool_schema(Path(file): Path<String>) -> Response {
    let tool = file.strip_suffix(".json").unwrap_or(&file);
    match document::tool_schema(tool) {
        Some(schema) => json(StatusCode::OK, &schema),
        None => status::rest(&Error::new(
            domain::ErrorCode::ItemNotFound,
            "tool: there is no tool of this name; /tools/TOOL.md names them",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_the_documents_needs_no_unsafe_policy() {
        let policy = docs_policy();
        assert!(!policy.contains("unsafe") && policy.matches("'sha256-").count() == 2, "{policy}");
        assert!(!DOCS.contains(" style=") && !DOCS.contains(" onclick="));
        let empty = STANDARD.encode(Sha256::digest(b""));
        assert!(!policy.contains(&empty), "{policy}");
    }

    #[test]
    fn a_body_that_is_no_object_is_not_quoted() {
        for body in ["[1]", "\"ghp_secret\"", "{", "{\"a\":}"] {
            let error = object(body.as_bytes()).unwrap_err();
            assert!(error.message.contains("line 1") && !error.message.contains("ghp_"), "{error}");
        }
    }
}
