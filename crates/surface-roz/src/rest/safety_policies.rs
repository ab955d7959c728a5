//! `/safety-policies`: limits that the programs of hosts keep to. The daemon keeps them and enforces none: it moves nothing.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use domain::{Error, ErrorCode};
use http::{Request, StatusCode};
use runtime::records::{Record, RecordKind};
use serde::Deserialize;
use serde_json::{Value, json};

use super::records::{fields, named, set, shown};
use super::{Roz, body, respond};

const KIND: RecordKind = RecordKind::SafetyPolicy;

/// What a policy says. Each part is JSON of its own form, which the programs of hosts know.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyRequest {
    name: Option<String>,
    policy_json: Option<Value>,
    limits: Option<Value>,
    geofences: Option<Value>,
    interlocks: Option<Value>,
    deadman_timers: Option<Value>,
}

pub(super) async fn create(State(roz): State<Roz>, request: Request<Body>) -> Response {
    let created = async {
        let new: PolicyRequest = body(request).await?;
        let name = new.name.unwrap_or_default();
        named("name", &name)?;
        let part = |value: Option<Value>| value.unwrap_or_else(|| json!({}));
        let list = |value: Option<Value>| value.unwrap_or_else(|| json!([]));
        let fields = fields([
            ("name", json!(name)),
            ("version", json!(1)),
            ("policy_json", part(new.policy_json)),
            ("limits", part(new.limits)),
            ("geofences", list(new.geofences)),
            ("interlocks", list(new.interlocks)),
            ("deadman_timers", part(new.deadman_timers)),
        ]);
        let records = roz.supervisor.environments().records();
        let (made, is_new) = records.create(KIND, Some(name), fields).await?;
        if !is_new {
            let message = format!("name: the safety policy {} has this name already", made.id);
            return Err(Error::new(ErrorCode::WrongState, message));
        }
        Ok((StatusCode::CREATED, Some(shown(&made))))
    };
    respond(created.await)
}

/// Changes what a policy says, which gives it the next version. Its name stays, since hosts know it by that.
pub(super) async fn update(
    State(roz): State<Roz>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Response {
    let updated = async {
        crate::from_wire::uuid("id", &id)?;
        let new: PolicyRequest = body(request).await?;
        if new.name.is_some() {
            return Err(Error::invalid("name", "cannot be changed; create another policy"));
        }
        let change = move |record: &mut Record| {
            let version = record.fields.get("version").and_then(Value::as_u64).unwrap_or_default() + 1;
            set(
                record,
                [
                    ("version", Some(json!(version))),
                    ("policy_json", new.policy_json),
                    ("limits", new.limits),
                    ("geofences", new.geofences),
                    ("interlocks", new.interlocks),
                    ("deadman_timers", new.deadman_timers),
                ],
            );
            Ok(())
        };
        let changed = roz.supervisor.environments().records().change(KIND, &id, change).await?;
        Ok((StatusCode::OK, Some(shown(&changed))))
    };
    respond(updated.await)
}
