//! Recorded conversations with the real Claude Code, replayed: what we wrote then is what we write now, and what it
//! said means what it meant. `claude_live` records them.
//!
//! A recording is JSON lines: `{"setup": …}` first, then `{"told": AgentInput}` and `{"line": …}` as they happened.

use std::fmt::Write as _;
use std::path::PathBuf;

use domain::{AgentEvent, AgentInput, ProviderKind, SessionSpec};
use providers::claude_code::ClaudeCode;
use runtime::provider::{Codec, Provider};
use serde_json::Value;

use crate::support::{decode, launch, some_program, spec, starting};

pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/claude_code")
}

fn provider() -> ClaudeCode {
    ClaudeCode::new(Some(some_program()))
}

/// What a recording was made with.
pub(crate) fn recorded_spec(setup: &Value) -> SessionSpec {
    let mut spec = spec(ProviderKind::ClaudeCode, "/example/repo".as_ref());
    spec.model = setup["model"].as_str().unwrap_or_default().to_owned();
    spec.mode = serde_json::from_value(setup["mode"].clone()).unwrap_or_default();
    for (key, value) in setup["provider_config"].as_object().into_iter().flatten() {
        spec.provider_config.insert(key.clone(), value.as_str().unwrap().to_owned());
    }
    spec
}

pub(crate) struct Recording {
    pub(crate) name: String,
    pub(crate) spec: SessionSpec,
    pub(crate) codec: Box<dyn Codec>,
    pub(crate) entries: Vec<Value>,
}

pub(crate) fn recordings() -> Vec<Recording> {
    let mut files: Vec<PathBuf> = folder().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|ext| ext == "jsonl"));
    files.sort();
    assert!(!files.is_empty());
    files.iter().map(|file| read(file)).collect()
}

fn read(file: &std::path::Path) -> Recording {
    let text = std::fs::read_to_string(file).unwrap();
    let mut entries: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let setup = entries.remove(0)["setup"].clone();
    let spec = recorded_spec(&setup);
    let mut state = starting(&spec);
    state.turns = setup["turns"].as_u64().unwrap_or(0);
    let codec = launch(&provider(), &spec, &state, Vec::new()).codec;
    Recording { name: file.file_stem().unwrap().to_str().unwrap().to_owned(), spec, codec, entries }
}

/// Replays a recording; `between` may replace the codec after every entry.
fn replay(
    recording: Recording,
    mut between: impl FnMut(Box<dyn Codec>) -> Box<dyn Codec>,
) -> (String, Vec<AgentEvent>) {
    let Recording { mut codec, entries, .. } = recording;
    let (mut text, mut all) = (String::new(), Vec::new());
    let mut wire = Vec::new();
    codec.open(&mut wire);
    print_wire(&mut text, &wire);
    for entry in entries {
        codec = between(codec);
        if let Some(told) = entry.get("told") {
            let input: AgentInput = serde_json::from_value(told.clone()).unwrap();
            let mut wire = Vec::new();
            codec.encode(&input, &mut wire).unwrap();
            print_wire(&mut text, &wire);
        } else {
            let (events, replies) = decode(&mut *codec, entry["line"].to_string().as_bytes());
            for event in events {
                writeln!(text, "{event:?}").unwrap();
                all.push(event);
            }
            print_wire(&mut text, &replies);
        }
    }
    (text, all)
}

fn print_wire(text: &mut String, wire: &[u8]) {
    for line in std::str::from_utf8(wire).unwrap().lines() {
        writeln!(text, "> {line}").unwrap();
    }
}

#[test]
fn recordings_mean_what_they_meant() {
    insta::with_settings!({ prepend_module_to_snapshot => false, snapshot_path => "../snapshots/claude_code", omit_expression => true }, {
        for recording in recordings() {
            let name = recording.name.clone();
            let (text, _) = replay(recording, |codec| codec);
            insta::assert_snapshot!(name, text);
        }
    });
}

#[test]
fn a_daemon_that_comes_back_between_any_two_lines_hears_the_same() {
    for (plain, broken) in recordings().into_iter().zip(recordings()) {
        let (name, spec) = (plain.name.clone(), plain.spec.clone());
        let (_, expected) = replay(plain, |codec| codec);
        let mut largest = 0;
        let (_, got) = replay(broken, |codec| {
            let saved = codec.save();
            largest = largest.max(saved.len());
            provider().codec(&spec, &saved).unwrap()
        });
        assert_eq!(got, expected, "{name}");
        assert!(largest < 8 * 1024, "{name}: the saved state grew to {largest} bytes");
    }
}

#[test]
fn every_recorded_turn_and_call_ends_once() {
    for recording in recordings() {
        let name = recording.name.clone();
        let prompts = recording.entries.iter().filter(|entry| {
            let told = &entry["told"];
            told.get("prompt").is_some() || told == "compact"
        });
        let prompts = prompts.count();
        let (_, events) = replay(recording, |codec| codec);
        let mut open = std::collections::BTreeSet::new();
        let mut ends = 0;
        for event in &events {
            match event {
                AgentEvent::ToolStarted { call, .. } => assert!(open.insert(call.clone()), "{name}: {call}"),
                AgentEvent::ToolFinished { call, .. } => assert!(open.remove(call), "{name}: {call}"),
                AgentEvent::TurnEnded { .. } => ends += 1,
                AgentEvent::Unparsed { raw, .. } => panic!("{name}: {raw}"),
                _ => {}
            }
        }
        assert!(ends >= prompts, "{name}: {prompts} prompts, {ends} ends");
    }
}
