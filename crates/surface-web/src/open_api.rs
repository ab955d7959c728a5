//! `/api/openapi.json`: the methods of `obey.v1` and `obey.local.v1` that can be called as JSON, and the streams beside them,
//! described from the descriptors that the binary contains. Nothing in it is written by hand but the two streams.

use std::sync::LazyLock;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use prost_reflect::{DescriptorPool, MethodDescriptor};
use serde_json::{Map, Value, json};
use surface::access;
use surface::server::json_calls;
use wire::access::{Effect, Who};

use crate::Web;
use crate::schema::Schemas;

/// The packages whose methods are listed. Those of other interfaces are described where they are specified.
const PACKAGES: &[&str] = &["obey.v1", "obey.local.v1"];

/// The document without the version, as text; it never changes while the daemon runs.
static PATHS: LazyLock<(Value, Value)> = LazyLock::new(|| described(json_calls::descriptors()));

/// Serves the document.
pub(super) async fn serve(State(web): State<Web>) -> Response {
    let (paths, schemas) = &*PATHS;
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "obey.v1",
            "version": web.about.version,
            "description": "Unary methods as JSON over POST. Reading needs no key on the daemon's own machine; acting needs \
                            the key of a page (obey web) or the token of a device (obey device add).",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } },
        },
    });
    let mut response = document.to_string().into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn described(pool: &DescriptorPool) -> (Value, Value) {
    let mut schemas = Schemas::default();
    let mut paths = Map::new();
    for service in pool.services().filter(|service| PACKAGES.contains(&service.package_name())) {
        for method in
            service.methods().filter(|method| !method.is_client_streaming() && !method.is_server_streaming())
        {
            let name = format!("{}/{}", service.full_name(), method.name());
            paths.insert(format!("/{name}"), json!({ "post": operation(&method, &name, &mut schemas) }));
        }
    }
    paths.insert("/api/live".to_owned(), live());
    paths.insert("/api/sessions/{id}/events".to_owned(), events());
    paths.insert("/api/machines/{machine}/{service}/{method}".to_owned(), machine_call());
    (Value::Object(paths), schemas.all())
}

fn operation(method: &MethodDescriptor, name: &str, schemas: &mut Schemas) -> Value {
    let row = access::grpc(name);
    let is_reading = row.is_some_and(|row| row.effect == Effect::Reads || row.who == Who::Anyone);
    json!({
        "operationId": name.replace(['.', '/'], "_"),
        "tags": [method.parent_service().name()],
        "summary": crate::schema::comment(&method.parent_file(), method.path()),
        "requestBody": { "required": true, "content": { "application/json": { "schema": schemas.reference(&method.input()) } } },
        "responses": {
            "200": { "description": "The answer.", "content": { "application/json": { "schema": schemas.reference(&method.output()) } } },
            "default": { "description": "An error with its OBEY code.", "content": { "application/json": { "schema": schemas.error() } } },
        },
        "security": if is_reading { json!([{}, { "key": [] }]) } else { json!([{ "key": [] }]) },
    })
}

fn live() -> Value {
    let body = json!({
        "type": "object",
        "properties": {
            "overview": { "type": "integer", "minimum": 0, "description": "Also send the overview of all sessions." },
            "sessions": {
                "type": "object",
                "description": "For each session the last event the client has, or {\"tail\": N} for the newest N.",
                "additionalProperties": { "oneOf": [
                    { "type": "integer", "minimum": 0 },
                    { "type": "object", "properties": { "tail": { "type": "integer", "minimum": 0 } } },
                ] },
            },
            "machines": {
                "type": "object",
                "description": "Also send the overviews of all other machines this one is paired with, and for each machine the \
                                sessions to follow there, as in `sessions`. Needs a key.",
                "additionalProperties": { "type": "object" },
            },
        },
    });
    json!({ "post": {
        "operationId": "live",
        "tags": ["Streams"],
        "summary": "Everything a page shows, as server-sent events: hello, overview, events, caught_up, gap, failed, machine, machine_state, signed_out.",
        "requestBody": { "required": true, "content": { "application/json": { "schema": body } } },
        "responses": { "200": { "description": "A stream.", "content": { "text/event-stream": { "schema": { "type": "string" } } } } },
        "security": [{}, { "key": [] }],
    } })
}

fn machine_call() -> Value {
    let parameter =
        |name: &str| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } });
    let object = json!({ "application/json": { "schema": { "type": "object" } } });
    json!({ "post": {
        "operationId": "machine_call",
        "tags": ["Machines"],
        "summary": "Calls a method on another machine that this one is paired with, with the same messages.",
        "parameters": [parameter("machine"), parameter("service"), parameter("method")],
        "requestBody": { "required": true, "content": object },
        "responses": { "200": { "description": "The other machine's answer.", "content": object } },
        "security": [{ "key": [] }],
    } })
}

fn events() -> Value {
    let parameter = |name: &str, place: &str, kind: &str, description: &str| json!({ "name": name, "in": place, "required": place == "path", "description": description, "schema": { "type": kind } });
    json!({ "get": {
        "operationId": "events",
        "tags": ["Streams"],
        "summary": "The events of a session as server-sent events, or as a list with `Accept: application/json`.",
        "parameters": [
            parameter("id", "path", "string", "The session."),
            parameter("after", "query", "integer", "Begin after this event."),
            parameter("limit", "query", "integer", "At most so many."),
            parameter("follow", "query", "boolean", "Stay for what comes; true unless said otherwise."),
            parameter("Last-Event-ID", "header", "integer", "As `after`, sent by clients that come back."),
        ],
        "responses": { "200": { "description": "Events.", "content": { "text/event-stream": { "schema": { "type": "string" } }, "application/json": { "schema": { "type": "object" } } } } },
        "security": [{}, { "key": [] }],
    } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unary_method_of_ours_is_described_with_its_comment_and_its_messages() {
        let (paths, schemas) = described(json_calls::descriptors());
        let prompt = &paths["/obey.v1.TurnService/Prompt"]["post"];
        assert!(
            prompt["summary"].as_str().is_some_and(|text| text.starts_with("Sends a prompt.")),
            "{prompt}"
        );
        assert_eq!(prompt["security"], json!([{ "key": [] }]));
        assert!(schemas["obey.v1.PromptRequest"]["properties"]["session_id"].is_object());
        assert!(paths.get("/obey.v1.EventService/ReadEvents").is_none(), "a stream is no JSON call");
        let unary = wire::access::GRPC.iter().filter(|row| row.method.starts_with("obey.v1.")).count();
        assert!(paths.as_object().unwrap().len() > unary / 2);
        // Everything that is referred to exists.
        let text = format!("{paths}{schemas}");
        for part in text.split("#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(schemas.get(name).is_some(), "{name}");
        }
    }
}
