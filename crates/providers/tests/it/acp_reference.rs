//! Recorded conversations with real ACP agents, replayed against our side of the protocol: what the agent
//! sent is understood, every turn and every call ends once, and a daemon that restarts at any line continues
//! alike. Those in the repository always, the project's whole collection if it is available.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use agent_port::{Codec, Decoded, Provider};
use domain::request::{PermissionSubject, RequestSubject};
use domain::turn::EndReason;
use domain::{AgentEvent, AgentInput, Decision, ProviderKind, SessionSpec};
use providers::acp::{Acp, NamedAgents};
use serde_json::{Value, json};

use crate::support::{launch, recordings_of, some_program, spec, starting};

pub(crate) fn provider() -> Acp {
    Acp::new(NamedAgents::default(), None)
}

/// Our side of a recorded conversation.
struct Replay {
    whence: String,
    spec: SessionSpec,
    codec: Box<dyn Codec>,
    /// Our ids of the requests in the recording.
    names: BTreeMap<String, Value>,
    /// What we have written and the recording has not reached yet.
    written: Vec<Value>,
    asks: BTreeMap<String, RequestSubject>,
    /// Calls that continue unless a rule objects; there are none here.
    checks: Vec<(String, PermissionSubject)>,
    open: BTreeSet<String>,
    turns: (usize, usize),
    /// Prompts that the recording's client no longer waited for.
    abandoned: usize,
    is_ready: bool,
    /// What was said in the turn since its last call.
    said: String,
    /// The conversation in the form of our own recordings, until a prompt is abandoned.
    entries: Vec<Value>,
}

impl Replay {
    fn new(whence: String) -> Self {
        let mut spec = spec(ProviderKind::Acp, Path::new("/lab"));
        spec.provider_config.insert("command".to_owned(), some_program().display().to_string());
        let state = starting(&spec);
        let codec = launch(&provider(), &spec, &state, Vec::new()).codec;
        let mut replay = Self {
            whence,
            spec,
            codec,
            names: BTreeMap::new(),
            written: Vec::new(),
            asks: BTreeMap::new(),
            checks: Vec::new(),
            open: BTreeSet::new(),
            turns: (0, 0),
            abandoned: 0,
            is_ready: false,
            said: String::new(),
            entries: Vec::new(),
        };
        let mut wire = Vec::new();
        replay.codec.open(&mut wire);
        replay.wrote(&wire);
        replay
    }

    fn wrote(&mut self, wire: &[u8]) {
        for line in wire.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            self.written.push(serde_json::from_slice(line).unwrap());
        }
    }

    fn note(&mut self, entry: Value) {
        if self.abandoned == 0 {
            self.entries.push(entry);
        }
    }

    fn tell(&mut self, input: &AgentInput) {
        self.note(json!({"told": input}));
        let mut wire = Vec::new();
        self.codec.encode(input, &mut wire).unwrap();
        self.wrote(&wire);
        self.settle();
    }

    /// Answers our requests for modes and models, which the recording's client did not send.
    fn settle(&mut self) {
        let wish =
            |line: &Value| line["method"].as_str().is_some_and(|method| method.starts_with("session/set_"));
        while let Some(at) = self.written.iter().position(wish) {
            let id = self.written.remove(at)["id"].clone();
            let mut out = Decoded::default();
            let answer = json!({"id": id, "result": {}});
            self.note(json!({"line": answer}));
            self.codec.decode(answer.to_string().as_bytes(), &mut out);
            self.wrote(&out.replies);
            out.events.into_iter().for_each(|event| self.event(event));
        }
    }

    /// Handles what the client of the recording sent, and sends the equivalent.
    fn said_then(&mut self, message: &Value) {
        let method = message["method"].as_str().unwrap_or_default();
        match method {
            "session/prompt" if message["params"]["sessionId"] != "nope" => {
                let text = message["params"]["prompt"][0]["text"].as_str().unwrap_or_default().to_owned();
                if self.turns.0 > self.turns.1 + self.abandoned {
                    self.abandoned += 1;
                    self.open.clear();
                }
                self.turns.0 += 1;
                self.said.clear();
                self.tell(&AgentInput::Prompt { text, attachments: Vec::new() });
            }
            "session/cancel" => self.tell(&AgentInput::Interrupt),
            "" => return self.answered_then(message),
            _ => {}
        }
        let own = self.written.iter().position(|written| written["method"] == method);
        if let (Some(at), Some(id)) = (own, message.get("id")) {
            let own = self.written.remove(at);
            self.names.insert(id.to_string(), own["id"].clone());
        }
    }

    /// Handles the answer of the recording's client to a request of the agent.
    fn answered_then(&mut self, message: &Value) {
        let (message_id, native) = (message["id"].clone(), message["id"].to_string());
        let Some(ask) = self.asks.remove(&native) else { return };
        let outcome = &message["result"]["outcome"];
        let chosen = outcome["optionId"].as_str().unwrap_or_default();
        let refuses =
            ["reject", "deny", "abort", "decline", "cancel"].iter().any(|word| chosen.contains(word));
        let allowed = outcome["outcome"] == "selected" && !refuses;
        let decision = if allowed { Decision::AllowOnce } else { Decision::Deny };
        let message = String::new();
        self.tell(&AgentInput::Decide {
            native: native.clone(),
            decision,
            message,
            updated_input: None,
            ask,
        });
        let own = self.written.iter().rposition(|written| written["id"] == message_id);
        assert!(own.is_some(), "{}: {native} was not answered", self.whence);
    }

    /// Completes the text of a turn from what was said in it, as the session does from its journal after a restart.
    fn recall(&mut self, event: &mut AgentEvent) {
        match event {
            AgentEvent::TurnStarted | AgentEvent::ToolStarted { .. } => self.said.clear(),
            AgentEvent::Text { text, parent: None } => self.said.push_str(text),
            AgentEvent::TurnEnded { reason: EndReason::Completed, text, .. } if text.is_empty() => {
                text.clone_from(&self.said);
            }
            _ => {}
        }
    }

    /// Handles a line of the agent.
    fn line(&mut self, message: &Value) {
        let mut message = message.clone();
        if message.get("method").is_none() {
            let Some(own) = self.names.get(&message["id"].to_string()) else { return };
            message["id"] = own.clone();
        }
        let line = message.to_string();
        self.note(json!({"line": message}));
        // As if the daemon had just restarted.
        let mut twin = provider().codec(&self.spec, &self.codec.save()).unwrap();
        let (mut out, mut again) = (Decoded::default(), Decoded::default());
        self.codec.decode(line.as_bytes(), &mut out);
        twin.decode(line.as_bytes(), &mut again);
        again.events.iter_mut().for_each(|event| self.recall(event));
        assert_eq!((&out.events, &out.replies), (&again.events, &again.replies), "{}: {line}", self.whence);
        assert_eq!(twin.save(), self.codec.save(), "{}", self.whence);
        self.wrote(&out.replies);
        for event in out.events {
            self.event(event);
        }
        for (native, ask) in std::mem::take(&mut self.checks) {
            let (decision, ask) = (Decision::AllowOnce, RequestSubject::Permission(ask));
            let message = String::new();
            self.tell(&AgentInput::Decide { native, decision, message, updated_input: None, ask });
        }
        self.settle();
        for errand in self.codec.take_client_requests() {
            let mut out = Decoded::default();
            self.codec.client_request_done(&errand.id, Ok(json!({"terminalId": "t"})), &mut out);
            self.wrote(&out.replies);
        }
    }

    fn event(&mut self, event: AgentEvent) {
        let whence = &self.whence;
        match event {
            AgentEvent::Unparsed { raw, .. } => panic!("{whence}: {raw}"),
            AgentEvent::Broken { message, .. } => panic!("{whence}: {message}"),
            AgentEvent::Ready { .. } => self.is_ready = true,
            AgentEvent::Asked { native, ask } => drop(self.asks.insert(native, ask)),
            AgentEvent::Checks { native, ask } => self.checks.push((native, ask)),
            AgentEvent::ToolStarted { call, .. } => {
                assert!(self.open.insert(call.to_string()), "{whence}: {call}")
            }
            AgentEvent::ToolFinished { call, .. } => {
                assert!(self.open.remove(call.as_str()), "{whence}: {call}")
            }
            AgentEvent::TurnEnded { .. } => {
                self.turns.1 += 1;
                assert!(self.open.is_empty(), "{whence}: {:?}", self.open);
            }
            _ => {}
        }
    }
}

fn replay(file: &Path) {
    play(file);
}

/// Returns the recordings in the repository, in the form of our own: inputs and lines.
pub(crate) fn conversations() -> Vec<(String, SessionSpec, Vec<Value>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/acp");
    let played = recordings(&folder).into_iter().map(|file| play(&file));
    played.map(|replay| (replay.whence, replay.spec, replay.entries)).collect()
}

fn play(file: &Path) -> Replay {
    let whence = file.file_name().unwrap().to_string_lossy().into_owned();
    let mut replay = Replay::new(whence.clone());
    for line in std::fs::read_to_string(file).unwrap().lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        let message = &entry["msg"];
        match entry["dir"].as_str() {
            Some(">") => replay.said_then(message),
            Some("<") => replay.line(message),
            _ => {}
        }
    }
    assert!(replay.is_ready, "{whence} never began");
    // Goose never answers a prompt that was cancelled while its model hung.
    let left = replay.turns.0 - replay.turns.1 - replay.abandoned;
    assert!(left <= usize::from(whence.contains("goose")), "{whence}: {:?}", replay.turns);
    assert!(replay.turns.1 > 0, "{whence}");
    replay
}

fn recordings(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let is_recording = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name.starts_with("acp_") || name == "acpx_goose_terminal_wire.jsonl") && name.ends_with(".jsonl")
    };
    let mut files: Vec<PathBuf> = files.filter(is_recording).collect();
    files.sort();
    files
}

#[test]
fn recordings_of_real_agents_are_understood() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/acp");
    let files = recordings(&folder);
    assert!(files.len() >= 4, "{files:?}");
    files.iter().for_each(|file| replay(file));
}

#[test]
fn the_whole_collection_is_understood() {
    let Some(folder) = recordings_of("codex") else { return };
    recordings(&folder).iter().for_each(|file| replay(file));
}
