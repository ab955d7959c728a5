//! Every line of the project's collection of captured Claude Code conversations, if that collection is
//! available: nothing is misunderstood, nothing ends twice, nothing is left open.

use std::collections::BTreeSet;
use std::path::PathBuf;

use agent_port::{Codec, Provider};
use domain::{AgentEvent, ProviderKind, SessionSpec};
use providers::claude_code::ClaudeCode;
use serde_json::{Value, json};

use crate::support::{decode, recordings_of, some_program, spec};

/// A codec in the middle of a run, for conversations that did not start with our messages.
struct Running {
    spec: SessionSpec,
    codec: Box<dyn Codec>,
    open: BTreeSet<String>,
    in_turn: bool,
}

impl Running {
    fn new() -> Self {
        let spec = spec(ProviderKind::ClaudeCode, "/example/repo".as_ref());
        let codec = provider().codec(&spec, "{}").unwrap();
        Self { spec, codec, open: BTreeSet::new(), in_turn: false }
    }

    fn saved(&self) -> Value {
        serde_json::from_str(&self.codec.save()).unwrap()
    }

    /// Changes the codec state.
    fn believe(&mut self, change: impl FnOnce(&mut Value)) {
        let mut saved = self.saved();
        change(&mut saved);
        self.codec = provider().codec(&self.spec, &saved.to_string()).unwrap();
    }

    fn line(&mut self, whence: &str, line: &str) {
        // As if the daemon had just restarted.
        let mut twin = provider().codec(&self.spec, &self.codec.save()).unwrap();
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
                AgentEvent::TurnStarted => self.in_turn = true,
                AgentEvent::TurnEnded { .. } => {
                    assert!(self.in_turn, "{whence}: a turn ended that had not begun");
                    self.in_turn = false;
                    self.open.clear();
                }
                _ => {}
            }
        }
    }

    /// The process ended; one that ended on its own left nothing open.
    fn ended(&self, whence: &str, exit: i64) {
        if exit == 0 {
            assert!(!self.in_turn, "{whence}: a turn is still open");
            assert_eq!(self.saved()["outstanding"], json!([]), "{whence}: a message was never answered");
        }
    }
}

fn provider() -> ClaudeCode {
    ClaudeCode::new(Some(some_program()))
}

#[test]
fn every_captured_line_is_understood() {
    let Some(folder) = recordings_of("claude") else { return };
    let mut files: Vec<PathBuf> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|ext| ext == "jsonl"));
    files.sort();
    let mut lines = 0;
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        // The first is another protocol; the second is single lines out of context.
        if name == "20-acp.jsonl" || name == "message-catalogue.jsonl" {
            continue;
        }
        lines += conversation(&name, &std::fs::read_to_string(&file).unwrap());
    }
    assert!(lines > 1_000);
}

fn conversation(name: &str, text: &str) -> usize {
    let mut running = Running::new();
    let mut lines = 0;
    for (at, line) in text.lines().enumerate() {
        let entry: Value = serde_json::from_str(line).unwrap();
        let (whence, message) = (format!("{name}:{}", at + 1), &entry["msg"]);
        match entry["dir"].as_str().unwrap() {
            "meta" if message.get("argv").is_some() => running = Running::new(),
            "meta" => {
                if let Some(exit) = message["exit"].as_i64() {
                    running.ended(&whence, exit);
                    running = Running::new();
                }
            }
            "stdin" => {
                if let Some(uuid) = message["uuid"].as_str().filter(|_| message["type"] == "user") {
                    running.believe(|saved| saved["outstanding"].as_array_mut().unwrap().push(uuid.into()));
                }
            }
            "stdout" => {
                lines += 1;
                // These did not always wait for the answer that says "ready"; a turn that starts says it too.
                if message["subtype"] == "init" {
                    running.believe(|saved| saved["ready"] = true.into());
                }
                running.line(&whence, &message.to_string());
            }
            _ => {}
        }
    }
    lines
}

#[test]
fn single_lines_out_of_context_do_no_harm() {
    let Some(folder) = recordings_of("claude") else { return };
    let text = std::fs::read_to_string(folder.join("message-catalogue.jsonl")).unwrap();
    for line in text.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        let kind = entry["kind"].as_str().unwrap();
        if kind.starts_with("stdout/") {
            let mut running = Running::new();
            let (events, _) = decode(&mut *running.codec, entry["msg"].to_string().as_bytes());
            let unparsed = events.iter().any(|event| matches!(event, AgentEvent::Unparsed { .. }));
            assert!(!unparsed, "{kind}");
        }
    }
}
