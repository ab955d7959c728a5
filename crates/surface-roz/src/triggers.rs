//! Starts the tasks of triggers whose time has come. A time is acted on once, also across restarts: the task's client key
//! names it. What was missed, because no daemon ran or the last task goes on, is not made up for.

use std::sync::Arc;
use std::time::Duration;

use domain::{Error, ErrorCode, Timestamp};
use host::clock;
use runtime::records::{Cron, Record, RecordKind};
use serde_json::{Map, Value};
use tokio::sync::{Mutex, Notify};
use wire::roz::v1 as pb;

use super::{Roz, limits};

/// What those share who change, fire and wait for triggers.
#[derive(Clone, Default)]
pub(crate) struct Triggers(Arc<TriggerSignals>);

#[derive(Default)]
struct TriggerSignals {
    /// Wakes what waits for the next time.
    changed: Notify,
    /// One trigger is fired at a time, so that none starts two tasks.
    firing: Mutex<()>,
}

impl Triggers {
    pub(crate) fn changed(&self) {
        self.0.changed.notify_one();
    }
}

/// When a trigger is due.
#[derive(Clone, Debug)]
pub(crate) enum Schedule {
    Cron(Box<Cron>),
    Every(Duration),
}

impl Schedule {
    /// Reads the settings of a trigger: `cron` or `every_secs`.
    pub(crate) fn read(config: &Map<String, Value>) -> Result<Self, Error> {
        if let Some(name) = config.keys().find(|name| !matches!(name.as_str(), "cron" | "every_secs")) {
            return Err(Error::invalid(
                "config",
                format_args!("{name:?} is not known; use cron or every_secs"),
            ));
        }
        match (config.get("cron"), config.get("every_secs")) {
            (Some(Value::String(cron)), None) => Cron::parse(cron).map(|cron| Self::Cron(Box::new(cron))),
            (None, Some(every)) => {
                let most = limits::TRIGGER_EVERY_MAX.as_secs();
                let every = every.as_u64().filter(|every| (1..=most).contains(every));
                let wrong =
                    || Error::invalid("config.every_secs", format_args!("must be a number from 1 to {most}"));
                every.map(|every| Self::Every(Duration::from_secs(every))).ok_or_else(wrong)
            }
            _ => Err(Error::invalid(
                "config",
                "a schedule needs either cron, a text of five fields, or every_secs",
            )),
        }
    }

    /// Returns the first time after `now`. What is due every so often is counted from when the trigger was made.
    fn next_after(&self, made: Timestamp, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Cron(cron) => cron.next_after(now),
            Self::Every(every) => {
                let every = i64::try_from(every.as_micros()).ok()?.max(1);
                let passed = now.0.saturating_sub(made.0).max(0) / every;
                made.0.checked_add(every.checked_mul(passed + 1)?).map(Timestamp)
            }
        }
    }
}

/// Waits for the times of triggers, as long as the daemon's tasks run.
pub(crate) async fn run(roz: Roz) {
    loop {
        let due = next_due(&roz, clock::now()).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the triggers cannot be read");
            Vec::new()
        });
        let at = due.first().map(|(at, _)| *at);
        // The clock of the machine may be set while this waits, so that it looks again now and then.
        let wait = at.map_or(limits::TRIGGER_LOOK_EVERY, |at| at.since(clock::now()));
        tokio::select! {
            () = tokio::time::sleep(wait.min(limits::TRIGGER_LOOK_EVERY)) => {}
            () = roz.triggers.0.changed.notified() => {}
        }
        let Some(at) = at.filter(|at| at.0 <= clock::now().0) else { continue };
        for (_, id) in due.iter().filter(|(time, _)| *time == at) {
            if let Err(error) = fire_at(&roz, id, at).await {
                tracing::warn!(%error, trigger = id, "the task of a trigger cannot be started");
            }
        }
    }
}

/// Starts the task of a trigger whose time has come, unless somebody has switched it off or removed it meanwhile.
async fn fire_at(roz: &Roz, id: &str, at: Timestamp) -> Result<(), Error> {
    let trigger = match roz.supervisor.environments().records().find(RecordKind::Trigger, id).await {
        Err(error) if error.code == ErrorCode::RecordNotFound => return Ok(()),
        found => found?,
    };
    if !is_on(&trigger) {
        return Ok(());
    }
    roz.fire(&trigger, &format!("trigger/{id}/{}", at.0)).await.map(drop)
}

fn is_on(trigger: &Record) -> bool {
    trigger.fields.get("enabled") == Some(&Value::Bool(true))
}

/// Returns when triggers are due next, and which; those that are due first come first.
async fn next_due(roz: &Roz, now: Timestamp) -> Result<Vec<(Timestamp, String)>, Error> {
    let mut due = Vec::new();
    for trigger in roz.supervisor.environments().records().all(RecordKind::Trigger).await? {
        if !is_on(&trigger) || trigger.text("trigger_type") != "schedule" {
            continue;
        }
        let config = trigger.fields.get("config").and_then(Value::as_object);
        let schedule = config.and_then(|config| Schedule::read(config).ok());
        if let Some(at) = schedule.and_then(|schedule| schedule.next_after(trigger.created_at, now)) {
            due.push((at, trigger.id));
        }
    }
    due.sort_by_key(|(at, _)| at.0);
    Ok(due)
}

impl Roz {
    /// Starts the task of a trigger, unless the one it started last is still going on.
    pub(crate) async fn fire(&self, trigger: &Record, key: &str) -> Result<pb::Task, Error> {
        let _firing = self.triggers.0.firing.lock().await;
        let records = self.supervisor.environments().records();
        let last = records.find(RecordKind::Trigger, &trigger.id).await?.text("last_task_id").to_owned();
        if !last.is_empty() {
            let row = self.supervisor.environments().task(&last).await.ok();
            if let Some(row) = row
                && !self.has_ended(&row).await?
            {
                let message = format!("the task {last} of this trigger goes on; one at a time is started");
                return Err(Error::new(ErrorCode::WrongState, message));
            }
        }
        let new = pb::CreateTaskRequest {
            prompt: trigger.text("task_prompt").to_owned(),
            environment_id: trigger.text("environment_id").to_owned(),
            ..pb::CreateTaskRequest::default()
        };
        let task = self.begin_task(new, key).await?;
        let id = task.id.clone();
        let note = move |record: &mut Record| {
            record.fields.insert("last_task_id".to_owned(), Value::from(id));
            record.fields.insert("last_fired_at_us".to_owned(), Value::from(clock::now().0));
            Ok(())
        };
        records.change(RecordKind::Trigger, &trigger.id, note).await?;
        Ok(task)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schedule_is_a_text_of_five_fields_or_a_number_of_seconds() {
        let read = |config: Value| Schedule::read(config.as_object().unwrap());
        let every = read(json!({"every_secs": 60})).unwrap();
        let at = |seconds: i64| Timestamp(seconds * 1_000_000);
        assert_eq!(every.next_after(at(10), at(10)), Some(at(70)));
        assert_eq!(every.next_after(at(10), at(70)), Some(at(130)));
        assert_eq!(every.next_after(at(10), at(71)), Some(at(130)));
        let cron = read(json!({"cron": "0 * * * *"})).unwrap();
        assert_eq!(cron.next_after(at(0), at(3599)), Some(at(3600)));
        for wrong in [
            json!({}),
            json!({"every_secs": 0}),
            json!({"every_secs": "5"}),
            json!({"every_secs": 5, "cron": "* * * * *"}),
            json!({"cron": 5}),
            json!({"every": 5}),
        ] {
            assert!(read(wrong.clone()).unwrap_err().message.starts_with("config"), "{wrong}");
        }
    }
}
