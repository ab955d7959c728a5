//! The audit: what was done and refused, by whom and from where. Rows are added and never changed. Each row
//! is sealed, with a key from outside the database, over itself and all rows before it, and a signed mark
//! outside the database records how far the audit had come. A row that was changed, removed, inserted or cut
//! off at the end is therefore detected, also by the next daemon. Must be given scrubbed text only. How and
//! why: docs/decisions/0039.

mod chain;
mod entry;
mod export;
mod head_file;
mod keys;
mod mark;
mod marker;
mod start;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use domain::Error;
use rusqlite::Connection;
use tokio::sync::watch;

use crate::limits;
use crate::{Durability, Store};

pub use chain::Head;
pub use entry::{AuditEntry, AuditOutcome, Row};
pub use export::{ExportVerdict, verify_export};
use keys::Keys;
use mark::Found;
use marker::Marker;
pub use start::open;

/// The audit of this daemon. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Audit {
    store: Store,
    shared: Arc<AuditShared>,
}

/// State shared by all clones of one audit.
#[derive(Debug)]
pub struct AuditShared {
    keys: Keys,
    newest: watch::Sender<u64>,
    marker: Marker,
}

impl AuditShared {
    /// Updates the mark to the last row. Nothing is added afterwards.
    pub fn close(&self, connection: &Connection) {
        match chain::head(connection) {
            Ok(head) => self.marker.close(&self.keys, head),
            Err(error) => tracing::warn!(%error, "the audit's mark cannot be brought up to date"),
        }
    }
}

/// The result of verifying the whole audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub entries: u64,
    /// Every problem: the entry it was found at (0 if none in particular) and its description.
    pub problems: Vec<(u64, String)>,
    /// The hash of the last valid entry.
    pub head: Vec<u8>,
    /// Entries covered by the mark; those after it were written in the last moments, or before a crash.
    pub marked: u64,
    /// The key with which exports and marks are signed.
    pub public_key: Vec<u8>,
}

impl Audit {
    pub fn new(store: Store, shared: Arc<AuditShared>) -> Self {
        Self { store, shared }
    }

    /// Adds a row. Returns its number once it is safe against the daemon's death.
    pub async fn append(&self, entry: AuditEntry) -> Result<u64, Error> {
        // A call that ran a command is rarely followed soon enough by another one to share a commit. A switch
        // of threads would only add to its duration.
        let entry_is_rare = !entry.tier.is_empty();
        let shared = Arc::clone(&self.shared);
        let write = move |connection: &Connection| chain::append(connection, &shared.keys, &entry);
        let head = if entry_is_rare {
            self.store.write_here(write).await?
        } else {
            self.store.write(Durability::Soon, write).await?
        };
        let seq = u64::try_from(head.seq).unwrap_or(0);
        self.noted(Some(head));
        Ok(seq)
    }

    /// Adds rows within a caller's transaction. Pass the result to `noted` once that is committed.
    pub fn append_within(
        &self,
        connection: &Connection,
        entries: &[AuditEntry],
    ) -> rusqlite::Result<Option<Head>> {
        let mut head = None;
        for entry in entries {
            head = Some(chain::append(connection, &self.shared.keys, entry)?);
        }
        Ok(head)
    }

    /// Records that rows were committed.
    pub fn noted(&self, head: Option<Head>) {
        let Some(head) = head else { return };
        let seq = u64::try_from(head.seq).unwrap_or(0);
        Marker::note(&self.shared, head);
        self.shared.newest.send_if_modified(|newest| seq > std::mem::replace(newest, seq.max(*newest)));
    }

    /// Returns rows after a sequence number, oldest first, at most one page.
    pub async fn after(&self, seq: u64, session: Option<String>) -> Result<Vec<Row>, Error> {
        let seq = i64::try_from(seq).unwrap_or(i64::MAX);
        self.store
            .read(move |connection| {
                let (clause, session) = of_session(session);
                let sql = format!(
                    "SELECT seq, body, hash FROM audit WHERE seq > ?1 AND {clause} ORDER BY seq LIMIT {}",
                    limits::AUDIT_PAGE
                );
                let mut select = connection.prepare_cached(&sql)?;
                select.query_map(rusqlite::params![seq, session], read)?.collect()
            })
            .await
    }

    /// Returns the sequence number before the last `count` rows.
    pub async fn before_last(&self, count: u64, session: Option<String>) -> Result<u64, Error> {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let found = self.store.read(move |connection| {
            let (clause, session) = of_session(session);
            let sql = format!(
                "SELECT min(seq) FROM (SELECT seq FROM audit WHERE {clause} ORDER BY seq DESC LIMIT ?1)"
            );
            connection.query_row(&sql, rusqlite::params![count, session], |row| row.get::<_, Option<i64>>(0))
        });
        Ok(found.await?.map_or(0, |seq| u64::try_from(seq - 1).unwrap_or(0)))
    }

    /// Subscribes to the sequence number of the newest row.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.shared.newest.subscribe()
    }

    /// Recomputes every hash and seal and compares with the mark.
    pub async fn verify(&self) -> Result<Verdict, Error> {
        let shared = Arc::clone(&self.shared);
        self.store.read(move |connection| shared.verify(connection)).await
    }
}

impl AuditShared {
    /// Verifies the chain, then compares it with this daemon's newest row, the mark, the key file and the
    /// triggers.
    fn verify(&self, connection: &Connection) -> rusqlite::Result<Verdict> {
        // The mark first: rows that are added meanwhile must not look like a mismatch.
        let (found, written) = (self.marker.read(&self.keys), self.marker.newest());
        let walked = chain::walk(connection, &self.keys)?;
        let mut verdict = Verdict {
            entries: walked.entries,
            head: walked.head.hash,
            public_key: self.keys.public(),
            ..Verdict::default()
        };
        let intact = walked.broken.is_none();
        verdict.problems.extend(walked.broken);
        let mut compare = |seq: i64, mac: &[u8], who: &str| -> rusqlite::Result<()> {
            let number = u64::try_from(seq).unwrap_or(0);
            if seq > 0 && intact && chain::mac_of(connection, seq)?.as_deref() != Some(mac) {
                let what = if walked.head.seq < seq {
                    format!(
                        "the end was cut off: entries {} to {seq} are missing, says {who}",
                        walked.head.seq + 1
                    )
                } else {
                    format!("it is not the entry that {who} knows")
                };
                verdict.problems.push((number, what));
            }
            Ok(())
        };
        if let Some(head) = written {
            compare(head.seq, &head.mac, "this daemon")?;
        }
        match &found {
            Found::Mark(mark) => {
                compare(mark.seq, &keys::unhex(&mark.mac).unwrap_or_default(), "the mark")?;
                verdict.marked = u64::try_from(mark.seq).unwrap_or(0);
                let number = |breach: &mark::Breach| u64::try_from(breach.seq).unwrap_or(0);
                verdict.problems.extend(mark.breaches.iter().map(|breach| {
                    (
                        number(breach),
                        format!("found when the daemon started at {}: {}", shown(breach.at), breach.what),
                    )
                }));
            }
            Found::Missing => verdict.problems.push((0, format!("{} was deleted", mark::MARK_FILE))),
            Found::Forged => {
                let what = format!("{} was not written with this daemon's key", mark::MARK_FILE);
                verdict.problems.push((0, what));
            }
        }
        if !self.marker.has_key_file() {
            verdict.problems.push((0, format!("{} was deleted", keys::KEY_FILE)));
        }
        for trigger in chain::missing_triggers(connection)? {
            verdict
                .problems
                .push((0, format!("the trigger {trigger}, which protects the rows, was dropped")));
        }
        Ok(verdict)
    }
}

fn shown(at: domain::Timestamp) -> String {
    jiff::Timestamp::from_microsecond(at.0).map(|at| at.to_string()).unwrap_or_default()
}

fn of_session(session: Option<String>) -> (&'static str, String) {
    match session {
        Some(session) => ("session = ?2", session),
        None => ("?2 = ''", String::new()),
    }
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let seq: i64 = row.get(0)?;
    let body: String = row.get(1)?;
    Ok(Row {
        seq: u64::try_from(seq).unwrap_or(0),
        // A damaged row is shown empty; the chain reports what happened to it.
        entry: serde_json::from_str(&body).unwrap_or_default(),
        body,
        hash: row.get(2)?,
    })
}
