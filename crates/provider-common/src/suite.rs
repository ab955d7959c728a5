//! What every adapter must do: scenarios, each with what the journal must show. One table for both kinds of
//! tests: `e2e` plays each scenario with the real program on the scripted model, `tests/it/suite.rs` with
//! recorded conversations, and both have the journal judged here. Pure: knows no agent, no daemon, no clock.

use std::collections::BTreeSet;

use domain::event::{EventKind, Level};
use domain::request::{RequestOutcome, RequestSubject};
use domain::turn::EndReason;
use domain::{CallId, ErrorCode, RequestId, Status, TurnId, any_event};
use serde_json::Value;

/// Something the journal must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// The agent is ready.
    Ready,
    Text,
    Thinking,
    /// A call starts.
    Call,
    /// A call succeeds.
    CallDone,
    /// A call ends with a failure.
    CallFailed,
    /// A permission is asked for.
    Permission,
    Allowed,
    Denied,
    /// A person is asked a question.
    Question,
    Answered,
    /// A person interrupts the turn.
    Interrupt,
    /// The same while a call is open.
    InterruptInCall,
    /// The turn ended for this reason.
    Ended(EndReason),
    /// Tokens were counted.
    Usage,
    /// Output that could not be parsed is kept.
    Garbage,
    /// A warning for people.
    Warning,
    /// The session failed, with one of these codes.
    Failed(&'static [ErrorCode]),
    /// The session was restarted.
    Restarted,
}

/// A scenario: its name, its description, and what must be in the journal, in this order, among other things.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub about: &'static str,
    pub must: &'static [Expectation],
}

const fn scenario(name: &'static str, about: &'static str, must: &'static [Expectation]) -> Scenario {
    Scenario { name, about, must }
}

const DONE: Expectation = Expectation::Ended(EndReason::Completed);
const CANCELLED: Expectation = Expectation::Ended(EndReason::Cancelled);
const NOT_STARTED: Expectation = Expectation::Failed(&[ErrorCode::CreateFailed, ErrorCode::ProviderNotReady]);
const CRASHED: Expectation = Expectation::Failed(&[ErrorCode::ProviderCrashed]);

/// Every scenario, in the order in which people see them.
pub const ALL: [Scenario; 16] = {
    use Expectation::{
        Allowed, Answered, Call, CallDone, CallFailed, Denied, Failed, Garbage, Interrupt, InterruptInCall,
        Permission, Question, Ready, Restarted, Text, Thinking, Usage, Warning,
    };
    [
        scenario("text", "text is streamed", &[Ready, Text, DONE]),
        scenario("thinking", "thinking is told apart", &[Thinking, Text, DONE]),
        scenario(
            "tool_allowed",
            "a permission is asked for and given",
            &[Permission, Allowed, CallDone, Text],
        ),
        scenario("tool_denied", "a permission is denied", &[Permission, Denied, CallFailed]),
        scenario("question", "a question is asked and answered", &[Question, Answered, Text]),
        scenario("interrupt_streaming", "an interrupt ends a reply", &[Text, Interrupt, CANCELLED]),
        scenario("interrupt_in_tool", "an interrupt ends a command", &[Call, InterruptInCall, CANCELLED]),
        scenario(
            "crash",
            "a crash fails the turn, and a restart goes on",
            &[Text, CRASHED, Restarted, Ready],
        ),
        scenario("garbage", "garbage is kept and harms nothing", &[Garbage, Text, DONE]),
        scenario("hang", "an agent that hangs is ended in time", &[Failed(&[ErrorCode::SessionTimeout])]),
        scenario("two_turns", "turns follow each other", &[Text, DONE, Text, DONE]),
        scenario("resume", "a conversation is resumed", &[Text, DONE, Restarted, Ready, Text, DONE]),
        scenario("usage", "tokens are counted", &[Usage]),
        scenario("unknown_model", "an unknown model is refused", &[Failed(&[ErrorCode::ModelUnsupported])]),
        scenario("missing_binary", "a missing program is named", &[NOT_STARTED]),
        scenario("wrong_version", "an untested version is warned of", &[Warning, Text]),
    ]
};

/// Finds a scenario.
pub fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}

/// Judges a journal: what the scenario must show is there, in its order, and the journal is consistent.
pub fn judge(name: &str, journal: &[EventKind]) -> Result<(), String> {
    let scenario = find(name).ok_or_else(|| format!("there is no scenario {name:?}"))?;
    let mut wanted = scenario.must.iter();
    let mut next = wanted.next();
    let mut open = BTreeSet::<&CallId>::new();
    for event in journal {
        match event {
            EventKind::ToolStarted { call, .. } => drop(open.insert(call)),
            EventKind::ToolFinished { call, .. } => drop(open.remove(call)),
            any_event!(
                life turn TextDelta ThinkingDelta ToolProgress request settings plan usage worker report
            ) => {}
        }
        let shown = next.is_some_and(|must| match must {
            Expectation::InterruptInCall => shows(event, Expectation::Interrupt) && !open.is_empty(),
            must => shows(event, *must),
        });
        if shown {
            next = wanted.next();
        }
    }
    match next {
        Some(must) => Err(format!("{name}: the journal does not show {must:?} where it must")),
        None => consistent(journal).map_err(|why| format!("{name}: {why}")),
    }
}

/// Judges events as surfaces show them.
pub fn judge_json(name: &str, journal: &[Value]) -> Result<(), String> {
    let read = |event: &Value| {
        serde_json::from_value(event.clone()).map_err(|error| format!("{name}: {event}: {error}"))
    };
    judge(name, &journal.iter().map(read).collect::<Result<Vec<EventKind>, String>>()?)
}

/// Judges a refusal without a journal, by the error's text.
pub fn judge_refusal(name: &str, error: &str) -> Result<(), String> {
    let scenario = find(name).ok_or_else(|| format!("there is no scenario {name:?}"))?;
    let codes = scenario.must.iter().filter_map(|must| match must {
        Expectation::Failed(codes) => Some(*codes),
        _ => None,
    });
    if codes.flatten().any(|code| error.contains(&code.to_string())) {
        return Ok(());
    }
    Err(format!("{name}: refused for another reason: {error}"))
}

/// Returns whether an event satisfies an expectation.
fn shows(event: &EventKind, must: Expectation) -> bool {
    use EventKind as E;
    match must {
        Expectation::Ready => matches!(event, E::AgentReady { .. }),
        Expectation::Text => matches!(event, E::TextDelta { text, .. } if !text.is_empty()),
        Expectation::Thinking => matches!(event, E::ThinkingDelta { text, .. } if !text.is_empty()),
        Expectation::Call => matches!(event, E::ToolStarted { .. }),
        Expectation::CallDone => matches!(event, E::ToolFinished { ok: true, .. }),
        Expectation::CallFailed => matches!(event, E::ToolFinished { ok: false, .. }),
        Expectation::Permission => {
            matches!(event, E::RequestOpened { ask: RequestSubject::Permission(_), .. })
        }
        Expectation::Question => {
            matches!(event, E::RequestOpened { ask: RequestSubject::Question { .. }, .. })
        }
        Expectation::Allowed | Expectation::Denied => {
            let allowed = must == Expectation::Allowed;
            matches!(event, E::RequestSettled { outcome: RequestOutcome::Decided { decision }, .. }
                if decision.allows() == allowed)
        }
        Expectation::Answered => {
            matches!(event, E::RequestSettled { outcome: RequestOutcome::Answered { .. }, .. })
        }
        Expectation::Interrupt | Expectation::InterruptInCall => {
            matches!(event, E::InterruptRequested { .. })
        }
        Expectation::Ended(wanted) => matches!(event, E::TurnEnded { reason, .. } if *reason == wanted),
        Expectation::Usage => matches!(event, E::UsageReported { usage, .. } if !usage.is_empty()),
        Expectation::Garbage => matches!(event, E::Unparsed { .. }),
        Expectation::Warning => matches!(event, E::Notice { level: Level::Warning, .. }),
        Expectation::Failed(codes) => {
            matches!(event, E::StatusChanged { to: Status::Failed, code: Some(code), .. }
                if codes.contains(code))
        }
        Expectation::Restarted => matches!(event, E::Restarted { .. }),
    }
}

/// Checks what holds in every journal: what starts ends once, and nothing is left open after a turn.
fn consistent(journal: &[EventKind]) -> Result<(), String> {
    let mut turn: Option<TurnId> = None;
    let (mut calls, mut requests) = (BTreeSet::<CallId>::new(), BTreeSet::<RequestId>::new());
    for event in journal {
        match event {
            EventKind::TurnStarted { turn: begun, .. } => {
                if let Some(open) = turn.replace(*begun) {
                    return Err(format!("{begun:?} began inside {open:?}"));
                }
            }
            EventKind::TurnEnded { turn: ended, .. } => {
                if turn.take() != Some(*ended) {
                    return Err(format!("{ended:?} ended and was not open"));
                }
                if !calls.is_empty() || !requests.is_empty() {
                    return Err(format!("open behind {ended:?}: {calls:?} {requests:?}"));
                }
            }
            EventKind::ToolStarted { call, .. } if !calls.insert(call.clone()) => {
                return Err(format!("{call} began twice"));
            }
            EventKind::ToolFinished { call, .. } if !calls.remove(call) => {
                return Err(format!("{call} ended and was not open"));
            }
            EventKind::RequestOpened { request, .. } => {
                requests.insert(*request);
            }
            EventKind::RequestSettled { request, .. } if !requests.remove(request) => {
                return Err(format!("{request:?} was settled and did not wait"));
            }
            any_event!(
                life InterruptRequested MessageAdded TextDelta ThinkingDelta ToolStarted ToolProgress
                ToolFinished RequestSettled GrantsChanged settings plan usage worker report
            ) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_unique_and_every_scenario_asks_for_something() {
        let names: BTreeSet<&str> = ALL.iter().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), ALL.len());
        assert!(ALL.iter().all(|scenario| !scenario.must.is_empty() && !scenario.about.is_empty()));
    }

    #[test]
    fn a_journal_is_judged_by_order_and_by_what_is_left_open() {
        let ready = json!({"type": "agent_ready"});
        let begun = json!({"type": "turn_started", "turn": "turn_1", "origin": "client"});
        let text = json!({"type": "text_delta", "text": "hi"});
        let ended = json!({"type": "turn_ended", "turn": "turn_1", "reason": "completed"});
        let journal = |events: &[&Value]| events.iter().map(|event| (*event).clone()).collect::<Vec<Value>>();
        assert_eq!(judge_json("text", &journal(&[&ready, &begun, &text, &ended])), Ok(()));
        let missing = judge_json("text", &journal(&[&ready, &begun, &ended, &text])).unwrap_err();
        assert!(missing.contains("Ended(Completed)"), "{missing}");
        let twice = judge_json("text", &journal(&[&ready, &begun, &text, &ended, &ended])).unwrap_err();
        assert!(twice.contains("was not open"), "{twice}");
        assert!(judge_json("no such", &[]).is_err());
    }

    #[test]
    fn a_refusal_is_judged_by_its_code() {
        assert_eq!(judge_refusal("unknown_model", "OBEY-2003: no such model"), Ok(()));
        assert!(judge_refusal("unknown_model", "OBEY-2004: no such program").is_err());
    }
}
