//! The one SQLite file, and the audit in it. A single writer thread commits in groups; readers use their own
//! connections. Knows tables, not rules: the actors and the supervisor decide what is written.

pub mod audit;
pub mod campaigns;
mod check;
pub mod client_keys;
pub mod environments;
pub mod history;
pub mod limits;
mod open;
pub mod orchestrations;
pub mod records;
pub mod sessions;
pub mod shared_budgets;
pub mod workers;
pub mod worktrees;
mod writer;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use domain::{Error, ErrorCode};
use host::metric;
use rusqlite::Connection;

pub use check::check_file;
pub use sessions::{SessionRow, SessionWrite, SpoolMark};
pub use writer::Durability;

use crate::audit::Audit;

/// The store; clones share one file and one writer.
#[derive(Clone)]
pub struct Store {
    shared: Arc<StoreShared>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.shared.path).finish_non_exhaustive()
    }
}

struct StoreShared {
    path: PathBuf,
    writer: writer::Writer,
    readers: Mutex<Vec<Connection>>,
    audit: Arc<audit::AuditShared>,
}

impl Store {
    /// Opens the file, creates it if it is missing, and migrates an older one. A file of a newer version is
    /// refused untouched (OBEY-1011).
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut connection = open::open(path)?;
        let audit = audit::open(&mut connection, path)?;
        let writer = writer::Writer::start(connection, open::open_sweeper(path)?, path)?;
        let (path, readers) = (path.to_owned(), Mutex::new(Vec::new()));
        Ok(Self { shared: Arc::new(StoreShared { path, writer, readers, audit }) })
    }

    /// Runs `write` in a transaction of the writer and returns once it is as durable as asked. Several writes
    /// share one transaction; one that fails undoes only itself.
    pub async fn write<T, F>(&self, durability: Durability, write: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.shared.writer.run(durability, write).await
    }

    /// Like `write` with [`Durability::Soon`], but on the calling thread if no other write is in progress.
    /// For a few rows only ([`limits::HERE_EVENTS_MAX`]): it must not take longer than a switch of threads
    /// would.
    pub async fn write_here<T, F>(&self, write: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.shared.writer.run_here(write).await
    }

    /// Writes one step of a session and its audit entries: both or neither.
    pub async fn write_session(&self, durability: Durability, write: Arc<SessionWrite>) -> Result<(), Error> {
        let (audit, writer) = (self.audit(), self.audit());
        let (events, bytes) = size_of(&write);
        let head = self.write(durability, move |connection| step(connection, &write, &writer)).await?;
        audit.noted(head);
        count_events(events, bytes);
        Ok(())
    }

    /// Like `write_session`, but through `write_here`.
    pub async fn write_session_here(&self, write: Arc<SessionWrite>) -> Result<(), Error> {
        let (audit, writer) = (self.audit(), self.audit());
        let (events, bytes) = size_of(&write);
        let head = self.write_here(move |connection| step(connection, &write, &writer)).await?;
        audit.noted(head);
        count_events(events, bytes);
        Ok(())
    }

    /// Runs `read` on a read-only connection, off the async threads.
    pub async fn read<T, F>(&self, read: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let shared = Arc::clone(&self.shared);
        tokio::task::spawn_blocking(move || shared.read_now(read))
            .await
            .map_err(|error| storage_error("read", &error))?
    }

    /// Like `read`, on the calling thread; for start-up and tests.
    pub fn read_now<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        self.shared.read_now(read)
    }

    /// Commits pending writes and closes the writer. Later writes fail.
    pub fn close(&self) {
        self.shared.writer.close();
        let marked = self.read_now(|connection| {
            self.shared.audit.close(connection);
            Ok(())
        });
        if let Err(error) = marked {
            tracing::warn!(%error, "the audit's mark cannot be brought up to date");
        }
    }

    /// Returns how many writes wait for the writer.
    pub fn queue_depth(&self) -> usize {
        self.shared.writer.depth()
    }

    /// Returns where the file is.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Returns the audit, whose rows are in this file.
    pub fn audit(&self) -> Audit {
        Audit::new(self.clone(), Arc::clone(&self.shared.audit))
    }
}

/// Returns the number of a write's events, and their bytes.
fn size_of(write: &SessionWrite) -> (usize, usize) {
    (write.events.len(), write.events.iter().map(|event| event.body.len()).sum())
}

fn count_events(events: usize, bytes: usize) {
    metric::events_stored(events as u64);
    metric::event_bytes_stored(bytes as u64);
}

fn step(
    connection: &Connection,
    write: &SessionWrite,
    audit: &Audit,
) -> rusqlite::Result<Option<audit::Head>> {
    sessions::write(connection, write)?;
    audit.append_within(connection, &write.audit)
}

impl StoreShared {
    fn read_now<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        let idle = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => open::open_reader(&self.path)?,
        };
        let result = read(&connection).map_err(|error| storage_error("read", &error));
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.len() < limits::READERS_MAX {
            readers.push(connection);
        }
        result
    }
}

/// Returns the error of a failed operation; SQLite's message goes to the log.
pub fn storage_error(what: &str, error: &dyn std::fmt::Display) -> Error {
    let text = error.to_string();
    // The exact messages of SQLite and of the system; a path may contain any other words.
    let remedy = if text.contains("database or disk is full") || text.contains("No space left on device") {
        "the disk is full; free some space, nothing that was accepted is lost"
    } else {
        "see the daemon's log; `obey doctor` checks the data folder"
    };
    Error::new(ErrorCode::StorageFailed, format!("the store could not {what}: {remedy}")).with_detail(text)
}
