//! Records that programs keep here beside environments and hosts. Stores and bounds them; what a kind of them means is said by
//! whoever serves it, but for leases, of which one at a time holds.

mod cron;
mod device_code;
mod lease;

use domain::{Error, ErrorCode, Timestamp};
use host::{clock, ids};
use serde_json::{Map, Value};
use storage::records::{self, RecordRow};
use storage::{Durability, Store};

pub use cron::Cron;
pub use device_code::{BegunLogin, LoginState};
pub use lease::{NewLease, is_active};

pub use crate::limits::DEVICE_CODE_WAIT as LOGIN_WAIT;

use crate::limits;

/// The fields of a record.
pub type Fields = Map<String, Value>;

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    Stream,
    Command,
    Lease,
    SafetyPolicy,
    Trigger,
    /// A login that somebody has begun on a device without a browser.
    DeviceCode,
}

impl RecordKind {
    /// The word of errors and of the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Command => "command",
            Self::Lease => "lease",
            Self::SafetyPolicy => "safety policy",
            Self::Trigger => "trigger",
            Self::DeviceCode => "device code",
        }
    }
}

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub id: String,
    pub fields: Fields,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Record {
    fn read(row: RecordRow) -> Self {
        // Only this file writes bodies.
        let fields = serde_json::from_str(&row.body).unwrap_or_default();
        Self { id: row.id, fields, created_at: row.created_at, updated_at: row.updated_at }
    }

    pub fn text(&self, field: &str) -> &str {
        self.fields.get(field).and_then(Value::as_str).unwrap_or_default()
    }
}

/// The records of this daemon.
#[derive(Clone)]
pub struct Records {
    pub(crate) store: Store,
}

impl Records {
    /// Creates a record. With a `unique_key` that another record of the kind has, returns that one and false.
    pub async fn create(
        &self,
        kind: RecordKind,
        unique_key: Option<String>,
        fields: Fields,
    ) -> Result<(Record, bool), Error> {
        let row = new_row(kind, unique_key, &fields)?;
        let made = self.store.write(Durability::Synced, move |connection| {
            let key = row.unique_key.as_deref();
            if let Some(key) = key
                && let Some(other) = records::with_key(connection, &row.kind, key)?
            {
                return Ok(Ok((other, false)));
            }
            if let Err(error) = check_room(records::count(connection, &row.kind)?, kind) {
                return Ok(Err(error));
            }
            records::put(connection, &row)?;
            Ok(Ok((row, true)))
        });
        made.await?.map(|(row, is_new)| (Record::read(row), is_new))
    }

    pub async fn find(&self, kind: RecordKind, id: &str) -> Result<Record, Error> {
        let wanted = id.to_owned();
        let found =
            self.store.read(move |connection| records::find(connection, kind.name(), &wanted)).await?;
        found.map(Record::read).ok_or_else(|| not_found(kind, id))
    }

    /// Returns the record of a kind that has this key.
    pub async fn with_key(&self, kind: RecordKind, key: &str) -> Result<Option<Record>, Error> {
        let key = key.to_owned();
        let found =
            self.store.read(move |connection| records::with_key(connection, kind.name(), &key)).await?;
        Ok(found.map(Record::read))
    }

    /// Returns a page of the records of a kind, newest first.
    pub async fn list(&self, kind: RecordKind, limit: i64, offset: i64) -> Result<Vec<Record>, Error> {
        let (limit, offset) = crate::environments::page(limit, offset)?;
        let read =
            move |connection: &rusqlite::Connection| records::list(connection, kind.name(), limit, offset);
        Ok(self.store.read(read).await?.into_iter().map(Record::read).collect())
    }

    /// Returns all records of a kind, of which there are at most `RECORDS_MAX`.
    pub async fn all(&self, kind: RecordKind) -> Result<Vec<Record>, Error> {
        let read = move |connection: &rusqlite::Connection| {
            records::list(connection, kind.name(), limits::RECORDS_MAX, 0)
        };
        Ok(self.store.read(read).await?.into_iter().map(Record::read).collect())
    }

    /// Changes a record; nobody else changes it in between.
    pub async fn change(
        &self,
        kind: RecordKind,
        id: &str,
        change: impl FnOnce(&mut Record) -> Result<(), Error> + Send + 'static,
    ) -> Result<Record, Error> {
        let wanted = id.to_owned();
        let changed = self.store.write(Durability::Synced, move |connection| {
            let Some(row) = records::find(connection, kind.name(), &wanted)? else {
                return Ok(Err(not_found(kind, &wanted)));
            };
            let mut record = Record::read(row.clone());
            let checked = change(&mut record).and_then(|()| written(kind, &record.fields));
            let body = match checked {
                Ok(body) => body,
                Err(error) => return Ok(Err(error)),
            };
            let row = RecordRow { body, updated_at: clock::now(), ..row };
            records::put(connection, &row)?;
            Ok(Ok(row))
        });
        changed.await?.map(Record::read)
    }

    /// Removes a record; an unknown id is an error.
    pub async fn remove(&self, kind: RecordKind, id: &str) -> Result<(), Error> {
        let wanted = id.to_owned();
        let remove =
            move |connection: &rusqlite::Connection| records::remove(connection, kind.name(), &wanted);
        let removed = self.store.write(Durability::Synced, remove).await?;
        if removed { Ok(()) } else { Err(not_found(kind, id)) }
    }

    /// Removes the records of a kind that were created before a time.
    pub async fn remove_before(&self, kind: RecordKind, before: Timestamp) -> Result<(), Error> {
        let remove =
            move |connection: &rusqlite::Connection| records::remove_before(connection, kind.name(), before);
        self.store.write(Durability::Synced, remove).await
    }
}

/// Makes the row of a record that is new.
pub(crate) fn new_row(
    kind: RecordKind,
    unique_key: Option<String>,
    fields: &Fields,
) -> Result<RecordRow, Error> {
    let now = clock::now();
    Ok(RecordRow {
        id: ids::uuid(),
        kind: kind.name().to_owned(),
        unique_key,
        body: written(kind, fields)?,
        created_at: now,
        updated_at: now,
    })
}

/// Writes the fields of a record, which have a limit.
pub(crate) fn written(kind: RecordKind, fields: &Fields) -> Result<String, Error> {
    let body = storage::sessions::json(fields);
    let most = limits::RECORD_MAX_BYTES;
    match body.len() > most {
        true => Err(Error::invalid(kind.name(), format_args!("is longer than {most} bytes"))),
        false => Ok(body),
    }
}

pub(crate) fn check_room(count: u64, kind: RecordKind) -> Result<(), Error> {
    let most = limits::RECORDS_MAX;
    match count >= most as u64 {
        true => {
            let message =
                format!("there are {count} records of the kind {} already; remove some first", kind.name());
            Err(Error::new(ErrorCode::LimitReached, message))
        }
        false => Ok(()),
    }
}

pub(crate) fn not_found(kind: RecordKind, id: &str) -> Error {
    let shown: String = id.chars().filter(|letter| !letter.is_control()).take(64).collect();
    Error::new(ErrorCode::RecordNotFound, format!("id: there is no {} {shown:?}", kind.name()))
}

#[cfg(test)]
mod tests;
