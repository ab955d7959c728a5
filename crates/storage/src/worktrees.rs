//! Rows of worktrees: the ids and names by which clients know them. Git knows which of them exist.

use domain::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

/// A stored worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeRow {
    pub id: String,
    pub path: String,
    /// The folder that all working trees of the repository share.
    pub repository: String,
    pub name: String,
    pub created_at: Timestamp,
    /// When it was last made the current one; 0 if never.
    pub chosen_at: Timestamp,
}

const SELECT: &str = "SELECT id, path, repository, name, created_at, chosen_at FROM worktrees";

/// Returns a worktree by id.
pub fn find(connection: &Connection, id: &str) -> rusqlite::Result<Option<WorktreeRow>> {
    connection.prepare_cached(&format!("{SELECT} WHERE id = ?1"))?.query_row([id], row).optional()
}

/// Returns every worktree.
pub fn all(connection: &Connection) -> rusqlite::Result<Vec<WorktreeRow>> {
    connection.prepare_cached(&format!("{SELECT} ORDER BY created_at, id"))?.query_map([], row)?.collect()
}

/// Returns the row of a path; inserts it if there is none.
pub fn put(connection: &Connection, new: &WorktreeRow) -> rusqlite::Result<WorktreeRow> {
    connection
        .prepare_cached(
            "INSERT INTO worktrees (id, path, repository, name, created_at) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (path) DO UPDATE SET repository = excluded.repository",
        )?
        .execute(params![new.id, new.path, new.repository, new.name, new.created_at.0])?;
    connection.prepare_cached(&format!("{SELECT} WHERE path = ?1"))?.query_row([&new.path], row)
}

/// Records that a worktree was made the current one.
pub fn choose(connection: &Connection, id: &str, at: Timestamp) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE worktrees SET chosen_at = ?2 WHERE id = ?1")?
        .execute(params![id, at.0])
        .map(drop)
}

/// Removes a worktree.
pub fn remove(connection: &Connection, id: &str) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM worktrees WHERE id = ?1")?.execute([id]).map(drop)
}

fn row(row: &Row<'_>) -> rusqlite::Result<WorktreeRow> {
    Ok(WorktreeRow {
        id: row.get(0)?,
        path: row.get(1)?,
        repository: row.get(2)?,
        name: row.get(3)?,
        created_at: Timestamp(row.get(4)?),
        chosen_at: Timestamp(row.get(5)?),
    })
}
