//! Leases: who may use a resource of a host, one holder at a time, until it is released or its time is over.

use std::time::Duration;

use domain::{Error, ErrorCode, Timestamp};
use host::clock;
use serde_json::{Value, json};
use storage::Durability;
use storage::records::{self, RecordRow};

use super::{Fields, Record, RecordKind, Records, check_room, new_row, not_found, written};

const KIND: RecordKind = RecordKind::Lease;

/// A lease that somebody asks for.
#[derive(Clone, Debug)]
pub struct NewLease {
    pub host_id: String,
    pub resource: String,
    pub holder_id: String,
    pub ttl: Duration,
}

/// Whether a lease holds at a time.
pub fn is_active(lease: &Record, now: Timestamp) -> bool {
    let ends = lease.fields.get("expires_at_us").and_then(Value::as_i64).unwrap_or_default();
    lease.fields.get("released_at_us").is_none_or(Value::is_null) && now.0 < ends
}

impl Records {
    /// Gives a resource to a holder, and again to the one who has it; refused while another one has it.
    pub async fn acquire(&self, new: NewLease) -> Result<Record, Error> {
        let key = format!("{}\n{}", new.host_id, new.resource);
        let acquired = self.store.write(Durability::Synced, move |connection| {
            let now = clock::now();
            let known = records::with_key(connection, KIND.name(), &key)?;
            let fields = fields(&new, now.after(new.ttl));
            let known = match known.map(|row| (Record::read(row.clone()), row)) {
                Some((lease, row)) if is_active(&lease, now) => {
                    if lease.text("holder_id") != new.holder_id {
                        return Ok(Err(taken(&lease, &new)));
                    }
                    Some(RecordRow { updated_at: now, ..row })
                }
                // Its time is over: it stays as a record of the past.
                Some((_, row)) => {
                    records::put(connection, &RecordRow { unique_key: None, ..row })?;
                    None
                }
                None => None,
            };
            let row = match known {
                Some(row) => written(KIND, &fields).map(|body| RecordRow { body, ..row }),
                None => check_room(records::count(connection, KIND.name())?, KIND)
                    .and_then(|()| new_row(KIND, Some(key), &fields)),
            };
            let row = match row {
                Ok(row) => row,
                Err(error) => return Ok(Err(error)),
            };
            records::put(connection, &row)?;
            Ok(Ok(row))
        });
        acquired.await?.map(Record::read)
    }

    /// Ends a lease; one that has ended stays as it is.
    pub async fn release(&self, id: &str) -> Result<Record, Error> {
        let wanted = id.to_owned();
        let released = self.store.write(Durability::Synced, move |connection| {
            let Some(row) = records::find(connection, KIND.name(), &wanted)? else {
                return Ok(Err(not_found(KIND, &wanted)));
            };
            let now = clock::now();
            let mut lease = Record::read(row.clone());
            if !is_active(&lease, now) {
                return Ok(Ok(row));
            }
            lease.fields.insert("released_at_us".to_owned(), json!(now.0));
            let body = storage::sessions::json(&lease.fields);
            let row = RecordRow { unique_key: None, body, updated_at: now, ..row };
            records::put(connection, &row)?;
            Ok(Ok(row))
        });
        released.await?.map(Record::read)
    }
}

fn fields(new: &NewLease, expires_at: Timestamp) -> Fields {
    let mut fields = Fields::new();
    fields.insert("host_id".to_owned(), json!(new.host_id));
    fields.insert("resource".to_owned(), json!(new.resource));
    fields.insert("holder_id".to_owned(), json!(new.holder_id));
    fields.insert("expires_at_us".to_owned(), json!(expires_at.0));
    fields
}

fn taken(lease: &Record, new: &NewLease) -> Error {
    let message = format!(
        "resource: {:?} of this host is held by {:?} until its lease {} ends or is released",
        new.resource,
        lease.text("holder_id"),
        lease.id
    );
    Error::new(ErrorCode::WrongState, message)
}
