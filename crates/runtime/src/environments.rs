//! Environments, hosts and tasks as records: named folders that sessions run in, registered machines, and
//! prompts that run as sessions. Stores and validates them; running them is the supervisor's job.

use std::collections::BTreeMap;
use std::path::Path;

use domain::limits::{CONFIG_ENTRIES_MAX, CONFIG_VALUE_MAX_BYTES};
use domain::{Error, ErrorCode, Mode, ProviderKind};

use crate::campaign::resolve_root;
use crate::limits;
use host::{clock, ids};
use storage::environments::{self, EnvironmentRow, HostRow, TaskRow};
use storage::{Durability, Store};

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
}

/// The fields of a task to create.
#[derive(Clone, Debug, Default)]
pub struct NewTask {
    pub prompt: String,
    pub environment_id: String,
    pub host_id: String,
    pub parent_task_id: String,
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
    pub(crate) fn new(store: Store) -> Self {
        Self { store }
    }

    /// Creates an environment. Its folder must pass the same checks as a campaign's root.
    pub async fn create(&self, new: NewEnvironment) -> Result<EnvironmentRow, Error> {
        check_name("name", &new.name)?;
        if is_uuid(&new.name) {
            return Err(Error::invalid("name", "looks like an id; choose another"));
        }
        let directory = resolve_root(Path::new(&new.directory)).map_err(|error| {
            let what = error.message.trim_start_matches("path: ").to_owned();
            Error { message: format!("directory: {what}"), ..error }
        })?;
        let Some(directory) = directory.to_str().map(str::to_owned) else {
            return Err(Error::invalid("directory", "is not valid UTF-8"));
        };
        check_defaults(&new)?;
        let row = EnvironmentRow {
            id: ids::uuid(),
            name: new.name,
            directory,
            provider: new.provider,
            model: new.model,
            mode: new.mode,
            answer_wait_secs: new.answer_wait_secs.min(limits::ANSWER_WAIT_MAX_SECS),
            provider_config: new.provider_config,
            created_at: clock::now(),
        };
        self.store
            .write(Durability::Synced, move |connection| {
                if let Some(other) = environments::find(connection, &row.name)? {
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

    /// Registers a host of an environment.
    pub async fn register_host(
        &self,
        name: String,
        environment_id: &str,
        capabilities: &BTreeMap<String, String>,
    ) -> Result<HostRow, Error> {
        check_name("name", &name)?;
        let environment = self.find(environment_id).await?;
        let row = HostRow {
            id: ids::uuid(),
            name,
            environment_id: environment.id,
            status: "online".to_owned(),
            capabilities: storage::sessions::json(capabilities),
            created_at: clock::now(),
        };
        let stored = row.clone();
        self.store
            .write(Durability::Synced, move |connection| environments::put_host(connection, &stored))
            .await?;
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

    /// Records a task. Its session is created later.
    pub async fn create_task(&self, new: NewTask) -> Result<TaskRow, Error> {
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
        self.put_task(row.clone()).await?;
        Ok(row)
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

fn page(limit: i64, offset: i64) -> Result<(usize, usize), Error> {
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
    if let Some(key) = ["permission_mode", "workdir"].into_iter().find(|key| config.contains_key(*key)) {
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
    fn ids_are_uuids() {
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
        let host = environments.register_host("arm".to_owned(), &made.id, &BTreeMap::new()).await.unwrap();
        assert_eq!(environments.hosts(&made.id, 0, 0).await.unwrap(), std::slice::from_ref(&host));
        environments.remove("lab").await.unwrap();
        let gone = environments.find(&made.id).await.unwrap_err();
        assert_eq!(gone.code, ErrorCode::RecordNotFound);
        assert!(environments.host(&host.id).await.is_err());
    }
}
