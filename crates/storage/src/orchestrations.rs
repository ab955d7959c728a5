//! Rows of orchestrations and their journals. Knows no rules.

use domain::orchestration::OrchestrationChange;
use domain::{SessionId, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::sessions;

/// An orchestration as stored; what it is about is in its journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrchestrationRow {
    pub id: String,
    pub parent: SessionId,
    /// The parent was made for it and ends with it.
    pub owns_parent: bool,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

/// An entry of an orchestration's journal.
#[derive(Clone, Debug, PartialEq)]
pub struct OrchestrationEvent {
    /// Starts at 1, has no gaps.
    pub seq: u64,
    pub at: Timestamp,
    pub change: OrchestrationChange,
}

const SELECT: &str = "SELECT id, parent, owns_parent, created_at, ended_at FROM orchestrations";

/// Stores a new orchestration; its first events are appended in the same transaction.
pub fn insert(connection: &Connection, row: &OrchestrationRow) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO orchestrations (id, parent, owns_parent, created_at) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![row.id, row.parent.as_str(), row.owns_parent, row.created_at.0])?;
    Ok(())
}

/// Appends events to a journal; the last one of a journal also ends the orchestration.
pub fn append(connection: &Connection, id: &str, events: &[OrchestrationEvent]) -> rusqlite::Result<()> {
    for event in events {
        connection
            .prepare_cached(
                "INSERT INTO orchestration_events (orchestration, seq, at, body) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![id, event.seq as i64, event.at.0, sessions::json(&event.change)])?;
        if matches!(event.change, OrchestrationChange::Ended {}) {
            connection
                .prepare_cached("UPDATE orchestrations SET ended_at = ?2 WHERE id = ?1")?
                .execute(params![id, event.at.0])?;
        }
    }
    Ok(())
}

/// Replaces the first event of a journal, which has the plan: once nothing starts any more, its prompts are kept as they
/// are shown.
pub fn replace_plan(
    connection: &Connection,
    id: &str,
    created: &OrchestrationChange,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE orchestration_events SET body = ?2 WHERE orchestration = ?1 AND seq = 1")?
        .execute(params![id, sessions::json(created)])?;
    Ok(())
}

/// Returns an orchestration.
pub fn find(connection: &Connection, id: &str) -> rusqlite::Result<Option<OrchestrationRow>> {
    connection
        .prepare_cached(&format!("{SELECT} WHERE id = ?1"))?
        .query_row([id], orchestration_row)
        .optional()
}

/// Returns the orchestrations of a session, or of all sessions, oldest first.
pub fn list(connection: &Connection, parent: Option<&SessionId>) -> rusqlite::Result<Vec<OrchestrationRow>> {
    connection
        .prepare_cached(&format!("{SELECT} WHERE ?1 IS NULL OR parent = ?1 ORDER BY id"))?
        .query_map([parent.map(SessionId::as_str)], orchestration_row)?
        .collect()
}

/// Returns the orchestrations that have not ended.
pub fn open(connection: &Connection) -> rusqlite::Result<Vec<OrchestrationRow>> {
    connection
        .prepare_cached(&format!("{SELECT} WHERE ended_at IS NULL ORDER BY id"))?
        .query_map([], orchestration_row)?
        .collect()
}

/// Returns the events of a journal after a sequence number.
pub fn events(connection: &Connection, id: &str, after: u64) -> rusqlite::Result<Vec<OrchestrationEvent>> {
    connection
        .prepare_cached(
            "SELECT seq, at, body FROM orchestration_events WHERE orchestration = ?1 AND seq > ?2 ORDER BY seq",
        )?
        .query_map(params![id, after as i64], |row| {
            let body: String = row.get(2)?;
            let change = serde_json::from_str(&body).map_err(|error| {
                rusqlite::Error::FromSqlConversionFailure(2, rusqlite::types::Type::Text, error.into())
            })?;
            Ok(OrchestrationEvent { seq: row.get::<_, i64>(0)? as u64, at: Timestamp(row.get(1)?), change })
        })?
        .collect()
}

fn orchestration_row(row: &Row<'_>) -> rusqlite::Result<OrchestrationRow> {
    Ok(OrchestrationRow {
        id: row.get(0)?,
        parent: SessionId::new(row.get::<_, String>(1)?),
        owns_parent: row.get(2)?,
        created_at: Timestamp(row.get(3)?),
        ended_at: row.get::<_, Option<i64>>(4)?.map(Timestamp),
    })
}
