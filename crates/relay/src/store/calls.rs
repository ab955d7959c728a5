//! Calls that wait for a machine, in the order in which they are delivered.

use domain::Error;
use host::clock;
use rusqlite::{OptionalExtension as _, params};

use super::{Store, failed};
use crate::limits;

/// A call that waits for a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WaitingCall {
    pub(crate) id: i64,
    /// Names it for the machine, which executes it once.
    pub(crate) delivery_id: String,
    pub(crate) path: String,
    pub(crate) head: Vec<u8>,
    pub(crate) body: Vec<u8>,
    pub(crate) user: String,
}

/// What became of a call that was to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    New,
    /// The same call waits already.
    Before,
    /// There is no room for so many.
    Full,
    /// There is no room for so much.
    TooMuch,
}

impl Store {
    /// Keeps a call for a machine.
    pub(crate) fn keep_call(
        &self,
        machine_id: &str,
        priority: i64,
        call: &WaitingCall,
    ) -> Result<Kept, Error> {
        let expires_at = clock::now().after(limits::BUFFERED_LIFE);
        let db = self.locked();
        let work = || -> rusqlite::Result<Kept> {
            let waits: i64 = db.query_row(
                "SELECT count(*) FROM buffered_calls WHERE machine_id = ?1 AND delivery_id = ?2",
                params![machine_id, call.delivery_id],
                |row| row.get(0),
            )?;
            if waits > 0 {
                return Ok(Kept::Before);
            }
            let (count, bytes): (i64, i64) = db.query_row(
                "SELECT count(*), coalesce(sum(length(body) + length(head)), 0) FROM buffered_calls
                 WHERE machine_id = ?1 AND expires_at > ?2",
                params![machine_id, clock::now().0],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            if usize::try_from(count).unwrap_or(usize::MAX) >= limits::BUFFERED_MAX {
                return Ok(Kept::Full);
            }
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            if bytes.saturating_add(call.body.len()).saturating_add(call.head.len())
                > limits::BUFFERED_BYTES_MAX
                || file_bytes(&db)? > limits::FILE_BYTES_MAX
            {
                return Ok(Kept::TooMuch);
            }
            db.execute(
                "INSERT INTO buffered_calls (machine_id, delivery_id, priority, path, head, body, user, expires_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![
                    machine_id,
                    call.delivery_id,
                    priority,
                    call.path,
                    call.head,
                    call.body,
                    call.user,
                    expires_at.0
                ],
            )?;
            Ok(Kept::New)
        };
        work().map_err(|error| failed(&error))
    }

    /// Returns the call that is delivered next, and how many have expired unseen.
    pub(crate) fn next_call(&self, machine_id: &str) -> Result<(Option<WaitingCall>, usize), Error> {
        let db = self.locked();
        let expired = db
            .execute("DELETE FROM buffered_calls WHERE expires_at <= ?1", [clock::now().0])
            .map_err(|error| failed(&error))?;
        let found = db.query_row(
            "SELECT id, delivery_id, path, head, body, user FROM buffered_calls WHERE machine_id = ?1
             ORDER BY priority, id LIMIT 1",
            [machine_id],
            |row| {
                Ok(WaitingCall {
                    id: row.get(0)?,
                    delivery_id: row.get(1)?,
                    path: row.get(2)?,
                    head: row.get(3)?,
                    body: row.get(4)?,
                    user: row.get(5)?,
                })
            },
        );
        Ok((found.optional().map_err(|error| failed(&error))?, expired))
    }

    /// Forgets a call that was answered.
    pub(crate) fn drop_call(&self, id: i64) -> Result<(), Error> {
        let done = self.locked().execute("DELETE FROM buffered_calls WHERE id = ?1", [id]);
        done.map(drop).map_err(|error| failed(&error))
    }

    /// Returns how many calls wait for a machine.
    pub(crate) fn waiting(&self, machine_id: &str) -> Result<usize, Error> {
        let count: rusqlite::Result<i64> = self.locked().query_row(
            "SELECT count(*) FROM buffered_calls WHERE machine_id = ?1 AND expires_at > ?2",
            params![machine_id, clock::now().0],
            |row| row.get(0),
        );
        count.map(|count| usize::try_from(count).unwrap_or(0)).map_err(|error| failed(&error))
    }
}

/// Returns how large the file is, without what is free in it.
fn file_bytes(db: &rusqlite::Connection) -> rusqlite::Result<u64> {
    let number = |name: &str| db.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
    let pages = number("page_count")? - number("freelist_count")?;
    Ok(u64::try_from(pages * number("page_size")?).unwrap_or(0))
}
