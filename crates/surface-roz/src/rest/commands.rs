//! `/commands`: what a host is to do, and how far it is. The host reads its commands and reports their states; the daemon
//! keeps them and runs none.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use domain::{Error, ErrorCode};
use http::{Request, StatusCode};
use runtime::records::{Record, RecordKind};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::records::{fields, named, shown};
use super::{Roz, body, respond};
use crate::{from_wire, safety};

const KIND: RecordKind = RecordKind::Command;

/// The states of a command in the order in which they follow each other; the last four end it.
const STATES: [&str; 7] = ["accepted", "started", "progress", "completed", "failed", "aborted", "timed_out"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRequest {
    host_id: String,
    command: String,
    idempotency_key: String,
    #[serde(default)]
    params: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TransitionRequest {
    state: String,
}

pub(super) async fn create(State(roz): State<Roz>, request: Request<Body>) -> Response {
    let created = async {
        let new: NewRequest = body(request).await?;
        named("command", &new.command)?;
        named("idempotency_key", &new.idempotency_key)?;
        from_wire::uuid("host_id", &new.host_id)?;
        let host = roz.supervisor.environments().host(&new.host_id).await?;
        if !host.environment_id.is_empty() {
            safety::check_running(&roz.environment(&host.environment_id).await?)?;
        }
        let fields = fields([
            ("host_id", json!(new.host_id)),
            ("command", json!(new.command)),
            ("params", Value::Object(new.params)),
            ("idempotency_key", json!(new.idempotency_key)),
            ("state", json!(STATES[0])),
        ]);
        let records = roz.supervisor.environments().records();
        let (made, is_new) = records.create(KIND, Some(new.idempotency_key), fields.clone()).await?;
        let is_same = ["host_id", "command", "params"]
            .iter()
            .all(|field| made.fields.get(*field) == fields.get(*field));
        if !is_new && !is_same {
            let message =
                format!("idempotency_key: the command {} has this key and says something else", made.id);
            return Err(Error::new(ErrorCode::WrongState, message));
        }
        Ok((if is_new { StatusCode::CREATED } else { StatusCode::OK }, Some(shown(&made))))
    };
    respond(created.await)
}

pub(super) async fn transition(
    State(roz): State<Roz>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Response {
    let changed = async {
        from_wire::uuid("id", &id)?;
        let wanted = body::<TransitionRequest>(request).await?.state;
        if !STATES.contains(&wanted.as_str()) {
            return Err(Error::invalid("state", format_args!("{wanted:?} is none of {}", STATES.join(", "))));
        }
        let change = move |record: &mut Record| {
            check_transition(record.text("state"), &wanted)?;
            record.fields.insert("state".to_owned(), json!(wanted));
            Ok(())
        };
        let changed = roz.supervisor.environments().records().change(KIND, &id, change).await?;
        Ok((StatusCode::OK, Some(shown(&changed))))
    };
    respond(changed.await)
}

/// Refuses to go back, and to go on after the end. Progress may be reported again.
fn check_transition(from: &str, to: &str) -> Result<(), Error> {
    let place = |state: &str| STATES.iter().position(|known| *known == state).unwrap_or(STATES.len());
    let (old, new) = (place(from), place(to));
    let goes_on = old < 3 && (new > old || (new, old) == (2, 2));
    if goes_on {
        return Ok(());
    }
    Err(Error::new(ErrorCode::WrongState, format!("state: a command that is {from} cannot become {to}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_go_forward_and_end_once() {
        for (from, to) in [
            ("accepted", "started"),
            ("accepted", "aborted"),
            ("accepted", "progress"),
            ("started", "progress"),
            ("progress", "progress"),
            ("progress", "completed"),
            ("started", "timed_out"),
        ] {
            assert!(check_transition(from, to).is_ok(), "{from} {to}");
        }
        for (from, to) in [
            ("accepted", "accepted"),
            ("started", "started"),
            ("started", "accepted"),
            ("progress", "started"),
            ("completed", "failed"),
            ("failed", "started"),
            ("timed_out", "timed_out"),
        ] {
            assert!(check_transition(from, to).is_err(), "{from} {to}");
        }
    }
}
