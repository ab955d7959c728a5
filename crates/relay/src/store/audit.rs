//! What was done to the relay: who joined, was removed, renewed, refused. In the relay's file, within bounds; no call and no content.

use domain::{Error, Timestamp};
use host::clock;
use rusqlite::params;

use super::{Store, failed};
use crate::limits;

/// One thing that was done, or refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayAuditEntry {
    pub at: Timestamp,
    /// Such as `machine_joined`.
    pub event: String,
    /// The machine, user or relay that it was about, by name or id.
    pub subject: String,
    pub detail: String,
}

impl Store {
    /// Notes something that was done. What cannot be noted is logged: the relay goes on.
    pub(crate) fn note(&self, event: &str, subject: &str, detail: &str) {
        let db = self.locked();
        let write = || -> rusqlite::Result<()> {
            db.execute(
                "INSERT INTO audit (at, event, subject, detail) VALUES (?1, ?2, ?3, ?4)",
                params![clock::now().0, event, subject, detail],
            )?;
            db.execute("DELETE FROM audit WHERE id <= last_insert_rowid() - ?1", [limits::AUDIT_MAX])?;
            Ok(())
        };
        if let Err(error) = write() {
            tracing::warn!(%error, event, subject, "what was done cannot be noted");
        }
    }

    /// Returns what was done, the latest first.
    pub(crate) fn audit(&self, limit: u32) -> Result<Vec<RelayAuditEntry>, Error> {
        let db = self.locked();
        let read = || -> rusqlite::Result<Vec<RelayAuditEntry>> {
            let mut statement =
                db.prepare("SELECT at, event, subject, detail FROM audit ORDER BY id DESC LIMIT ?1")?;
            let rows = statement.query_map([limit], |row| {
                Ok(RelayAuditEntry {
                    at: Timestamp(row.get(0)?),
                    event: row.get(1)?,
                    subject: row.get(2)?,
                    detail: row.get(3)?,
                })
            })?;
            rows.collect()
        };
        read().map_err(|error| failed(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_kept_within_bounds_the_latest_first() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("relay.db")).unwrap();
        store.note("machine_joined", "first", "");
        // As if so many had been noted since.
        let sql = "UPDATE sqlite_sequence SET seq = ?1 WHERE name = 'audit'";
        store.locked().execute(sql, [limits::AUDIT_MAX - 1]).unwrap();
        store.note("machine_joined", "second", "");
        let subjects =
            || store.audit(10).unwrap().into_iter().map(|entry| entry.subject).collect::<Vec<String>>();
        assert_eq!(subjects(), ["second", "first"]);
        store.note("machine_joined", "third", "");
        assert_eq!(subjects(), ["third", "second"], "the oldest goes");
        assert_eq!(store.audit(1).unwrap().len(), 1);
    }
}
