//! All memories' vectors in one stretch of memory, and how often each term occurs: what a search reads before it opens
//! the database. Filled from the tables, never the other way round.

use std::collections::HashMap;

use domain::Timestamp;
use rusqlite::Connection;

use crate::limits::{CANDIDATES_MAX, VECTOR_DIMENSIONS};
use crate::place::{Place, Scope};
use crate::vectors::{Vector, similarity};

/// What a search filters by.
#[derive(Clone, Debug)]
struct Entry {
    key: i64,
    place: u32,
    outcome: u32,
    confidence: f64,
    held_at: Timestamp,
    outdated: bool,
}

/// Who may be found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filter<'a> {
    pub(super) place: &'a Place,
    pub(super) scope: Scope,
    /// Empty: all.
    pub(super) outcome: &'a str,
    pub(super) min_confidence: f64,
    pub(super) now: Timestamp,
}

#[derive(Debug, Default)]
pub(super) struct Index {
    entries: Vec<Entry>,
    /// One vector behind the other, in the order of the entries.
    numbers: Vec<i8>,
    at: HashMap<i64, usize>,
    /// Few different ones: they are numbered.
    places: Vec<Place>,
    outcomes: Vec<String>,
    /// In how many memories a term is, by the term's hash. A clash makes a term seem more common than it is.
    frequency: HashMap<u64, u32>,
}

impl Index {
    pub(super) fn load(connection: &Connection) -> rusqlite::Result<Self> {
        let mut index = Self::default();
        let mut select = connection.prepare(
            "SELECT key, tenant, team, project, outcome, confidence, held_at, outdated, vector
             FROM bench_memories ORDER BY key",
        )?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let place = Place { tenant: row.get(1)?, team: row.get(2)?, project: row.get(3)? };
            let bytes: Vec<u8> = row.get(8)?;
            let Some(vector) = Vector::from_bytes(&bytes) else { continue };
            let outcome: String = row.get(4)?;
            let key = row.get(0)?;
            index.add(key, &place, &outcome, row.get(5)?, Timestamp(row.get(6)?), &vector);
            if row.get(7)? {
                index.retire(key);
            }
        }
        drop(rows);
        index.load_frequencies(connection)?;
        Ok(index)
    }

    /// The full-text index can tell its words.
    fn load_frequencies(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut select = connection.prepare("SELECT term, doc FROM bench_memory_vocabulary")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let (term, count): (String, i64) = (row.get(0)?, row.get(1)?);
            self.frequency.insert(hash(&term), u32::try_from(count).unwrap_or(u32::MAX));
        }
        Ok(())
    }

    pub(super) fn add(
        &mut self,
        key: i64,
        place: &Place,
        outcome: &str,
        confidence: f64,
        held_at: Timestamp,
        vector: &Vector,
    ) {
        let place = numbered(&mut self.places, place);
        let outcome = numbered(&mut self.outcomes, &outcome.to_owned());
        self.at.insert(key, self.entries.len());
        self.entries.push(Entry { key, place, outcome, confidence, held_at, outdated: false });
        self.numbers.extend_from_slice(vector.numbers());
    }

    pub(super) fn count_terms(&mut self, terms: &[&str]) {
        for term in terms {
            *self.frequency.entry(hash(term)).or_default() += 1;
        }
    }

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

    /// Returns in how many memories a term is.
    pub(super) fn frequency(&self, term: &str) -> u32 {
        self.frequency.get(&hash(term)).copied().unwrap_or(0)
    }

    /// Returns the most similar memories with their similarity, best first, and none below `least`.
    pub(super) fn nearest(&self, vector: &Vector, filter: Filter<'_>, least: f32) -> Vec<(i64, f32)> {
        let allowed = self.allowed(filter);
        let mut found: Vec<(i64, f32)> = Vec::new();
        for (entry, numbers) in self.entries.iter().zip(self.numbers.chunks_exact(VECTOR_DIMENSIONS)) {
            if !allowed.entry(entry) {
                continue;
            }
            let similarity = similarity(vector.numbers(), numbers);
            if similarity >= least {
                found.push((entry.key, similarity));
            }
        }
        // Best first; the older one of two equals.
        found.sort_unstable_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        found.truncate(CANDIDATES_MAX);
        found
    }

    /// Returns the similarity of one memory that passes the filter.
    pub(super) fn similarity_of(&self, key: i64, vector: &Vector, filter: Filter<'_>) -> Option<f32> {
        let at = *self.at.get(&key)?;
        let entry = self.entries.get(at).filter(|entry| self.allowed(filter).entry(entry))?;
        debug_assert_eq!(entry.key, key);
        let numbers = self.numbers.get(at * VECTOR_DIMENSIONS..(at + 1) * VECTOR_DIMENSIONS)?;
        Some(similarity(vector.numbers(), numbers))
    }

    fn allowed(&self, filter: Filter<'_>) -> Allowed {
        Allowed {
            places: self.places.iter().map(|place| filter.place.sees(place, filter.scope)).collect(),
            outcomes: self
                .outcomes
                .iter()
                .map(|outcome| filter.outcome.is_empty() || outcome == filter.outcome)
                .collect(),
            min_confidence: filter.min_confidence,
            now: filter.now,
        }
    }
}

/// A filter, with places and outcomes decided once.
struct Allowed {
    places: Vec<bool>,
    outcomes: Vec<bool>,
    min_confidence: f64,
    now: Timestamp,
}

impl Allowed {
    fn entry(&self, entry: &Entry) -> bool {
        let is = |list: &[bool], number: u32| list.get(number as usize).copied().unwrap_or(false);
        // Single precision on the wire: 0.7 asked for must find 0.7 stored.
        !entry.outdated
            && is(&self.places, entry.place)
            && is(&self.outcomes, entry.outcome)
            && super::faded(entry.confidence, entry.held_at, self.now) + 1e-6 >= self.min_confidence
    }
}

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
