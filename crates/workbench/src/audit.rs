//! What was done with the workbench: one row for each call, added and never changed. Each row is sealed by a hash over
//! itself and the hash before it, so that a row cannot be changed, taken out or slipped in unnoticed. Must be given
//! scrubbed text only.

use std::sync::{Arc, Mutex, PoisonError};

use domain::{Error, Timestamp};
use runtime::store::{Durability, Store};
use rusqlite::{Connection, OptionalExtension as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use crate::limits;
use crate::scrub::Scrubber;

/// One call. The text that is hashed is this, as JSON, in this order; fields may be added at the end only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub at: Timestamp,
    pub session: String,
    /// `user`, or `agent` and its session.
    pub caller: String,
    /// Such as `SafeExec.Bash`.
    pub operation: String,
    /// The request as JSON, cut where it is long.
    pub input: String,
    /// `ok`, or the code of the error.
    pub outcome: String,
    /// What became of it, in one line.
    pub summary: String,
    pub duration_us: u64,
    /// The sandbox' tier, where a command ran.
    pub tier: String,
    /// Secrets that were taken out.
    pub secrets: u64,
}

/// A row as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub seq: u64,
    pub entry: Entry,
    pub hash: Vec<u8>,
}

/// What a look at the whole chain found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub entries: u64,
    /// The first row that does not fit, and why.
    pub broken: Option<(u64, String)>,
    pub head: Vec<u8>,
}

type Head = Option<(i64, Vec<u8>)>;

/// The audit of this daemon.
#[derive(Clone, Debug)]
pub struct Audit {
    store: Store,
    newest: watch::Sender<u64>,
    /// What this daemon wrote last; shows that the end of the chain was cut off.
    head: Arc<Mutex<Head>>,
}

impl Audit {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, newest: watch::Sender::new(0), head: Arc::default() }
    }

    /// Adds a row; returns its number once it is safe against the daemon's death.
    pub async fn append(&self, entry: Entry) -> Result<u64, Error> {
        // Where a command ran, no other call comes soon enough to share a commit with: a switch of threads would only add
        // to what the command took.
        let entry_is_rare = !entry.tier.is_empty();
        let write = move |connection: &Connection| {
            let (last, before) = last(connection)?.unwrap_or((0, Vec::new()));
            let body = serde_json::to_string(&entry).unwrap_or_default();
            let (seq, hash) = (last + 1, seal(&before, &body));
            let mut insert = connection.prepare_cached(
                "INSERT INTO bench_audit (seq, body, session, hash) VALUES (?1, ?2, ?3, ?4)",
            )?;
            insert.execute(rusqlite::params![seq, body, entry.session, hash])?;
            Ok((seq, hash))
        };
        let (seq, hash) = if entry_is_rare {
            self.store.write_here(write).await?
        } else {
            self.store.write(Durability::Soon, write).await?
        };
        self.remember(seq, hash);
        let seq = u64::try_from(seq).unwrap_or(0);
        self.newest.send_if_modified(|newest| seq > std::mem::replace(newest, seq.max(*newest)));
        Ok(seq)
    }

    /// Several may be told of their rows in another order than that of the rows.
    fn remember(&self, seq: i64, hash: Vec<u8>) {
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        if head.as_ref().is_none_or(|(last, _)| *last < seq) {
            *head = Some((seq, hash));
        }
    }

    /// Returns rows after a number, oldest first, at most one page of them.
    pub async fn after(&self, seq: u64, session: Option<String>) -> Result<Vec<Row>, Error> {
        let seq = i64::try_from(seq).unwrap_or(i64::MAX);
        self.store
            .read(move |connection| {
                let (clause, session) = match session {
                    Some(session) => ("session = ?2", session),
                    None => ("?2 = ''", String::new()),
                };
                let sql = format!(
                    "SELECT seq, body, hash FROM bench_audit WHERE seq > ?1 AND {clause} ORDER BY seq LIMIT {}",
                    limits::AUDIT_PAGE
                );
                let mut select = connection.prepare_cached(&sql)?;
                select.query_map(rusqlite::params![seq, session], read)?.collect()
            })
            .await
    }

    /// Returns the number before the last `count` rows.
    pub async fn before_last(&self, count: u64, session: Option<String>) -> Result<u64, Error> {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let found = self.store.read(move |connection| {
            let (clause, session) = match session {
                Some(session) => ("session = ?2", session),
                None => ("?2 = ''", String::new()),
            };
            let sql = format!(
                "SELECT min(seq) FROM (SELECT seq FROM bench_audit WHERE {clause} ORDER BY seq DESC LIMIT ?1)"
            );
            connection.query_row(&sql, rusqlite::params![count, session], |row| row.get::<_, Option<i64>>(0))
        });
        Ok(found.await?.map_or(0, |seq| u64::try_from(seq - 1).unwrap_or(0)))
    }

    /// Returns a hand that is told the number of the newest row.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// Computes every hash again.
    pub async fn verify(&self) -> Result<Verdict, Error> {
        let known = self.head.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.store.read(move |connection| verify(connection, known)).await
    }
}

fn last(connection: &Connection) -> rusqlite::Result<Head> {
    let mut select =
        connection.prepare_cached("SELECT seq, hash FROM bench_audit ORDER BY seq DESC LIMIT 1")?;
    select.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

fn seal(before: &[u8], body: &str) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update(before);
    hash.update(body.as_bytes());
    hash.finalize().to_vec()
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let seq: i64 = row.get(0)?;
    let body: String = row.get(1)?;
    Ok(Row {
        seq: u64::try_from(seq).unwrap_or(0),
        // A row somebody spoilt is shown empty; the chain says what happened to it.
        entry: serde_json::from_str(&body).unwrap_or_default(),
        hash: row.get(2)?,
    })
}

fn verify(connection: &Connection, known: Head) -> rusqlite::Result<Verdict> {
    let mut verdict = Verdict::default();
    let mut select = connection.prepare("SELECT seq, body, hash, session FROM bench_audit ORDER BY seq")?;
    let mut rows = select.query([])?;
    let mut seen = None;
    while let Some(row) = rows.next()? {
        let (seq, body): (i64, String) = (row.get(0)?, row.get(1)?);
        let (hash, session): (Vec<u8>, String) = (row.get(2)?, row.get(3)?);
        verdict.entries += 1;
        let number = u64::try_from(seq).unwrap_or(0);
        let wrong = if number != verdict.entries {
            Some(format!("row {} is missing", verdict.entries))
        } else if hash != seal(&verdict.head, &body) {
            Some("its hash does not fit its text and the rows before".to_owned())
        } else if serde_json::from_str::<Entry>(&body).is_ok_and(|entry| entry.session != session) {
            Some("its session is not the one in its text".to_owned())
        } else {
            None
        };
        if let Some(reason) = wrong {
            verdict.broken = Some((number, reason));
            return Ok(verdict);
        }
        if known.as_ref().is_some_and(|(last, _)| *last == seq) {
            seen = Some(hash.clone());
        }
        verdict.head = hash;
    }
    if let Some((last, hash)) = known
        && seen.as_ref() != Some(&hash)
    {
        verdict.broken =
            Some((u64::try_from(last).unwrap_or(0), "the end of the chain was cut off".to_owned()));
    }
    Ok(verdict)
}

/// Returns a request for the audit: scrubbed first, then cut. Long texts are cut one by one, so that it stays JSON.
pub fn input_text(scrubber: &Scrubber, input: &Map<String, Value>) -> String {
    let mut left = limits::AUDIT_INPUT_CHARS;
    let kept: Map<String, Value> = input
        .iter()
        .filter(|(_, value)| !matches!(value, Value::Null) && *value != "")
        // A name nobody knows may be anything.
        .map(|(name, value)| (scrubber.scrub_text(name), shortened(scrubber, value, &mut left)))
        .collect();
    Value::Object(kept).to_string()
}

fn shortened(scrubber: &Scrubber, value: &Value, left: &mut usize) -> Value {
    match value {
        Value::String(text) => {
            let clean = scrubber.scrub_text(text);
            let kept: String = clean.chars().take(*left).collect();
            *left = left.saturating_sub(kept.chars().count());
            Value::String(if kept.len() < clean.len() { kept + "…" } else { kept })
        }
        Value::Array(list) => list.iter().map(|value| shortened(scrubber, value, left)).collect(),
        Value::Object(_) => Value::Null,
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn audit() -> (tempfile::TempDir, Store, Audit) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("daemon.db")).unwrap();
        crate::tables::prepare(&store).await.unwrap();
        let audit = Audit::new(store.clone());
        for number in 0..5u64 {
            let entry = Entry { operation: "SafeExec.Bash".into(), secrets: number, ..Entry::default() };
            assert_eq!(audit.append(entry).await.unwrap(), number + 1);
        }
        (dir, store, audit)
    }

    async fn tamper(store: &Store, sql: &'static str) {
        let drop = "DROP TRIGGER bench_audit_no_change; DROP TRIGGER bench_audit_no_removal;";
        store
            .write(Durability::Synced, move |connection| connection.execute_batch(&format!("{drop}{sql}")))
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn an_untouched_chain_is_intact_and_grows_over_restarts() {
        let (_dir, store, audit) = audit().await;
        let verdict = audit.verify().await.unwrap();
        assert_eq!((verdict.entries, &verdict.broken), (5, &None));
        assert_eq!(verdict.head.len(), 32);
        let again = Audit::new(store);
        assert_eq!(again.append(Entry::default()).await.unwrap(), 6);
        assert_eq!(again.verify().await.unwrap().broken, None);
        assert_eq!(again.before_last(2, None).await.unwrap(), 4);
        assert_eq!(again.after(4, None).await.unwrap().len(), 2);
    }

    #[tokio::test]
    async fn a_changed_removed_or_cut_row_is_found() {
        let cases = [
            (
                "UPDATE bench_audit SET body = replace(body, '\"secrets\":2', '\"secrets\":0') WHERE seq = 3;",
                3,
            ),
            ("DELETE FROM bench_audit WHERE seq = 2;", 3),
            ("DELETE FROM bench_audit WHERE seq = 5;", 5),
            ("UPDATE bench_audit SET session = 'sess_other' WHERE seq = 4;", 4),
        ];
        for (sql, at) in cases {
            let (_dir, store, audit) = audit().await;
            tamper(&store, sql).await;
            let broken = audit.verify().await.unwrap().broken;
            assert_eq!(broken.as_ref().map(|(seq, _)| *seq), Some(at), "{sql}: {broken:?}");
        }
    }

    #[tokio::test]
    async fn rows_cannot_be_changed_by_mistake() {
        let (_dir, store, _audit) = audit().await;
        for sql in ["UPDATE bench_audit SET body = ''", "DELETE FROM bench_audit"] {
            store.write(Durability::Synced, move |connection| connection.execute(sql, [])).await.unwrap_err();
        }
    }
}
