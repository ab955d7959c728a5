//! Prints effects, short enough to be compared by eye.

use std::fmt::Write as _;

use serde_json::Value;

use super::read::{TIMERS, timer_name};
use crate::agent::AgentInput;
use crate::event::EventKind;
use crate::machine::{Effect, StopStep};
use crate::request::{RequestOutcome, RequestSubject};
use crate::turn::{EndReason, InterruptReason};

pub(super) fn show_all(effects: &[Effect]) -> String {
    let all = TIMERS.map(Effect::Disarm);
    let mut shown: Vec<String> = Vec::new();
    let mut rest = effects;
    while let Some((effect, more)) = rest.split_first() {
        if let Some(more) = rest.strip_prefix(&all[..]) {
            shown.push("disarm all".to_owned());
            rest = more;
        } else {
            shown.push(show(effect));
            rest = more;
        }
    }
    if shown.is_empty() { "nothing".to_owned() } else { shown.join("; ") }
}

fn show(effect: &Effect) -> String {
    match effect {
        Effect::Record(kind) => show_event(kind),
        Effect::Launch { resume: false } => "launch".to_owned(),
        Effect::Launch { resume: true } => "launch and resume".to_owned(),
        Effect::Tell(input) => format!("tell {}", show_told(input)),
        Effect::Terminate(StopStep::Ask) => "ask to leave".to_owned(),
        Effect::Terminate(StopStep::Term) => "term".to_owned(),
        Effect::Terminate(StopStep::Kill) => "kill".to_owned(),
        Effect::Arm(timer, wait) => format!("arm {} {wait:?}", timer_name(*timer)),
        Effect::RaiseSharedBudget { scope, by } => format!("raise {} by {by}", scope.name()),
        Effect::Disarm(timer) => format!("disarm {}", timer_name(*timer)),
    }
}

fn show_told(input: &AgentInput) -> String {
    match input {
        AgentInput::Prompt { text, .. } => format!("prompt {text:?}"),
        AgentInput::Steer { text } => format!("steer {text:?}"),
        AgentInput::Interrupt => "interrupt".to_owned(),
        AgentInput::Decide { native, decision, updated_input, .. } => {
            let outcome = RequestOutcome::Decided { decision: *decision };
            let changed = updated_input.as_ref().map(|input| format!(" as {input}")).unwrap_or_default();
            format!("{native} {}{changed}", outcome.word())
        }
        AgentInput::Answer { native, answers, .. } => format!("{native} answers {answers:?}"),
        AgentInput::ToolResult { native, ok, output } => {
            format!("{native} {} {output:?}", if *ok { "returned" } else { "failed" })
        }
        AgentInput::Tools(tools) => {
            let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
            format!("tools {}", names.join(" "))
        }
        AgentInput::SetMode(mode) => format!("mode {}", mode.name()),
        AgentInput::SetModel(model) => format!("model {model}"),
        AgentInput::Compact => "compact".to_owned(),
        AgentInput::Leave => "leave".to_owned(),
    }
}

fn show_event(kind: &EventKind) -> String {
    match kind {
        EventKind::StatusChanged { from, to, message, code } => {
            let why = code.map(|_| format!(" {message:?}")).unwrap_or_default();
            format!("{}→{}{why}", from.name(), to.name())
        }
        EventKind::AgentStarted { pid } => format!("agent started {pid}"),
        EventKind::AgentReady { .. } => "agent ready".to_owned(),
        EventKind::AgentExited { exit_code, signal, .. } => match (exit_code, signal) {
            (_, Some(signal)) => format!("agent killed {signal}"),
            (code, _) => format!("agent exited {}", code.unwrap_or(-1)),
        },
        EventKind::Restarted { count } => format!("restarted {count}"),
        EventKind::TurnStarted { turn, prompt, by, .. } => {
            format!("turn {}{} {prompt:?}", turn.0, said_by(by))
        }
        EventKind::InterruptRequested { turn, reason } => {
            let why = match reason {
                InterruptReason::Cancelled => "cancelled",
                InterruptReason::BudgetExceeded => "budget",
            };
            format!("interrupt {} {why}", turn.0)
        }
        EventKind::MessageAdded { text, by, .. } => format!("added{} {text:?}", said_by(by)),
        EventKind::TextDelta { text, .. } => format!("text {text:?}"),
        EventKind::ThinkingDelta { text, .. } => format!("thinking {text:?}"),
        EventKind::ToolStarted { call, tool, .. } => format!("call {call} {tool}"),
        EventKind::ToolFinished { call, tool, ok, output } => {
            format!("call {call} {tool} {} {output:?}", if *ok { "ok" } else { "failed" })
        }
        EventKind::TurnEnded { turn, reason, text, error } => show_end(turn.0, *reason, text, error),
        EventKind::RequestOpened { request, ask, .. } => format!("request {} {}", request.0, show_ask(ask)),
        EventKind::RequestSettled { request, outcome, by, grant, used_grant, .. } => {
            let grant = grant
                .as_ref()
                .map(|grant| format!(" granting {} {}", grant.id, grant.what("/repo".as_ref())));
            let used = if used_grant.is_empty() { String::new() } else { format!(" {used_grant}") };
            format!("request {} {} by {by}{used}{}", request.0, outcome.word(), grant.unwrap_or_default())
        }
        EventKind::Notice { level, code, message } => {
            let level = format!("{level:?}").to_lowercase();
            let code = code.map(|code| format!(" {code}")).unwrap_or_default();
            format!("{level}{code} {message:?}")
        }
        other => show_plain(other),
    }
}

fn said_by(by: &str) -> String {
    if by.is_empty() { String::new() } else { format!(" by {by}") }
}

fn show_end(turn: u64, reason: EndReason, text: &str, error: &str) -> String {
    let reason = serde_json::to_value(reason).unwrap();
    let mut shown = format!("turn {turn} {}", reason.as_str().unwrap());
    if !text.is_empty() {
        let _ = write!(shown, " {text:?}");
    }
    if !error.is_empty() {
        let _ = write!(shown, " error {error:?}");
    }
    shown
}

fn show_ask(ask: &RequestSubject) -> String {
    match ask {
        RequestSubject::Permission(permission) => format!("permission {}", permission.tool),
        RequestSubject::Question { questions, .. } => {
            let ids: Vec<&str> = questions.iter().map(|question| question.id.as_str()).collect();
            format!("question {}", ids.join(" "))
        }
        RequestSubject::ClientTool { tool, .. } => format!("client tool {tool}"),
    }
}

/// Prints every kind whose stored form is sufficient.
fn show_plain(kind: &EventKind) -> String {
    let mut fields = serde_json::to_value(kind).unwrap();
    fields.as_object_mut().unwrap().remove("type");
    for grant in fields.get_mut("grants").and_then(Value::as_array_mut).into_iter().flatten() {
        // The event has who and when.
        grant.as_object_mut().unwrap().retain(|key, _| !key.starts_with("given_"));
    }
    fields.sort_all_objects();
    format!("{} {fields}", kind.name())
}
