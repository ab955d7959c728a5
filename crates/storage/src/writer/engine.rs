//! The connection that writes: runs groups in transactions, and handles disk failures. Must not know who
//! waits for an answer.

use std::fmt::Display;
use std::sync::atomic::Ordering;
use std::time::Instant;

use domain::{Error, ErrorCode};
use rusqlite::{Connection, ffi};

use super::{LOG_SYNC_FAILED, WriteOperation};
use crate::storage_error;
use host::failpoint;

/// The connection that writes.
pub(super) struct Engine {
    connection: Connection,
    /// Whether `PRAGMA synchronous` is set to FULL.
    full: bool,
    /// The disk was slow: until then only the writer thread commits.
    pub(super) here_not_before: Instant,
    /// The disk lost data: no more writes are accepted.
    is_broken: bool,
}

impl Engine {
    pub(super) fn new(connection: Connection) -> Self {
        Self { connection, full: true, here_not_before: Instant::now(), is_broken: false }
    }

    /// Runs a group in one transaction. An operation that fails undoes only itself.
    pub(super) fn transact(
        &mut self,
        full: bool,
        group: &mut [Box<dyn WriteOperation>],
    ) -> Result<(), Error> {
        if LOG_SYNC_FAILED.swap(false, Ordering::AcqRel) {
            self.distrust_log(&"a sync for the audit's mark failed");
        }
        if self.is_broken {
            return Err(broken());
        }
        let result = self.set_full(full).and_then(|()| self.execute("BEGIN IMMEDIATE"));
        if let Err(error) = result {
            return Err(storage_error("begin a transaction", &error));
        }
        if let [only] = group {
            // A single operation needs no savepoint.
            if let Err(error) = only.run(&self.connection) {
                // Fails if SQLite has already rolled back.
                let _ = self.execute("ROLLBACK");
                return Err(storage_error("write", &error));
            }
        } else {
            for operation in group.iter_mut() {
                if let Err(error) = self.run_one(operation.as_mut()) {
                    // The whole transaction is unusable; no write in the group may be reported as done.
                    let _ = self.execute("ROLLBACK");
                    return Err(storage_error("write", &error));
                }
            }
        }
        failpoint!("commit.before");
        if let Err(error) = self.execute("COMMIT") {
            let _ = self.execute("ROLLBACK");
            if is_sync_failure(&error) {
                self.distrust_log(&error);
            }
            return Err(if self.is_broken { broken() } else { storage_error("commit", &error) });
        }
        failpoint!("commit.after");
        Ok(())
    }

    /// Handles a failed sync of the log. The kernel may have dropped what was written and report success when
    /// asked again, so the sync is not repeated. Instead the log's content is written into the database and
    /// synced there, and the log is truncated. If that fails too, no more writes are accepted.
    pub(super) fn distrust_log(&mut self, error: &dyn Display) {
        let carried = self.set_full(true).and_then(|()| {
            let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
            self.connection.query_row(checkpoint, [], |row| row.get::<_, bool>(0))
        });
        match carried {
            Ok(false) => tracing::error!(
                %error,
                "the journal's log could not be synced; what it held is in the database and synced there"
            ),
            blocked => {
                self.is_broken = true;
                tracing::error!(%error, ?blocked, "the journal cannot be synced; nothing more is accepted");
            }
        }
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }

    /// Runs one operation so that its failure undoes only itself. Fails if the transaction itself is lost.
    fn run_one(&self, operation: &mut dyn WriteOperation) -> rusqlite::Result<()> {
        self.execute("SAVEPOINT one")?;
        if operation.run(&self.connection).is_err() {
            self.execute("ROLLBACK TO one")?;
        }
        self.execute("RELEASE one")
    }

    fn set_full(&mut self, full: bool) -> rusqlite::Result<()> {
        if self.full != full {
            self.connection.execute_batch(if full {
                "PRAGMA synchronous = FULL"
            } else {
                "PRAGMA synchronous = NORMAL"
            })?;
            self.full = full;
        }
        Ok(())
    }
}

/// Returns whether an error reports a failed sync.
fn is_sync_failure(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    code.is_some_and(|code| matches!(code, ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC))
}

/// Returns the error of a store whose disk has failed.
fn broken() -> Error {
    let message = "the store takes nothing more: the disk failed to keep what was written to it; check the disk of \
                   the data folder, then restart the daemon with `obey upgrade`: agents go on meanwhile";
    Error::new(ErrorCode::StorageFailed, message)
}
