//! `/auth/keys`: API keys. A key can make keys only with the scope Admin, which covers all others.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use domain::{Error, ErrorCode};
use http::{Request, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use surface::peer::{self, ApiKeyRecord, Devices};

use super::{Roz, body, respond, time};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewKey {
    name: String,
    scopes: Vec<String>,
}

pub(super) async fn create(State(roz): State<Roz>, request: Request<Body>) -> Response {
    let created = async {
        let new: NewKey = body(request).await?;
        let scopes = peer::scopes(&new.scopes)?;
        let made = changed(&roz, move |devices| devices.create_key(&new.name, &scopes, None)).await?;
        Ok((StatusCode::CREATED, Some(full(&made))))
    };
    respond(created.await)
}

pub(super) async fn list(State(roz): State<Roz>) -> Response {
    let keys: Vec<Value> = roz.about.devices.keys().iter().map(shown).collect();
    respond(Ok((StatusCode::OK, Some(json!(keys)))))
}

pub(super) async fn revoke(State(roz): State<Roz>, Path(id): Path<String>) -> Response {
    let revoked = changed(&roz, move |devices| devices.revoke_key(&id)).await;
    respond(revoked.map(|_| (StatusCode::NO_CONTENT, None)))
}

pub(super) async fn rotate(State(roz): State<Roz>, Path(id): Path<String>) -> Response {
    let rotated = changed(&roz, move |devices| devices.rotate_key(&id)).await;
    respond(rotated.map(|made| (StatusCode::OK, Some(full(&made)))))
}

/// Changes the keys where waiting for the disk keeps nobody else waiting.
async fn changed<T: Send + 'static>(
    roz: &Roz,
    change: impl FnOnce(&Devices) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let devices = Arc::clone(&roz.about.devices);
    tokio::task::spawn_blocking(move || change(&devices)).await.unwrap_or_else(|error| {
        Err(Error::new(ErrorCode::StorageFailed, "the keys cannot be changed").with_detail(error.to_string()))
    })
}

/// A new key with itself, which is shown this once.
fn full((record, key): &(ApiKeyRecord, String)) -> Value {
    let mut value = shown(record);
    value["full_key"] = json!(key);
    value
}

fn shown(record: &ApiKeyRecord) -> Value {
    let scopes: Vec<&str> = record.scopes.iter().map(|scope| scope.name()).collect();
    json!({
        "id": record.id, "name": record.name, "key_prefix": record.prefix, "scopes": scopes,
        "created_at": time(record.created_at), "expires_at": record.expires_at.map(time),
        "last_used_at": record.seen_at.map(time),
    })
}
