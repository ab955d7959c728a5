//! Rows of records that programs keep here. Knows no kind of them.

use domain::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

/// A record of some kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordRow {
    pub id: String,
    pub kind: String,
    /// What no two records of a kind share; `None`: nothing.
    pub unique_key: Option<String>,
    /// JSON.
    pub body: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

const RECORD: &str = "SELECT id, kind, unique_key, body, created_at, updated_at FROM records";

/// Inserts a record, or changes all but its id, kind and when it was created.
pub fn put(connection: &Connection, row: &RecordRow) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO records (id, kind, unique_key, body, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (id) DO UPDATE SET unique_key = ?3, body = ?4, updated_at = ?6",
        )?
        .execute(params![row.id, row.kind, row.unique_key, row.body, row.created_at.0, row.updated_at.0])?;
    Ok(())
}

pub fn find(connection: &Connection, kind: &str, id: &str) -> rusqlite::Result<Option<RecordRow>> {
    let query = format!("{RECORD} WHERE kind = ?1 AND id = ?2");
    connection.prepare_cached(&query)?.query_row([kind, id], record).optional()
}

/// Returns the record of a kind that has this key.
pub fn with_key(connection: &Connection, kind: &str, key: &str) -> rusqlite::Result<Option<RecordRow>> {
    let query = format!("{RECORD} WHERE kind = ?1 AND unique_key = ?2");
    connection.prepare_cached(&query)?.query_row([kind, key], record).optional()
}

/// Returns a page of the records of a kind, newest first.
pub fn list(
    connection: &Connection,
    kind: &str,
    limit: usize,
    offset: usize,
) -> rusqlite::Result<Vec<RecordRow>> {
    let query = format!("{RECORD} WHERE kind = ?1 ORDER BY created_at DESC, id DESC LIMIT ?2 OFFSET ?3");
    connection
        .prepare_cached(&query)?
        .query_map(params![kind, limit as i64, offset as i64], record)?
        .collect()
}

pub fn count(connection: &Connection, kind: &str) -> rusqlite::Result<u64> {
    let query = "SELECT count(*) FROM records WHERE kind = ?1";
    connection.prepare_cached(query)?.query_row([kind], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs)
}

/// Removes a record; false: there is none.
pub fn remove(connection: &Connection, kind: &str, id: &str) -> rusqlite::Result<bool> {
    connection.execute("DELETE FROM records WHERE kind = ?1 AND id = ?2", [kind, id]).map(|gone| gone > 0)
}

/// Removes the records of a kind that were created before a time.
pub fn remove_before(connection: &Connection, kind: &str, before: Timestamp) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM records WHERE kind = ?1 AND created_at < ?2", params![kind, before.0])?;
    Ok(())
}

fn record(row: &Row<'_>) -> rusqlite::Result<RecordRow> {
    Ok(RecordRow {
        id: row.get(0)?,
        kind: row.get(1)?,
        unique_key: row.get(2)?,
        body: row.get(3)?,
        created_at: Timestamp(row.get(4)?),
        updated_at: Timestamp(row.get(5)?),
    })
}
