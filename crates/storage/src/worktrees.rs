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
    pub origin: WorktreeOrigin,
}

/// Where a worktree comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorktreeOrigin {
    /// The full name of the branch it was made from, such as `refs/heads/main`; empty if unknown.
    pub base_ref: String,
    /// The commit it was made from; empty if unknown.
    pub base_commit: String,
    /// The daemon made it, so the daemon may collect it.
    pub made_here: bool,
}

const SELECT: &str = "SELECT id, path, repository, name, created_at, chosen_at, base_ref, base_commit, made_here FROM worktrees";

/// Returns a worktree by id.
pub fn find(connection: &Connection, id: &str) -> rusqlite::Result<Option<WorktreeRow>> {
    connection.prepare_cached(&format!("{SELECT} WHERE id = ?1"))?.query_row([id], row).optional()
}

/// Returns a worktree by path.
pub fn find_by_path(connection: &Connection, path: &str) -> rusqlite::Result<Option<WorktreeRow>> {
    connection.prepare_cached(&format!("{SELECT} WHERE path = ?1"))?.query_row([path], row).optional()
}

/// Returns every worktree.
pub fn all(connection: &Connection) -> rusqlite::Result<Vec<WorktreeRow>> {
    connection.prepare_cached(&format!("{SELECT} ORDER BY created_at, id"))?.query_map([], row)?.collect()
}

/// Returns the row of a path; inserts it if there is none.
pub fn put(connection: &Connection, new: &WorktreeRow) -> rusqlite::Result<WorktreeRow> {
    connection
        .prepare_cached(
            "INSERT INTO worktrees (id, path, repository, name, created_at, base_ref, base_commit, made_here)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT (path) DO UPDATE SET repository = excluded.repository,
                 base_ref = iif(excluded.made_here, excluded.base_ref, base_ref),
                 base_commit = iif(excluded.made_here, excluded.base_commit, base_commit),
                 made_here = max(excluded.made_here, made_here)",
        )?
        .execute(params![
            new.id,
            new.path,
            new.repository,
            new.name,
            new.created_at.0,
            new.origin.base_ref,
            new.origin.base_commit,
            new.origin.made_here,
        ])?;
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

/// Records that the user allowed the set-up hook with this hash for a repository.
pub fn allow_setup(
    connection: &Connection,
    repository: &str,
    hash: &str,
    at: Timestamp,
    by: &str,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO setup_hooks (repository, hash, allowed_at, allowed_by) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![repository, hash, at.0, by])
        .map(drop)
}

/// Returns whether the user allowed the set-up hook with this hash for a repository.
pub fn is_setup_allowed(connection: &Connection, repository: &str, hash: &str) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM setup_hooks WHERE repository = ?1 AND hash = ?2")?
        .exists(params![repository, hash])
}

/// Records the files of a session's folder at the start of a turn, as a tree object. The first record of a turn wins.
pub fn put_turn_tree(
    connection: &Connection,
    session: &str,
    turn: u64,
    tree: &str,
    at: Timestamp,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO turn_trees (session, turn, tree, at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
        )?
        .execute(params![session, turn as i64, tree, at.0])
        .map(drop)
}

/// Returns the tree recorded for a turn.
pub fn turn_tree(connection: &Connection, session: &str, turn: u64) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached("SELECT tree FROM turn_trees WHERE session = ?1 AND turn = ?2")?
        .query_row(params![session, turn as i64], |row| row.get(0))
        .optional()
}

fn row(row: &Row<'_>) -> rusqlite::Result<WorktreeRow> {
    Ok(WorktreeRow {
        id: row.get(0)?,
        path: row.get(1)?,
        repository: row.get(2)?,
        name: row.get(3)?,
        created_at: Timestamp(row.get(4)?),
        chosen_at: Timestamp(row.get(5)?),
        origin: WorktreeOrigin { base_ref: row.get(6)?, base_commit: row.get(7)?, made_here: row.get(8)? },
    })
}
