//! What the routes of all kinds of records share: lists, one record, removal, and how a record is written.

use axum::response::Response;
use domain::Error;
use http::{StatusCode, Uri};
use runtime::records::{Fields, Record, RecordKind};
use serde_json::{Value, json};

use super::{Roz, page, respond, time};
use crate::from_wire;

pub(super) async fn list(roz: Roz, uri: Uri, kind: RecordKind) -> Response {
    let listed = async {
        let (limit, offset) = page(&uri, &[])?;
        let found = roz.supervisor.environments().records().list(kind, limit, offset).await?;
        Ok((StatusCode::OK, Some(found.iter().map(shown).collect())))
    };
    respond(listed.await)
}

pub(super) async fn show(roz: Roz, id: String, kind: RecordKind) -> Response {
    let found = async {
        from_wire::uuid("id", &id)?;
        let found = roz.supervisor.environments().records().find(kind, &id).await?;
        Ok((StatusCode::OK, Some(shown(&found))))
    };
    respond(found.await)
}

pub(super) async fn remove(roz: Roz, id: String, kind: RecordKind) -> Response {
    let removed = async {
        from_wire::uuid("id", &id)?;
        roz.supervisor.environments().records().remove(kind, &id).await?;
        Ok((StatusCode::NO_CONTENT, None))
    };
    respond(removed.await)
}

/// Returns a record as JSON. Times are kept in microseconds as `…_us`, and written as all others.
pub(super) fn shown(record: &Record) -> Value {
    let mut shown = serde_json::Map::new();
    shown.insert("id".to_owned(), json!(record.id));
    for (name, value) in &record.fields {
        match (name.strip_suffix("_us"), value.as_i64()) {
            (Some(name), Some(at)) => shown.insert(name.to_owned(), time(domain::Timestamp(at))),
            _ => shown.insert(name.clone(), value.clone()),
        };
    }
    shown.insert("created_at".to_owned(), time(record.created_at));
    shown.insert("updated_at".to_owned(), time(record.updated_at));
    Value::Object(shown)
}

/// Collects the fields of a record.
pub(super) fn fields<const N: usize>(pairs: [(&str, Value); N]) -> Fields {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Checks a text that somebody has to be able to read.
pub(super) fn named(field: &str, text: &str) -> Result<(), Error> {
    let most = crate::limits::RECORD_NAME_MAX_BYTES;
    if text.trim().is_empty() || text.len() > most || text.chars().any(char::is_control) {
        return Err(Error::invalid(
            field,
            format_args!("is required, and has at most {most} bytes without control characters"),
        ));
    }
    Ok(())
}

/// Sets the members that a request gives.
pub(super) fn set<const N: usize>(record: &mut Record, pairs: [(&str, Option<Value>); N]) {
    for (name, value) in pairs {
        if let Some(value) = value {
            record.fields.insert(name.to_owned(), value);
        }
    }
}
