//! The index over past events: a full-text index of what was said and done, and what was used and when. A file of its own
//! beside the database, so that indexing never delays a commit. Everything in it is derived: a file that is damaged or of
//! another version is removed and made anew. Knows tables, not events.

mod query;
mod usage;

use std::path::{Path, PathBuf};

use domain::{Error, Timestamp, Usage};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};

use crate::storage_error;

pub use query::{PassageHit, PassageQuery, match_expression, search};
pub use usage::{UsageQuery, UsageSum, sums};

/// The version of the tables; a file of another version is made anew.
const VERSION: i64 = 1;

const SCHEMA: &str = "
    -- How far each session is indexed, and the model that was in use there.
    CREATE TABLE progress (
        session_key INTEGER PRIMARY KEY,
        seq         INTEGER NOT NULL,
        model       TEXT NOT NULL
    ) STRICT;
    -- What was said or done. id is the time in microseconds, moved where two have the same: the order of results.
    CREATE TABLE passages (
        id          INTEGER PRIMARY KEY,
        session_key INTEGER NOT NULL,
        seq         INTEGER NOT NULL,
        kind        INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX passages_session ON passages (session_key, seq);
    CREATE VIRTUAL TABLE passage_texts USING fts5(body, tokenize = 'unicode61 remove_diacritics 2');
    -- Reports of usage. A cost that was not reported is NULL.
    CREATE TABLE usage_reports (
        session_key INTEGER NOT NULL,
        seq         INTEGER NOT NULL,
        at          INTEGER NOT NULL,
        model       TEXT NOT NULL,
        input       INTEGER NOT NULL,
        output      INTEGER NOT NULL,
        cache_read  INTEGER NOT NULL,
        cache_write INTEGER NOT NULL,
        cost        INTEGER,
        PRIMARY KEY (session_key, seq)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX usage_reports_at ON usage_reports (at);
";

/// What a passage is. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PassageKind {
    Prompt = 1,
    Answer = 2,
    Command = 3,
    Output = 4,
}

impl PassageKind {
    fn of(number: i64) -> Option<Self> {
        [Self::Prompt, Self::Answer, Self::Command, Self::Output]
            .into_iter()
            .find(|kind| *kind as i64 == number)
    }
}

/// One piece of text of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The event at which it begins.
    pub seq: u64,
    pub at: Timestamp,
    pub kind: PassageKind,
    pub text: String,
}

/// One report of usage.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageReport {
    pub seq: u64,
    pub at: Timestamp,
    pub model: String,
    pub usage: Usage,
}

/// How far a session is indexed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexProgress {
    /// The last event that need not be read again.
    pub seq: u64,
    pub model: String,
}

/// What was found in some events of a session, written as a whole.
#[derive(Clone, Debug, Default)]
pub struct IndexWrite {
    pub session_key: i64,
    pub passages: Vec<Passage>,
    pub usage: Vec<UsageReport>,
    pub progress: IndexProgress,
}

/// The writer of the index.
pub struct HistoryIndex {
    connection: Connection,
}

/// Returns where the index of a database is.
pub fn path_of(database: &Path) -> PathBuf {
    database.with_file_name("history.db")
}

impl HistoryIndex {
    /// Opens the index; makes it anew if it is missing, damaged or of another version.
    pub fn open(path: &Path) -> Result<Self, Error> {
        match open_current(path) {
            Ok(Some(connection)) => return Ok(Self { connection }),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "the index of past events cannot be used; it is made anew"),
        }
        for suffix in ["", "-wal", "-shm"] {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            match std::fs::remove_file(&name) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(storage_error("remove its old index", &error));
                }
                _ => {}
            }
        }
        let made = create(path).map_err(|error| storage_error("make its index", &error))?;
        Ok(Self { connection: made })
    }

    /// Returns how far a session is indexed.
    pub fn progress(&self, session_key: i64) -> rusqlite::Result<IndexProgress> {
        let found = self
            .connection
            .prepare_cached("SELECT seq, model FROM progress WHERE session_key = ?1")?
            .query_row([session_key], |row| {
                Ok(IndexProgress { seq: row.get::<_, i64>(0)? as u64, model: row.get(1)? })
            })
            .optional()?;
        Ok(found.unwrap_or_default())
    }

    /// Returns how far every session is indexed.
    pub fn all_progress(&self) -> rusqlite::Result<Vec<(i64, u64)>> {
        self.connection
            .prepare_cached("SELECT session_key, seq FROM progress")?
            .query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)))?
            .collect()
    }

    /// Writes what was found in some events of a session.
    pub fn write(&mut self, write: &IndexWrite) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        for passage in &write.passages {
            let id = free_id(&transaction, passage.at)?;
            transaction
                .prepare_cached("INSERT INTO passages (id, session_key, seq, kind) VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![id, write.session_key, passage.seq as i64, passage.kind as i64])?;
            transaction
                .prepare_cached("INSERT INTO passage_texts (rowid, body) VALUES (?1, ?2)")?
                .execute(params![id, passage.text])?;
        }
        for report in &write.usage {
            let (usage, number) = (&report.usage, |value: u64| i64::try_from(value).unwrap_or(i64::MAX));
            transaction
                .prepare_cached(
                    "INSERT OR REPLACE INTO usage_reports VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                )?
                .execute(params![
                    write.session_key,
                    report.seq as i64,
                    report.at.0,
                    report.model,
                    number(usage.input_tokens),
                    number(usage.output_tokens),
                    number(usage.cache_read_tokens),
                    number(usage.cache_write_tokens),
                    (usage.cost_micro_usd > 0).then(|| number(usage.cost_micro_usd)),
                ])?;
        }
        transaction
            .prepare_cached("INSERT OR REPLACE INTO progress VALUES (?1, ?2, ?3)")?
            .execute(params![write.session_key, write.progress.seq as i64, write.progress.model])?;
        transaction.commit()
    }

    /// Removes the texts of a session; with `everything`, also what it used.
    pub fn forget(&mut self, session_key: i64, everything: bool) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        transaction
            .prepare_cached(
                "DELETE FROM passage_texts WHERE rowid IN (SELECT id FROM passages WHERE session_key = ?1)",
            )?
            .execute([session_key])?;
        transaction.prepare_cached("DELETE FROM passages WHERE session_key = ?1")?.execute([session_key])?;
        if everything {
            for table in ["usage_reports", "progress"] {
                transaction
                    .prepare_cached(&format!("DELETE FROM {table} WHERE session_key = ?1"))?
                    .execute([session_key])?;
            }
        }
        transaction.commit()
    }

    /// Returns whether texts of a session are indexed.
    pub fn has_passages(&self, session_key: i64) -> rusqlite::Result<bool> {
        self.connection
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM passages WHERE session_key = ?1)")?
            .query_row([session_key], |row| row.get(0))
    }
}

/// Opens a connection that reads the index beside its writer.
pub fn open_reader(path: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(path, flags).map_err(|error| storage_error("read its index", &error))?;
    connection
        .execute_batch("PRAGMA query_only = ON; PRAGMA mmap_size = 268435456; PRAGMA cache_size = -4096;")
        .map_err(|error| storage_error("read its index", &error))?;
    Ok(connection)
}

/// Opens an index of this version; nothing if there is none.
fn open_current(path: &Path) -> rusqlite::Result<Option<Connection>> {
    if !path.exists() {
        return Ok(None);
    }
    let connection = Connection::open(path)?;
    configure(&connection)?;
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    Ok((version == VERSION).then_some(connection))
}

fn create(path: &Path) -> rusqlite::Result<Connection> {
    use std::os::unix::fs::OpenOptionsExt as _;
    // It contains prompts: only its owner may read it, from its first byte on.
    let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    made.map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    let mut connection = Connection::open(path)?;
    configure(&connection)?;
    let transaction = connection.transaction()?;
    transaction.execute_batch(SCHEMA)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()?;
    Ok(connection)
}

/// A commit that a power failure undoes is made again from the journal.
fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = NORMAL;
         PRAGMA cache_size = -2048;
         PRAGMA journal_size_limit = 16777216;
         PRAGMA temp_store = MEMORY;",
    )
}

/// Returns the first number from a time on that no passage has.
fn free_id(connection: &Connection, at: Timestamp) -> rusqlite::Result<i64> {
    let mut id = at.0.max(1);
    let mut taken = connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM passages WHERE id = ?1)")?;
    while taken.query_row([id], |row| row.get::<_, bool>(0))? {
        id += 1;
    }
    Ok(id)
}
