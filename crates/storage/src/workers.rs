//! Rows of workers: sessions that work for another session, and how they ended. Knows no rules.

use domain::worker::{WorkerRecord, WorkerStatus};
use domain::{SessionId, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::sessions;

/// A worker as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerRow {
    pub record: WorkerRecord,
    /// Why it was cancelled; `None`: it was not.
    pub cancel_reason: Option<String>,
    /// How it ended; `None`: it has not.
    pub status: Option<WorkerStatus>,
    pub summary: String,
    pub ended_at: Option<Timestamp>,
}

const SELECT: &str = "SELECT record, cancel_reason, status, summary, ended_at FROM workers";

/// Stores a new worker.
pub fn insert(connection: &Connection, record: &WorkerRecord) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT INTO workers (session_id, parent, record) VALUES (?1, ?2, ?3)")?
        .execute(params![record.session.as_str(), record.parent.as_str(), sessions::json(record)])?;
    Ok(())
}

/// Returns the worker that a session is.
pub fn find(connection: &Connection, session: &SessionId) -> rusqlite::Result<Option<WorkerRow>> {
    connection
        .prepare_cached(&format!("{SELECT} WHERE session_id = ?1"))?
        .query_row([session.as_str()], worker_row)
        .optional()
}

/// Returns the workers of a session, or of all sessions, oldest first.
pub fn list(connection: &Connection, parent: Option<&SessionId>) -> rusqlite::Result<Vec<WorkerRow>> {
    connection
        .prepare_cached(&format!("{SELECT} WHERE ?1 IS NULL OR parent = ?1 ORDER BY session_id"))?
        .query_map([parent.map(SessionId::as_str)], worker_row)?
        .collect()
}

/// Returns the workers that have not ended, oldest first; those of one session, or of all.
pub fn open(connection: &Connection, parent: Option<&SessionId>) -> rusqlite::Result<Vec<WorkerRow>> {
    let wanted = "ended_at IS NULL AND (?1 IS NULL OR parent = ?1)";
    connection
        .prepare_cached(&format!("{SELECT} WHERE {wanted} ORDER BY session_id"))?
        .query_map([parent.map(SessionId::as_str)], worker_row)?
        .collect()
}

/// Notes why a worker is cancelled, unless it has ended or that was noted before. Returns whether it was.
pub fn request_cancel(connection: &Connection, session: &SessionId, reason: &str) -> rusqlite::Result<bool> {
    let changed = connection
        .prepare_cached(
            "UPDATE workers SET cancel_reason = ?2
             WHERE session_id = ?1 AND ended_at IS NULL AND cancel_reason IS NULL",
        )?
        .execute(params![session.as_str(), reason])?;
    Ok(changed > 0)
}

/// Notes how a worker ended, and keeps of what it was started with what is shown.
pub fn end(
    connection: &Connection,
    shown: &WorkerRecord,
    status: WorkerStatus,
    summary: &str,
    at: Timestamp,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE workers SET status = ?2, summary = ?3, ended_at = ?4, record = ?5
             WHERE session_id = ?1 AND ended_at IS NULL",
        )?
        .execute(params![shown.session.as_str(), status.name(), summary, at.0, sessions::json(shown)])?;
    Ok(())
}

/// Removes what is known of a session as a worker and as the parent of orchestrations.
pub fn forget(connection: &Connection, session: &str) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM workers WHERE session_id = ?1")?.execute([session])?;
    let of_session = "SELECT id FROM orchestrations WHERE parent = ?1";
    connection
        .prepare_cached(&format!("DELETE FROM orchestration_events WHERE orchestration IN ({of_session})"))?
        .execute([session])?;
    connection.prepare_cached("DELETE FROM orchestrations WHERE parent = ?1")?.execute([session])?;
    Ok(())
}

/// Removes what is known of sessions whose records were removed.
pub fn forget_removed(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "DELETE FROM workers WHERE session_id NOT IN (SELECT id FROM session_records);
         DELETE FROM orchestrations WHERE parent NOT IN (SELECT id FROM session_records);
         DELETE FROM orchestration_events WHERE orchestration NOT IN (SELECT id FROM orchestrations);",
    )
}

fn worker_row(row: &Row<'_>) -> rusqlite::Result<WorkerRow> {
    let record: String = row.get(0)?;
    let record = serde_json::from_str(&record).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into())
    })?;
    let status: String = row.get(2)?;
    Ok(WorkerRow {
        record,
        cancel_reason: row.get(1)?,
        status: WorkerStatus::parse(&status),
        summary: row.get(3)?,
        ended_at: row.get::<_, Option<i64>>(4)?.map(Timestamp),
    })
}
