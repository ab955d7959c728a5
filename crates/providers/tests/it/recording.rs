//! Recorded conversations with a real agent, replayed: what we wrote then is what we write now, and the
//! agent's lines have the same meaning. The `…_live` modules record them.
//!
//! A recording is JSON lines: `{"setup": …}` first, then `{"told": AgentInput}` and `{"line": …}` as they
//! happened.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use agent_port::{Codec, Provider};
use domain::{AgentEvent, AgentInput, ProviderKind, SessionSpec};
use serde_json::Value;

use crate::support::{decode, launch, spec, starting};

/// Longest codec state in any recording: it is written with every batch of events.
const SAVED_MAX_BYTES: usize = 8 * 1024;

/// An agent whose conversations are recorded.
pub(crate) struct Agent {
    /// Name of the folders with recordings and snapshots.
    pub(crate) name: &'static str,
    pub(crate) kind: ProviderKind,
    pub(crate) provider: fn() -> Box<dyn Provider>,
}

pub(crate) struct Recording {
    pub(crate) name: String,
    pub(crate) spec: SessionSpec,
    pub(crate) codec: Box<dyn Codec>,
    pub(crate) entries: Vec<Value>,
}

impl Agent {
    pub(crate) fn folder(&self) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts").join(self.name)
    }

    /// Returns the spec a recording was made with.
    pub(crate) fn spec(&self, setup: &Value) -> SessionSpec {
        let mut spec = spec(self.kind, "/example/repo".as_ref());
        spec.model = setup["model"].as_str().unwrap_or_default().to_owned();
        spec.mode = serde_json::from_value(setup["mode"].clone()).unwrap_or_default();
        for (key, value) in setup["provider_config"].as_object().into_iter().flatten() {
            spec.provider_config.insert(key.clone(), value.as_str().unwrap().to_owned());
        }
        spec
    }

    pub(crate) fn recordings(&self) -> Vec<Recording> {
        let entries = self.folder().read_dir().unwrap();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.retain(|file| file.extension().is_some_and(|ext| ext == "jsonl"));
        files.sort();
        assert!(!files.is_empty());
        files.iter().map(|file| self.read(file)).collect()
    }

    fn read(&self, file: &Path) -> Recording {
        let text = std::fs::read_to_string(file).unwrap();
        let mut entries: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let setup = entries.remove(0)["setup"].clone();
        let spec = self.spec(&setup);
        let mut state = starting(&spec);
        state.turns = setup["turns"].as_u64().unwrap_or(0);
        setup["native_session"].as_str().unwrap_or_default().clone_into(&mut state.native_session);
        let codec = launch(&*(self.provider)(), &spec, &state, Vec::new()).codec;
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        Recording { name, spec, codec, entries }
    }

    /// Checks that every recording has the meaning in the snapshot of its name.
    pub(crate) fn check_meaning(&self) {
        let mut settings = insta::Settings::clone_current();
        settings.set_prepend_module_to_snapshot(false);
        settings.set_snapshot_path(Path::new("../snapshots").join(self.name));
        settings.set_omit_expression(true);
        settings.bind(|| {
            for recording in self.recordings() {
                let name = recording.name.clone();
                let (text, _) = replay(recording, |codec| codec);
                insta::assert_snapshot!(name, text);
            }
        });
    }

    /// Checks that a daemon that restarts between any two lines gets the same events.
    pub(crate) fn check_saved_state(&self) {
        for (plain, broken) in self.recordings().into_iter().zip(self.recordings()) {
            let (name, spec) = (plain.name.clone(), plain.spec.clone());
            let (_, expected) = replay(plain, |codec| codec);
            let mut largest = 0;
            let (_, got) = replay(broken, |codec| {
                let saved = codec.save();
                largest = largest.max(saved.len());
                (self.provider)().codec(&spec, &saved).unwrap()
            });
            assert_eq!(got, expected, "{name}");
            assert!(largest < SAVED_MAX_BYTES, "{name}: the saved state grew to {largest} bytes");
        }
    }

    /// Checks that every recorded turn and call ends once, and every line is understood.
    pub(crate) fn check_ends(&self) {
        for recording in self.recordings() {
            let name = recording.name.clone();
            let prompts = recording.entries.iter().filter(|entry| {
                let told = &entry["told"];
                told.get("prompt").is_some() || told == "compact"
            });
            let prompts = prompts.count();
            let (_, events) = replay(recording, |codec| codec);
            let mut open = BTreeSet::new();
            let mut ends = 0;
            for event in &events {
                match event {
                    AgentEvent::ToolStarted { call, .. } => {
                        assert!(open.insert(call.clone()), "{name}: {call}")
                    }
                    AgentEvent::ToolFinished { call, .. } => assert!(open.remove(call), "{name}: {call}"),
                    AgentEvent::TurnEnded { .. } => ends += 1,
                    AgentEvent::Unparsed { raw, .. } => panic!("{name}: {raw}"),
                    _ => {}
                }
            }
            assert!(ends >= prompts, "{name}: {prompts} prompts, {ends} ends");
        }
    }
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
    for mut entry in entries {
        codec = between(codec);
        entry.sort_all_objects();
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
        // Order has no meaning in JSON; a snapshot needs one.
        let mut line: Value = serde_json::from_str(line).unwrap();
        line.sort_all_objects();
        writeln!(text, "> {line}").unwrap();
    }
}
