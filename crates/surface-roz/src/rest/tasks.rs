//! `/tasks`: prompts that run as sessions.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use domain::Timestamp;
use http::{HeaderMap, Request, StatusCode, Uri};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use surface::client_key::client_key;
use surface::peer::Signer;
use surface::structs;
use tonic::metadata::MetadataMap;
use wire::roz::v1 as pb;

use super::{Roz, body, page, respond, time};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRequest {
    prompt: String,
    environment_id: String,
    host_id: Option<String>,
    timeout_secs: Option<u32>,
    parent_task_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ApproveRequest {
    tool_call_id: String,
    approved: bool,
    modifier: Option<Map<String, Value>>,
}

pub(super) async fn create(State(roz): State<Roz>, request: Request<Body>) -> Response {
    let created = async {
        let key = client_key(&MetadataMap::from_headers(request.headers().clone()));
        let new: NewRequest = body(request).await?;
        let new = pb::CreateTaskRequest {
            prompt: new.prompt,
            environment_id: new.environment_id,
            host_id: new.host_id,
            timeout_secs: new.timeout_secs,
            parent_task_id: new.parent_task_id,
        };
        let task = roz.begin_task(new, &key).await?;
        Ok((StatusCode::CREATED, Some(shown(&task))))
    };
    respond(created.await)
}

pub(super) async fn list(State(roz): State<Roz>, uri: Uri) -> Response {
    let listed = async {
        let (limit, offset) = page(&uri, &[])?;
        let tasks = roz.tasks(pb::ListTasksRequest { limit, offset }).await?;
        Ok((StatusCode::OK, Some(tasks.data.iter().map(shown).collect())))
    };
    respond(listed.await)
}

pub(super) async fn show(State(roz): State<Roz>, Path(id): Path<String>) -> Response {
    respond(roz.task(&id).await.map(|task| (StatusCode::OK, Some(shown(&task)))))
}

pub(super) async fn cancel(State(roz): State<Roz>, Path(id): Path<String>, headers: HeaderMap) -> Response {
    let key = client_key(&MetadataMap::from_headers(headers));
    respond(roz.end_task(&id, &key).await.map(|()| (StatusCode::NO_CONTENT, None)))
}

pub(super) async fn approve(
    State(roz): State<Roz>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Response {
    let approved = async {
        let by = Signer::of(request.extensions()).sign_answer("roz".to_owned())?;
        let key = client_key(&MetadataMap::from_headers(request.headers().clone()));
        let decided: ApproveRequest = body(request).await?;
        let decided = pb::ApproveToolUseRequest {
            task_id: id,
            tool_call_id: decided.tool_call_id,
            approved: decided.approved,
            modifier: decided.modifier.map(|value| structs::from_json(&Value::Object(value))),
        };
        let task = roz.approve(decided, by, &key).await?;
        Ok((StatusCode::ACCEPTED, Some(shown(&task))))
    };
    respond(approved.await)
}

pub(super) fn shown(task: &pb::Task) -> Value {
    let at = |at: Option<prost_types::Timestamp>| {
        at.map(|at| time(Timestamp(at.seconds.saturating_mul(1_000_000) + i64::from(at.nanos) / 1_000)))
    };
    json!({
        "id": task.id, "prompt": task.prompt, "environment_id": task.environment_id, "status": task.status,
        "host_id": task.host_id, "created_at": at(task.created_at), "updated_at": at(task.updated_at),
    })
}
