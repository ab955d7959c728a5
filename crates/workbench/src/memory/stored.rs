//! Compares vectors in the tables, for searches without vectors in memory: selected ones, or all if no server
//! selects them. Slower than memory, but always available.

use rusqlite::{Connection, OptionalExtension as _};

use super::index::{Allowed, Index, best};
use crate::vectors::{self, Vector};

/// Returns the similarity of a memory's vector; `None` if it has no vector of this embedder.
pub(super) fn similarity(
    connection: &Connection,
    key: i64,
    embedder: &str,
    vector: &Vector,
) -> rusqlite::Result<Option<f32>> {
    let mut select =
        connection.prepare_cached("SELECT vector FROM bench_memories WHERE key = ?1 AND model = ?2")?;
    let found =
        select.query_row(rusqlite::params![key, embedder], |row| Ok(of(row.get_ref(0)?.as_blob()?, vector)));
    Ok(found.optional()?.flatten())
}

/// Returns the most similar memories with their similarity, best first, none below `least`.
pub(super) fn nearest(
    connection: &Connection,
    index: &Index,
    embedder: &str,
    vector: &Vector,
    allowed: &Allowed,
    least: f32,
) -> rusqlite::Result<Vec<(i64, f32)>> {
    let mut select = connection.prepare_cached("SELECT key, vector FROM bench_memories WHERE model = ?1")?;
    let mut rows = select.query([embedder])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let key = row.get(0)?;
        if !index.allows(key, allowed) {
            continue;
        }
        let similarity = of(row.get_ref(1)?.as_blob()?, vector);
        found
            .extend(similarity.filter(|similarity| *similarity >= least).map(|similarity| (key, similarity)));
    }
    Ok(best(found))
}

/// Compares a stored vector; one of another width comes from another embedder.
fn of(bytes: &[u8], vector: &Vector) -> Option<f32> {
    let stored =
        Vector::from_bytes(bytes).filter(|stored| stored.numbers().len() == vector.numbers().len())?;
    Some(vectors::similarity(vector.numbers(), stored.numbers()))
}
