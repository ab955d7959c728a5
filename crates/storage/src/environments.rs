//! Rows of environments, hosts and tasks.

use std::collections::BTreeMap;

use domain::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

/// A named folder that sessions run in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvironmentRow {
    pub id: String,
    pub name: String,
    pub directory: String,
    /// Empty: the default.
    pub provider: String,
    pub model: String,
    pub mode: String,
    /// 0: the default.
    pub answer_wait_secs: u32,
    /// Settings of the provider.
    pub provider_config: BTreeMap<String, String>,
    pub created_at: Timestamp,
    /// `simulation`, `hardware` or `hybrid`.
    pub kind: String,
    /// Its emergency stop, if it is active.
    pub emergency_stop: Option<EmergencyStop>,
}

/// An emergency stop that is active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmergencyStop {
    pub at: Timestamp,
    pub reason: String,
}

/// A registered machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostRow {
    pub id: String,
    pub name: String,
    pub environment_id: String,
    pub status: String,
    /// JSON.
    pub capabilities: String,
    pub created_at: Timestamp,
    /// `cloud`, `edge` or `hybrid`.
    pub host_type: String,
    pub labels: BTreeMap<String, String>,
    /// When it reported its status last; `None`: never.
    pub seen_at: Option<Timestamp>,
}

/// A prompt that runs as its own session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskRow {
    pub id: String,
    pub prompt: String,
    pub environment_id: String,
    pub host_id: String,
    pub parent_task_id: String,
    /// Empty until the session exists.
    pub session_id: String,
    /// Why there is no session.
    pub error: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

const ENVIRONMENT: &str = "SELECT id, name, directory, provider, model, mode, answer_wait_secs, created_at, \
                           provider_config, kind, stopped_at, stop_reason FROM environments";
const HOST: &str = "SELECT id, name, environment_id, status, capabilities, created_at, host_type, labels, seen_at \
                    FROM hosts";
const TASK: &str = "SELECT id, prompt, environment_id, host_id, parent_task_id, session_id, error, created_at, \
                    updated_at FROM tasks";

/// Inserts an environment, or changes all but its id and when it was created.
pub fn put(connection: &Connection, row: &EnvironmentRow) -> rusqlite::Result<()> {
    let stop =
        row.emergency_stop.clone().unwrap_or(EmergencyStop { at: Timestamp(0), reason: String::new() });
    connection.execute(
        "INSERT INTO environments (id, name, directory, provider, model, mode, answer_wait_secs, created_at,
                                   provider_config, kind, stopped_at, stop_reason)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
         ON CONFLICT (id) DO UPDATE SET name = ?2, directory = ?3, provider = ?4, model = ?5, mode = ?6,
             answer_wait_secs = ?7, provider_config = ?9, kind = ?10, stopped_at = ?11, stop_reason = ?12",
        params![
            row.id,
            row.name,
            row.directory,
            row.provider,
            row.model,
            row.mode,
            row.answer_wait_secs,
            row.created_at.0,
            super::sessions::json(&row.provider_config),
            row.kind,
            stop.at.0,
            stop.reason
        ],
    )?;
    Ok(())
}

/// Returns an environment by id, otherwise by name.
pub fn find(connection: &Connection, id_or_name: &str) -> rusqlite::Result<Option<EnvironmentRow>> {
    connection
        .prepare_cached(&format!("{ENVIRONMENT} WHERE id = ?1 OR name = ?1 ORDER BY id = ?1 DESC LIMIT 1"))?
        .query_row([id_or_name], environment)
        .optional()
}

/// Returns every environment by name.
pub fn list(connection: &Connection) -> rusqlite::Result<Vec<EnvironmentRow>> {
    connection.prepare_cached(&format!("{ENVIRONMENT} ORDER BY name"))?.query_map([], environment)?.collect()
}

/// Removes an environment and its hosts; its sessions stay.
pub fn remove(connection: &Connection, id: &str) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM hosts WHERE environment_id = ?1", [id])?;
    connection.execute("DELETE FROM environments WHERE id = ?1", [id])?;
    Ok(())
}

/// Inserts a host, or changes all but its id and when it was registered.
pub fn put_host(connection: &Connection, row: &HostRow) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO hosts (id, name, environment_id, status, capabilities, created_at, host_type, labels, seen_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT (id) DO UPDATE SET name = ?2, environment_id = ?3, status = ?4, capabilities = ?5,
             host_type = ?7, labels = ?8, seen_at = ?9",
        params![
            row.id,
            row.name,
            row.environment_id,
            row.status,
            row.capabilities,
            row.created_at.0,
            row.host_type,
            super::sessions::json(&row.labels),
            row.seen_at.map_or(0, |at| at.0)
        ],
    )?;
    Ok(())
}

pub fn host(connection: &Connection, id: &str) -> rusqlite::Result<Option<HostRow>> {
    connection.prepare_cached(&format!("{HOST} WHERE id = ?1"))?.query_row([id], host_row).optional()
}

/// Returns a page of the hosts of an environment, or of all.
pub fn hosts(
    connection: &Connection,
    environment_id: &str,
    limit: usize,
    offset: usize,
) -> rusqlite::Result<Vec<HostRow>> {
    connection
        .prepare_cached(&format!(
            "{HOST} WHERE ?1 = '' OR environment_id = ?1 ORDER BY created_at, id LIMIT ?2 OFFSET ?3"
        ))?
        .query_map(params![environment_id, limit as i64, offset as i64], host_row)?
        .collect()
}

/// Removes a host. Returns whether there was one.
pub fn remove_host(connection: &Connection, id: &str) -> rusqlite::Result<bool> {
    Ok(connection.execute("DELETE FROM hosts WHERE id = ?1", [id])? > 0)
}

/// Inserts a task or updates its session, error and time.
pub fn put_task(connection: &Connection, row: &TaskRow) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO tasks (id, prompt, environment_id, host_id, parent_task_id, session_id, error, created_at,
                            updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT (id) DO UPDATE SET session_id = ?6, error = ?7, updated_at = ?9",
        params![
            row.id,
            row.prompt,
            row.environment_id,
            row.host_id,
            row.parent_task_id,
            row.session_id,
            row.error,
            row.created_at.0,
            row.updated_at.0
        ],
    )?;
    Ok(())
}

pub fn task(connection: &Connection, id: &str) -> rusqlite::Result<Option<TaskRow>> {
    connection.prepare_cached(&format!("{TASK} WHERE id = ?1"))?.query_row([id], task_row).optional()
}

/// Returns a page of the tasks, newest first.
pub fn tasks(connection: &Connection, limit: usize, offset: usize) -> rusqlite::Result<Vec<TaskRow>> {
    connection
        .prepare_cached(&format!("{TASK} ORDER BY created_at DESC, id DESC LIMIT ?1 OFFSET ?2"))?
        .query_map(params![limit as i64, offset as i64], task_row)?
        .collect()
}

/// Returns the tasks of an environment, oldest first.
pub fn tasks_in(connection: &Connection, environment_id: &str) -> rusqlite::Result<Vec<TaskRow>> {
    connection
        .prepare_cached(&format!("{TASK} WHERE environment_id = ?1 ORDER BY created_at, id"))?
        .query_map([environment_id], task_row)?
        .collect()
}

/// Returns the ids of the sessions that a session has spawned, oldest first.
pub fn children(connection: &Connection, session: &str) -> rusqlite::Result<Vec<String>> {
    connection
        .prepare_cached("SELECT id FROM session_records WHERE parent_session_id = ?1 ORDER BY key")?
        .query_map([session], |row| row.get(0))?
        .collect()
}

fn environment(row: &Row<'_>) -> rusqlite::Result<EnvironmentRow> {
    let config: String = row.get(8)?;
    Ok(EnvironmentRow {
        id: row.get(0)?,
        name: row.get(1)?,
        directory: row.get(2)?,
        provider: row.get(3)?,
        model: row.get(4)?,
        mode: row.get(5)?,
        answer_wait_secs: row.get(6)?,
        // Only the daemon writes this column, so it is valid JSON.
        provider_config: serde_json::from_str(&config).unwrap_or_default(),
        created_at: Timestamp(row.get(7)?),
        kind: row.get(9)?,
        emergency_stop: match row.get(10)? {
            0 => None,
            at => Some(EmergencyStop { at: Timestamp(at), reason: row.get(11)? }),
        },
    })
}

fn host_row(row: &Row<'_>) -> rusqlite::Result<HostRow> {
    // Only the daemon writes this column, so it is valid JSON.
    let labels: String = row.get(7)?;
    Ok(HostRow {
        id: row.get(0)?,
        name: row.get(1)?,
        environment_id: row.get(2)?,
        status: row.get(3)?,
        capabilities: row.get(4)?,
        created_at: Timestamp(row.get(5)?),
        host_type: row.get(6)?,
        labels: serde_json::from_str(&labels).unwrap_or_default(),
        seen_at: Some(row.get(8)?).filter(|at| *at != 0).map(Timestamp),
    })
}

fn task_row(row: &Row<'_>) -> rusqlite::Result<TaskRow> {
    Ok(TaskRow {
        id: row.get(0)?,
        prompt: row.get(1)?,
        environment_id: row.get(2)?,
        host_id: row.get(3)?,
        parent_task_id: row.get(4)?,
        session_id: row.get(5)?,
        error: row.get(6)?,
        created_at: Timestamp(row.get(7)?),
        updated_at: Timestamp(row.get(8)?),
    })
}
