//! Sessions of the workbench: maps a session id to its project and owner, and tracks when it expires. Started
//! explicitly, created on first use, or adopted from the session core. Open ones are in memory; what must
//! outlive the daemon is in the tables.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::id::SESSION_PREFIX;
use domain::{Error, ErrorCode, SessionId, Timestamp};
use rusqlite::OptionalExtension as _;
use storage::{Durability, Store};

use crate::place::WorkPlace;
use crate::{Project, limits};

/// How long sessions stay open.
#[derive(Clone, Copy, Debug)]
pub struct SessionTtl {
    /// Without use.
    pub idle: Duration,
    /// In total.
    pub longest: Duration,
}

impl Default for SessionTtl {
    fn default() -> Self {
        Self { idle: limits::SESSION_IDLE, longest: limits::SESSION_LIFE }
    }
}

/// How a session ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionOutcome {
    #[default]
    Success,
    Failure,
    Partial,
}

impl SessionOutcome {
    const ALL: [Self; 3] = [Self::Success, Self::Failure, Self::Partial];

    /// Returns the word that is stored and printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Partial => "partial",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == text)
    }
}

/// An open session.
#[derive(Debug)]
pub struct Session {
    pub id: SessionId,
    pub project: Project,
    pub place: WorkPlace,
    /// Its purpose; empty if unknown.
    pub task: String,
    pub started_at: Timestamp,
    /// Owned by the session core, and open as long as it is there.
    pub adopted: bool,
    used_at: AtomicI64,
}

/// What is known about a session id.
#[derive(Clone, Debug)]
pub enum SessionLookup {
    Open(Arc<Session>),
    /// It has expired; it may be reopened on the same project.
    Expired(StoredSession),
    Ended,
    Unknown,
}

/// What a session was opened with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredSession {
    pub root: PathBuf,
    pub tenant: String,
    pub team: String,
    pub task: String,
}

/// All sessions of the workbench.
#[derive(Debug)]
pub struct Sessions {
    store: Store,
    ttl: SessionTtl,
    open: Mutex<HashMap<SessionId, Arc<Session>>>,
}

impl Session {
    fn is_over(&self, ttl: SessionTtl, now: Timestamp) -> bool {
        let used_at = Timestamp(self.used_at.load(Ordering::Relaxed));
        !self.adopted && (now.since(used_at) > ttl.idle || now.since(self.started_at) > ttl.longest)
    }
}

impl Sessions {
    pub(crate) fn new(store: Store, ttl: SessionTtl) -> Self {
        Self { store, ttl, open: Mutex::default() }
    }

    /// Looks up an id. Finding an open session counts as use.
    pub async fn find(&self, id: &SessionId, now: Timestamp) -> Result<SessionLookup, Error> {
        if let Some(session) = self.open().get(id).cloned()
            && !session.is_over(self.ttl, now)
        {
            session.used_at.store(now.0, Ordering::Relaxed);
            return Ok(SessionLookup::Open(session));
        }
        let wanted = id.to_string();
        let row = self.store.read(move |connection| {
            let mut select = connection.prepare_cached(
                "SELECT project, tenant, team, task, ended_at FROM bench_sessions WHERE id = ?1",
            )?;
            let row = select.query_row([wanted], |row| {
                let root: String = row.get(0)?;
                let remembered = StoredSession {
                    root: root.into(),
                    tenant: row.get(1)?,
                    team: row.get(2)?,
                    task: row.get(3)?,
                };
                Ok((remembered, row.get::<_, Option<i64>>(4)?))
            });
            row.optional()
        });
        Ok(match row.await? {
            Some((_, Some(_))) => SessionLookup::Ended,
            Some((remembered, None)) => SessionLookup::Expired(remembered),
            None => SessionLookup::Unknown,
        })
    }

    /// Opens a session. The id must be new or expired.
    pub async fn open_as(
        &self,
        id: SessionId,
        project: Project,
        with: StoredSession,
        adopted: bool,
        now: Timestamp,
    ) -> Result<Arc<Session>, Error> {
        if self.open().len() >= limits::SESSIONS_MAX {
            let most = limits::SESSIONS_MAX;
            return Err(Error::new(
                ErrorCode::LimitReached,
                format!("{most} sessions are open; end some first"),
            ));
        }
        let place = WorkPlace { tenant: with.tenant, team: with.team, project: path_text(project.root()) };
        let session = Arc::new(Session {
            id: id.clone(),
            project,
            place: place.clone(),
            task: with.task,
            started_at: now,
            adopted,
            used_at: AtomicI64::new(now.0),
        });
        if !adopted {
            let (row, task) = (id.to_string(), session.task.clone());
            self.store
                .write(Durability::Synced, move |connection| {
                    connection.execute(
                        "INSERT INTO bench_sessions (id, project, tenant, team, task, started_at)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                         ON CONFLICT (id) DO UPDATE SET started_at = excluded.started_at",
                        rusqlite::params![row, place.project, place.tenant, place.team, task, now.0],
                    )
                })
                .await?;
        }
        // Two callers may use a new id concurrently; both get the same session.
        let mut open = self.open();
        let current = open.entry(id).or_insert_with(|| Arc::clone(&session));
        if current.is_over(self.ttl, now) {
            *current = session;
        }
        Ok(Arc::clone(current))
    }

    /// Ends a session permanently.
    pub async fn end(&self, id: &SessionId, outcome: SessionOutcome, now: Timestamp) -> Result<(), Error> {
        self.open().remove(id);
        let row = id.to_string();
        self.store
            .write(Durability::Synced, move |connection| {
                connection.execute(
                    "UPDATE bench_sessions SET ended_at = ?2, outcome = ?3 WHERE id = ?1",
                    rusqlite::params![row, now.0, outcome.name()],
                )
            })
            .await?;
        Ok(())
    }

    /// Closes expired sessions, and returns them.
    pub fn expire(&self, now: Timestamp) -> Vec<SessionId> {
        let mut open = self.open();
        let over: Vec<SessionId> = open
            .values()
            .filter(|session| session.is_over(self.ttl, now))
            .map(|session| session.id.clone())
            .collect();
        for id in &over {
            open.remove(id);
        }
        over
    }

    fn open(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Session>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Validates an id chosen by a caller: the usual prefix, then letters, digits, `_` and `-`.
pub fn check_id(text: &str) -> Result<SessionId, Error> {
    let rest = text.strip_prefix(SESSION_PREFIX).unwrap_or_default();
    let plain = rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if rest.is_empty() || rest.len() > 64 || !plain {
        return Err(Error::invalid(
            "session_id",
            "must be `sess_` and up to 64 letters, digits, `_` or `-`; Session.Start returns one",
        ));
    }
    Ok(SessionId::new(text))
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_callers_are_checked() {
        for good in ["sess_abc123", "sess_01K5-x_Y"] {
            assert_eq!(check_id(good).unwrap().as_str(), good);
        }
        for bad in
            ["", "sess_", "abc", "sess_a b", "sess_../x", "sess_é", &format!("sess_{}", "a".repeat(65))]
        {
            check_id(bad).unwrap_err();
        }
        check_id(host::new_session_id().as_str()).unwrap();
    }
}
