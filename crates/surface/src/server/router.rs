//! The router shared by every listener: gRPC, reflection, health, and the guard in front of all of them.

use axum::Json;
use axum::routing::get;
use domain::{Error, ErrorCode};
use http::{HeaderMap, header};
use serde_json::json;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use super::traced::traced;
use crate::access;

/// Returns the router around the given services, and the hand that says whether they serve.
pub(super) async fn build(
    routes: Routes,
    recorder: access::Recorder,
) -> Result<(axum::Router, Health), Error> {
    let (reporter, health) = tonic_health::server::health_reporter();
    let services = services().map_err(|error| broken(&error))?;
    for service in &services {
        reporter.set_service_status(service, ServingStatus::Serving).await;
    }
    let sets = [wire::DESCRIPTORS, tonic_health::pb::FILE_DESCRIPTOR_SET];
    let (v1, v1alpha) = http_server::Reflection::new(&sets).services();
    let routes = routes.add_service(health).add_service(v1).add_service(v1alpha);
    // The guard answers for unknown paths: they have no row in the access table.
    let router = routes
        .into_axum_router()
        .reset_fallback()
        .fallback(unserved)
        .route("/health", get(healthy))
        .layer(axum::middleware::from_fn(access::guard))
        // Outside of the guard, so that what it refuses is written down.
        .layer(axum::middleware::from_fn_with_state(recorder, access::record))
        .layer(axum::middleware::from_fn(traced));
    Ok((router, Health { reporter, services }))
}

/// Answers for methods that have a row in the access table and are served elsewhere, such as those of a relay.
async fn unserved(headers: HeaderMap) -> axum::response::Response {
    let content_type = headers.get(header::CONTENT_TYPE).map(http::HeaderValue::as_bytes).unwrap_or_default();
    if content_type.starts_with(b"application/grpc") {
        return tonic::Status::unimplemented("this method is not served here").into_http();
    }
    axum::response::IntoResponse::into_response(http::StatusCode::NOT_FOUND)
}

/// Reports through `grpc.health.v1` whether the daemon serves.
pub(super) struct Health {
    reporter: HealthReporter,
    services: Vec<String>,
}

impl Health {
    /// Reports to the watchers that the daemon is shutting down.
    pub(super) async fn not_serving(&self) {
        self.reporter.set_service_status("", ServingStatus::NotServing).await;
        for service in &self.services {
            self.reporter.set_service_status(service, ServingStatus::NotServing).await;
        }
    }
}

/// Of a descriptor set, the names of services; decoding all of it takes a good part of a start.
#[derive(Clone, PartialEq, prost::Message)]
struct ServiceNames {
    #[prost(message, repeated, tag = "1")]
    file: Vec<ServiceNamesOfFile>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ServiceNamesOfFile {
    #[prost(string, tag = "2")]
    package: String,
    #[prost(message, repeated, tag = "6")]
    service: Vec<ServiceName>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ServiceName {
    #[prost(string, tag = "1")]
    name: String,
}

/// Returns the full names of the services we publish.
fn services() -> Result<Vec<String>, prost::DecodeError> {
    let set = <ServiceNames as prost::Message>::decode(wire::DESCRIPTORS)?;
    let named = set.file.iter().flat_map(|file| {
        file.service.iter().map(move |service| format!("{}.{}", file.package, service.name))
    });
    Ok(named.collect())
}

fn broken(error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorCode::ListenFailed, "the built-in interface descriptions are unreadable")
        .with_detail(error.to_string())
}

async fn healthy() -> Json<serde_json::Value> {
    Json(json!({ "status": "ok" }))
}

/// Whether a request speaks gRPC or gRPC-Web, by its content type.
pub fn is_grpc(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()) else {
        return false;
    };
    let Some(rest) = kind.strip_prefix("application/grpc") else { return false };
    let rest = rest.strip_prefix("-web").unwrap_or(rest);
    let rest = rest.strip_prefix("-text").unwrap_or(rest);
    rest.is_empty() || rest.starts_with(['+', ';', ' '])
}

/// Whether a request uses gRPC-Web.
pub(super) fn is_grpc_web(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/grpc-web"))
}
