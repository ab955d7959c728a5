//! Rows of a journal: a row is an event or it is refused, and an event that was read is written and read again unchanged.

use anyhow::{Result, ensure};
use domain::EventKind;

use crate::Target;
use crate::mutate::hash;

pub(super) struct JournalRows;

/// One line for every form that an event may have in a journal.
const JOURNAL: &str = include_str!("../../../crates/domain/tests/journal_format.jsonl");

impl Target for JournalRows {
    fn name(&self) -> &'static str {
        "journal"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        JOURNAL.lines().map(|line| line.as_bytes().to_vec()).collect()
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "\"type\":",
            "null",
            "-1",
            "0.5",
            "1e300",
            "18446744073709551616",
            "[]",
            "{}",
            "\"\"",
            "\\u0000",
            "true",
        ]
    }

    fn run(&mut self, input: &[u8]) -> Result<u64> {
        let Ok(kind) = serde_json::from_slice::<EventKind>(input) else { return Ok(0) };
        let written = serde_json::to_vec(&kind)?;
        let again: EventKind = serde_json::from_slice(&written)?;
        ensure!(again == kind, "{kind:?} became {again:?}");
        Ok(hash(kind.name().as_bytes()) ^ u64::from(written.len().ilog2()))
    }
}
