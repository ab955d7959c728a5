//! Environments, hosts and tasks as records: named folders that sessions run in, registered machines, and
//! prompts that run as sessions. Stores and validates them; running them is the supervisor's job.

use std::collections::BTreeMap;
use std::path::Path;

use domain::limits::{CONFIG_ENTRIES_MAX, CONFIG_VALUE_MAX_BYTES};
use domain::{Error, ErrorCode, Mode, ProviderKind, Timestamp};

use crate::campaign::resolve_root;
use crate::client_keys;
use crate::limits;
use crate::records::Records;
use host::{clock, ids};
use storage::client_keys::KeptKey;
use storage::environments::{self, EmergencyStop, EnvironmentRow, HostRow, TaskRow};
use storage::{Durability, Store};

/// The scope of keys that create tasks.
const TASK_KEYS: &str = "tasks";

/// The environments, hosts and tasks of this daemon.
#[derive(Clone)]
pub struct Environments {
    store: Store,
}

/// The fields of an environment to create. An empty text means the default.
#[derive(Clone, Debug, Default)]
pub struct NewEnvironment {
    pub name: String,
    pub directory: String,
    pub provider: String,
    pub model: String,
    pub mode: String,
    pub answer_wait_secs: u32,
    pub provider_config: BTreeMap<String, String>,
    /// One of [`KINDS`].
    pub kind: String,
}

/// What environments are.
pub const KINDS: [&str; 3] = ["simulation", "hardware", "hybrid"];

/// The fields of a task to create.
#[derive(Clone, Debug, Default)]
pub struct NewTask {
    pub prompt: String,
    pub environment_id: String,
    pub host_id: String,
    pub parent_task_id: String,
}

/// The fields of a host. An empty text means the default.
#[derive(Clone, Debug, Default)]
pub struct NewHost {
    pub name: String,
    /// Empty: of none.
    pub environment_id: String,
    pub capabilities: BTreeMap<String, String>,
    /// One of [`HOST_TYPES`].
    pub host_type: String,
    pub labels: BTreeMap<String, String>,
}

/// What hosts are.
pub const HOST_TYPES: [&str; 3] = ["cloud", "edge", "hybrid"];

/// What hosts report of themselves.
pub const HOST_STATUSES: [&str; 3] = [ONLINE, OFFLINE, "degraded"];

const ONLINE: &str = "online";
const OFFLINE: &str = "offline";

/// Returns the status of a host now: one that has reported, and then says nothing any more, is offline.
pub fn host_status(row: &HostRow, now: Timestamp) -> &str {
    match row.seen_at {
        Some(seen) if now.since(seen) > limits::HOST_SILENT_WAIT => OFFLINE,
        _ => &row.status,
    }
}

/// Returns whether a text is a UUID in the form published clients write.
pub fn is_uuid(text: &str) -> bool {
    let dashes = [8, 13, 18, 23];
    text.len() == 36
        && text
            .bytes()
            .enumerate()
            .all(|(at, byte)| if dashes.contains(&at) { byte == b'-' } else { byte.is_ascii_hexdigit() })
}

impl Environments {
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Returns what programs keep here beside environments.
    pub fn records(&self) -> Records {
        Records { store: self.store.clone() }
    }

    /// Creates an environment. Its folder must pass the same checks as a campaign's root.
    pub async fn create(&self, new: NewEnvironment) -> Result<EnvironmentRow, Error> {
        let made = EnvironmentRow { id: ids::uuid(), created_at: clock::now(), ..EnvironmentRow::default() };
        self.put(changed(made, new)?).await
    }

    /// Changes an environment, which keeps its id and its emergency stop. What runs in it goes on as it was started.
    pub async fn update(&self, id: &str, new: NewEnvironment) -> Result<EnvironmentRow, Error> {
        let row = self.find(id).await?;
        self.put(changed(row, new)?).await
    }

    async fn put(&self, row: EnvironmentRow) -> Result<EnvironmentRow, Error> {
        self.store
            .write(Durability::Synced, move |connection| {
                if let Some(other) =
                    environments::find(connection, &row.name)?.filter(|other| other.id != row.id)
                {
                    let taken = format!("{:?} is the environment {} already", row.name, other.id);
                    return Ok(Err(Error::invalid("name", taken)));
                }
                environments::put(connection, &row)?;
                Ok(Ok(row))
            })
            .await?
    }

    /// Returns an environment by id or name.
    pub async fn find(&self, id_or_name: &str) -> Result<EnvironmentRow, Error> {
        let wanted = id_or_name.to_owned();
        let found = self.store.read(move |connection| environments::find(connection, &wanted)).await?;
        found.ok_or_else(|| {
            not_found(
                "environment_id",
                format!("there is no environment {id_or_name:?}; `obey environment create` makes one"),
            )
        })
    }

    /// Notes the emergency stop of an environment, or that it is over. Returns the environment.
    pub async fn set_emergency_stop(
        &self,
        id: &str,
        emergency_stop: Option<EmergencyStop>,
    ) -> Result<EnvironmentRow, Error> {
        let row = EnvironmentRow { emergency_stop, ..self.find(id).await? };
        self.put(row).await
    }

    /// Returns the tasks of an environment, oldest first.
    pub async fn tasks_in(&self, environment_id: &str) -> Result<Vec<TaskRow>, Error> {
        let id = environment_id.to_owned();
        self.store.read(move |connection| environments::tasks_in(connection, &id)).await
    }

    /// Returns every environment by name.
    pub async fn list(&self) -> Result<Vec<EnvironmentRow>, Error> {
        self.store.read(environments::list).await
    }

    /// Removes an environment and its hosts. The sessions that ran in it stay.
    pub async fn remove(&self, id_or_name: &str) -> Result<EnvironmentRow, Error> {
        let row = self.find(id_or_name).await?;
        let id = row.id.clone();
        self.store.write(Durability::Synced, move |connection| environments::remove(connection, &id)).await?;
        Ok(row)
    }

    /// Registers a host; `environment_id` may be empty.
    pub async fn register_host(&self, new: NewHost) -> Result<HostRow, Error> {
        let now = clock::now();
        let row =
            HostRow { id: ids::uuid(), status: ONLINE.to_owned(), created_at: now, ..HostRow::default() };
        self.put_host(row, new).await
    }

    /// Changes a host, which keeps its id and status.
    pub async fn update_host(&self, id: &str, new: NewHost) -> Result<HostRow, Error> {
        let row = self.host(id).await?;
        self.put_host(row, new).await
    }

    async fn put_host(&self, row: HostRow, new: NewHost) -> Result<HostRow, Error> {
        check_name("name", &new.name)?;
        let host_type = if new.host_type.is_empty() { HOST_TYPES[1].to_owned() } else { new.host_type };
        check_word("host_type", &host_type, &HOST_TYPES)?;
        check_texts("capabilities", &new.capabilities)?;
        check_texts("labels", &new.labels)?;
        let environment_id = match new.environment_id.as_str() {
            "" => String::new(),
            id => self.find(id).await?.id,
        };
        let capabilities = storage::sessions::json(&new.capabilities);
        let row =
            HostRow { name: new.name, environment_id, capabilities, host_type, labels: new.labels, ..row };
        self.store_host(row).await
    }

    /// Notes what a host reports of itself, which is its heartbeat.
    pub async fn report_host(&self, id: &str, status: &str) -> Result<HostRow, Error> {
        check_word("status", status, &HOST_STATUSES)?;
        let row = HostRow { status: status.to_owned(), seen_at: Some(clock::now()), ..self.host(id).await? };
        self.store_host(row).await
    }

    async fn store_host(&self, row: HostRow) -> Result<HostRow, Error> {
        let stored = row.clone();
        let put = move |connection: &rusqlite::Connection| environments::put_host(connection, &stored);
        self.store.write(Durability::Synced, put).await?;
        Ok(row)
    }

    pub async fn host(&self, id: &str) -> Result<HostRow, Error> {
        let wanted = id.to_owned();
        let found = self.store.read(move |connection| environments::host(connection, &wanted)).await?;
        found.ok_or_else(|| not_found("host_id", format!("there is no host {id:?}")))
    }

    /// Returns a page of the hosts of an environment, or of all hosts if `environment_id` is empty.
    pub async fn hosts(&self, environment_id: &str, limit: i64, offset: i64) -> Result<Vec<HostRow>, Error> {
        let (limit, offset) = page(limit, offset)?;
        let wanted = environment_id.to_owned();
        self.store.read(move |connection| environments::hosts(connection, &wanted, limit, offset)).await
    }

    /// Removes a host; an unknown id is an error.
    pub async fn remove_host(&self, id: &str) -> Result<(), Error> {
        let wanted = id.to_owned();
        let removed = self
            .store
            .write(Durability::Synced, move |connection| environments::remove_host(connection, &wanted))
            .await?;
        if removed { Ok(()) } else { Err(not_found("id", format!("there is no host {id:?}"))) }
    }

    /// Records a task, once for a client's key (empty: none). Its session is created later. Returns it, and whether it
    /// is new.
    pub async fn create_task(&self, new: NewTask, client_key: &str) -> Result<(TaskRow, bool), Error> {
        let key = client_keys::key_of_request(client_key, &new)?;
        let now = clock::now();
        let row = TaskRow {
            id: ids::uuid(),
            prompt: new.prompt,
            environment_id: new.environment_id,
            host_id: new.host_id,
            parent_task_id: new.parent_task_id,
            session_id: String::new(),
            error: String::new(),
            created_at: now,
            updated_at: now,
        };
        self.store
            .write(Durability::Synced, move |connection| {
                if let Some(key) = key {
                    let found = storage::client_keys::find(connection, TASK_KEYS, &key.key)?;
                    if let Some((fingerprint, id)) = found {
                        let known = environments::task(connection, &id)?;
                        let used = || client_keys::used_otherwise(&key.key);
                        let known = known.filter(|_| fingerprint == key.fingerprint).ok_or_else(used);
                        return Ok(known.map(|known| (known, false)));
                    }
                    let (scope, answer) = (TASK_KEYS.to_owned(), row.id.clone());
                    storage::client_keys::keep(connection, &KeptKey { scope, key, answer, at: now })?;
                }
                environments::put_task(connection, &row)?;
                Ok(Ok((row, true)))
            })
            .await?
    }

    /// Stores the current state of a task.
    pub async fn put_task(&self, row: TaskRow) -> Result<(), Error> {
        self.store.write(Durability::Synced, move |connection| environments::put_task(connection, &row)).await
    }

    pub async fn task(&self, id: &str) -> Result<TaskRow, Error> {
        let wanted = id.to_owned();
        let found = self.store.read(move |connection| environments::task(connection, &wanted)).await?;
        found.ok_or_else(|| not_found("task_id", format!("there is no task {id:?}")))
    }

    /// Returns a page of the tasks, newest first.
    pub async fn tasks(&self, limit: i64, offset: i64) -> Result<Vec<TaskRow>, Error> {
        let (limit, offset) = page(limit, offset)?;
        self.store.read(move |connection| environments::tasks(connection, limit, offset)).await
    }
}

/// Returns an environment with other fields, checked.
fn changed(row: EnvironmentRow, new: NewEnvironment) -> Result<EnvironmentRow, Error> {
    check_name("name", &new.name)?;
    if is_uuid(&new.name) {
        return Err(Error::invalid("name", "looks like an id; choose another"));
    }
    let kind = if new.kind.is_empty() { KINDS[0].to_owned() } else { new.kind.clone() };
    check_word("kind", &kind, &KINDS)?;
    let directory = resolve_root(Path::new(&new.directory)).map_err(|error| {
        let what = error.message.trim_start_matches("path: ").to_owned();
        Error { message: format!("directory: {what}"), ..error }
    })?;
    let Some(directory) = directory.to_str().map(str::to_owned) else {
        return Err(Error::invalid("directory", "is not valid UTF-8"));
    };
    check_defaults(&new)?;
    Ok(EnvironmentRow {
        name: new.name,
        directory,
        provider: new.provider,
        model: new.model,
        mode: new.mode,
        answer_wait_secs: new.answer_wait_secs.min(settings::limits::ANSWER_WAIT_MAX_SECS),
        provider_config: new.provider_config,
        kind,
        ..row
    })
}

fn check_word(field: &str, word: &str, known: &[&str]) -> Result<(), Error> {
    match known.contains(&word) {
        true => Ok(()),
        false => Err(Error::invalid(field, format_args!("{word:?} is none of {}", known.join(", ")))),
    }
}

/// Checks the sizes of texts that somebody keeps with a record.
fn check_texts(field: &str, texts: &BTreeMap<String, String>) -> Result<(), Error> {
    if texts.len() > CONFIG_ENTRIES_MAX {
        return Err(Error::invalid(field, format_args!("has more than {CONFIG_ENTRIES_MAX} entries")));
    }
    if let Some((key, _)) =
        texts.iter().find(|(key, value)| key.is_empty() || key.len() + value.len() > CONFIG_VALUE_MAX_BYTES)
    {
        let most = CONFIG_VALUE_MAX_BYTES;
        return Err(Error::invalid(field, format_args!("{key:?} is empty or longer than {most} bytes")));
    }
    Ok(())
}

pub(crate) fn page(limit: i64, offset: i64) -> Result<(usize, usize), Error> {
    let number = |field: &str, number: i64| {
        usize::try_from(number).map_err(|_| Error::invalid(field, "must not be negative"))
    };
    let limit = match number("limit", limit)? {
        0 => limits::RECORDS_PAGE_DEFAULT,
        limit => limit.min(limits::RECORDS_PAGE_MAX),
    };
    Ok((limit, number("offset", offset)?))
}

fn not_found(field: &str, what: String) -> Error {
    Error::new(ErrorCode::RecordNotFound, format!("{field}: {what}"))
}

fn check_name(field: &str, name: &str) -> Result<(), Error> {
    if name.trim().is_empty() || name.chars().count() > domain::limits::NAME_MAX_CHARS {
        return Err(Error::invalid(field, "must have 1 to 200 characters"));
    }
    if name.chars().any(char::is_control) {
        return Err(Error::invalid(field, "contains control characters"));
    }
    Ok(())
}

/// Checks the provider, mode and provider settings of an environment.
fn check_defaults(new: &NewEnvironment) -> Result<(), Error> {
    if !new.provider.is_empty() && ProviderKind::parse(&new.provider).is_none() {
        let known: Vec<&str> = ProviderKind::ALL.iter().map(|kind| kind.name()).collect();
        return Err(Error::new(
            ErrorCode::ProviderUnsupported,
            format!("provider: {:?} is no provider; use one of {}", new.provider, known.join(", ")),
        ));
    }
    if !new.mode.is_empty() && Mode::parse(&new.mode).is_none() {
        let known: Vec<&str> = Mode::ALL.iter().map(|(_, name)| *name).collect();
        return Err(Error::invalid(
            "mode",
            format_args!("{:?} is not a mode; use one of {}", new.mode, known.join(", ")),
        ));
    }
    check_config(&new.provider_config)
}

/// Checks sizes and reserved keys only. The provider checks what the keys mean when a session starts.
fn check_config(config: &BTreeMap<String, String>) -> Result<(), Error> {
    let field = "provider_config";
    if config.len() > CONFIG_ENTRIES_MAX {
        return Err(Error::invalid(field, format_args!("has more than {CONFIG_ENTRIES_MAX} entries")));
    }
    if let Some(key) = [Mode::CONFIG_KEY, "workdir"].into_iter().find(|key| config.contains_key(*key)) {
        return Err(Error::invalid(field, format_args!("{key} is said by mode and directory")));
    }
    if let Some((key, _)) = config.iter().find(|(_, value)| value.len() > CONFIG_VALUE_MAX_BYTES) {
        return Err(Error::invalid(
            field,
            format_args!("{key} is longer than {CONFIG_VALUE_MAX_BYTES} bytes"),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_checked_to_be_a_uuid() {
        let id = ids::uuid();
        assert!(is_uuid(&id), "{id}");
        assert_eq!(id.as_bytes()[14], b'7', "{id}");
        for wrong in ["", "sess_1", "0123456789abcdef0123456789abcdef0123", &id[1..], &id.replace('-', "_")] {
            assert!(!is_uuid(wrong), "{wrong}");
        }
    }

    #[tokio::test]
    async fn environments_are_kept_found_and_checked() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("db")).unwrap();
        let environments = Environments::new(store);
        let project = folder.path().join("project");
        std::fs::create_dir(&project).unwrap();
        let new = |name: &str| NewEnvironment {
            name: name.to_owned(),
            directory: project.display().to_string(),
            provider_config: BTreeMap::from([("agent".to_owned(), "goose".to_owned())]),
            ..NewEnvironment::default()
        };
        let config = |key: &str, value: String| BTreeMap::from([(key.to_owned(), value)]);
        let made = environments.create(new("lab")).await.unwrap();
        assert_eq!(environments.find(&made.id).await.unwrap(), made);
        assert_eq!(environments.find("lab").await.unwrap(), made);
        for wrong in [
            new("lab"),
            new(""),
            NewEnvironment { directory: "relative".to_owned(), ..new("a") },
            NewEnvironment { directory: "/".to_owned(), ..new("a") },
            NewEnvironment { provider: "skynet".to_owned(), ..new("a") },
            NewEnvironment { mode: "yolo".to_owned(), ..new("a") },
            NewEnvironment { provider_config: config("permission_mode", "plan".to_owned()), ..new("a") },
            NewEnvironment {
                provider_config: config("agent", "x".repeat(CONFIG_VALUE_MAX_BYTES + 1)),
                ..new("a")
            },
        ] {
            assert!(environments.create(wrong.clone()).await.is_err(), "{wrong:?}");
        }
        let new_host =
            NewHost { name: "arm".to_owned(), environment_id: made.id.clone(), ..NewHost::default() };
        let host = environments.register_host(new_host).await.unwrap();
        assert_eq!((host.host_type.as_str(), host_status(&host, clock::now())), ("edge", "online"));
        assert!(
            environments.report_host(&host.id, "asleep").await.unwrap_err().message.starts_with("status: ")
        );
        let host = environments.report_host(&host.id, "degraded").await.unwrap();
        let seen = host.seen_at.unwrap();
        assert_eq!(host_status(&host, seen), "degraded");
        assert_eq!(host_status(&host, seen.after(limits::HOST_SILENT_WAIT * 2)), "offline");
        let stop = EmergencyStop { at: clock::now(), reason: "smoke".to_owned() };
        environments.set_emergency_stop(&made.id, Some(stop.clone())).await.unwrap();
        let renamed =
            environments.update(&made.id, NewEnvironment { kind: "hardware".to_owned(), ..new("lab") });
        let renamed = renamed.await.unwrap();
        assert_eq!((renamed.emergency_stop, renamed.kind.as_str()), (Some(stop), "hardware"));
        assert_eq!(environments.hosts(&made.id, 0, 0).await.unwrap(), std::slice::from_ref(&host));
        environments.remove("lab").await.unwrap();
        let gone = environments.find(&made.id).await.unwrap_err();
        assert_eq!(gone.code, ErrorCode::RecordNotFound);
        assert!(environments.host(&host.id).await.is_err());
    }
}
