//! Secrets stay out of records and state, and reach the code that acts on them.

use serde_json::json;

use super::script;
use crate::redact::Redact;
use crate::request::{PermissionSubject, RequestSubject};
use crate::turn::EndReason;
use crate::{
    AgentEvent, AgentInput, Command, Decided, Decision, Effect, EventKind, Input, Machine, RequestId, State,
    Timestamp, WhenBusy,
};

/// Redacts one word.
struct Words;

impl Redact for Words {
    fn redact(&self, text: &str) -> Option<String> {
        text.contains("hunter2").then(|| text.replace("hunter2", "[REDACTED:word]"))
    }
}

struct Session {
    machine: Machine,
    records: Vec<EventKind>,
}

impl Session {
    fn working() -> Self {
        Self { machine: script::after("given working"), records: Vec::new() }
    }

    fn apply(&mut self, input: Input) -> Decided {
        let decided = self.machine.apply_redacting(Timestamp(1), input, &Words).unwrap();
        for effect in &decided.effects {
            if let Effect::Record(kind) = effect {
                self.records.push(kind.clone());
            }
        }
        decided
    }

    fn ask(&mut self, command: &str) -> Decided {
        let input = json!({"command": command, "timeout": 5});
        let ask =
            PermissionSubject { call: None, tool: "Bash".into(), input, title: command.into(), parent: None };
        self.apply(Input::Agent(AgentEvent::Asked {
            native: "n1".into(),
            ask: RequestSubject::Permission(ask),
        }))
    }

    fn decide(&mut self, updated_input: Option<serde_json::Value>) -> Result<Decided, crate::Error> {
        let (request, decision) = (RequestId(1), Decision::AllowOnce);
        let (message, by) = (String::new(), "me".to_owned());
        let command = Command::Decide { request, decision, message, updated_input, grant: None, by };
        self.machine.apply_redacting(Timestamp(1), Input::Command(command), &Words)
    }
}

fn told(decided: &Decided) -> String {
    let told = decided.effects.iter().filter(|effect| matches!(effect, Effect::Tell(_)));
    format!("{:?}", told.collect::<Vec<_>>())
}

#[test]
fn a_request_is_recorded_without_its_secret_and_answered_with_it() {
    let mut session = Session::working();
    let before = session.machine.state().clone();
    let opened = session.ask("login hunter2");
    assert_eq!(opened.originals.len(), 1);
    let state = serde_json::to_string(session.machine.state()).unwrap();
    assert!(!state.contains("hunter2") && state.contains("[REDACTED:word]"), "{state}");
    let mut replayed: State = before;
    session.records.iter().for_each(|kind| replayed.evolve(Timestamp(1), kind));
    assert_eq!(&replayed, session.machine.state());
    let decided = session.decide(None).unwrap();
    assert!(told(&decided).contains("login hunter2"), "{decided:?}");
    assert!(session.machine.originals().is_empty(), "kept no longer than needed");
}

#[test]
fn an_edited_input_gets_back_what_its_writer_was_not_shown() {
    let mut session = Session::working();
    session.ask("login hunter2");
    let edited = json!({"command": "login [REDACTED:word]", "timeout": 9});
    let decided = session.decide(Some(edited)).unwrap();
    assert!(told(&decided).contains("login hunter2") && told(&decided).contains("Number(9)"), "{decided:?}");

    let mut session = Session::working();
    session.ask("login hunter2");
    let error = session.decide(Some(json!({"command": "logout [REDACTED:word]"}))).unwrap_err();
    assert!(error.message.contains("updated_input"), "{error}");
    assert!(session.machine.state().requests.contains_key(&RequestId(1)), "it still waits");
}

#[test]
fn a_prompt_that_waits_for_its_agent_reaches_it_unchanged() {
    let mut session = Session { machine: script::after("given created"), records: Vec::new() };
    let prompt = |text: &str, when_busy| {
        let (text, attachments, by) = (text.to_owned(), Vec::new(), String::new());
        Input::Command(Command::Prompt { text, attachments, when_busy, by })
    };
    session.apply(prompt("use hunter2", WhenBusy::Refuse));
    session.apply(Input::Launched { pid: 7 });
    session.apply(prompt("and be quick", WhenBusy::Steer));
    assert!(!serde_json::to_string(session.machine.state()).unwrap().contains("hunter2"));
    let ready = AgentEvent::Ready {
        native_session: String::new(),
        model: String::new(),
        version: String::new(),
        resolved_model: String::new(),
    };
    let ready = session.apply(Input::Agent(ready));
    let prompt = AgentInput::Prompt { text: "use hunter2\n\nand be quick".into(), attachments: Vec::new() };
    assert!(ready.effects.contains(&Effect::Tell(prompt)), "{ready:?}");
    assert!(session.records.iter().all(|kind| !format!("{kind:?}").contains("hunter2")));
}

#[test]
fn an_answer_put_together_from_clean_pieces_is_recorded_without_its_secret() {
    let mut session = Session::working();
    for piece in ["it is hunt", "er2, I think. ", "Anything else?"] {
        session.apply(Input::Agent(AgentEvent::Text { text: piece.to_owned(), parent: None }));
    }
    session.apply(Input::Agent(AgentEvent::TurnEnded {
        reason: EndReason::Completed,
        text: "Anything else?".to_owned(),
        error: String::new(),
    }));
    let ended = session.records.iter().find_map(|kind| match kind {
        EventKind::TurnEnded { text, .. } => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(ended, Some("it is [REDACTED:word], I think. Anything else?"));
}
