//! roz.v1 over REST: the same records and rules as over gRPC, as JSON below `/v1` and `/api/v1`. Knows HTTP; what the calls do
//! is in the files of the services.

mod commands;
mod device_login;
mod environments;
mod hosts;
mod keys;
mod leases;
mod metrics;
mod records;
mod safety_policies;
mod streams;
mod tasks;
mod triggers;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch, post};
use domain::{Error, Timestamp};
use http::{Request, StatusCode, Uri};
use runtime::records::RecordKind;
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
        .route("/tasks/{id}/approve", post(tasks::approve))
        .merge(record_routes());
    Router::new()
        .nest("/v1", routes.clone())
        .nest("/api/v1", routes)
        .route("/healthz", get(healthy))
        .route("/readyz", get(healthy))
        .route("/startupz", get(healthy))
        .with_state(roz)
}

/// The routes of logins and of the records that programs keep here.
fn record_routes() -> Router<Roz> {
    let list = |kind: RecordKind| move |State(roz): State<Roz>, uri: Uri| records::list(roz, uri, kind);
    let show =
        |kind: RecordKind| move |State(roz): State<Roz>, Path(id): Path<String>| records::show(roz, id, kind);
    let remove = |kind: RecordKind| {
        move |State(roz): State<Roz>, Path(id): Path<String>| records::remove(roz, id, kind)
    };
    let (stream, command, lease) = (RecordKind::Stream, RecordKind::Command, RecordKind::Lease);
    let (policy, trigger) = (RecordKind::SafetyPolicy, RecordKind::Trigger);
    Router::new()
        .route("/auth/device/code", post(device_login::code))
        .route("/auth/device/token", post(device_login::token))
        .route("/auth/device/complete", post(device_login::complete))
        .route("/streams", post(streams::create).get(list(stream)))
        .route("/streams/{id}", get(show(stream)).put(streams::update).delete(remove(stream)))
        .route("/commands", post(commands::create).get(list(command)))
        .route("/commands/{id}", get(show(command)).delete(remove(command)))
        .route("/commands/{id}/transition", post(commands::transition))
        .route("/leases", post(leases::create).get(leases::list))
        .route("/leases/{id}", get(show(lease)))
        .route("/leases/{id}/release", post(leases::release))
        .route("/safety-policies", post(safety_policies::create).get(list(policy)))
        .route("/safety-policies/{id}", get(show(policy)).put(safety_policies::update).delete(remove(policy)))
        .route("/triggers", post(triggers::create).get(list(trigger)))
        .route("/triggers/{id}", get(show(trigger)).put(triggers::update).delete(remove(trigger)))
        .route("/triggers/{id}/toggle", post(triggers::toggle))
        .route("/triggers/{id}/fire", post(triggers::fire))
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

/// The body of a call that has no fields.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NoFields {}

/// Reads `limit` and `offset` of a query, 0 where it has none. What is neither of them nor among `others` is refused.
fn page(uri: &Uri, others: &[&str]) -> Result<(i64, i64), Error> {
    let pairs = query::pairs(uri.query().unwrap_or_default());
    let is_known = |name: &str| matches!(name, "limit" | "offset") || others.contains(&name);
    if let Some((name, _)) = pairs.iter().find(|(name, _)| !is_known(name)) {
        return Err(Error::invalid(
            "query",
            format_args!("{name:?} is not known; lists take limit and offset"),
        ));
    }
    let number = |field: &str| match pairs.iter().find(|(name, _)| name == field) {
        None => Ok(0),
        Some((_, text)) => {
            text.parse().map_err(|_| Error::invalid(field, format_args!("{text:?} is no number")))
        }
    };
    Ok((number("limit")?, number("offset")?))
}

/// Returns one page of a list that is read whole.
fn cut<T>(rows: &[T], limit: i64, offset: i64) -> Result<&[T], Error> {
    let count = |field: &str, number: i64| {
        usize::try_from(number).map_err(|_| Error::invalid(field, "must not be negative"))
    };
    let limit = match count("limit", limit)? {
        0 => runtime::limits::RECORDS_PAGE_DEFAULT,
        limit => limit,
    };
    let rest = &rows[count("offset", offset)?.min(rows.len())..];
    Ok(&rest[..limit.min(rest.len())])
}

/// A time as REST writes it.
fn time(at: Timestamp) -> Value {
    json!(jiff::Timestamp::from_microsecond(at.0).map(|at| at.to_string()).unwrap_or_default())
}
