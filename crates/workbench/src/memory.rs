//! Memories, kept across sessions and restarts: stored, found by meaning and by words, rated by feedback. A
//! memory's confidence changes with feedback and decays with time. Must be given scrubbed text only.

pub mod distill;
mod index;
pub mod mirror;
mod outcome;
mod postings;
mod scan;
mod search;
mod stored;

#[cfg(test)]
mod paraphrases;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use domain::{Error, ErrorCode, Timestamp};
use rusqlite::{Connection, OptionalExtension as _};
use storage::{Durability, Store};
use tokio::sync::OnceCell;

pub use outcome::MemoryOutcome;
pub use search::{FoundMemory, MemorySearch};

use crate::embed::{Embedder, Weighted};
use crate::limits;
use crate::place::WorkPlace;
use crate::qdrant::QdrantServer;
use crate::tables::{self, list, list_text};
use crate::vectors::Vector;
use crate::words;
use index::Index;
use mirror::Mirror;

/// The prefix of every id.
const PREFIX: &str = "mem_";

/// Initial confidence of a stored memory and of a distilled one.
pub const EXPLICIT: f64 = 0.8;
pub const DISTILLED: f64 = 0.6;

/// What feedback adds and subtracts; a wrong memory weighs more.
const HELPFUL: f64 = 0.1;
const UNHELPFUL: f64 = 0.15;

/// Decay per month without confirmation.
const FADING: f64 = 0.05;
const MONTH_US: f64 = 30.0 * 24.0 * 3600.0 * 1e6;

/// The comment that removes a memory from searches.
const OUTDATED: &str = "outdated";

/// A memory to store.
#[derive(Clone, Debug, Default)]
pub struct NewMemory {
    pub title: String,
    pub description: String,
    pub content: String,
    pub outcome: MemoryOutcome,
    pub tags: Vec<String>,
    pub session: String,
    /// Distilled by us, not stored by a caller.
    pub distilled: bool,
}

/// A stored memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    pub id: String,
    pub title: String,
    pub description: String,
    pub content: String,
    pub outcome: MemoryOutcome,
    /// The current confidence, after decay.
    pub confidence: f64,
    pub tags: Vec<String>,
}

/// All memories of the daemon.
#[derive(Clone, Debug)]
pub struct Memories {
    store: Store,
    embedder: Embedder,
    /// Loaded on first use.
    index: Arc<OnceCell<RwLock<Index>>>,
    /// A task is embedding memories that have no vector of this embedder.
    catching_up: Arc<AtomicBool>,
    /// The embedder failed; once it works again, missing vectors must be made.
    behind: Arc<AtomicBool>,
    /// A Qdrant server that is searched instead of vectors in memory.
    mirror: Option<Arc<Mirror>>,
}

/// How many memories have a vector of the current embedder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddingStatus {
    pub embedder: String,
    pub memories: u64,
    /// Memories without a vector of this embedder; until they have one, only words find them.
    pub waiting: u64,
}

impl EmbeddingStatus {
    /// Reads a daemon's file without changing it; `None` if it holds no memories yet.
    pub fn of_file(path: &Path, embedder: &Embedder) -> Result<Option<Self>, Error> {
        if !path.exists() {
            return Ok(None);
        }
        let look = || {
            let connection = Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            if connection.table_exists(None, "bench_memories")? {
                standing(&connection, embedder.name()).map(Some)
            } else {
                Ok(None)
            }
        };
        look().map_err(|error: rusqlite::Error| {
            Error::new(ErrorCode::StorageFailed, "the memories cannot be counted")
                .with_detail(error.to_string())
        })
    }
}

/// Counts the memories and those that still need a vector of this embedder.
fn standing(connection: &Connection, embedder: &str) -> rusqlite::Result<EmbeddingStatus> {
    let sql = "SELECT count(*), coalesce(sum(model <> ?1), 0) FROM bench_memories";
    connection.query_row(sql, [embedder], |row| {
        let count = |at| Ok::<u64, rusqlite::Error>(u64::try_from(row.get::<_, i64>(at)?).unwrap_or(0));
        Ok(EmbeddingStatus { embedder: embedder.to_owned(), memories: count(0)?, waiting: count(1)? })
    })
}

impl Memories {
    pub(crate) fn new(store: Store, embedder: Embedder, qdrant: Option<QdrantServer>) -> Self {
        let mirror = qdrant.map(|server| Arc::new(Mirror::new(server, store.clone(), embedder.name())));
        Self {
            store,
            embedder,
            index: Arc::default(),
            catching_up: Arc::default(),
            behind: Arc::default(),
            mirror,
        }
    }

    /// Returns how many memories exist, and how many wait for a vector of the current embedder.
    pub async fn standing(&self) -> Result<EmbeddingStatus, Error> {
        let embedder = self.embedder.name().to_owned();
        self.store.read(move |connection| standing(connection, &embedder)).await
    }

    /// Stores a memory and returns its id.
    pub async fn keep(&self, place: &WorkPlace, new: NewMemory, now: Timestamp) -> Result<String, Error> {
        let index = self.index().await?;
        let id = tables::new_id(PREFIX)?;
        let vector = self.vector_of(text_of(&new)).await;
        let confidence = if new.distilled { DISTILLED } else { EXPLICIT };
        let words = Words::of(&new.title, &new.description, &new.content, &new.tags);
        let row = (id.clone(), place.clone(), new.clone(), self.stored(vector.as_ref()), words.clone());
        let key = self.store.write(Durability::Synced, move |connection| {
            let (id, place, new, vector, words) = row;
            insert(connection, &id, &place, &new, confidence, now, &vector)?;
            let key = connection.last_insert_rowid();
            Ok((key, words.insert(connection, key)?))
        });
        let (key, length) = key.await?;
        let held = vector.as_ref().filter(|_| self.mirror.is_none());
        let mut index = index.write().unwrap_or_else(PoisonError::into_inner);
        index.add(key, place, new.outcome, confidence, now, held);
        index.count_terms(&words.all());
        index.count_length(key, length);
        drop(index);
        self.changed([key]);
        Ok(id)
    }

    /// Returns a memory; reading it counts as use.
    pub async fn get(&self, place: &WorkPlace, id: &str, now: Timestamp) -> Result<Memory, Error> {
        let (place, wanted) = (place.clone(), id.to_owned());
        let found = self.store.write(Durability::Soon, move |connection| {
            let found = find(connection, &wanted, now)?.filter(|(_, owner, _)| {
                // Every caller that could have found a memory may read it.
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

    /// Records feedback and returns the new confidence.
    pub async fn judge(
        &self,
        place: &WorkPlace,
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
        self.changed([key]);
        Ok(confidence)
    }

    /// Tells the mirror which rows changed.
    fn changed(&self, keys: impl IntoIterator<Item = i64>) {
        if let Some(mirror) = &self.mirror {
            mirror.changed(keys);
        }
    }

    /// Returns the index, which is loaded on first use. Loading also starts the background work.
    async fn index(&self) -> Result<&RwLock<Index>, Error> {
        if let Some(index) = self.index.get() {
            return Ok(index);
        }
        let index = self.index.get_or_try_init(|| async { Ok(RwLock::new(self.load().await?)) }).await?;
        if !matches!(self.embedder, Embedder::Words) {
            self.catch_up();
        }
        if let Some(mirror) = &self.mirror {
            mirror.begin();
        }
        Ok(index)
    }

    /// Reads all memories once. Vectors of another embedder are made again, because they are not comparable.
    /// For words this happens now; otherwise searches use only words until it is done.
    async fn load(&self) -> Result<Index, Error> {
        if matches!(self.embedder, Embedder::Words) {
            while self.make_some().await?.is_some() {}
        }
        let embedder = self.embedder.name().to_owned();
        let held = self.mirror.is_none();
        self.store.read(move |connection| Index::load(connection, &embedder, held)).await
    }

    /// Returns the vector of a text; `None` if the embedder fails, which must not lose a memory or fail a
    /// search.
    async fn vector_of(&self, text: Weighted) -> Option<Vector> {
        match self.embedder.make(vec![text]).await {
            Ok(made) => {
                if self.behind.swap(false, Ordering::SeqCst) {
                    self.catch_up();
                }
                made.into_iter().next()
            }
            Err(error) => {
                self.behind.store(true, Ordering::SeqCst);
                tracing::warn!(%error, detail = error.detail, "memories go by words alone for now");
                None
            }
        }
    }

    /// Returns a vector in stored form, with its embedder's name; a missing one has no name.
    fn stored(&self, vector: Option<&Vector>) -> (String, Vec<u8>) {
        vector.map_or_else(Default::default, |vector| (self.embedder.name().to_owned(), vector.to_bytes()))
    }

    /// Embeds memories without a vector of this embedder in the background, one task at a time.
    fn catch_up(&self) {
        if self.catching_up.swap(true, Ordering::SeqCst) {
            return;
        }
        let memories = self.clone();
        tokio::spawn(async move {
            let mut count = 0;
            let ended = loop {
                match memories.make_some().await {
                    Ok(Some(made)) => {
                        count += made.len();
                        memories.changed(made.iter().map(|(key, _)| *key));
                        if let Some(index) = memories.index.get().filter(|_| memories.mirror.is_none()) {
                            let mut index = index.write().unwrap_or_else(PoisonError::into_inner);
                            made.iter().for_each(|(key, vector)| index.place(*key, vector));
                        }
                    }
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                }
            };
            memories.catching_up.store(false, Ordering::SeqCst);
            match ended {
                Ok(()) if count > 0 => {
                    tracing::info!(count, embedder = memories.embedder.name(), "memories have their vectors")
                }
                Ok(()) => {}
                Err(error) => {
                    memories.behind.store(true, Ordering::SeqCst);
                    tracing::warn!(%error, detail = error.detail, count, "memories still wait for their vectors");
                }
            }
        });
    }

    /// Embeds some memories without a vector of this embedder; `None` if all have one.
    async fn make_some(&self) -> Result<Option<Vec<(i64, Vector)>>, Error> {
        let embedder = self.embedder.name().to_owned();
        let texts = self.store.read(move |connection| foreign(connection, &embedder)).await?;
        if texts.is_empty() {
            return Ok(None);
        }
        let (keys, texts): (Vec<i64>, Vec<Weighted>) = texts.into_iter().unzip();
        let made = self.embedder.make(texts).await?;
        let rows: Vec<(i64, Vector)> = keys.into_iter().zip(made).collect();
        let (embedder, changed) = (self.embedder.name().to_owned(), rows.clone());
        self.store
            .write(Durability::Soon, move |connection| {
                let mut update = connection
                    .prepare_cached("UPDATE bench_memories SET model = ?1, vector = ?2 WHERE key = ?3")?;
                for (key, vector) in &changed {
                    update.execute(rusqlite::params![embedder, vector.to_bytes(), key])?;
                }
                Ok(())
            })
            .await?;
        Ok(Some(rows))
    }
}

/// Returns a memory's confidence after decay since it was last confirmed at `held_at`.
pub(crate) fn faded(confidence: f64, held_at: Timestamp, now: Timestamp) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "a few microseconds do not matter")]
    let months = now.0.saturating_sub(held_at.0).max(0) as f64 / MONTH_US;
    (confidence - FADING * months).clamp(0.0, 1.0)
}

/// The text of a memory that is embedded.
fn text_of(new: &NewMemory) -> Weighted {
    let part = |text: &str, weight| (text.to_owned(), weight);
    vec![
        part(&new.title, 2.0),
        part(&new.description, 1.5),
        part(&new.content, 1.0),
        part(&new.tags.join(" "), 2.0),
    ]
}

/// The terms of a memory in the full-text index, one list per field.
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

    /// Returns how many terms the full-text index made of them.
    fn insert(&self, connection: &Connection, key: i64) -> rusqlite::Result<u64> {
        let [title, description, content, tags] = self.0.each_ref().map(|terms| terms.join(" "));
        connection.execute(
            "INSERT INTO bench_memory_words (rowid, title, description, content, tags) VALUES (?1, ?2, ?3, ?4, ?5)",
            rusqlite::params![key, title, description, content, tags],
        )?;
        let mut select =
            connection.prepare_cached("SELECT sz FROM bench_memory_words_docsize WHERE id = ?1")?;
        select.query_row([key], |row| Ok(postings::length(row.get_ref(0)?.as_blob()?)))
    }

    /// Every distinct term.
    fn all(&self) -> Vec<&str> {
        let mut all: Vec<&str> = self.0.iter().flatten().map(String::as_str).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Inserts a memory with its vector.
fn insert(
    connection: &Connection,
    id: &str,
    place: &WorkPlace,
    new: &NewMemory,
    confidence: f64,
    now: Timestamp,
    (embedder, vector): &(String, Vec<u8>),
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
        embedder,
        vector,
    ])?;
    Ok(())
}

type StoredMemory = (i64, WorkPlace, Memory);

/// Finds a memory by id.
fn find(connection: &Connection, id: &str, now: Timestamp) -> rusqlite::Result<Option<StoredMemory>> {
    let mut select = connection.prepare_cached(
        "SELECT key, tenant, team, project, id, title, description, content, outcome, confidence, held_at, tags
         FROM bench_memories WHERE id = ?1",
    )?;
    select.query_row([id], |row| read(row, now)).optional()
}

/// Reads a row; its confidence has faded since it was last confirmed.
fn read(row: &rusqlite::Row<'_>, now: Timestamp) -> rusqlite::Result<StoredMemory> {
    let place = WorkPlace { tenant: row.get(1)?, team: row.get(2)?, project: row.get(3)? };
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

/// Some memories whose vector comes from another embedder.
fn foreign(connection: &Connection, embedder: &str) -> rusqlite::Result<Vec<(i64, Weighted)>> {
    let mut select = connection.prepare_cached(
        "SELECT key, title, description, content, tags FROM bench_memories WHERE model <> ?1 ORDER BY key LIMIT ?2",
    )?;
    let most = i64::try_from(limits::EMBED_BATCH).unwrap_or(i64::MAX);
    let rows = select.query_map(rusqlite::params![embedder, most], |row| {
        let tags: String = row.get(4)?;
        let new = NewMemory {
            title: row.get(1)?,
            description: row.get(2)?,
            content: row.get(3)?,
            tags: list(&tags),
            ..NewMemory::default()
        };
        Ok((row.get(0)?, text_of(&new)))
    })?;
    rows.collect()
}
