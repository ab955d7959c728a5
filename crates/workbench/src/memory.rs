//! What was learnt, kept over sessions and restarts: stored, found by meaning and by words, judged by feedback. A
//! memory's confidence moves with feedback and fades with time. Must be given scrubbed text only.

pub mod distill;
mod index;
mod search;

#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError, RwLock};

use domain::{Error, Timestamp};
use runtime::store::{Durability, Store};
use rusqlite::{Connection, OptionalExtension as _};
use tokio::sync::OnceCell;

pub use search::{Found, Search};

use crate::place::Place;
use crate::tables::{self, list, list_text};
use crate::vectors::{self, Vector};
use crate::words;
use index::Index;

/// What every id starts with.
const PREFIX: &str = "mem_";

/// Confidence at the beginning: somebody said so, or we concluded it.
pub const EXPLICIT: f64 = 0.8;
pub const DISTILLED: f64 = 0.6;

/// What feedback adds and takes; being wrong weighs more.
const HELPFUL: f64 = 0.1;
const UNHELPFUL: f64 = 0.15;

/// What a month without confirmation takes.
const FADING: f64 = 0.05;
const MONTH_US: f64 = 30.0 * 24.0 * 3600.0 * 1e6;

/// The comment that takes a memory out of searches.
const OUTDATED: &str = "outdated";

/// A memory to keep.
#[derive(Clone, Debug, Default)]
pub struct NewMemory {
    pub title: String,
    pub description: String,
    pub content: String,
    /// success, failure, mixed or neutral.
    pub outcome: String,
    pub tags: Vec<String>,
    pub session: String,
    /// Concluded by us instead of said by somebody.
    pub distilled: bool,
}

/// A memory that is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    pub id: String,
    pub title: String,
    pub description: String,
    pub content: String,
    pub outcome: String,
    /// As it is now, faded.
    pub confidence: f64,
    pub tags: Vec<String>,
}

/// All memories of the daemon.
#[derive(Clone, Debug)]
pub struct Memories {
    store: Store,
    /// Loaded when first needed.
    index: Arc<OnceCell<RwLock<Index>>>,
}

impl Memories {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, index: Arc::default() }
    }

    /// Keeps a memory and returns its id.
    pub async fn keep(&self, place: &Place, new: NewMemory, now: Timestamp) -> Result<String, Error> {
        let index = self.index().await?;
        let id = tables::new_id(PREFIX)?;
        let vector = vector(&new);
        let confidence = if new.distilled { DISTILLED } else { EXPLICIT };
        let words = Words::of(&new.title, &new.description, &new.content, &new.tags);
        let row = (id.clone(), place.clone(), new.clone(), vector.clone(), words.clone());
        let key = self.store.write(Durability::Synced, move |connection| {
            let (id, place, new, vector, words) = row;
            insert(connection, &id, &place, &new, confidence, now, &vector)?;
            let key = connection.last_insert_rowid();
            words.insert(connection, key)?;
            Ok(key)
        });
        let key = key.await?;
        let mut index = index.write().unwrap_or_else(PoisonError::into_inner);
        index.add(key, place, &new.outcome, confidence, now, &vector);
        index.count_terms(&words.all());
        Ok(id)
    }

    /// Returns a memory; being read counts as use.
    pub async fn get(&self, place: &Place, id: &str, now: Timestamp) -> Result<Memory, Error> {
        let (place, wanted) = (place.clone(), id.to_owned());
        let found = self.store.write(Durability::Soon, move |connection| {
            let found = find(connection, &wanted, now)?.filter(|(_, owner, _)| {
                // A memory may be read by everybody who could have found it.
                place.sees(owner, crate::place::Scope::Org)
            });
            if found.is_some() {
                connection.execute(
                    "UPDATE bench_memories SET usage_count = usage_count + 1 WHERE id = ?1",
                    [&wanted],
                )?;
            }
            Ok(found.map(|(_, _, memory)| memory))
        });
        found.await?.ok_or_else(|| tables::unknown("id", "memory", id))
    }

    /// Takes feedback in and returns the new confidence.
    pub async fn judge(
        &self,
        place: &Place,
        id: &str,
        helpful: bool,
        comment: &str,
        session: &str,
        now: Timestamp,
    ) -> Result<f64, Error> {
        let index = self.index().await?;
        let (place, wanted, comment, session) =
            (place.clone(), id.to_owned(), comment.to_owned(), session.to_owned());
        let outdated = comment.trim().eq_ignore_ascii_case(OUTDATED);
        let judged = self.store.write(Durability::Synced, move |connection| {
            let Some((key, owner, memory)) = find(connection, &wanted, now)? else { return Ok(None) };
            if !place.sees(&owner, crate::place::Scope::Org) {
                return Ok(None);
            }
            let change = if helpful { HELPFUL } else { -UNHELPFUL };
            let confidence = (memory.confidence + change).clamp(0.0, 1.0);
            connection.execute(
                "UPDATE bench_memories SET confidence = ?1, held_at = ?2, outdated = max(outdated, ?3) WHERE key = ?4",
                rusqlite::params![confidence, now.0, outdated, key],
            )?;
            connection.execute(
                "INSERT INTO bench_feedback VALUES (?1, ?2, ?3, ?4, ?5)",
                rusqlite::params![wanted, now.0, helpful, comment, session],
            )?;
            Ok(Some((key, confidence)))
        });
        let (key, confidence) = judged.await?.ok_or_else(|| tables::unknown("memory_id", "memory", id))?;
        index.write().unwrap_or_else(PoisonError::into_inner).judge(key, confidence, now, outdated);
        Ok(confidence)
    }

    async fn index(&self) -> Result<&RwLock<Index>, Error> {
        self.index.get_or_try_init(|| async { Ok(RwLock::new(self.load().await?)) }).await
    }

    /// Reads all memories once. Vectors another maker made are made again: they cannot be compared with ours.
    async fn load(&self) -> Result<Index, Error> {
        let foreign = self.store.read(foreign).await?;
        if !foreign.is_empty() {
            self.store
                .write(Durability::Soon, move |connection| {
                    for (key, vector) in &foreign {
                        connection.execute(
                            "UPDATE bench_memories SET model = ?1, vector = ?2 WHERE key = ?3",
                            rusqlite::params![vectors::MODEL, vector.to_bytes(), key],
                        )?;
                    }
                    Ok(())
                })
                .await?;
        }
        self.store.read(Index::load).await
    }
}

/// Returns a memory's confidence after it was last confirmed at `held_at`.
pub(crate) fn faded(confidence: f64, held_at: Timestamp, now: Timestamp) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "a few microseconds do not matter")]
    let months = now.0.saturating_sub(held_at.0).max(0) as f64 / MONTH_US;
    (confidence - FADING * months).clamp(0.0, 1.0)
}

fn vector(new: &NewMemory) -> Vector {
    let tags = new.tags.join(" ");
    Vector::of(&[(&new.title, 2.0), (&new.description, 1.5), (&new.content, 1.0), (&tags, 2.0)])
}

/// The terms of a memory as the full-text index has them: each field as a line of terms.
#[derive(Clone, Debug)]
struct Words([Vec<String>; 4]);

impl Words {
    fn of(title: &str, description: &str, content: &str, tags: &[String]) -> Self {
        Self([
            words::terms(title),
            words::terms(description),
            words::terms(content),
            words::terms(&tags.join(" ")),
        ])
    }

    fn insert(&self, connection: &Connection, key: i64) -> rusqlite::Result<()> {
        let [title, description, content, tags] = self.0.each_ref().map(|terms| terms.join(" "));
        connection.execute(
            "INSERT INTO bench_memory_words (rowid, title, description, content, tags) VALUES (?1, ?2, ?3, ?4, ?5)",
            rusqlite::params![key, title, description, content, tags],
        )?;
        Ok(())
    }

    /// Every different term, once.
    fn all(&self) -> Vec<&str> {
        let mut all: Vec<&str> = self.0.iter().flatten().map(String::as_str).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

fn insert(
    connection: &Connection,
    id: &str,
    place: &Place,
    new: &NewMemory,
    confidence: f64,
    now: Timestamp,
    vector: &Vector,
) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO bench_memories (id, tenant, team, project, title, description, content, outcome, confidence, tags,
            origin, session, created_at, held_at, model, vector)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?13, ?14, ?15)",
    )?;
    insert.execute(rusqlite::params![
        id,
        place.tenant,
        place.team,
        place.project,
        new.title,
        new.description,
        new.content,
        new.outcome,
        confidence,
        list_text(&new.tags),
        if new.distilled { "distilled" } else { "explicit" },
        new.session,
        now.0,
        vectors::MODEL,
        vector.to_bytes(),
    ])?;
    Ok(())
}

type Kept = (i64, Place, Memory);

fn find(connection: &Connection, id: &str, now: Timestamp) -> rusqlite::Result<Option<Kept>> {
    let mut select = connection.prepare_cached(
        "SELECT key, tenant, team, project, id, title, description, content, outcome, confidence, held_at, tags
         FROM bench_memories WHERE id = ?1",
    )?;
    select.query_row([id], |row| read(row, now)).optional()
}

fn read(row: &rusqlite::Row<'_>, now: Timestamp) -> rusqlite::Result<Kept> {
    let place = Place { tenant: row.get(1)?, team: row.get(2)?, project: row.get(3)? };
    let tags: String = row.get(11)?;
    let memory = Memory {
        id: row.get(4)?,
        title: row.get(5)?,
        description: row.get(6)?,
        content: row.get(7)?,
        outcome: row.get(8)?,
        confidence: faded(row.get(9)?, Timestamp(row.get(10)?), now),
        tags: list(&tags),
    };
    Ok((row.get(0)?, place, memory))
}

fn foreign(connection: &Connection) -> rusqlite::Result<Vec<(i64, Vector)>> {
    let mut select = connection
        .prepare("SELECT key, title, description, content, tags FROM bench_memories WHERE model <> ?1")?;
    let rows = select.query_map([vectors::MODEL], |row| {
        let tags: String = row.get(4)?;
        let new = NewMemory {
            title: row.get(1)?,
            description: row.get(2)?,
            content: row.get(3)?,
            tags: list(&tags),
            ..NewMemory::default()
        };
        Ok((row.get(0)?, vector(&new)))
    })?;
    rows.collect()
}
