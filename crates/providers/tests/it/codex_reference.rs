//! Every line of the project's collection of captured Codex conversations, if that collection is available:
//! nothing is misunderstood, nothing ends twice, nothing is left open. And every kind of notification in its
//! protocol.

use std::collections::BTreeSet;
use std::path::PathBuf;

use agent_port::Codec;
use domain::{AgentEvent, SessionSpec};
use serde_json::{Value, json};

use crate::codex_golden::CODEX;
use crate::support::{decode, recordings_of};

/// A codec in the middle of a run, for conversations that did not start with our messages.
struct Running {
    spec: SessionSpec,
    codec: Box<dyn Codec>,
    open: BTreeSet<String>,
    turns: (usize, usize),
}

impl Running {
    fn new() -> Self {
        let spec = CODEX.spec(&json!({}));
        let codec = (CODEX.provider)().codec(&spec, "{}").unwrap();
        Self { spec, codec, open: BTreeSet::new(), turns: (0, 0) }
    }

    /// Changes the codec state.
    fn believe(&mut self, change: impl FnOnce(&mut Value)) {
        let mut saved: Value = serde_json::from_str(&self.codec.save()).unwrap();
        change(&mut saved);
        self.codec = (CODEX.provider)().codec(&self.spec, &saved.to_string()).unwrap();
    }

    fn line(&mut self, whence: &str, line: &str) {
        // As if the daemon had just restarted.
        let mut twin = (CODEX.provider)().codec(&self.spec, &self.codec.save()).unwrap();
        let (events, replies) = decode(&mut *self.codec, line.as_bytes());
        assert_eq!(decode(&mut *twin, line.as_bytes()), (events.clone(), replies), "{whence}");
        assert_eq!(twin.save(), self.codec.save(), "{whence}");
        for event in events {
            match event {
                AgentEvent::Unparsed { raw, .. } => panic!("{whence}: {raw}"),
                AgentEvent::ToolStarted { call, .. } => {
                    assert!(self.open.insert(call.to_string()), "{whence}")
                }
                AgentEvent::ToolFinished { call, .. } => assert!(self.open.remove(call.as_str()), "{whence}"),
                AgentEvent::TurnStarted => self.turns.0 += 1,
                AgentEvent::TurnEnded { .. } => {
                    self.turns.1 += 1;
                    assert_eq!(self.turns.0, self.turns.1, "{whence}: a turn ended that had not begun");
                    assert!(self.open.is_empty(), "{whence}: {:?}", self.open);
                }
                _ => {}
            }
        }
    }
}

#[test]
fn every_captured_line_is_understood() {
    let Some(folder) = recordings_of("codex") else { return };
    let mut files: Vec<PathBuf> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| {
        let name = file.file_name().unwrap().to_string_lossy();
        name.starts_with("appserver_") && name.ends_with(".jsonl")
    });
    files.sort();
    let mut lines = 0;
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        lines += conversation(&name, &std::fs::read_to_string(&file).unwrap());
    }
    assert!(lines > 500, "{lines}");
}

fn conversation(name: &str, text: &str) -> usize {
    let mut running = Running::new();
    let mut lines = 0;
    for (at, line) in text.lines().enumerate() {
        let entry: Value = serde_json::from_str(line).unwrap();
        let (whence, message) = (format!("{name}:{}", at + 1), &entry["msg"]);
        if entry["dir"] != "<" {
            continue;
        }
        // The answers are to another client's requests; only the conversation's id is taken from them.
        if message.get("method").is_none() {
            if let Some(thread) = message["result"]["thread"]["id"].as_str() {
                running.believe(|saved| saved["thread"] = thread.into());
            }
            continue;
        }
        lines += 1;
        running.line(&whence, &message.to_string());
    }
    assert_eq!(running.turns.0, running.turns.1, "{name}: a turn is still open");
    assert!(running.turns.0 > 0, "{name}: no turn at all");
    lines
}

#[test]
fn every_kind_of_notification_is_known() {
    let Some(folder) = recordings_of("codex") else { return };
    let text = std::fs::read_to_string(folder.join("codex_app_server_protocol.v2.schemas.json")).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    let kinds = schema["definitions"]["ServerNotification"]["oneOf"].as_array().unwrap();
    assert!(kinds.len() > 80);
    for kind in kinds {
        let method = kind["properties"]["method"]["enum"][0].as_str().unwrap();
        let mut running = Running::new();
        for params in [json!({}), Value::Null, json!({"threadId": "other"}), json!([])] {
            running.line(method, &json!({"method": method, "params": params}).to_string());
        }
    }
}
