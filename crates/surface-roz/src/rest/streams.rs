//! `/streams`: what a host measures, as a record that programs agree by. What is measured does not pass through here.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use domain::Error;
use http::{Request, StatusCode};
use runtime::records::{Record, RecordKind};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::records::{fields, named, set, shown};
use super::{Roz, body, respond};

const KIND: RecordKind = RecordKind::Stream;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRequest {
    name: String,
    category: String,
    host_id: Option<String>,
    rate_hz: Option<f64>,
    #[serde(default)]
    config: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UpdateRequest {
    name: Option<String>,
    rate_hz: Option<f64>,
    config: Option<Map<String, Value>>,
}

pub(super) async fn create(State(roz): State<Roz>, request: Request<Body>) -> Response {
    let created = async {
        let new: NewRequest = body(request).await?;
        named("name", &new.name)?;
        named("category", &new.category)?;
        check_rate(new.rate_hz)?;
        roz.check_host(new.host_id.as_ref()).await?;
        let fields = fields([
            ("name", json!(new.name)),
            ("category", json!(new.category)),
            ("host_id", json!(new.host_id)),
            ("rate_hz", json!(new.rate_hz)),
            ("config", Value::Object(new.config)),
        ]);
        let (made, _) = roz.supervisor.environments().records().create(KIND, None, fields).await?;
        Ok((StatusCode::CREATED, Some(shown(&made))))
    };
    respond(created.await)
}

pub(super) async fn update(
    State(roz): State<Roz>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Response {
    let updated = async {
        crate::from_wire::uuid("id", &id)?;
        let new: UpdateRequest = body(request).await?;
        if let Some(name) = &new.name {
            named("name", name)?;
        }
        check_rate(new.rate_hz)?;
        let change = move |record: &mut Record| {
            let config = new.config.map(Value::Object);
            set(
                record,
                [
                    ("name", new.name.map(Value::from)),
                    ("rate_hz", new.rate_hz.map(Value::from)),
                    ("config", config),
                ],
            );
            Ok(())
        };
        let changed = roz.supervisor.environments().records().change(KIND, &id, change).await?;
        Ok((StatusCode::OK, Some(shown(&changed))))
    };
    respond(updated.await)
}

fn check_rate(rate: Option<f64>) -> Result<(), Error> {
    match rate {
        Some(rate) if !(rate.is_finite() && rate > 0.0) => {
            Err(Error::invalid("rate_hz", "must be more than 0"))
        }
        _ => Ok(()),
    }
}
