//! The journal's stored format, pinned by a file. Rows written by any released version must stay readable
//! forever, so a line of `journal_format.jsonl` may be added but not changed: new fields have a default,
//! kinds are never renamed.
//!
//! After adding a kind or a field run `UPDATE_GOLDEN=1 cargo nextest run -p domain journal` and read the
//! difference.

#[path = "journal_format/samples.rs"]
mod samples;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use domain::{ErrorCode, EventKind};
use serde_json::Value;

use samples::samples;

const GOLDEN: &str = "tests/journal_format.jsonl";

fn golden() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(GOLDEN)).unwrap_or_default()
}

#[test]
fn every_event_is_written_as_it_always_was() {
    let written: String = samples().iter().map(|kind| serde_json::to_string(kind).unwrap() + "\n").collect();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join(GOLDEN), &written).unwrap();
    }
    let golden = golden();
    for (at, (written, golden)) in written.lines().zip(golden.lines()).enumerate() {
        assert_eq!(written, golden, "line {} of {GOLDEN}", at + 1);
    }
    assert_eq!(written.lines().count(), golden.lines().count(), "lines of {GOLDEN}");
}

#[test]
fn every_stored_event_is_read_back_as_it_was() {
    for (line, kind) in golden().lines().zip(samples()) {
        assert_eq!(serde_json::from_str::<EventKind>(line).unwrap(), kind, "{line}");
    }
}

#[test]
fn a_field_of_a_newer_version_does_not_break_reading() {
    for (line, kind) in golden().lines().zip(samples()) {
        let mut value: Value = serde_json::from_str(line).unwrap();
        value.as_object_mut().unwrap().insert("added_later".to_owned(), serde_json::json!({"x": [1]}));
        assert_eq!(serde_json::from_value::<EventKind>(value).unwrap(), kind, "{line}");
    }
}

/// A field that is omitted when empty must not be required either.
#[test]
fn a_field_that_may_be_left_out_may_be_missing() {
    let optional: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("status_changed", &["message", "code"][..]),
        ("agent_ready", &["native_session", "model", "version"]),
        ("agent_exited", &["exit_code", "signal", "message"]),
        ("turn_started", &["prompt", "attachments", "by"]),
        ("turn_ended", &["text", "error"]),
        ("tool_started", &["title", "parent"]),
        ("request_opened", &["automatic", "proposals"]),
        ("request_settled", &["message", "grant", "used_grant"]),
        ("usage_reported", &["cache_read_tokens", "cost_micro_usd", "context_tokens", "context_window"]),
    ]);
    for line in golden().lines() {
        let mut value: Value = serde_json::from_str(line).unwrap();
        let name = value["type"].as_str().unwrap().to_owned();
        for field in optional.get(name.as_str()).copied().unwrap_or_default() {
            value.as_object_mut().unwrap().remove(*field);
        }
        let kind: EventKind = serde_json::from_value(value).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(kind.name(), name);
    }
}

#[test]
fn a_code_of_a_newer_version_reads_as_the_general_error() {
    let line = r#"{"type":"notice","level":"error","code":"OBEY-9999","message":"x"}"#;
    let kind: EventKind = serde_json::from_str(line).unwrap();
    assert!(matches!(kind, EventKind::Notice { code: Some(ErrorCode::SessionError), .. }));
}

/// Returns the names in `EventKind::name`, which the compiler keeps complete.
fn names_in_source() -> BTreeSet<String> {
    let source = include_str!("../src/event.rs");
    let arms = source.lines().filter_map(|line| line.trim().strip_prefix("Self::")?.split_once(" => \""));
    arms.map(|(_, name)| name.trim_end_matches("\",").to_owned()).collect()
}

#[test]
fn every_kind_has_a_line_and_every_line_its_stored_name() {
    let in_file: BTreeSet<String> = golden()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(in_file, names_in_source(), "kinds with a line in {GOLDEN}, and kinds there are");
    for kind in samples() {
        assert_eq!(serde_json::to_value(&kind).unwrap()["type"], kind.name());
    }
}
