//! Converts rows of memories to points of a Qdrant server: which rows have one, and its fields. Reads the
//! tables; sends nothing.

use std::path::Path;

use domain::{Error, ErrorCode, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Row};
use storage::{Durability, Store};

use super::super::{FADING, MONTH_US};
use crate::qdrant::{Point, PointFilterFields, fingerprint, id_of};
use crate::random;
use crate::vectors::Vector;

/// The row of `meta` that distinguishes this file's points from those of others.
const OWNER: &str = "memory_mirror";

/// The rows with a point: visible to searches, with a nonempty vector of the embedder.
macro_rules! with_point {
    () => {
        "model = ?1 AND outdated = 0 AND vector <> zeroblob(length(vector))"
    };
}

/// The current state of some rows.
#[derive(Debug, Default)]
pub(super) struct Changed {
    pub(super) there: Vec<Point>,
    pub(super) gone: Vec<u128>,
}

/// What a file contains about its points.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) owner: Option<String>,
    pub(super) memories: u64,
    /// The dimensions of their vectors, if there are any.
    pub(super) width: Option<usize>,
}

/// Returns a number that orders memories by confidence at any time. All memories decay alike, so their order
/// never changes: a server can compare this number without knowing the time.
pub(super) fn standing(confidence: f64, held_at: Timestamp) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "a few microseconds do not matter")]
    let months = held_at.0 as f64 / MONTH_US;
    confidence + FADING * months
}

/// Returns the owner id of this file's points, created on first use.
pub(super) async fn owner(store: &Store) -> Result<String, Error> {
    let name = random::name().map_err(|error| {
        Error::new(ErrorCode::StorageFailed, "the system gives no randomness").with_detail(error.to_string())
    })?;
    let chosen = name.get(..15).and_then(|name| i64::from_str_radix(name, 16).ok()).unwrap_or_default();
    store
        .write(Durability::Synced, move |connection| {
            connection
                .execute("INSERT OR IGNORE INTO meta VALUES (?1, ?2)", rusqlite::params![OWNER, chosen])?;
            Ok(known_owner(connection)?.unwrap_or_default())
        })
        .await
}

fn known_owner(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let select = "SELECT value FROM meta WHERE key = ?1";
    connection.query_row(select, [OWNER], |row| Ok(format!("{:015x}", row.get::<_, i64>(0)?))).optional()
}

/// Returns the dimensions of the embedder's vectors; `None` if there are none.
pub(super) fn width(connection: &Connection, embedder: &str) -> rusqlite::Result<Option<usize>> {
    let select = concat!("SELECT length(vector) FROM bench_memories WHERE ", with_point!(), " LIMIT 1");
    let found = connection.query_row(select, [embedder], |row| row.get::<_, i64>(0)).optional()?;
    Ok(found.and_then(|width| usize::try_from(width).ok()))
}

/// Returns how many memories have a point.
pub(super) fn count(connection: &Connection, embedder: &str) -> rusqlite::Result<u64> {
    let select = concat!("SELECT count(*) FROM bench_memories WHERE ", with_point!());
    let found = connection.query_row(select, [embedder], |row| row.get::<_, i64>(0))?;
    Ok(u64::try_from(found).unwrap_or(0))
}

/// Returns the next points after a row.
pub(super) fn page(
    connection: &Connection,
    owner: &str,
    embedder: &str,
    behind: i64,
    most: usize,
) -> rusqlite::Result<Vec<Point>> {
    let mut select = connection.prepare_cached(concat!(
        "SELECT key, id, tenant, team, project, outcome, confidence, held_at, vector FROM bench_memories WHERE ",
        with_point!(),
        " AND key > ?2 ORDER BY key LIMIT ?3"
    ))?;
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let rows = select.query_map(rusqlite::params![embedder, behind, most], |row| point(row, owner))?;
    rows.collect()
}

/// Returns the current state of rows.
pub(super) fn of_keys(
    connection: &Connection,
    owner: &str,
    embedder: &str,
    keys: &[i64],
) -> rusqlite::Result<Changed> {
    let mut select = connection.prepare_cached(concat!(
        "SELECT key, id, tenant, team, project, outcome, confidence, held_at, vector, ",
        with_point!(),
        " FROM bench_memories WHERE key = ?2"
    ))?;
    let mut changed = Changed::default();
    for key in keys {
        let mut rows = select.query(rusqlite::params![embedder, key])?;
        let Some(row) = rows.next()? else { continue };
        if row.get(9)? {
            changed.there.push(point(row, owner)?);
        } else {
            changed.gone.push(id_of(owner, &row.get::<_, String>(1)?));
        }
    }
    Ok(changed)
}

/// Reads a daemon's file.
pub(super) fn seen(path: &Path, embedder: &str) -> Result<Seen, Error> {
    if !path.exists() {
        return Ok(Seen::default());
    }
    let look = || {
        let connection = Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        if !connection.table_exists(None, "bench_memories")? {
            return Ok(Seen::default());
        }
        Ok(Seen {
            owner: known_owner(&connection)?,
            memories: count(&connection, embedder)?,
            width: width(&connection, embedder)?,
        })
    };
    look().map_err(|error: rusqlite::Error| {
        Error::new(ErrorCode::StorageFailed, "the memories cannot be counted").with_detail(error.to_string())
    })
}

/// Converts a row to a point. Texts are sent as fingerprints only.
fn point(row: &Row<'_>, owner: &str) -> rusqlite::Result<Point> {
    let text = |at| Ok::<_, rusqlite::Error>(fingerprint(row.get_ref(at)?.as_str()?));
    let vector = Vector::from_bytes(row.get_ref(8)?.as_blob()?);
    let numbers = vector.iter().flat_map(|vector| vector.numbers()).map(|number| f32::from(*number));
    Ok(Point {
        id: id_of(owner, row.get_ref(1)?.as_str()?),
        key: row.get(0)?,
        vector: numbers.collect(),
        marks: PointFilterFields {
            store: owner.to_owned(),
            tenant: text(2)?,
            team: text(3)?,
            project: text(4)?,
            outcome: text(5)?,
            standing: standing(row.get(6)?, Timestamp(row.get(7)?)),
        },
    })
}
