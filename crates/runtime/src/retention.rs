//! Decides what is kept and for how long: ended sessions, their events, old reports, and the folders of
//! agents that have ended.

use std::time::Duration;

use domain::id::SESSION_PREFIX;
use domain::{Error, Timestamp};
use rusqlite::{Connection, params};

use crate::limits;
use crate::process::{Claim, scan};
use crate::session::{SessionServices, clear_placeholders};
use host::clock;
use storage::Durability;

/// How long things are kept after their end.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// Events of sessions that ended longer ago are removed; the session records stay.
    pub activities: Duration,
    /// Reports about campaigns and festivals.
    pub events: Duration,
    /// Records of sessions that ended longer ago are removed too.
    pub sessions: Duration,
}

/// How much was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    pub sessions: u64,
    pub activities: u64,
    pub events: u64,
    pub folders: u64,
}

/// Sessions whose events are removed in one transaction, so that writers never wait long.
const SESSIONS_AT_ONCE: usize = 16;

/// Returns the time to use for automatic removal. A clock may be years ahead after a battery failed. Removal
/// cannot be undone, but it can wait until something happens.
pub(crate) async fn believed_now(services: &SessionServices) -> Result<Timestamp, Error> {
    let newest = services
        .store
        .read(|connection| {
            let newest = "SELECT MAX(COALESCE(last_activity_at, created_at)) FROM session_records";
            connection.query_row(newest, [], |row| row.get::<_, Option<i64>>(0))
        })
        .await?;
    let now = clock::now();
    Ok(newest.map_or(now, |newest| now.min(Timestamp(newest).after(limits::CLOCK_LEAP_MAX))))
}

/// Removes everything that has passed its retention at a given time.
pub(crate) async fn collect(
    services: &SessionServices,
    retention: Retention,
    now: Timestamp,
) -> Result<Removed, Error> {
    let before = |age: Duration| Timestamp(now.0 - i64::try_from(age.as_micros()).unwrap_or(i64::MAX));
    let (activities, events, sessions) =
        (before(retention.activities), before(retention.events), before(retention.sessions));
    let keys = Timestamp(now.0.saturating_sub(limits::CLIENT_KEYS_TTL.as_micros() as i64));
    let mut removed = Removed { folders: remove_folders(services).await?, ..Removed::default() };
    loop {
        let step = services
            .store
            .write(Durability::Soon, move |connection| remove_activities(connection, activities))
            .await?;
        removed.activities += step.1;
        if step.0 < SESSIONS_AT_ONCE {
            break;
        }
    }
    let (reports, records) = services
        .store
        .write(Durability::Soon, move |connection| {
            let reports = connection.execute("DELETE FROM events WHERE created_at < ?1", [events.0])?;
            connection.execute("DELETE FROM recent_events WHERE created_at < ?1", [events.0])?;
            storage::client_keys::forget_before(connection, keys)?;
            let records = connection.execute(
                "DELETE FROM session_records
                 WHERE status IN ('STOPPED', 'FAILED') AND ended_at < ?1
                   AND NOT EXISTS (SELECT 1 FROM journal
                                   WHERE id BETWEEN session_records.key << 32 AND (session_records.key + 1) << 32)",
                [sessions.0],
            )?;
            storage::workers::forget_removed(connection)?;
            Ok((reports as u64, records as u64))
        })
        .await?;
    removed.events = reports;
    removed.sessions = records;
    Ok(removed)
}

/// Removes the events of a few sessions. Returns how many sessions and how many events.
fn remove_activities(connection: &Connection, before: Timestamp) -> rusqlite::Result<(usize, u64)> {
    let keys: Vec<i64> = connection
        .prepare_cached(
            "SELECT key FROM session_records
             WHERE status IN ('STOPPED', 'FAILED') AND ended_at < ?1
               AND EXISTS (SELECT 1 FROM journal
                           WHERE id BETWEEN session_records.key << 32 AND (session_records.key + 1) << 32)
             LIMIT ?2",
        )?
        .query_map(params![before.0, SESSIONS_AT_ONCE as i64], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut removed = 0;
    for key in &keys {
        removed += connection
            .prepare_cached("DELETE FROM journal WHERE id BETWEEN ?1 << 32 AND (?1 + 1) << 32")?
            .execute([key])? as u64;
        connection.prepare_cached("DELETE FROM outbox WHERE session_key = ?1")?.execute([key])?;
    }
    Ok((keys.len(), removed))
}

/// Removes the folders of agents that no shim holds and no session needs.
async fn remove_folders(services: &SessionServices) -> Result<u64, Error> {
    // The folders are listed first: a folder is created after its session is recorded, so a session that
    // needs one of these is found below. Folders of commands are not recorded; they are removed when a daemon
    // starts.
    let Ok(dirs) = scan::find_all(&services.agents_dir) else { return Ok(0) };
    let needed: Vec<String> = services
        .store
        .read(|connection| {
            connection
                .prepare(
                    "SELECT id || '.' || run FROM session_records WHERE status NOT IN ('STOPPED', 'FAILED')",
                )?
                .query_map([], |row| row.get(0))?
                .collect()
        })
        .await?;
    let mut removed = 0;
    for dir in dirs {
        let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.starts_with(SESSION_PREFIX) || needed.iter().any(|needed| needed == name) {
            continue;
        }
        let cleared = match Claim::take(&dir) {
            Ok(Some(claim)) => {
                clear_placeholders(&dir).await;
                claim.clear().await.map(|()| 1)
            }
            Ok(None) => Ok(0),
            Err(error) => Err(error),
        };
        match cleared {
            Ok(count) => removed += count,
            // Its session has just removed it.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(%error, dir = %dir.display(), "cannot remove an old folder"),
        }
    }
    Ok(removed)
}
