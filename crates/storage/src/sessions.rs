//! Rows of sessions, their journal and their outbox.

mod lookups;

pub use lookups::{copy_events, named, request_events};

use std::sync::Arc;

use domain::shared_budget::SpendingChange;
use domain::{Event, EventKind, SessionId, SessionSpec, State, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::audit::AuditEntry;
use crate::client_keys::{self, KeptKey};
use crate::limits;
use crate::shared_budgets;
use crate::workers;

/// How far the spool of a session's agent was read, together with the part of an unfinished line read so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpoolMark {
    pub segment: u32,
    pub offset: u64,
    pub carry: Vec<u8>,
}

/// A stored session.
#[derive(Clone, Debug)]
pub struct SessionRow {
    pub key: i64,
    pub last_seq: u64,
    pub spec: SessionSpec,
    pub state: State,
    pub run: u64,
    pub codec: String,
    pub spool: SpoolMark,
    pub next_write_id: u64,
    /// The time of the newest event that somebody has looked at.
    pub seen_at: Option<Timestamp>,
}

/// An event ready to be stored: its sequence number, time and JSON.
#[derive(Clone)]
pub struct StoredEvent {
    pub seq: u64,
    pub at: Timestamp,
    pub body: String,
}

/// Everything that changes in one step of a session; written as a whole or not at all.
#[derive(Default)]
pub struct SessionWrite {
    pub key: i64,
    pub events: Vec<StoredEvent>,
    pub last_seq: u64,
    pub last_activity_at: Option<Timestamp>,
    /// The whole changed state; `None` if only the journal grew.
    pub state: Option<Box<StateColumns>>,
    pub spool: Option<SpoolMark>,
    pub codec: Option<String>,
    /// Input for the agent, in order.
    pub outbox: Vec<(u64, Vec<u8>)>,
    /// Every input up to this one is known to have reached the agent.
    pub applied: Option<u64>,
    /// The client's key of the command that this step carries out.
    pub client_key: Option<KeptKey>,
    /// What the session spent in this step, for the budgets it shares.
    pub spending: Vec<SpendingChange>,
    /// The audit entries of this step.
    pub audit: Vec<AuditEntry>,
}

impl SessionWrite {
    /// Returns whether it is small enough to be written by its caller.
    pub fn is_small(&self) -> bool {
        let carried = self.spool.as_ref().map_or(0, |mark| mark.carry.len());
        let said = self.events.iter().map(|event| event.body.len()).sum::<usize>();
        let told = self.outbox.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        self.events.len() <= limits::HERE_EVENTS_MAX && said + told + carried <= limits::HERE_BYTES_MAX
    }
}

/// The columns derived from spec and state.
pub struct StateColumns {
    pub status: &'static str,
    pub ended_at: Option<Timestamp>,
    pub spec: String,
    pub state: String,
    pub run: u64,
    pub next_write_id: u64,
}

impl StateColumns {
    /// Returns the columns of a session.
    pub fn of(spec: &SessionSpec, state: &State, run: u64, next_write_id: u64) -> Self {
        Self {
            status: state.status.name(),
            ended_at: state.ended_at,
            spec: json(spec),
            state: json(state),
            run,
            next_write_id,
        }
    }
}

/// Serialises one of our own types. This cannot fail: no map has keys that are not strings.
pub fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
}

/// Inserts a session without events and returns its key.
pub fn insert(connection: &Connection, spec: &SessionSpec, state: &State) -> rusqlite::Result<i64> {
    connection.execute(
        "INSERT INTO session_records (id, campaign_id, provider, status, created_at, parent_session_id, last_seq,
                                     spec, state)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, ?8)",
        params![
            spec.id.as_str(),
            spec.campaign_id.as_ref().map(|id| id.as_str()),
            spec.provider.name(),
            state.status.name(),
            spec.created_at.0,
            spec.parent.as_ref().map(SessionId::as_str),
            // A folder's name need not be UTF-8; such a session could never be read back.
            serde_json::to_string(spec).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?,
            json(state),
        ],
    )?;
    Ok(connection.last_insert_rowid())
}

/// Returns the sessions of a provider by the agent's own id of their conversation. The newest wins.
pub fn native_sessions(
    connection: &Connection,
    provider: &str,
) -> rusqlite::Result<std::collections::HashMap<String, String>> {
    connection
        .prepare_cached(
            "SELECT json_extract(state, '$.native_session'), id FROM session_records
             WHERE provider = ?1 AND json_extract(state, '$.native_session') <> '' ORDER BY key",
        )?
        .query_map([provider], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// Writes one step of a session.
pub fn write(connection: &Connection, write: &SessionWrite) -> rusqlite::Result<()> {
    if !write.events.is_empty() {
        let mut insert =
            connection.prepare_cached("INSERT INTO journal (id, at, body) VALUES (?1, ?2, ?3)")?;
        for event in &write.events {
            insert.execute(params![row_id(write.key, event.seq)?, event.at.0, event.body])?;
        }
    }
    match &write.state {
        Some(columns) => connection
            .prepare_cached(
                "UPDATE session_records SET last_seq = ?2, last_activity_at = ?3, status = ?4, ended_at = ?5,
                        spec = ?6, state = ?7, run = ?8, next_write_id = ?9 WHERE key = ?1",
            )?
            .execute(params![
                write.key,
                write.last_seq as i64,
                write.last_activity_at.map(|at| at.0),
                columns.status,
                columns.ended_at.map(|at| at.0),
                columns.spec,
                columns.state,
                columns.run as i64,
                columns.next_write_id as i64,
            ])?,
        None => connection
            .prepare_cached(
                "UPDATE session_records SET last_seq = ?2, last_activity_at = ?3,
                        spool_segment = coalesce(?4, spool_segment), spool_offset = coalesce(?5, spool_offset),
                        spool_carry = coalesce(?6, spool_carry) WHERE key = ?1",
            )?
            .execute(params![
                write.key,
                write.last_seq as i64,
                write.last_activity_at.map(|at| at.0),
                write.spool.as_ref().map(|mark| mark.segment),
                write.spool.as_ref().map(|mark| mark.offset as i64),
                write.spool.as_ref().map(|mark| &mark.carry),
            ])?,
    };
    if let Some(kept) = &write.client_key {
        client_keys::keep(connection, kept)?;
    }
    write.spending.iter().try_for_each(|change| shared_budgets::add_spending(connection, change))?;
    write_agent_side(connection, write)
}

/// Writes the spool position, the codec state and the outbox of a step.
fn write_agent_side(connection: &Connection, write: &SessionWrite) -> rusqlite::Result<()> {
    // Without a change of state it was already written above, in one statement: output is the most frequent
    // write of all.
    if let (Some(_), Some(mark)) = (&write.state, &write.spool) {
        connection
            .prepare_cached(
                "UPDATE session_records SET spool_segment = ?2, spool_offset = ?3, spool_carry = ?4 WHERE key = ?1",
            )?
            .execute(params![write.key, mark.segment, mark.offset as i64, mark.carry])?;
    }
    if let Some(codec) = &write.codec {
        connection
            .prepare_cached("UPDATE session_records SET codec = ?2 WHERE key = ?1")?
            .execute(params![write.key, codec])?;
    }
    for (write_id, bytes) in &write.outbox {
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO outbox (session_key, write_id, bytes) VALUES (?1, ?2, ?3)",
            )?
            .execute(params![write.key, *write_id as i64, bytes])?;
    }
    if let Some(applied) = write.applied {
        connection
            .prepare_cached("DELETE FROM outbox WHERE session_key = ?1 AND write_id <= ?2")?
            .execute(params![write.key, applied as i64])?;
    }
    Ok(())
}

/// Returns the input that was accepted for an agent and may not have reached it, in order.
pub fn outbox(connection: &Connection, key: i64) -> rusqlite::Result<Vec<(u64, Vec<u8>)>> {
    connection
        .prepare_cached("SELECT write_id, bytes FROM outbox WHERE session_key = ?1 ORDER BY write_id")?
        .query_map([key], |row| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?)))?
        .collect()
}

/// Returns a stored session.
pub fn find(connection: &Connection, id: &SessionId) -> rusqlite::Result<Option<SessionRow>> {
    connection
        .prepare_cached(&format!("{SELECT} WHERE id = ?1"))?
        .query_row([id.as_str()], session_row)
        .optional()
}

/// Filters a list of sessions. The default lists everything that has neither ended nor is about to end, and is not
/// archived.
#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    pub campaign_id: Option<String>,
    pub statuses: Vec<String>,
    pub provider: Option<String>,
    pub include_ended: bool,
}

/// Returns the sessions that match a filter, oldest first.
pub fn list(connection: &Connection, filter: &SessionFilter) -> rusqlite::Result<Vec<SessionRow>> {
    let statuses = if filter.statuses.is_empty() { None } else { Some(json(&filter.statuses)) };
    connection
        .prepare_cached(&format!(
            "{SELECT} WHERE (?1 IS NULL OR campaign_id = ?1) AND (?2 IS NULL OR provider = ?2)
               AND (?3 IS NULL OR status IN (SELECT value FROM json_each(?3)))
               AND (?4 OR ?3 IS NOT NULL OR status NOT IN ('STOPPING', 'STOPPED', 'FAILED'))
               AND (?4 OR coalesce(json_extract(state, '$.archived'), 0) = 0)
             ORDER BY key"
        ))?
        .query_map(params![filter.campaign_id, filter.provider, statuses, filter.include_ended], session_row)?
        .filter_map(readable)
        .collect()
}

/// Selects a page of all sessions, most recently used first.
#[derive(Clone, Debug, Default)]
pub struct SessionPage {
    /// Exactly this folder.
    pub working_dir: Option<String>,
    /// This folder or any folder below it.
    pub below: Option<String>,
    pub limit: usize,
    pub offset: usize,
}

/// Returns one page, and the total number of sessions.
pub fn page(connection: &Connection, page: &SessionPage) -> rusqlite::Result<(Vec<SessionRow>, u64)> {
    const WHERE: &str = "WHERE (?1 IS NULL OR json_extract(spec, '$.working_dir') = ?1)
        AND (?2 IS NULL OR json_extract(spec, '$.working_dir') = ?2
             OR substr(json_extract(spec, '$.working_dir'), 1, length(?2) + 1) = ?2 || '/')";
    let total = connection
        .prepare_cached(&format!("SELECT count(*) FROM session_records {WHERE}"))?
        .query_row(params![page.working_dir, page.below], |row| row.get::<_, i64>(0))?;
    let rows = connection
        .prepare_cached(&format!(
            "{SELECT} {WHERE} ORDER BY max(coalesce(last_activity_at, 0), created_at) DESC, key DESC
             LIMIT ?3 OFFSET ?4"
        ))?
        .query_map(params![page.working_dir, page.below, page.limit as i64, page.offset as i64], session_row)?
        .filter_map(readable)
        .collect::<rusqlite::Result<_>>()?;
    Ok((rows, total as u64))
}

/// Removes a session and everything about it. Its key is never reused, since readers of the old journal may
/// still exist.
pub fn remove(connection: &Connection, id: &SessionId) -> rusqlite::Result<bool> {
    let key: Option<i64> = connection
        .prepare_cached("SELECT key FROM session_records WHERE id = ?1")?
        .query_row([id.as_str()], |row| row.get(0))
        .optional()?;
    let Some(key) = key else { return Ok(false) };
    connection
        .prepare_cached("DELETE FROM journal WHERE id BETWEEN ?1 AND ?2")?
        .execute([row_id(key, 0)?, row_id(key, SEQ_MAX)?])?;
    client_keys::forget(connection, id.as_str())?;
    workers::forget(connection, id.as_str())?;
    connection.prepare_cached("DELETE FROM outbox WHERE session_key = ?1")?.execute([key])?;
    connection.prepare_cached("DELETE FROM turn_trees WHERE session = ?1")?.execute([id.as_str()])?;
    connection.prepare_cached("DELETE FROM session_records WHERE key = ?1")?.execute([key])?;
    Ok(true)
}

/// Returns the epoch of the newest daemon that has served this store.
pub fn epoch(connection: &Connection) -> rusqlite::Result<u64> {
    connection
        .prepare_cached("SELECT value FROM meta WHERE key = 'epoch'")?
        .query_row([], |row| row.get::<_, i64>(0))
        .map(|epoch| epoch as u64)
}

/// Returns the sessions that had not ended when they were last written.
pub fn live(connection: &Connection) -> rusqlite::Result<Vec<SessionRow>> {
    connection
        .prepare_cached(&format!("{SELECT} WHERE status NOT IN ('STOPPED', 'FAILED') ORDER BY key"))?
        .query_map([], session_row)?
        .filter_map(readable)
        .collect()
}

/// Returns every session that has not ended and the newest of the others, oldest first.
pub fn overview(connection: &Connection, ended_max: usize) -> rusqlite::Result<Vec<SessionRow>> {
    connection
        .prepare_cached(&format!(
            "{SELECT} WHERE status NOT IN ('STOPPED', 'FAILED') OR key IN (
                 SELECT key FROM session_records WHERE status IN ('STOPPED', 'FAILED')
                 ORDER BY coalesce(ended_at, created_at) DESC LIMIT ?1)
             ORDER BY key"
        ))?
        .query_map([ended_max as i64], session_row)?
        .filter_map(readable)
        .collect()
}

/// Returns the ids of all sessions.
pub fn ids(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    connection.prepare_cached("SELECT id FROM session_records")?.query_map([], |row| row.get(0))?.collect()
}

/// What a session is called by others: its id, name, provider and campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionLabel {
    pub key: i64,
    pub id: String,
    pub name: String,
    /// With the agent's name for a provider of many.
    pub provider: String,
    pub campaign_id: Option<String>,
}

/// Returns the labels of all sessions.
pub fn labels(connection: &Connection) -> rusqlite::Result<Vec<SessionLabel>> {
    connection
        .prepare_cached(
            "SELECT key, id, coalesce(json_extract(state, '$.name'), ''),
                    CASE provider WHEN 'acp'
                        THEN provider || coalesce('/' || nullif(json_extract(spec, '$.provider_config.agent'), ''), '')
                        ELSE provider END,
                    campaign_id
             FROM session_records",
        )?
        .query_map([], |row| {
            Ok(SessionLabel {
                key: row.get(0)?,
                id: row.get(1)?,
                name: row.get(2)?,
                provider: row.get(3)?,
                campaign_id: row.get(4)?,
            })
        })?
        .collect()
}

/// Returns the key and the newest event of every session.
pub fn newest_events(connection: &Connection) -> rusqlite::Result<Vec<(i64, u64)>> {
    connection
        .prepare_cached("SELECT key, last_seq FROM session_records")?
        .query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)))?
        .collect()
}

/// Returns the session with a key and whether it still has events.
pub fn has_events(connection: &Connection, key: i64) -> rusqlite::Result<Option<bool>> {
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM journal WHERE id BETWEEN ?1 << 32 AND (?1 + 1) << 32)
             FROM session_records WHERE key = ?1",
        )?
        .query_row([key], |row| row.get(0))
        .optional()
}

/// Records that somebody has looked at a session up to an event. A look never takes back a later one. Returns the time of
/// the newest event that was looked at; nothing if there is no such session or event.
pub fn mark_seen(connection: &Connection, id: &SessionId, seq: u64) -> rusqlite::Result<Option<Timestamp>> {
    connection
        .prepare_cached(
            "UPDATE session_records SET seen_at = max(seen_at, (
                 SELECT at FROM journal WHERE id = session_records.key << 32 | ?2))
             WHERE id = ?1 AND EXISTS (SELECT 1 FROM journal WHERE id = session_records.key << 32 | ?2)
             RETURNING seen_at",
        )?
        .query_row(params![id.as_str(), seq.min(SEQ_MAX) as i64], |row| row.get(0).map(Timestamp))
        .optional()
}

/// Skips a session that cannot be parsed: one damaged row must not hide the others or prevent the daemon from
/// starting. Errors of the file itself are passed on.
fn readable(row: rusqlite::Result<SessionRow>) -> Option<rusqlite::Result<SessionRow>> {
    match row {
        Err(error @ rusqlite::Error::FromSqlConversionFailure(..)) => {
            tracing::error!(%error, "a stored session cannot be read; going on without it");
            None
        }
        other => Some(other),
    }
}

const SELECT: &str =
    "SELECT key, last_seq, spec, state, run, codec, spool_segment, spool_offset, spool_carry,
                             next_write_id, seen_at FROM session_records";

fn session_row(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
    Ok(SessionRow {
        key: row.get(0)?,
        last_seq: row.get::<_, i64>(1)? as u64,
        spec: parse(2, &row.get::<_, String>(2)?)?,
        state: parse(3, &row.get::<_, String>(3)?)?,
        run: row.get::<_, i64>(4)? as u64,
        codec: row.get(5)?,
        spool: SpoolMark { segment: row.get(6)?, offset: row.get::<_, i64>(7)? as u64, carry: row.get(8)? },
        next_write_id: row.get::<_, i64>(9)? as u64,
        seen_at: Some(row.get::<_, i64>(10)?).filter(|at| *at > 0).map(Timestamp),
    })
}

/// Returns events after a sequence number, in order, at most `most` of them and not many more bytes than
/// `limits::READ_BATCH_MAX_BYTES`; empty only if there are none.
pub fn events_after(
    connection: &Connection,
    key: i64,
    session: &SessionId,
    after: u64,
    most: usize,
) -> rusqlite::Result<Vec<Arc<Event>>> {
    let (first, last) = (row_id(key, after.min(SEQ_MAX))?, row_id(key, SEQ_MAX)?);
    let mut select = connection
        .prepare_cached("SELECT id, at, body FROM journal WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3")?;
    let mut rows = select.query(params![first, last, most as i64])?;
    let (mut events, mut bytes) = (Vec::new(), 0);
    while bytes < limits::READ_BATCH_MAX_BYTES
        && let Some(row) = rows.next()?
    {
        let body = row.get_ref(2)?.as_str()?;
        bytes += body.len();
        events.push(Arc::new(Event {
            session: session.clone(),
            seq: row.get::<_, i64>(0)? as u64 & SEQ_MAX,
            at: Timestamp(row.get(1)?),
            // An event kind of a newer version is returned as stored, instead of hiding what follows it.
            kind: serde_json::from_str(body)
                .unwrap_or_else(|_| EventKind::Unparsed { raw: body.to_owned(), length: None }),
        }));
    }
    Ok(events)
}

const SEQ_MAX: u64 = (1 << limits::SEQ_BITS) - 1;

/// Packs a session's key and a sequence number into a row id, which has 63 bits. Values that do not fit are
/// refused: they would land in another session's journal.
fn row_id(key: i64, seq: u64) -> rusqlite::Result<i64> {
    match u64::try_from(key) {
        Ok(key) if key < 1 << (63 - limits::SEQ_BITS) && seq <= SEQ_MAX => {
            Ok((key << limits::SEQ_BITS | seq) as i64)
        }
        _ => Err(rusqlite::Error::ToSqlConversionFailure(
            format!("session {key} has no room for event {seq}").into(),
        )),
    }
}

fn parse<T: serde::de::DeserializeOwned>(column: usize, text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error))
    })
}
