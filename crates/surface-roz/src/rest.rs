//! roz.v1 over REST: the same records and rules as over gRPC, as JSON below `/v1` and `/api/v1`. Knows HTTP; what the calls do
//! is in the files of the services.

mod environments;
mod hosts;
mod keys;
mod metrics;
mod tasks;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch, post};
use domain::{Error, Timestamp};
use http::{Request, StatusCode, Uri};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Roz;
use surface::{access, query, status};

/// What a route answers: a status and the body, none for an empty one.
type Answer = Result<(StatusCode, Option<Value>), Error>;

/// Returns the routes. Who may call which is in the access table.
pub(super) fn router(roz: Roz) -> Router {
    let routes = Router::new()
        .route("/health", get(healthy))
        .route("/ready", get(healthy))
        .route("/auth/keys", post(keys::create).get(keys::list))
        .route("/auth/keys/{id}", axum::routing::delete(keys::revoke))
        .route("/auth/keys/{id}/rotate", post(keys::rotate))
        .route("/environments", post(environments::create).get(environments::list))
        .route(
            "/environments/{id}",
            get(environments::show).put(environments::update).delete(environments::remove),
        )
        .route("/hosts", post(hosts::create).get(hosts::list))
        .route("/hosts/{id}", get(hosts::show).put(hosts::update).delete(hosts::remove))
        .route("/hosts/{id}/status", patch(hosts::report))
        .route("/metrics/tasks", get(metrics::tasks))
        .route("/metrics/hosts", get(metrics::hosts))
        .route("/tasks", post(tasks::create).get(tasks::list))
        .route("/tasks/{id}", get(tasks::show).delete(tasks::cancel))
        .route("/tasks/{id}/approve", post(tasks::approve));
    Router::new()
        .nest("/v1", routes.clone())
        .nest("/api/v1", routes)
        .route("/healthz", get(healthy))
        .route("/readyz", get(healthy))
        .route("/startupz", get(healthy))
        .with_state(roz)
}

/// A daemon that answers is ready: it listens when everything it needs is there.
async fn healthy() -> Response {
    axum::Json(json!({ "status": "ok" })).into_response()
}

/// Turns an answer into a response; what there is, is under `data`.
fn respond(answer: Answer) -> Response {
    match answer {
        Ok((code, None)) => code.into_response(),
        Ok((code, Some(data))) => (code, axum::Json(json!({ "data": data }))).into_response(),
        Err(error) => status::rest(&error),
    }
}

/// Reads the JSON of a request; an empty body is an empty object.
async fn body<T: DeserializeOwned>(request: Request<Body>) -> Result<T, Error> {
    let bytes = access::read_body(request.into_body()).await?;
    let object = match bytes.is_empty() {
        true => serde_json::Map::new(),
        false => access::json::object(&bytes).map_err(|error| access::not_json(&error))?,
    };
    serde_json::from_value(Value::Object(object)).map_err(|error| Error::invalid("body", error))
}

/// Reads `limit` and `offset` of a query, 0 where it has none.
fn page(uri: &Uri) -> Result<(i64, i64), Error> {
    let pairs = query::pairs(uri.query().unwrap_or_default());
    let number = |field: &str| match pairs.iter().find(|(name, _)| name == field) {
        None => Ok(0),
        Some((_, text)) => {
            text.parse().map_err(|_| Error::invalid(field, format_args!("{text:?} is no number")))
        }
    };
    Ok((number("limit")?, number("offset")?))
}

/// A time as REST writes it.
fn time(at: Timestamp) -> Value {
    json!(jiff::Timestamp::from_microsecond(at.0).map(|at| at.to_string()).unwrap_or_default())
}
