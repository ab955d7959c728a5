//! Searches memories: combines the nearest by vector and the best by words. Words rank exact names first,
//! vectors find what was expressed in other words.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use domain::{Error, Timestamp};
use rusqlite::Connection;

use super::index::{Allowed, Filter, Index, best};
use super::{Memories, MemoryOutcome, faded, postings, stored};
use crate::limits;
use crate::place::{Scope, WorkPlace};
use crate::vectors::{self, Vector};
use crate::words;

/// The parameters of a search.
#[derive(Clone, Debug)]
pub struct MemorySearch {
    pub query: String,
    pub place: WorkPlace,
    pub scope: Scope,
    /// `None`: all.
    pub outcome: Option<MemoryOutcome>,
    pub limit: usize,
    pub min_confidence: f64,
    pub now: Timestamp,
}

/// A found memory.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundMemory {
    pub id: String,
    pub title: String,
    pub description: String,
    pub content: String,
    pub outcome: MemoryOutcome,
    pub confidence: f64,
    /// How well it matches; for ordering only.
    pub score: f32,
}

/// The weights of similarity and words, and the minimum similarity and score of a result. Vectors of words alone have a part in
/// common more often, since terms of one field are explained with the same words.
const BY_VECTOR: f32 = 0.85;
const BY_WORDS: f32 = 0.15;
const SIMILARITY_MIN: f32 = 0.12;
const WORDS_SIMILARITY_MIN: f32 = 0.22;
const MODEL_SIMILARITY_MIN: f32 = 0.16;
const SCORE_MIN: f32 = 0.07;

/// Qdrant normalizes vectors before it compares them; our rounded ones are slightly shorter or longer.
const ROUNDING: f32 = 0.9;

impl Memories {
    /// Returns the matches, best first, and their total number.
    pub async fn search(&self, search: MemorySearch) -> Result<(Vec<FoundMemory>, usize), Error> {
        self.index().await?;
        let vector = self.vector_of(vec![(search.query.clone(), 1.0)]).await;
        let source = self.source(vector.as_ref(), &search).await;
        let memories = self.clone();
        self.store
            .read(move |connection| {
                let Some(index) = memories.index.get() else { return Ok((Vec::new(), 0)) };
                let index = index.read().unwrap_or_else(PoisonError::into_inner);
                let near = Near { vector: vector.as_ref(), source, embedder: memories.embedder.name() };
                let ranked = rank(&index, connection, &search, &near)?;
                drop(index);
                let total = ranked.len();
                let mut found = Vec::new();
                for (key, score) in ranked.into_iter().take(search.limit) {
                    found.push(fetch(connection, key, score, search.now)?);
                }
                Ok((found, total))
            })
            .await
    }

    /// Determines where the compared vectors come from. A failing server costs a timeout, but no results.
    async fn source(&self, vector: Option<&Vector>, search: &MemorySearch) -> Source {
        match (&self.mirror, vector) {
            (None, _) => Source::Held,
            (Some(mirror), Some(vector)) if !vector.is_empty() => {
                let least = similarity_min(self.embedder.name());
                let named = mirror.nearest(vector, search, least * ROUNDING).await;
                named.map_or(Source::Stored, Source::Named)
            }
            (Some(_), _) => Source::Stored,
        }
    }
}

/// Returns from which similarity on two texts have something to do with each other, by vectors of this embedder.
fn similarity_min(embedder: &str) -> f32 {
    match embedder {
        vectors::MODEL => WORDS_SIMILARITY_MIN,
        // A model's vector and that of the words in one.
        both if both.ends_with(vectors::MODEL) => MODEL_SIMILARITY_MIN,
        _ => SIMILARITY_MIN,
    }
}

/// Where vectors are.
enum Source {
    /// In memory.
    Held,
    /// In the tables; the server selected those worth ranking.
    Named(BTreeSet<i64>),
    /// In the tables, all of them.
    Stored,
}

/// The vector of a query and the source it is compared with.
struct Near<'a> {
    vector: Option<&'a Vector>,
    source: Source,
    embedder: &'a str,
}

impl Near<'_> {
    /// Returns the most similar memories, best first.
    fn all(&self, index: &Index, db: &Connection, allowed: &Allowed) -> rusqlite::Result<Vec<(i64, f32)>> {
        let Some(vector) = self.vector else { return Ok(Vec::new()) };
        let least = similarity_min(self.embedder);
        match &self.source {
            Source::Held => Ok(index.nearest(vector, allowed, least)),
            Source::Stored => stored::nearest(db, index, self.embedder, vector, allowed, least),
            Source::Named(keys) => {
                let mut found = Vec::new();
                for key in keys.iter().filter(|key| index.allows(**key, allowed)) {
                    let similarity = stored::similarity(db, *key, self.embedder, vector)?;
                    found.extend(similarity.map(|similarity| (*key, similarity)));
                }
                found.retain(|(_, similarity)| *similarity >= least);
                Ok(best(found))
            }
        }
    }

    /// Returns the similarity of one memory that passes the filter.
    fn one(
        &self,
        key: i64,
        index: &Index,
        db: &Connection,
        allowed: &Allowed,
    ) -> rusqlite::Result<Option<f32>> {
        match (&self.source, self.vector) {
            (Source::Held, vector) => Ok(index.similarity_of(key, vector, allowed)),
            _ if !index.allows(key, allowed) => Ok(None),
            (_, None) => Ok(Some(0.0)),
            (_, Some(vector)) => Ok(stored::similarity(db, key, self.embedder, vector)?.or(Some(0.0))),
        }
    }
}

/// Ranks by vector and by words; without a vector by words alone.
fn rank(
    index: &Index,
    connection: &Connection,
    search: &MemorySearch,
    near: &Near<'_>,
) -> rusqlite::Result<Vec<(i64, f32)>> {
    if near.vector.is_some_and(Vector::is_empty) {
        return Ok(Vec::new());
    }
    let filter = Filter {
        place: &search.place,
        scope: search.scope,
        outcome: search.outcome,
        min_confidence: search.min_confidence,
        now: search.now,
    };
    let mut scores: BTreeMap<i64, f32> = BTreeMap::new();
    let allowed = index.allowed(filter);
    for (key, similarity) in near.all(index, connection, &allowed)? {
        scores.insert(key, similarity * BY_VECTOR);
    }
    for (key, share) in by_words(index, connection, &search.query)? {
        if let Entry::Vacant(unscored) = scores.entry(key) {
            let Some(similarity) = near.one(key, index, connection, &allowed)? else { continue };
            unscored.insert(similarity.max(0.0) * BY_VECTOR);
        }
        let score = scores.entry(key).or_default();
        *score += share * BY_WORDS;
    }
    let mut ranked: Vec<(i64, f32)> = scores.into_iter().filter(|(_, score)| *score >= SCORE_MIN).collect();
    ranked.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
    Ok(ranked)
}

/// Returns memories that contain words of the query, each with the share of the query's weight it contains,
/// at most 1.
fn by_words(index: &Index, connection: &Connection, query: &str) -> rusqlite::Result<Vec<(i64, f32)>> {
    let mut terms: Vec<(u32, String)> =
        words::terms(query).into_iter().map(|term| (index.frequency(&term), term)).collect();
    terms.sort_unstable();
    terms.dedup();
    // What no memory contains counts, too: a memory that has one word of ten matches little.
    let whole: f64 =
        terms.iter().map(|(frequency, _)| postings::idf(index.documents(), *frequency as usize)).sum();
    terms.retain(|(frequency, _)| *frequency > 0);
    let mut postings = 0;
    terms.retain(|(frequency, _)| {
        postings += u64::from(*frequency);
        postings <= limits::POSTINGS_MAX
    });
    if terms.is_empty() {
        return Ok(Vec::new());
    }
    let terms: Vec<String> = terms.into_iter().map(|(_, term)| term).collect();
    let rows = if terms.iter().all(|term| term.is_ascii()) {
        index.postings().best(index, connection, &terms)?
    } else {
        // The full-text index handles other letters differently (accents, case), so it must be queried.
        by_full_text(connection, &terms)?
    };
    // A lower bm25 is better.
    let best = rows.iter().map(|(_, score)| -score).fold(whole.max(f64::MIN_POSITIVE), f64::max);
    #[allow(clippy::cast_possible_truncation, reason = "a share of 1")]
    let share = |score: f64| (-score / best).clamp(0.0, 1.0) as f32;
    Ok(rows.into_iter().map(|(key, score)| (key, share(score))).collect())
}

/// Ranks memories by the terms with the full-text index.
pub(super) fn by_full_text(connection: &Connection, terms: &[String]) -> rusqlite::Result<Vec<(i64, f64)>> {
    let terms: Vec<String> = terms.iter().map(|term| format!("\"{}\"", term.replace('"', ""))).collect();
    let mut select = connection.prepare_cached(
        "SELECT rowid, bm25(bench_memory_words, 4.0, 2.0, 1.0, 3.0) AS score FROM bench_memory_words
         WHERE bench_memory_words MATCH ?1 ORDER BY score, rowid LIMIT ?2",
    )?;
    let most = i64::try_from(limits::CANDIDATES_MAX).unwrap_or(i64::MAX);
    let rows = select.query_map(rusqlite::params![terms.join(" OR "), most], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, f64>(1)?))
    })?;
    rows.collect()
}

/// Reads a found memory from the tables.
fn fetch(connection: &Connection, key: i64, score: f32, now: Timestamp) -> rusqlite::Result<FoundMemory> {
    let mut select = connection.prepare_cached(
        "SELECT id, title, description, content, outcome, confidence, held_at FROM bench_memories WHERE key = ?1",
    )?;
    select.query_row([key], |row| {
        Ok(FoundMemory {
            id: row.get(0)?,
            title: row.get(1)?,
            description: row.get(2)?,
            content: row.get(3)?,
            outcome: row.get(4)?,
            confidence: faded(row.get(5)?, Timestamp(row.get(6)?), now),
            score,
        })
    })
}
