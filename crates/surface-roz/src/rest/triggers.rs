//! `/triggers`: tasks that start by themselves at times, or when somebody says so.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use domain::{Error, ErrorCode};
use http::{Request, StatusCode};
use runtime::records::{Record, RecordKind};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use surface::client_key::client_key;
use tonic::metadata::MetadataMap;

use super::records::{fields, named, set, shown};
use super::{NoFields, Roz, body, respond};
use crate::triggers::Schedule;
use crate::{from_wire, tasks};

const KIND: RecordKind = RecordKind::Trigger;

/// What triggers there are in the publication; of those that are not served here, nothing would start a task.
const TYPES: [&str; 6] = ["schedule", "webhook", "manual", "mqtt", "threshold", "integration"];
const SERVED: usize = 3;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRequest {
    name: String,
    trigger_type: String,
    #[serde(default)]
    config: Map<String, Value>,
    task_prompt: String,
    environment_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UpdateRequest {
    name: Option<String>,
    config: Option<Map<String, Value>>,
    task_prompt: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToggleRequest {
    enabled: bool,
}

pub(super) async fn create(State(roz): State<Roz>, request: Request<Body>) -> Response {
    let created = async {
        let new: NewRequest = body(request).await?;
        named("name", &new.name)?;
        check_type(&new.trigger_type)?;
        check_config(&new.trigger_type, &new.config)?;
        tasks::check_prompt("task_prompt", &new.task_prompt)?;
        let environment = roz.environment(&new.environment_id).await?;
        let fields = fields([
            ("name", json!(new.name)),
            ("trigger_type", json!(new.trigger_type)),
            ("config", Value::Object(new.config)),
            ("task_prompt", json!(new.task_prompt)),
            ("environment_id", json!(environment.id)),
            ("enabled", json!(true)),
        ]);
        let (made, _) = roz.supervisor.environments().records().create(KIND, None, fields).await?;
        roz.triggers.changed();
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
        let new: UpdateRequest = body(request).await?;
        if let Some(name) = &new.name {
            named("name", name)?;
        }
        if let Some(prompt) = &new.task_prompt {
            tasks::check_prompt("task_prompt", prompt)?;
        }
        change(&roz, &id, move |record| {
            if let Some(config) = &new.config {
                check_config(record.text("trigger_type"), config)?;
            }
            set(
                record,
                [
                    ("name", new.name.map(Value::from)),
                    ("config", new.config.map(Value::Object)),
                    ("task_prompt", new.task_prompt.map(Value::from)),
                ],
            );
            Ok(())
        })
        .await
    };
    respond(updated.await)
}

pub(super) async fn toggle(
    State(roz): State<Roz>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Response {
    let toggled = async {
        let enabled = body::<ToggleRequest>(request).await?.enabled;
        change(&roz, &id, move |record| {
            record.fields.insert("enabled".to_owned(), json!(enabled));
            Ok(())
        })
        .await
    };
    respond(toggled.await)
}

/// Starts the task of a trigger now, whatever its type; with a client's key once.
pub(super) async fn fire(State(roz): State<Roz>, Path(id): Path<String>, request: Request<Body>) -> Response {
    let key = client_key(&MetadataMap::from_headers(request.headers().clone()));
    let fired = async {
        body::<NoFields>(request).await?;
        from_wire::uuid("id", &id)?;
        let trigger = roz.supervisor.environments().records().find(KIND, &id).await?;
        if trigger.fields.get("enabled") != Some(&json!(true)) {
            let message = format!("the trigger {:?} is switched off", trigger.text("name"));
            return Err(Error::new(ErrorCode::WrongState, message));
        }
        let task = roz.fire(&trigger, &key).await?;
        Ok((StatusCode::CREATED, Some(super::tasks::shown(&task))))
    };
    respond(fired.await)
}

async fn change(
    roz: &Roz,
    id: &str,
    change: impl FnOnce(&mut Record) -> Result<(), Error> + Send + 'static,
) -> super::Answer {
    from_wire::uuid("id", id)?;
    let changed = roz.supervisor.environments().records().change(KIND, id, change).await?;
    roz.triggers.changed();
    Ok((StatusCode::OK, Some(shown(&changed))))
}

fn check_type(word: &str) -> Result<(), Error> {
    let known = || TYPES[..SERVED].join(", ");
    match TYPES.iter().position(|known| *known == word) {
        Some(at) if at < SERVED => Ok(()),
        Some(_) => {
            let problem = format!("{word} is not served: nothing here would start a task; use {}", known());
            Err(Error::invalid("trigger_type", problem))
        }
        None => Err(Error::invalid("trigger_type", format_args!("{word:?} is none of {}", known()))),
    }
}

/// Refuses settings that nothing would use.
fn check_config(trigger_type: &str, config: &Map<String, Value>) -> Result<(), Error> {
    if trigger_type == TYPES[0] {
        return Schedule::read(config).map(drop);
    }
    match config.keys().next() {
        None => Ok(()),
        Some(name) => {
            let problem =
                format!("a trigger of the type {trigger_type} has no settings; {name:?} would not be used");
            Err(Error::invalid("config", problem))
        }
    }
}
