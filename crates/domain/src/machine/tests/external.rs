//! Agents outside the daemon, and what agents are told of denials that no person made.

use serde_json::json;

use super::script::spec;
use crate::agent::{AgentEvent, AgentInput};
use crate::command::{Command, StopMode, WhenBusy};
use crate::error::ErrorCode;
use crate::event::EventKind;
use crate::id::CallId;
use crate::machine::{Effect, Input, Machine, StopStep, Timer};
use crate::request::{PermissionSubject, RequestSubject};
use crate::session::{ProviderKind, SessionSpec, Status, Timeouts};
use crate::time::Timestamp;
use crate::turn::EndReason;

fn apply(machine: &mut Machine, input: Input) -> Vec<Effect> {
    machine.apply(Timestamp(60_000_000), input).unwrap()
}

/// A session with an agent that is ready.
fn running(spec: SessionSpec) -> Machine {
    let mut machine = Machine::new(spec);
    apply(&mut machine, Input::Command(Command::Start));
    apply(&mut machine, Input::Launched { pid: 0 });
    let ready = AgentEvent::Ready {
        native_session: String::new(),
        model: String::new(),
        version: String::new(),
        resolved_model: String::new(),
    };
    apply(&mut machine, Input::Agent(ready));
    machine
}

fn external() -> Machine {
    running(SessionSpec { provider: ProviderKind::External, ..spec() })
}

fn observe(machine: &mut Machine, events: Vec<AgentEvent>) -> Vec<Effect> {
    apply(machine, Input::Command(Command::Observe { events }))
}

#[test]
fn an_external_agents_reports_are_turns_and_nothing_is_sent_to_it() {
    let mut machine = external();
    let thought = AgentEvent::Thinking { text: "hm".to_owned(), parent: None };
    observe(&mut machine, vec![thought.clone()]);
    assert_eq!(machine.state().status, Status::Working, "the first report begins a turn");
    let cancel = machine.apply(Timestamp(0), Input::Command(Command::CancelTurn)).unwrap_err();
    assert_eq!(cancel.code, ErrorCode::WrongState, "{cancel}");
    // A daemon that comes back finds the turn as it was.
    apply(&mut machine, Input::Revived);
    assert_eq!(machine.state().status, Status::Working);
    let call = CallId::new("c");
    let started = AgentEvent::ToolStarted {
        call: call.clone(),
        tool: "Bash".to_owned(),
        input: json!({}),
        title: String::new(),
        parent: None,
    };
    let finished = AgentEvent::ToolFinished { call, ok: true, output: "ok".to_owned() };
    let ended =
        AgentEvent::TurnEnded { reason: EndReason::Completed, text: "done".to_owned(), error: String::new() };
    let effects = observe(&mut machine, vec![started, finished, ended]);
    assert!(effects.iter().all(|effect| !matches!(effect, Effect::Tell(_))), "{effects:?}");
    assert_eq!(machine.state().status, Status::Running);
    // A stop does not wait for work that it cannot end.
    observe(&mut machine, vec![thought.clone()]);
    let effects = apply(&mut machine, Input::Command(Command::Stop { how: StopMode::Graceful }));
    assert!(effects.contains(&Effect::Terminate(StopStep::Ask)), "{effects:?}");
    apply(&mut machine, Input::AgentExited(crate::agent::Exit { code: Some(0), ..Default::default() }));
    assert_eq!(machine.state().status, Status::Stopped);
    let late = Command::Observe { events: vec![thought.clone()] };
    let late = machine.apply(Timestamp(0), Input::Command(late)).unwrap_err();
    assert_eq!(late.code, ErrorCode::WrongState);
    let mut own = running(spec());
    let not_theirs = Command::Observe { events: vec![thought] };
    let refused = own.apply(Timestamp(0), Input::Command(not_theirs)).unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidArgument, "the daemon's own agents report themselves");
}

#[test]
fn an_agent_is_told_that_nobody_answered() {
    let wait = Some(std::time::Duration::from_secs(60));
    let timeouts = Timeouts { attended_wait: wait, unattended_wait: wait, ..Timeouts::default() };
    let mut machine = running(SessionSpec { timeouts, ..spec() });
    let prompt = Command::Prompt {
        text: "go".to_owned(),
        attachments: Vec::new(),
        when_busy: WhenBusy::Refuse,
        by: "anna".to_owned(),
    };
    apply(&mut machine, Input::Command(prompt));
    let ask = RequestSubject::Permission(PermissionSubject {
        call: None,
        tool: "move".to_owned(),
        input: json!({}),
        title: String::new(),
        parent: None,
    });
    apply(&mut machine, Input::Agent(AgentEvent::Asked { native: "n".to_owned(), ask }));
    let effects = machine.apply(Timestamp(121_000_000), Input::Timer(Timer::Answer)).unwrap();
    let told = effects.iter().find_map(|effect| match effect {
        Effect::Tell(AgentInput::Decide { message, .. }) => Some(message.as_str()),
        _ => None,
    });
    assert_eq!(told, Some("Permission request timed out for: move: nobody answered within 61 s"));
    let recorded = effects.iter().find_map(|effect| match effect {
        Effect::Record(EventKind::RequestSettled { by, message, .. }) => {
            Some((by.as_str(), message.as_str()))
        }
        _ => None,
    });
    assert_eq!(recorded, Some(("timeout", "nobody answered within 61 s")));
}
