//! Posting lists and bm25 scores, computed as SQLite's full-text index does, from lists that are read once
//! and cached while they are in use. The index in the database is authoritative; the cache can be dropped at
//! any time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;

use super::index::Index;
use crate::limits::{CANDIDATES_MAX, POSTINGS_KEPT_MAX};

/// The weight of a term in each column of the full-text index, by the column's name.
const WEIGHTS: &[(&str, f64)] = &[("title", 4.0), ("description", 2.0), ("content", 1.0), ("tags", 3.0)];

/// The constants of bm25 in SQLite.
const K1: f64 = 1.2;
const B: f64 = 0.75;
const IDF_MIN: f64 = 1e-6;

/// A memory that contains a term: its position in the index, and the term's weight there.
type Posting = (u32, f32);

/// Posting lists of recently used terms.
#[derive(Debug, Default)]
pub(super) struct Postings {
    kept: Mutex<CachedPostings>,
}

#[derive(Debug, Default)]
struct CachedPostings {
    lists: HashMap<String, Arc<[Posting]>>,
    size: usize,
}

impl Postings {
    /// Drops the lists of terms that a new memory contains.
    pub(super) fn forget(&self, terms: &[&str]) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for term in terms {
            if let Some(list) = kept.lists.remove(*term) {
                kept.size -= list.len();
            }
        }
    }

    /// Returns the posting list of a term from the cache or the tables. A full cache is emptied.
    fn of(&self, index: &Index, connection: &Connection, term: &str) -> rusqlite::Result<Arc<[Posting]>> {
        let locked = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = locked().lists.get(term) {
            return Ok(Arc::clone(list));
        }
        let list: Arc<[Posting]> = read(index, connection, term)?.into();
        let mut kept = locked();
        if kept.size + list.len() > POSTINGS_KEPT_MAX {
            *kept = CachedPostings::default();
        }
        kept.size += list.len();
        kept.lists.insert(term.to_owned(), Arc::clone(&list));
        Ok(list)
    }

    /// Returns the memories that match the terms best, with their bm25 score: lower is better. Best first; of
    /// two equals the older one.
    pub(super) fn best(
        &self,
        index: &Index,
        connection: &Connection,
        terms: &[String],
    ) -> rusqlite::Result<Vec<(i64, f64)>> {
        let mut scores = vec![0f64; index.len()];
        let mut touched = Vec::new();
        let average = index.average_length();
        for term in terms {
            let list = self.of(index, connection, term)?;
            let idf = idf(index.documents(), list.len());
            for (at, weight) in list.iter() {
                let at = *at as usize;
                let frequency = f64::from(*weight);
                // Keep this order of operations: the last digit decides between equal memories.
                let share = B * index.length(at) / average;
                let part = idf * ((frequency * (K1 + 1.0)) / (frequency + K1 * (1.0 - B + share)));
                if scores[at] == 0.0 {
                    touched.push(at);
                }
                scores[at] += part;
            }
        }
        let mut best: Vec<(i64, f64)> =
            touched.into_iter().filter_map(|at| Some((index.key(at)?, -scores[at]))).collect();
        let order =
            |one: &(i64, f64), other: &(i64, f64)| one.1.total_cmp(&other.1).then(one.0.cmp(&other.0));
        if best.len() > CANDIDATES_MAX {
            best.select_nth_unstable_by(CANDIDATES_MAX, order);
            best.truncate(CANDIDATES_MAX);
        }
        best.sort_unstable_by(order);
        Ok(best)
    }
}

#[allow(clippy::cast_precision_loss, reason = "counts of memories")]
pub(super) fn idf(documents: u64, holding: usize) -> f64 {
    let (documents, holding) = (documents as f64, holding as f64);
    let idf = ((documents - holding + 0.5) / (holding + 0.5)).ln();
    if idf <= 0.0 { IDF_MIN } else { idf }
}

/// Reads a term's list; its occurrences are ordered by memory.
fn read(index: &Index, connection: &Connection, term: &str) -> rusqlite::Result<Vec<Posting>> {
    let mut select =
        connection.prepare_cached("SELECT doc, col FROM bench_memory_occurrences WHERE term = ?1")?;
    let mut rows = select.query([term])?;
    let mut list: Vec<Posting> = Vec::new();
    let mut last = None;
    while let Some(row) = rows.next()? {
        let key: i64 = row.get(0)?;
        let column = row.get_ref(1)?.as_str()?;
        let weight = WEIGHTS.iter().find(|(name, _)| *name == column).map_or(0.0, |(_, weight)| *weight);
        if last != Some(key) {
            let Some(at) = index.place_of(key) else { continue };
            list.push((at, 0.0));
            last = Some(key);
        }
        #[allow(clippy::cast_possible_truncation, reason = "small whole numbers")]
        if let Some(posting) = list.last_mut() {
            posting.1 += weight as f32;
        }
    }
    Ok(list)
}

/// Sums a memory's term counts from the full-text index's size record: one number per column.
pub(super) fn length(sizes: &[u8]) -> u64 {
    let (mut total, mut number) = (0, 0u64);
    for byte in sizes {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            total += number;
            number = 0;
        }
    }
    total
}
