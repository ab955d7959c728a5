//! Lookups in sessions and journals that only single features need: names, copies for forks, requests for suggestions.

use domain::{EventKind, SessionId};
use rusqlite::{Connection, OptionalExtension, params};

use super::row_id;
use crate::limits;

/// Returns a session that has not ended and has this name, other than `except`.
pub fn named(connection: &Connection, name: &str, except: &SessionId) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached(
            "SELECT id FROM session_records
             WHERE status NOT IN ('STOPPED', 'FAILED') AND json_extract(state, '$.name') = ?1 AND id <> ?2 LIMIT 1",
        )?
        .query_row([name, except.as_str()], |row| row.get(0))
        .optional()
}

/// Copies the events of a session up to a sequence number to another one, which has none yet.
pub fn copy_events(connection: &Connection, from: i64, to: i64, last: u64) -> rusqlite::Result<()> {
    let (base, target) = (row_id(from, 0)?, row_id(to, 0)?);
    connection
        .prepare_cached(
            "INSERT INTO journal (id, at, body)
             SELECT id - ?1 + ?2, at, body FROM journal WHERE id > ?1 AND id <= ?3",
        )?
        .execute([base, target, row_id(from, last)?])?;
    Ok(())
}

/// Returns the request events of a session in order: only the newest ones, and none that are too large.
pub fn request_events(connection: &Connection, session: &SessionId) -> rusqlite::Result<Vec<EventKind>> {
    let mut select = connection.prepare_cached(
        "SELECT body FROM (
             SELECT id, body FROM journal, (SELECT key FROM session_records WHERE id = ?1) AS session
             WHERE id BETWEEN session.key << 32 AND (session.key + 1) << 32
               AND substr(body, 1, 17) = '{\"type\":\"request_' AND length(body) <= ?2
             ORDER BY id DESC LIMIT ?3
         ) ORDER BY id",
    )?;
    let limits = (limits::SUGGEST_EVENT_MAX_BYTES, limits::SUGGEST_EVENTS_MAX);
    let rows =
        select.query_map(params![session.as_str(), limits.0, limits.1], |row| row.get::<_, String>(0))?;
    let mut events = Vec::new();
    for body in rows {
        // An event kind of a newer version is skipped here.
        events.extend(serde_json::from_str::<EventKind>(&body?).ok());
    }
    Ok(events)
}
