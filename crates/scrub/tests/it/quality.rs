//! Precision and recall on labelled documents: texts in which every secret stands between « and ».

use std::collections::BTreeMap;
use std::ops::Range;

use scrub::Scrubber;

use super::made_up::{self, Dice};

/// A labelled text.
pub(crate) struct Document {
    name: String,
    kind: String,
    text: String,
}

/// What was found in texts of one kind.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) secrets: usize,
    pub(crate) found: usize,
    pub(crate) alarms: usize,
    pub(crate) right: usize,
}

/// What was found in a set of documents.
#[derive(Default)]
pub(crate) struct Measured {
    pub(crate) documents: usize,
    pub(crate) kinds: BTreeMap<String, Tally>,
    pub(crate) complaints: Vec<String>,
}

/// Each document is filled this often, with other characters.
pub(crate) const ROUNDS: usize = 20;

/// A secret counts as redacted if no piece of this length is left of it.
const LEFT_MAX: usize = 6;

/// Reads documents.
pub(crate) fn read(toml: &str) -> Vec<Document> {
    let table: toml::Table = toml::from_str(toml).unwrap();
    let field = |document: &toml::Value, name: &str| document[name].as_str().unwrap().to_owned();
    let documents = table["document"].as_array().unwrap().iter();
    let read =
        |one| Document { name: field(one, "name"), kind: field(one, "kind"), text: field(one, "text") };
    documents.map(read).collect()
}

/// Scrubs every document and compares with its labels.
pub(crate) fn measure(scrubber: &Scrubber, documents: &[Document]) -> Measured {
    let mut measured = Measured { documents: documents.len(), ..Measured::default() };
    for document in documents {
        for round in 0..ROUNDS {
            judge(scrubber, document, round, &mut measured);
        }
    }
    measured.complaints.sort();
    measured.complaints.dedup();
    measured
}

impl Measured {
    /// Returns which part of the secrets of a kind was found; of all where it is empty.
    pub(crate) fn recall(&self, kind: &str) -> f64 {
        let of_kind = self.kinds.iter().filter(|(name, _)| kind.is_empty() || *name == kind);
        let (secrets, found) = of_kind
            .fold((0, 0), |(secrets, found), (_, tally)| (secrets + tally.secrets, found + tally.found));
        if secrets == 0 { 1.0 } else { found as f64 / secrets as f64 }
    }

    /// Returns which part of the alarms was right.
    pub(crate) fn precision(&self) -> f64 {
        let alarms: usize = self.kinds.values().map(|tally| tally.alarms).sum();
        let right: usize = self.kinds.values().map(|tally| tally.right).sum();
        right as f64 / alarms as f64
    }

    /// Says it in lines.
    pub(crate) fn report(&self) -> String {
        let mut lines = vec![format!("{} documents × {ROUNDS}", self.documents)];
        for (kind, tally) in &self.kinds {
            lines.push(format!("  recall, {kind:<12}{:.4} of {}", self.recall(kind), tally.secrets));
        }
        let alarms: usize = self.kinds.values().map(|tally| tally.alarms).sum();
        lines.push(format!("  recall              {:.4}", self.recall("")));
        lines.push(format!("  precision           {:.4} of {alarms} alarms", self.precision()));
        lines.join("\n")
    }
}

fn judge(scrubber: &Scrubber, document: &Document, round: usize, measured: &mut Measured) {
    let filled = made_up::expand(&document.text, &mut Dice::new(&format!("{} {round}", document.name)));
    let (text, places) = places(&filled);
    let scrubbed = scrubber.scrub(text.as_bytes());
    let out = without_marks(&String::from_utf8(scrubbed.bytes).unwrap());
    let tally = measured.kinds.entry(document.kind.clone()).or_default();
    tally.secrets += places.len();
    let rest = outside(&text, &places);
    for place in &places {
        let secret = text[place.clone()].as_bytes();
        let is_left = secret
            .windows(LEFT_MAX.min(secret.len()))
            .any(|piece| count(out.as_bytes(), piece) > count(rest.as_bytes(), piece));
        if is_left {
            let line = line_of(&text, place.start);
            measured.complaints.push(format!("missed in {}: {line}", document.name));
        } else {
            tally.found += 1;
        }
    }
    for finding in scrubbed.findings.list() {
        let at = finding.offset as usize;
        tally.alarms += 1;
        if places.iter().any(|place| place.contains(&at)) {
            tally.right += 1;
        } else {
            let line = line_of(&text, at);
            measured.complaints.push(format!("false alarm of {} in {}: {line}", finding.rule, document.name));
        }
    }
}

fn line_of(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |at| at + 1);
    text[start..].lines().next().unwrap_or_default()
}

/// Where the secrets of a text stand.
fn places(filled: &str) -> (String, Vec<Range<usize>>) {
    let (mut text, mut places) = (String::new(), Vec::<Range<usize>>::new());
    for part in filled.split_inclusive(['«', '»']) {
        text.push_str(part.trim_end_matches(['«', '»']));
        if part.ends_with('«') {
            places.push(text.len()..text.len());
        } else if part.ends_with('»') {
            places.last_mut().unwrap().end = text.len();
        }
    }
    (text, places)
}

/// Rule names may share letters with the secrets they stand for.
fn without_marks(out: &str) -> String {
    out.split("[REDACTED:")
        .enumerate()
        .map(|(index, part)| match part.split_once(']') {
            Some((_, after)) if index > 0 => after,
            _ => part,
        })
        .collect::<Vec<_>>()
        .join("\0")
}

fn outside(text: &str, places: &[Range<usize>]) -> String {
    let mut rest = String::new();
    let mut from = 0;
    for place in places {
        rest.push_str(&text[from..place.start]);
        rest.push('\0');
        from = place.end;
    }
    rest.push_str(&text[from..]);
    rest
}

fn count(text: &[u8], piece: &[u8]) -> usize {
    text.windows(piece.len()).filter(|window| *window == piece).count()
}
