//! Replays recorded conversations with a real gateway through a session, and checks that its journal shows
//! what `provider_common::suite` demands. Our frames have other ids than those of the recording's client, so answers
//! are renamed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use agent_port::{LaunchRequest, Provider as _};
use domain::event::EventKind;
use domain::{Command, Decision, Effect, Input, Machine, ProviderKind, SessionId, SessionSpec, WhenBusy};
use domain::{State, Status, StopMode, Timer, Timestamp};
use serde_json::Value;

use super::frames::{ConversationSettings, FrameEffects, GatewayConversation};
use super::{Openclaw, OpenclawOptions};
use provider_common::suite;

fn spec(model: &str) -> SessionSpec {
    SessionSpec {
        model: model.to_owned(),
        name: "test".to_owned(),
        ..SessionSpec::new(
            SessionId::new("sess_01JC0000000000000000000001"),
            ProviderKind::Openclaw,
            "/repo".into(),
        )
    }
}

/// A session at a gateway that replays a recording.
struct Replay {
    conversation: GatewayConversation,
    machine: Machine,
    now: i64,
    journal: Vec<EventKind>,
    /// Our requests without an answer: method and id.
    asked: Vec<(String, String)>,
    /// The requests of the recording's client, by id.
    theirs: BTreeMap<String, String>,
    /// Applied to every frame of the gateway.
    alter: fn(String) -> Vec<String>,
}

impl Replay {
    fn new(model: &str, alter: fn(String) -> Vec<String>) -> Self {
        let machine = Machine::new(spec(model));
        let mut replay = Self {
            conversation: GatewayConversation::new(ConversationSettings::default()),
            machine,
            now: 0,
            journal: Vec::new(),
            asked: Vec::new(),
            theirs: BTreeMap::new(),
            alter,
        };
        replay.apply(Input::Command(Command::Start));
        replay
    }

    fn apply(&mut self, input: Input) {
        self.now += 1;
        for effect in self.machine.apply(Timestamp(self.now), input).unwrap() {
            if let Effect::Record(event) = effect {
                self.journal.push(event);
            }
        }
    }

    fn took(&mut self, out: FrameEffects) {
        for frame in out.frames {
            let frame: Value = serde_json::from_str(&frame).unwrap();
            let text = |key: &str| frame[key].as_str().unwrap().to_owned();
            self.asked.push((text("method"), text("id")));
        }
        for event in out.events {
            self.apply(Input::Agent(event));
        }
    }

    /// Plays one run of the agent: everything in a recording.
    fn play(&mut self, name: &str, model: &str) {
        self.apply(Input::Launched { pid: 0 });
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/transcripts/openclaw/{name}.jsonl"));
        for line in std::fs::read_to_string(file).unwrap().lines() {
            let entry: Value = serde_json::from_str(line).unwrap();
            let frame = &entry["msg"];
            if entry["dir"] == ">" {
                self.replay_client_frame(frame, model);
            } else {
                self.frame(frame.clone());
            }
        }
    }

    /// What the recording's client asked for is asked for by a person here.
    fn replay_client_frame(&mut self, frame: &Value, model: &str) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (method, params) = (text(&frame["method"]), &frame["params"]);
        self.theirs.insert(text(&frame["id"]), method.clone());
        let mut out = FrameEffects::default();
        match method.as_str() {
            "sessions.create" => self.conversation.key = text(&params["key"]),
            "connect" => {
                let wanted =
                    ConversationSettings { model: model.to_owned(), ..ConversationSettings::default() };
                self.conversation = GatewayConversation::new(wanted);
                self.asked.clear();
                let challenge = r#"{"type":"event","event":"connect.challenge","payload":{}}"#;
                self.conversation.take(challenge, &mut out);
            }
            "chat.send" => {
                let prompt = text(&params["message"]);
                let by = "test".to_owned();
                let command = Command::Prompt {
                    text: prompt.clone(),
                    attachments: Vec::new(),
                    when_busy: WhenBusy::Refuse,
                    by,
                };
                self.apply(Input::Command(command));
                self.conversation.prompt(&prompt, Vec::new(), text(&params["idempotencyKey"]), &mut out);
            }
            "chat.abort" => {
                self.apply(Input::Command(Command::CancelTurn));
                self.conversation.interrupt(&mut out);
            }
            "exec.approval.resolve" => {
                let native = text(&params["id"]);
                let allowed = params["decision"] != "deny";
                let waiting = self.machine.state().requests.values().find(|waiting| waiting.native == native);
                let decision = if allowed { Decision::AllowOnce } else { Decision::Deny };
                let command = Command::Decide {
                    request: waiting.unwrap().id,
                    decision,
                    message: String::new(),
                    updated_input: None,
                    grant: None,
                    by: "test".to_owned(),
                };
                self.apply(Input::Command(command));
                let decision = if allowed { domain::Decision::AllowOnce } else { domain::Decision::Deny };
                self.conversation.decide(&native, decision, "", &mut out);
            }
            _ => {}
        }
        self.took(out);
    }

    fn frame(&mut self, mut frame: Value) {
        if frame["type"] == "res" {
            let Some(method) = self.theirs.get(frame["id"].as_str().unwrap_or_default()) else { return };
            let Some(at) = self.asked.iter().position(|(asked, _)| asked == method) else { return };
            frame["id"] = self.asked.remove(at).1.into();
        }
        for frame in (self.alter)(frame.to_string()) {
            let mut out = FrameEffects::default();
            self.conversation.take(&frame, &mut out);
            // Recordings contain no usage.
            self.conversation.settle(&mut out);
            self.took(out);
        }
    }
}

fn as_it_was(frame: String) -> Vec<String> {
    vec![frame]
}

fn with_garbage(frame: String) -> Vec<String> {
    vec![frame, "{\"garbage\": ".to_owned()]
}

fn of_another_version(frame: String) -> Vec<String> {
    vec![frame.replace("2026.9.6", "2031.1.1")]
}

fn journal(name: &str, alter: fn(String) -> Vec<String>) -> Vec<EventKind> {
    let mut replay = Replay::new("", alter);
    replay.play(name, "");
    replay.journal
}

/// A session that is stopped and restarted.
fn resumed() -> Vec<EventKind> {
    let mut replay = Replay::new("", as_it_was);
    replay.play("approvals", "");
    replay.apply(Input::Command(Command::Stop { how: StopMode::Now }));
    replay.apply(Input::AgentExited(domain::Exit { code: Some(0), ..domain::Exit::default() }));
    assert_eq!(replay.machine.state().status, Status::Stopped);
    replay.apply(Input::Command(Command::Restart { provider_config: BTreeMap::new() }));
    replay.play("approvals", "");
    replay.journal
}

/// A session that reached its timeout.
fn hung() -> Vec<EventKind> {
    let mut replay = Replay::new("", as_it_was);
    replay.play("approvals", "");
    replay.apply(Input::Timer(Timer::Deadline));
    replay.apply(Input::AgentExited(domain::Exit::default()));
    replay.journal
}

fn without_program() -> String {
    let spec = spec("");
    let state = State::new(&spec);
    let environment = vec![("PATH".into(), "/nowhere".into())];
    let request = LaunchRequest {
        spec: &spec,
        state: &state,
        resume: false,
        environment,
        bridge: None,
        past: None,
        given: Vec::new(),
        programs: None,
    };
    Openclaw::new(OpenclawOptions::default())
        .launch(&request)
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default()
}

#[test]
fn recordings_show_every_scenario_a_gateway_has() {
    let journals = [
        journal("conversation", as_it_was),
        journal("approvals", as_it_was),
        journal("approvals", with_garbage),
        journal("approvals", of_another_version),
        resumed(),
        hung(),
    ];
    let mut shown: BTreeSet<&str> = suite::ALL.iter().map(|scenario| scenario.name).collect();
    shown.retain(|name| journals.iter().any(|journal| suite::judge(name, journal).is_ok()));
    if suite::judge_refusal("missing_binary", &without_program()).is_ok() {
        shown.insert("missing_binary");
    }
    let missing: Vec<&str> =
        suite::ALL.iter().map(|scenario| scenario.name).filter(|name| !shown.contains(name)).collect();
    // It shows no thinking and asks no questions; its process is not ours; a model is refused in `frames`.
    assert_eq!(missing, ["thinking", "question", "interrupt_in_tool", "crash", "unknown_model"]);
}
