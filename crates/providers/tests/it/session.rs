//! Recorded conversations, replayed through a session: the rules of `domain` accept the recorded inputs, send
//! the same ones, and end in the right state after everything the agent sent.

use agent_port::{Codec, Decoded};
use domain::event::EventKind;
use domain::{
    AgentInput, Command, Effect, Input, Machine, SessionSpec, Status, StopMode, Timestamp, WhenBusy,
};
use serde_json::{Value, json};

use crate::claude_golden::CLAUDE;
use crate::codex_golden::CODEX;
use crate::recording::{Agent, Recording};
use crate::support::decode;

pub(crate) struct Session {
    pub(crate) name: String,
    pub(crate) machine: Machine,
    /// What was recorded.
    pub(crate) journal: Vec<EventKind>,
    now: i64,
    ended: usize,
}

impl Session {
    pub(crate) fn new(name: String, spec: SessionSpec) -> Self {
        Self { name, machine: Machine::new(spec), journal: Vec::new(), now: 0, ended: 0 }
    }

    pub(crate) fn apply(&mut self, input: Input) -> Vec<Effect> {
        self.now += 1;
        let effects = self.machine.apply(Timestamp(self.now), input).unwrap();
        let ends = |effect: &&Effect| matches!(effect, Effect::Record(EventKind::TurnEnded { .. }));
        self.ended += effects.iter().filter(ends).count();
        for effect in &effects {
            if let Effect::Record(event) = effect {
                self.journal.push(event.clone());
            }
        }
        effects
    }

    /// Replays a run of the agent, which was just started.
    pub(crate) fn play(&mut self, mut codec: Box<dyn Codec>, entries: &[Value]) {
        self.apply(Input::Launched { pid: 1 });
        let mut wire = Vec::new();
        codec.open(&mut wire);
        for entry in entries {
            if let Some(told) = entry.get("told") {
                let told: AgentInput = serde_json::from_value(told.clone()).unwrap();
                let command = self.command(&told);
                let effects = self.apply(Input::Command(command));
                let leaves = told == AgentInput::Leave;
                assert!(leaves || effects.contains(&Effect::Tell(told.clone())), "{}: {told:?}", self.name);
                codec.encode(&told, &mut wire).unwrap();
            } else {
                let line = entry["line"].as_str().map_or_else(|| entry["line"].to_string(), str::to_owned);
                for event in decode(&mut *codec, line.as_bytes()).0 {
                    self.apply(Input::Agent(event));
                }
            }
            for errand in codec.take_client_requests() {
                let mut out = Decoded::default();
                codec.client_request_done(
                    &errand.id,
                    Ok(json!({"terminalId": "t", "output": "done"})),
                    &mut out,
                );
            }
        }
    }

    /// Returns the command that makes the session send this input.
    fn command(&self, told: &AgentInput) -> Command {
        let request = |native: &str| {
            let waiting = self.machine.state().requests.values().find(|waiting| waiting.native == native);
            waiting.unwrap_or_else(|| panic!("{}: no request {native}", self.name)).id
        };
        let by = "test".to_owned();
        match told.clone() {
            AgentInput::Prompt { text, attachments } => {
                Command::Prompt { text, attachments, when_busy: WhenBusy::Refuse, by }
            }
            AgentInput::Steer { text } => {
                Command::Prompt { text, attachments: Vec::new(), when_busy: WhenBusy::Steer, by }
            }
            AgentInput::Interrupt => Command::CancelTurn,
            AgentInput::Decide { native, decision, message, updated_input, .. } => Command::Decide {
                request: request(&native),
                decision,
                message,
                updated_input,
                grant: None,
                by,
            },
            AgentInput::Answer { native, answers, .. } => {
                Command::Answer { request: request(&native), answers, by }
            }
            AgentInput::SetMode(mode) => Command::SetMode { mode },
            AgentInput::SetModel(model) => Command::SetModel { model },
            AgentInput::Compact => Command::Compact,
            AgentInput::Leave => Command::Stop { how: StopMode::Now },
            other => panic!("{other:?}"),
        }
    }
}

fn live_through(recording: Recording) -> Session {
    let Recording { name, spec, codec, entries } = recording;
    let mut session = Session::new(name, spec);
    session.apply(Input::Command(Command::Start));
    session.play(codec, &entries);
    session
}

fn check(agent: &Agent) {
    for recording in agent.recordings() {
        let session = live_through(recording);
        let state = session.machine.state();
        // The last input was to leave; nothing was open then.
        assert_eq!((state.status, &state.turn), (Status::Stopping, &None), "{}", session.name);
        assert!(state.requests.is_empty(), "{}", session.name);
        assert_eq!(session.ended as u64, state.turns, "{}", session.name);
    }
}

#[test]
fn a_session_lives_through_every_recording_of_claude_code() {
    check(&CLAUDE);
}

#[test]
fn a_session_lives_through_every_recording_of_codex() {
    check(&CODEX);
}
