//! `/hosts`: registered machines and what they report of themselves.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use domain::Error;
use host::clock;
use http::{Request, StatusCode, Uri};
use runtime::environments::{NewHost, host_status};
use serde::Deserialize;
use serde_json::{Value, json};
use storage::environments::HostRow;
use surface::query;

use super::{Roz, body, page, respond, time};
use crate::from_wire;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostRequest {
    name: Option<String>,
    environment_id: Option<String>,
    host_type: Option<String>,
    capabilities: Option<Vec<String>>,
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StatusRequest {
    status: String,
}

impl HostRequest {
    /// Returns the fields of a host; what the request leaves out stays as it is.
    fn applied_to(self, row: &HostRow) -> Result<NewHost, Error> {
        let capabilities = match self.capabilities {
            Some(names) => names.into_iter().map(|name| (name, String::new())).collect(),
            None => capabilities(row),
        };
        let environment_id = self.environment_id.unwrap_or_else(|| row.environment_id.clone());
        if !environment_id.is_empty() {
            from_wire::uuid("environment_id", &environment_id)?;
        }
        Ok(NewHost {
            name: self.name.unwrap_or_else(|| row.name.clone()),
            environment_id,
            capabilities,
            host_type: self.host_type.unwrap_or_else(|| row.host_type.clone()),
            labels: self.labels.unwrap_or_else(|| row.labels.clone()),
        })
    }
}

pub(super) async fn create(State(roz): State<Roz>, request: Request<Body>) -> Response {
    let created = async {
        let new = body::<HostRequest>(request).await?.applied_to(&HostRow::default())?;
        let row = roz.supervisor.environments().register_host(new).await?;
        Ok((StatusCode::CREATED, Some(shown(&row))))
    };
    respond(created.await)
}

pub(super) async fn list(State(roz): State<Roz>, uri: Uri) -> Response {
    let listed = async {
        let (limit, offset) = page(&uri, &["environment_id"])?;
        let pairs = query::pairs(uri.query().unwrap_or_default());
        let environment = pairs.iter().find(|(name, _)| name == "environment_id");
        let environment = environment.map_or("", |(_, id)| id.as_str());
        let rows = roz.supervisor.environments().hosts(environment, limit, offset).await?;
        Ok((StatusCode::OK, Some(rows.iter().map(shown).collect())))
    };
    respond(listed.await)
}

pub(super) async fn show(State(roz): State<Roz>, Path(id): Path<String>) -> Response {
    respond(found(&roz, &id).await.map(|row| (StatusCode::OK, Some(shown(&row)))))
}

pub(super) async fn update(
    State(roz): State<Roz>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Response {
    let updated = async {
        let row = found(&roz, &id).await?;
        let new = body::<HostRequest>(request).await?.applied_to(&row)?;
        let row = roz.supervisor.environments().update_host(&row.id, new).await?;
        Ok((StatusCode::OK, Some(shown(&row))))
    };
    respond(updated.await)
}

pub(super) async fn report(
    State(roz): State<Roz>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Response {
    let reported = async {
        from_wire::uuid("id", &id)?;
        let change: StatusRequest = body(request).await?;
        let row = roz.supervisor.environments().report_host(&id, &change.status).await?;
        Ok((StatusCode::OK, Some(shown(&row))))
    };
    respond(reported.await)
}

pub(super) async fn remove(State(roz): State<Roz>, Path(id): Path<String>) -> Response {
    let removed = async {
        from_wire::uuid("id", &id)?;
        roz.supervisor.environments().remove_host(&id).await?;
        Ok((StatusCode::NO_CONTENT, None))
    };
    respond(removed.await)
}

async fn found(roz: &Roz, id: &str) -> Result<HostRow, Error> {
    from_wire::uuid("id", id)?;
    roz.supervisor.environments().host(id).await
}

fn capabilities(row: &HostRow) -> BTreeMap<String, String> {
    // Only the daemon writes this column, so it is valid JSON; a new host has none.
    serde_json::from_str(&row.capabilities).unwrap_or_default()
}

fn shown(row: &HostRow) -> Value {
    let capabilities: Vec<String> = capabilities(row).into_keys().collect();
    json!({
        "id": row.id, "name": row.name, "environment_id": row.environment_id, "host_type": row.host_type,
        "status": host_status(row, clock::now()), "capabilities": capabilities, "labels": row.labels,
        "created_at": time(row.created_at), "last_heartbeat": row.seen_at.map(time),
    })
}
