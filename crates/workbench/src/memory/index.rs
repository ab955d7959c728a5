//! The vectors of all memories in contiguous memory, and how often each term occurs: what a search reads
//! before it queries the database. Loaded from the tables, never the other way round.

use std::collections::HashMap;

use domain::Timestamp;
use rusqlite::Connection;

use super::outcome::MemoryOutcome;
use super::postings::{self, Postings};
use super::scan::scan;
use crate::limits::{CANDIDATES_MAX, SCAN_ALONE_MAX};
use crate::place::{Scope, WorkPlace};
use crate::vectors::{Vector, least_product, similarity, similarity_of_product};

/// The fields a search filters by.
#[derive(Clone, Debug)]
struct IndexEntry {
    key: i64,
    place: u32,
    outcome: MemoryOutcome,
    confidence: f64,
    held_at: Timestamp,
    outdated: bool,
    /// Has a vector of the current embedder; without one only words find a memory.
    placed: bool,
    /// The number of terms in the full-text index.
    length: u32,
}

/// Which memories may be found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filter<'a> {
    pub(super) place: &'a WorkPlace,
    pub(super) scope: Scope,
    /// `None`: all.
    pub(super) outcome: Option<MemoryOutcome>,
    pub(super) min_confidence: f64,
    pub(super) now: Timestamp,
}

#[derive(Debug, Default)]
pub(super) struct Index {
    entries: Vec<IndexEntry>,
    /// All vectors in the order of the entries; zeros if an entry has none.
    numbers: Vec<i8>,
    /// The dimensions of a vector; 0 until there is one.
    width: usize,
    at: HashMap<i64, usize>,
    /// Few distinct values, so entries refer to them by number.
    places: Vec<WorkPlace>,
    /// The number of memories that contain a term, by the term's hash. A collision makes a term seem more
    /// common than it is.
    frequency: HashMap<u64, u32>,
    postings: Postings,
    /// Memories and terms in the full-text index.
    documents: u64,
    tokens: u64,
}

impl Index {
    /// Loads all memories. Vectors of another embedder than `model` are left out, because they are not
    /// comparable. All vectors are left out if a server is searched for them (`held` is false).
    pub(super) fn load(connection: &Connection, model: &str, held: bool) -> rusqlite::Result<Self> {
        let mut index = Self::default();
        let mut select = connection.prepare(
            "SELECT key, tenant, team, project, outcome, confidence, held_at, outdated, vector, model = ?1
             FROM bench_memories ORDER BY key",
        )?;
        let mut rows = select.query([model])?;
        while let Some(row) = rows.next()? {
            let place = WorkPlace { tenant: row.get(1)?, team: row.get(2)?, project: row.get(3)? };
            let ours = held && row.get(9).unwrap_or(false);
            let vector = Vector::from_bytes(row.get_ref(8)?.as_blob()?).filter(|_| ours);
            let key = row.get(0)?;
            index.add(key, &place, row.get(4)?, row.get(5)?, Timestamp(row.get(6)?), vector.as_ref());
            if row.get(7)? {
                index.retire(key);
            }
        }
        drop(rows);
        index.load_frequencies(connection)?;
        Ok(index)
    }

    /// Loads the term frequencies and lengths from the full-text index.
    fn load_frequencies(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut select = connection.prepare("SELECT term, doc FROM bench_memory_vocabulary")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let (term, count): (String, i64) = (row.get(0)?, row.get(1)?);
            self.frequency.insert(hash(&term), u32::try_from(count).unwrap_or(u32::MAX));
        }
        let mut select = connection.prepare("SELECT id, sz FROM bench_memory_words_docsize")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            self.count_length(row.get(0)?, postings::length(row.get_ref(1)?.as_blob()?));
        }
        Ok(())
    }

    /// Records how many terms a memory has.
    pub(super) fn count_length(&mut self, key: i64, length: u64) {
        self.documents += 1;
        self.tokens += length;
        if let Some(entry) = self.at.get(&key).and_then(|at| self.entries.get_mut(*at)) {
            entry.length = u32::try_from(length).unwrap_or(u32::MAX);
        }
    }

    /// Adds an entry. Without a vector it can be found by words only.
    pub(super) fn add(
        &mut self,
        key: i64,
        place: &WorkPlace,
        outcome: MemoryOutcome,
        confidence: f64,
        held_at: Timestamp,
        vector: Option<&Vector>,
    ) {
        let place = numbered(&mut self.places, place);
        self.at.insert(key, self.entries.len());
        let (outdated, placed, length) = (false, false, 0);
        self.entries.push(IndexEntry { key, place, outcome, confidence, held_at, outdated, placed, length });
        self.numbers.resize(self.entries.len() * self.width, 0);
        if let Some(vector) = vector {
            self.place(key, vector);
        }
    }

    /// Sets the vector of a memory. A vector of another width comes from another embedder and is ignored.
    pub(super) fn place(&mut self, key: i64, vector: &Vector) {
        let numbers = vector.numbers();
        if self.width == 0 {
            self.width = numbers.len();
            self.numbers.resize(self.entries.len() * self.width, 0);
        }
        let Some(at) = self.at.get(&key).copied().filter(|_| numbers.len() == self.width) else { return };
        if let Some(row) = self.numbers.get_mut(at * self.width..(at + 1) * self.width) {
            row.copy_from_slice(numbers);
            self.entries[at].placed = true;
        }
    }

    /// Counts the terms of a new memory and drops their cached posting lists.
    pub(super) fn count_terms(&mut self, terms: &[&str]) {
        self.postings.forget(terms);
        for term in terms {
            *self.frequency.entry(hash(term)).or_default() += 1;
        }
    }

    /// Sets the new confidence of an entry.
    pub(super) fn judge(&mut self, key: i64, confidence: f64, now: Timestamp, outdated: bool) {
        if let Some(entry) = self.at.get(&key).and_then(|at| self.entries.get_mut(*at)) {
            (entry.confidence, entry.held_at) = (confidence, now);
            entry.outdated |= outdated;
        }
    }

    fn retire(&mut self, key: i64) {
        if let Some(entry) = self.at.get(&key).and_then(|at| self.entries.get_mut(*at)) {
            entry.outdated = true;
        }
    }

    /// Returns in how many memories a term occurs.
    pub(super) fn frequency(&self, term: &str) -> u32 {
        self.frequency.get(&hash(term)).copied().unwrap_or(0)
    }

    /// Returns the number of memories; positions are below this number.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn key(&self, at: usize) -> Option<i64> {
        self.entries.get(at).map(|entry| entry.key)
    }

    pub(super) fn place_of(&self, key: i64) -> Option<u32> {
        self.at.get(&key).and_then(|at| u32::try_from(*at).ok())
    }

    pub(super) fn documents(&self) -> u64 {
        self.documents
    }

    /// Returns how many terms a memory has.
    pub(super) fn length(&self, at: usize) -> f64 {
        self.entries.get(at).map_or(0.0, |entry| f64::from(entry.length))
    }

    #[allow(clippy::cast_precision_loss, reason = "counts of words")]
    pub(super) fn average_length(&self) -> f64 {
        self.tokens as f64 / self.documents.max(1) as f64
    }

    pub(super) fn postings(&self) -> &Postings {
        &self.postings
    }

    /// Returns the most similar memories with their similarity, best first, none below `least`.
    pub(super) fn nearest(&self, vector: &Vector, allowed: &Allowed, least: f32) -> Vec<(i64, f32)> {
        if vector.numbers().len() != self.width {
            return Vec::new();
        }
        let look = |from: usize, to: usize| {
            let rows = &self.numbers[from * self.width..to * self.width];
            let entries = &self.entries[from..to];
            let found = scan(vector.numbers(), rows, least_product(least), |row| {
                entries[row].placed && allowed.entry(&entries[row])
            });
            let near = found.into_iter().map(|(row, dot)| (entries[row].key, similarity_of_product(dot)));
            best(near.filter(|(_, similarity)| *similarity >= least).collect())
        };
        let (all, half) = (self.entries.len(), self.entries.len() / 2);
        if all <= SCAN_ALONE_MAX {
            return look(0, all);
        }
        let found = std::thread::scope(|scope| {
            let second = scope.spawn(|| look(half, all));
            let mut found = look(0, half);
            // A panicked thread found nothing; nothing in it can panic.
            found.extend(second.join().unwrap_or_default());
            found
        });
        best(found)
    }

    /// Whether a memory passes the filter.
    pub(super) fn allows(&self, key: i64, allowed: &Allowed) -> bool {
        let entry = self.at.get(&key).and_then(|at| self.entries.get(*at));
        entry.is_some_and(|entry| allowed.entry(entry))
    }

    /// Returns the similarity of one memory that passes the filter; 0 without a vector.
    pub(super) fn similarity_of(&self, key: i64, vector: Option<&Vector>, allowed: &Allowed) -> Option<f32> {
        let at = *self.at.get(&key)?;
        let entry = self.entries.get(at).filter(|entry| allowed.entry(entry))?;
        debug_assert_eq!(entry.key, key);
        let vector = vector.filter(|vector| entry.placed && vector.numbers().len() == self.width);
        let numbers = self.numbers.get(at * self.width..(at + 1) * self.width)?;
        Some(vector.map_or(0.0, |vector| similarity(vector.numbers(), numbers)))
    }

    /// Evaluates a filter once per distinct place, so that each entry needs only a lookup.
    pub(super) fn allowed(&self, filter: Filter<'_>) -> Allowed {
        Allowed {
            places: self.places.iter().map(|place| filter.place.sees(place, filter.scope)).collect(),
            outcome: filter.outcome,
            min_confidence: filter.min_confidence,
            now: filter.now,
        }
    }
}

/// Sorts best first, the older one of two equals; keeps as many as are ranked.
pub(super) fn best(mut found: Vec<(i64, f32)>) -> Vec<(i64, f32)> {
    let order = |one: &(i64, f32), other: &(i64, f32)| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0));
    if found.len() > CANDIDATES_MAX {
        found.select_nth_unstable_by(CANDIDATES_MAX, order);
        found.truncate(CANDIDATES_MAX);
    }
    found.sort_unstable_by(order);
    found
}

/// A filter with the places evaluated once.
pub(super) struct Allowed {
    places: Vec<bool>,
    outcome: Option<MemoryOutcome>,
    min_confidence: f64,
    now: Timestamp,
}

impl Allowed {
    /// Whether an entry passes the filter.
    fn entry(&self, entry: &IndexEntry) -> bool {
        // The wire has single precision: a search for 0.7 must find a stored 0.7.
        !entry.outdated
            && self.places.get(entry.place as usize).copied().unwrap_or(false)
            && self.outcome.is_none_or(|wanted| wanted == entry.outcome)
            && super::faded(entry.confidence, entry.held_at, self.now) + 1e-6 >= self.min_confidence
    }
}

/// Returns the number of a value in the list, and adds it if it is new.
fn numbered<T: PartialEq + Clone>(list: &mut Vec<T>, wanted: &T) -> u32 {
    let at = list.iter().position(|known| known == wanted).unwrap_or_else(|| {
        list.push(wanted.clone());
        list.len() - 1
    });
    u32::try_from(at).unwrap_or(u32::MAX)
}

fn hash(term: &str) -> u64 {
    use std::hash::{DefaultHasher, Hasher as _};
    let mut hasher = DefaultHasher::new();
    hasher.write(term.as_bytes());
    hasher.finish()
}
