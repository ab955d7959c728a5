//! Reads journals as `obey session log --json` prints them.

use domain::{EventKind, Timestamp};
use serde_json::Value;
use view::Transcript;

/// One line of a journal.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) seq: u64,
    pub(crate) at: Timestamp,
    pub(crate) name: String,
    pub(crate) kind: Option<EventKind>,
}

impl Entry {
    pub(crate) fn apply(&self, transcript: &mut Transcript) -> bool {
        transcript.apply(self.seq, self.at, &self.name, self.kind.as_ref())
    }
}

pub(crate) fn entries(lines: &str) -> Vec<Entry> {
    lines.lines().filter(|line| !line.is_empty()).map(entry).collect()
}

fn entry(line: &str) -> Entry {
    let mut value: Value = serde_json::from_str(line).unwrap();
    let at: jiff::Timestamp = value["at"].as_str().unwrap().parse().unwrap();
    let seq = value["seq"].as_u64().unwrap();
    // A field of the event with the name of the number is printed under another one.
    if let Some(own) = value.as_object_mut().and_then(|fields| fields.remove("from_seq")) {
        value["seq"] = own;
    }
    Entry {
        seq,
        at: Timestamp(at.as_microsecond()),
        name: value["type"].as_str().unwrap().to_owned(),
        kind: serde_json::from_value(value).ok(),
    }
}

pub(crate) fn fold(lines: &str) -> Transcript {
    let mut transcript = Transcript::default();
    for entry in entries(lines) {
        entry.apply(&mut transcript);
    }
    transcript
}
