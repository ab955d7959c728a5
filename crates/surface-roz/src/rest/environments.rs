//! `/environments`: named folders that sessions run in. `config` holds what they are here: folder, provider and the rest.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use domain::Error;
use http::{Request, StatusCode, Uri};
use runtime::environments::NewEnvironment;
use serde::Deserialize;
use serde_json::{Value, json};
use storage::environments::EnvironmentRow;

use super::{Roz, body, cut, page, respond, time};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRequest {
    name: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    config: Config,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UpdateRequest {
    name: Option<String>,
    kind: Option<String>,
    config: Option<Config>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    directory: String,
    provider: String,
    model: String,
    mode: String,
    answer_wait_secs: u32,
    provider_config: BTreeMap<String, String>,
}

impl Config {
    fn environment(self, name: String, kind: String) -> Result<NewEnvironment, Error> {
        if self.directory.is_empty() {
            let what = "is required: the absolute path of the folder that sessions run in";
            return Err(Error::invalid("config.directory", what));
        }
        Ok(NewEnvironment {
            name,
            kind,
            directory: self.directory,
            provider: self.provider,
            model: self.model,
            mode: self.mode,
            answer_wait_secs: self.answer_wait_secs,
            provider_config: self.provider_config,
        })
    }
}

pub(super) async fn create(State(roz): State<Roz>, request: Request<Body>) -> Response {
    let created = async {
        let new: NewRequest = body(request).await?;
        let new = new.config.environment(new.name, new.kind)?;
        let row = roz.supervisor.environments().create(new).await?;
        Ok((StatusCode::CREATED, Some(shown(&row))))
    };
    respond(created.await)
}

pub(super) async fn list(State(roz): State<Roz>, uri: Uri) -> Response {
    let listed = async {
        let (limit, offset) = page(&uri, &[])?;
        let rows = roz.supervisor.environments().list().await?;
        Ok((StatusCode::OK, Some(cut(&rows, limit, offset)?.iter().map(shown).collect())))
    };
    respond(listed.await)
}

pub(super) async fn show(State(roz): State<Roz>, Path(id): Path<String>) -> Response {
    respond(roz.environment(&id).await.map(|row| (StatusCode::OK, Some(shown(&row)))))
}

pub(super) async fn update(
    State(roz): State<Roz>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Response {
    let updated = async {
        let row = roz.environment(&id).await?;
        let change: UpdateRequest = body(request).await?;
        let kept = || Config {
            directory: row.directory.clone(),
            provider: row.provider.clone(),
            model: row.model.clone(),
            mode: row.mode.clone(),
            answer_wait_secs: row.answer_wait_secs,
            provider_config: row.provider_config.clone(),
        };
        let name = change.name.unwrap_or_else(|| row.name.clone());
        let kind = change.kind.unwrap_or_else(|| row.kind.clone());
        let new = change.config.unwrap_or_else(kept).environment(name, kind)?;
        let row = roz.supervisor.environments().update(&row.id, new).await?;
        Ok((StatusCode::OK, Some(shown(&row))))
    };
    respond(updated.await)
}

pub(super) async fn remove(State(roz): State<Roz>, Path(id): Path<String>) -> Response {
    let removed = async {
        let row = roz.environment(&id).await?;
        roz.supervisor.environments().remove(&row.id).await?;
        Ok((StatusCode::NO_CONTENT, None))
    };
    respond(removed.await)
}

fn shown(row: &EnvironmentRow) -> Value {
    json!({
        "id": row.id, "name": row.name, "kind": row.kind, "created_at": time(row.created_at),
        "estop_active": row.emergency_stop.is_some(),
        "config": {
            "directory": row.directory, "provider": row.provider, "model": row.model, "mode": row.mode,
            "answer_wait_secs": row.answer_wait_secs, "provider_config": row.provider_config,
        },
    })
}
