//! The scenarios of `provider_common::suite` with recorded conversations of the real agents, replayed through a
//! session: as recorded, and altered where no recording is possible (a crash, a hang, garbage, another
//! version). `e2e` plays the same scenarios with the programs themselves.

use std::collections::{BTreeMap, BTreeSet};

use agent_port::{LaunchRequest, Provider};
use domain::event::EventKind;
use domain::{Command, ErrorCode, Exit, Input, SessionSpec, StopMode, Timer};
use provider_common::suite;
use providers::acp::{Acp, NamedAgents};
use providers::claude_code::ClaudeCode;
use providers::codex::Codex;
use serde_json::{Value, json};

use crate::acp_reference;
use crate::claude_golden::CLAUDE;
use crate::codex_golden::CODEX;
use crate::recording::Agent;
use crate::session::Session;
use crate::support::{launch, starting};

/// One recorded conversation.
struct Talk {
    name: String,
    spec: SessionSpec,
    /// The first run; a resumed session has had an earlier one.
    is_first: bool,
    entries: Vec<Value>,
}

/// An agent whose conversations are recorded.
struct Recorded {
    provider: Box<dyn Provider>,
    /// The same without a program.
    without: Box<dyn Provider>,
    talks: Vec<Talk>,
    /// The form of its version, and of another one.
    version: (&'static str, &'static str),
}

impl Recorded {
    fn of(agent: &Agent, without: Box<dyn Provider>, version: (&'static str, &'static str)) -> Self {
        let talks = agent.recordings().into_iter().map(|recording| Talk {
            is_first: recording.name != "resumed" && recording.name != "anew" && recording.name != "changed",
            name: recording.name,
            spec: recording.spec,
            entries: recording.entries,
        });
        Self { provider: (agent.provider)(), without, talks: talks.collect(), version }
    }

    fn acp(names: &str) -> Self {
        let all = acp_reference::conversations().into_iter();
        let talks = all.filter(|(name, ..)| name.contains(names)).map(|(name, spec, entries)| Talk {
            name,
            spec,
            is_first: true,
            entries,
        });
        Self {
            provider: Box::new(acp_reference::provider()),
            without: Box::new(Acp::new(NamedAgents::default(), None)),
            talks: talks.collect(),
            version: (r#""protocolVersion":1"#, r#""protocolVersion":7"#),
        }
    }

    fn begin(&self, talk: &Talk) -> Session {
        let mut session = Session::new(talk.name.clone(), talk.spec.clone());
        session.apply(Input::Command(Command::Start));
        session
    }

    fn run(&self, session: &mut Session, spec: &SessionSpec, entries: &[Value]) {
        let mut state = starting(spec);
        // Resumed conversations are recorded after one turn.
        state.turns = u64::from(session.machine.state().turns > 0);
        let codec = launch(&*self.provider, spec, &state, Vec::new()).codec;
        session.play(codec, entries);
    }

    /// Returns the journal of a conversation.
    fn journal(&self, talk: &Talk) -> Vec<EventKind> {
        let mut session = self.begin(talk);
        self.run(&mut session, &talk.spec, &talk.entries);
        session.journal
    }

    /// Returns a session in the middle of the first reply of the conversation.
    fn in_a_reply(&self, talk: &Talk) -> Option<Session> {
        for length in 1..=talk.entries.len() {
            let entries = &talk.entries[..length];
            let mut session = self.begin(talk);
            self.run(&mut session, &talk.spec, entries);
            if session.journal.iter().any(|event| matches!(event, EventKind::TextDelta { .. })) {
                return session.machine.state().turn.is_some().then_some(session);
            }
        }
        None
    }

    fn restart(&self, session: &mut Session) {
        session.apply(Input::Command(Command::Restart { provider_config: BTreeMap::new() }));
    }

    /// Returns what happens if the program is killed in the middle of a reply, and the session is restarted.
    fn crashed(&self, talk: &Talk) -> Option<Vec<EventKind>> {
        let mut session = self.in_a_reply(talk)?;
        session.apply(Input::AgentExited(killed()));
        self.restart(&mut session);
        let handshake = talk.entries.iter().take_while(|entry| entry.get("told").is_none());
        self.run(&mut session, &talk.spec, &handshake.cloned().collect::<Vec<_>>());
        Some(session.journal)
    }

    /// Returns what happens if nothing more comes and the session times out.
    fn hung(&self, talk: &Talk) -> Option<Vec<EventKind>> {
        let mut session = self.in_a_reply(talk)?;
        session.apply(Input::Timer(Timer::Deadline));
        session.apply(Input::AgentExited(killed()));
        Some(session.journal)
    }

    /// Returns the conversation with a line of garbage after every line.
    fn littered(&self, talk: &Talk) -> Vec<EventKind> {
        let lines = talk.entries.iter().flat_map(|entry| match entry.get("line") {
            Some(_) => {
                vec![entry.clone(), json!({"line": "{\"garbage\": "}), json!({"line": "\u{0}no JSON"})]
            }
            None => vec![entry.clone()],
        });
        let mut session = self.begin(talk);
        self.run(&mut session, &talk.spec, &lines.collect::<Vec<_>>());
        session.journal
    }

    /// Returns the conversation with a program of another version.
    fn other_version(&self, talk: &Talk) -> Vec<EventKind> {
        let entry = |entry: &Value| match entry.get("line") {
            Some(line) => json!({"line": line.to_string().replace(self.version.0, self.version.1)}),
            None => entry.clone(),
        };
        let mut session = self.begin(talk);
        self.run(&mut session, &talk.spec, &talk.entries.iter().map(entry).collect::<Vec<_>>());
        session.journal
    }

    /// Returns a conversation, the session's stop, and another conversation after its restart.
    fn resumed(&self, talk: &Talk, next: &Talk) -> Vec<EventKind> {
        let mut session = self.begin(talk);
        self.run(&mut session, &talk.spec, &talk.entries);
        if session.machine.state().status != domain::Status::Stopping {
            session.apply(Input::Command(Command::Stop { how: StopMode::Now }));
        }
        session.apply(Input::AgentExited(Exit { code: Some(0), ..Exit::default() }));
        self.restart(&mut session);
        self.run(&mut session, &next.spec, &next.entries);
        session.journal
    }

    /// Returns how a model that the agent does not have is refused: at once, or when the agent has listed its
    /// models.
    fn unknown_model(&self, talk: &Talk) -> String {
        let mut spec = talk.spec.clone();
        spec.model = "no-such-model-at-all".to_owned();
        if let Err(error) = self.provider.check(&spec) {
            return error.to_string();
        }
        let mut session = Session::new(talk.name.clone(), spec.clone());
        session.apply(Input::Command(Command::Start));
        let handshake = talk.entries.iter().take_while(|entry| entry.get("told").is_none());
        self.run(&mut session, &spec, &handshake.cloned().collect::<Vec<_>>());
        session.apply(Input::AgentExited(killed()));
        let code = session.journal.iter().find_map(|event| match event {
            EventKind::StatusChanged { code, .. } => *code,
            _ => None,
        });
        code.unwrap_or(ErrorCode::SessionError).to_string()
    }

    fn missing_program(&self, talk: &Talk) -> String {
        let mut spec = talk.spec.clone();
        if spec.provider_config.remove("command").is_some() {
            spec.provider_config.insert("agent".to_owned(), "goose".to_owned());
        }
        let state = starting(&spec);
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
        self.without.launch(&request).err().map(|error| error.to_string()).unwrap_or_default()
    }

    /// Returns the scenarios that its recordings show.
    fn shown(&self) -> BTreeSet<&'static str> {
        let mut journals: Vec<Vec<EventKind>> = Vec::new();
        for talk in self.talks.iter().filter(|talk| talk.is_first) {
            journals.push(self.journal(talk));
            journals.extend(self.crashed(talk));
            journals.extend(self.hung(talk));
        }
        let first = self.talks.iter().find(|talk| talk.is_first && talk.name.contains("basic"));
        let first = first.or_else(|| self.talks.first()).unwrap();
        let next = self.talks.iter().find(|talk| talk.name == "resumed").unwrap_or(first);
        journals.push(self.littered(first));
        journals.push(self.other_version(first));
        let resumed = self.resumed(first, next);
        assert_eq!(suite::judge("resume", &resumed), Ok(()));
        journals.push(resumed);
        let (model, program) = (self.unknown_model(first), self.missing_program(first));
        let shows = |name: &str| {
            journals.iter().any(|journal| suite::judge(name, journal).is_ok())
                || (name == "unknown_model" && suite::judge_refusal(name, &model).is_ok())
                || (name == "missing_binary" && suite::judge_refusal(name, &program).is_ok())
        };
        suite::ALL.iter().map(|scenario| scenario.name).filter(|name| shows(name)).collect()
    }

    /// Checks that every scenario is shown, except those that the recordings do not have.
    fn check(&self, absent: &[&str]) {
        let shown = self.shown();
        let missing: Vec<&str> =
            suite::ALL.iter().map(|scenario| scenario.name).filter(|name| !shown.contains(name)).collect();
        assert_eq!(missing, absent);
    }
}

fn killed() -> Exit {
    Exit { signal: Some(9), ..Exit::default() }
}

#[test]
fn recordings_of_claude_code_show_every_scenario() {
    let version = (r#""claude_code_version":"2.1.325""#, r#""claude_code_version":"9.9.999""#);
    Recorded::of(&CLAUDE, Box::new(ClaudeCode::new(None)), version).check(&[]);
}

#[test]
fn recordings_of_codex_show_every_scenario() {
    Recorded::of(&CODEX, Box::new(Codex::new(None)), ("0.166.0", "0.999.0")).check(&[]);
}

#[test]
fn recordings_of_codex_acp_show_what_it_can() {
    Recorded::acp("acp_zed_codex").check(&["question", "interrupt_in_tool"]);
}

#[test]
fn recordings_of_goose_show_what_it_can() {
    Recorded::acp("goose").check(&["question", "interrupt_in_tool"]);
}

#[test]
fn recordings_of_gemini_show_what_it_can() {
    Recorded::acp("acp_gemini").check(&["question", "interrupt_in_tool"]);
}

#[test]
fn recordings_of_opencode_show_what_it_can() {
    Recorded::acp("acp_opencode").check(&["question", "interrupt_in_tool"]);
}

#[test]
fn recordings_of_claude_agent_acp_show_what_it_can() {
    // Its model was not asked to think.
    Recorded::acp("acp_claude_agent").check(&["thinking", "question", "interrupt_in_tool"]);
}

#[test]
fn recordings_of_the_published_codex_acp_show_what_it_can() {
    Recorded::acp("acp_codex").check(&["question", "interrupt_in_tool"]);
}
