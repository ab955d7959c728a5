//! The rows of recorded and written journals. `UPDATE_GOLDEN=1` writes them again; read the diff.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::journal::fold;

fn goldens() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens");
    let mut all: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| path.extension().is_some_and(|ext| ext == "jsonl"));
    all.sort();
    assert!(all.len() >= 4, "goldens are missing");
    all
}

fn printed(lines: &str) -> String {
    let transcript = fold(lines);
    let mut text =
        format!("{{\"header\":{},\n\"rows\":[", serde_json::to_string(transcript.header()).unwrap());
    for (at, row) in transcript.rows().iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        write!(text, "{comma}\n{}", serde_json::to_string(row).unwrap()).unwrap();
    }
    text.push_str("\n]}\n");
    text
}

#[test]
fn every_golden_journal_gives_its_rows() {
    for path in goldens() {
        let rows = printed(&fs::read_to_string(&path).unwrap());
        let golden = path.with_extension("rows.json");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&golden, &rows).unwrap();
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        for (line, (a, b)) in rows.lines().zip(expected.lines()).enumerate() {
            assert_eq!(a, b, "{} line {}", golden.display(), line + 1);
        }
        assert_eq!(rows.len(), expected.len(), "{}", golden.display());
    }
}

#[test]
fn every_kind_of_event_and_of_row_is_in_a_golden() {
    let journals: String = goldens().iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let rows: String = goldens()
        .iter()
        .map(|path| fs::read_to_string(path.with_extension("rows.json")).unwrap_or_default())
        .collect();
    let samples = include_str!("../../../domain/tests/journal_format.jsonl");
    for line in samples.lines() {
        let kind: serde_json::Value = serde_json::from_str(line).unwrap();
        let kind = format!("\"type\":{}", kind["type"]);
        assert!(journals.contains(&kind), "no golden has an event with {kind}");
    }
    let kinds = [
        "prompt",
        "text",
        "thinking",
        "calls",
        "edit",
        "plan",
        "request",
        "turn_end",
        "compaction",
        "worker",
        "activity",
        "notice",
        "gap",
    ];
    for kind in kinds {
        assert!(rows.contains(&format!("\"kind\":\"{kind}\"")), "no golden has a row of kind {kind}");
    }
}
