//! Turns: when one starts, how one ends, what it used, and its to-do list.

use agent_port::{Decoded, Revisioned};
use domain::event::{Level, Todo, TodoStatus};
use domain::request::{PermissionSubject, RequestSubject};
use domain::turn::EndReason;
use domain::{AgentEvent, Mode, Usage};
use serde_json::{Value, json};

use super::super::encode;
use super::super::state::{AnswerForm, CodexCallKind, CodexState, CodexTurn, InterruptState};
use super::{NotificationScope, handshake, notice, notifications, whose, workers};
use crate::limits::{MESSAGE_MAX_CHARS, TODO_MAX_CHARS, TODOS_MAX};
use provider_common::json_fields::Look;
use provider_common::text::cut;

/// Our id of the request to carry out a plan. The agent's own ids are numbers.
const PLAN_NATIVE: &str = "plan";

/// Handles the start of a turn.
pub(super) fn started(state: &mut Revisioned<CodexState>, params: &Value, out: &mut Decoded) {
    match whose(state, params) {
        NotificationScope::Own => {}
        NotificationScope::Workers(_) => return workers::began(state, params, out),
        NotificationScope::Nobodys => return,
    }
    state.settling = None;
    let turn = state.turn.get_or_insert_with(CodexTurn::default);
    if std::mem::take(&mut turn.plan_asked) && state.asks.remove(PLAN_NATIVE).is_some() {
        out.events.push(AgentEvent::Withdrew { native: PLAN_NATIVE.to_owned() });
    }
    out.events.push(AgentEvent::TurnStarted);
    known(state, params.under("turn").text("id"), out);
}

/// Handles the agent's id of the turn; an interrupt may have waited for it.
fn known(state: &mut Revisioned<CodexState>, id: &str, out: &mut Decoded) {
    let Some(turn) = &mut state.turn else { return };
    if id.is_empty() {
        return;
    }
    if turn.id != id {
        id.clone_into(&mut turn.id);
        if turn.interrupt == InterruptState::Sent {
            // It was meant for the previous turn of the agent, which is the same turn of ours.
            turn.interrupt = InterruptState::Wanted;
        }
    }
    if turn.interrupt == InterruptState::Wanted {
        encode::interrupt(state, &mut out.replies);
    }
}

/// Handles a turn that the agent refused to start.
pub(super) fn failed(state: &mut Revisioned<CodexState>, error: String, out: &mut Decoded) {
    // A turn that runs all the same reports its own end.
    if state.turn.as_ref().is_some_and(|turn| !turn.id.is_empty()) {
        notice(out, Level::Error, &format!("Codex did not take the message: {error}"));
        return;
    }
    state.end_turn();
    let (reason, error) = (EndReason::Failed, cut(&error, MESSAGE_MAX_CHARS));
    out.events.push(AgentEvent::TurnEnded { reason, text: String::new(), error });
}

/// Handles the answer that a turn without the agent's participation waits for.
pub(super) fn settled(state: &mut Revisioned<CodexState>, out: &mut Decoded) {
    if let Some(reason) = state.settling.take() {
        state.end_turn();
        out.events.push(handshake::ending(reason));
    }
}

/// Handles the end of a turn.
pub(super) fn completed(state: &mut Revisioned<CodexState>, params: &Value, out: &mut Decoded) {
    let ended = params.under("turn");
    match whose(state, params) {
        NotificationScope::Own => {}
        NotificationScope::Workers(_) => {
            workers::ended(state, params, out);
            // A sub-agent that fails informs its parent, not us.
            if ended.text("status") == "failed" {
                let error = failure(ended.under("error")).1;
                notice(out, Level::Warning, &format!("a sub-agent failed: {error}"));
            }
            return;
        }
        NotificationScope::Nobodys => return,
    }
    if state.turn.as_ref().is_none_or(|turn| turn.id != ended.text("id")) {
        return;
    }
    let (reason, error) = match ended.text("status") {
        "completed" => (EndReason::Completed, String::new()),
        "interrupted" => (EndReason::Cancelled, String::new()),
        _ => failure(ended.under("error")),
    };
    let plan_waits = reason == EndReason::Completed && state.mode == Mode::Plan && !state.plan.is_empty();
    if plan_waits && let Some(turn) = &mut state.turn {
        turn.id.clear();
        turn.plan_asked = true;
    }
    close_calls(state, reason, out);
    if plan_waits {
        ask_about_plan(state, out);
        return;
    }
    state.end_turn();
    if reason == EndReason::Failed {
        out.events.extend(notifications::rate_limit(state, ended.under("error")));
    }
    let text = ended.list("items").iter().rev().find(|item| item.text("type") == "agentMessage");
    let text = text.map(|item| item.text("text")).unwrap_or_default().to_owned();
    out.events.push(AgentEvent::TurnEnded { reason, text, error });
}

/// Closes what is open. A command that outlives a successful turn continues to run, and so do sub-agents with their calls; one
/// of an interrupted turn is ended by us, since the agent would let it run.
fn close_calls(state: &mut Revisioned<CodexState>, reason: EndReason, out: &mut Decoded) {
    let calls = std::mem::take(&mut state.calls);
    for (call, open) in calls {
        if reason == EndReason::Completed && open.parent.is_some() {
            state.calls.insert(call, open);
            continue;
        }
        let is_command = open.kind == CodexCallKind::Command;
        let (ok, output) = match (reason, is_command) {
            (EndReason::Completed, true) => (true, "still running in the background"),
            (EndReason::Completed, false) => (false, "not finished when the turn ended"),
            _ => (false, "interrupted"),
        };
        if is_command && reason != EndReason::Completed {
            state.strays.insert(call.as_str().to_owned());
        }
        out.events.push(AgentEvent::ToolFinished { call, ok, output: output.to_owned() });
    }
    if reason != EndReason::Completed {
        workers::stop(state, out);
        if !state.strays.is_empty() {
            let thread = state.thread.clone();
            workers::list_terminals(state, &thread, out);
        }
    }
}

/// Asks a person about the plan. The agent has no such request: its own interface asks, and so do we. Our
/// turn stays open until there is a decision.
fn ask_about_plan(state: &mut Revisioned<CodexState>, out: &mut Decoded) {
    state.remember_request(PLAN_NATIVE, AnswerForm::Plan);
    let ask = RequestSubject::Permission(PermissionSubject {
        call: None,
        tool: "ExitPlanMode".to_owned(),
        input: json!({"plan": state.plan}),
        title: "ExitPlanMode: leave plan mode and begin".to_owned(),
        parent: None,
    });
    out.events.push(AgentEvent::Asked { native: PLAN_NATIVE.to_owned(), ask });
}

/// Returns why a turn failed, with what can be done about it.
fn failure(error: &Value) -> (EndReason, String) {
    let message = message_of(error);
    let info = error.under("codexErrorInfo");
    let kind = match info {
        Value::String(word) => word.as_str(),
        Value::Object(map) => map.keys().next().map(String::as_str).unwrap_or_default(),
        _ => "",
    };
    let reason = match kind {
        "contextWindowExceeded" | "sessionBudgetExceeded" => EndReason::LimitReached,
        "cyberPolicy" | "misalignmentPolicyViolation" => EndReason::Refused,
        _ if message.contains("reason: max_output_tokens") => EndReason::LimitReached,
        _ if message.contains("reason: content_filter") => EndReason::Refused,
        _ => EndReason::Failed,
    };
    let status = info.under(kind).count("httpStatusCode");
    let remedy = match (kind, status) {
        ("unauthorized", _) | (_, Some(401 | 403)) => {
            "; check the key: `codex login`, or the variable that the model provider names"
        }
        ("httpConnectionFailed", None) => "; is the model's endpoint up?",
        _ if message.starts_with("Missing environment variable") => "; set it in the session's environment",
        _ => "",
    };
    (reason, cut(&format!("{}{remedy}", message.trim_end_matches('.')), MESSAGE_MAX_CHARS))
}

/// Returns an error's message; some are the endpoint's raw answer.
pub(super) fn message_of(error: &Value) -> String {
    let message = error.text("message");
    let inner: Option<Value> = message.starts_with('{').then(|| serde_json::from_str(message).ok()).flatten();
    let said = inner.as_ref().map(|inner| inner.under("error").text("message")).unwrap_or_default();
    let said = if said.is_empty() { message } else { said };
    match error.text("additionalDetails") {
        "" if said.is_empty() => "the agent gave no reason".to_owned(),
        "" => said.to_owned(),
        details => format!("{said} ({details})"),
    }
}

/// Handles the agent's to-do list.
pub(super) fn todos(state: &CodexState, params: &Value, out: &mut Decoded) {
    if !matches!(whose(state, params), NotificationScope::Own) {
        return;
    }
    let entry = |(at, step): (usize, &Value)| {
        let status = match step.text("status") {
            "inProgress" => TodoStatus::InProgress,
            "completed" => TodoStatus::Completed,
            _ => TodoStatus::Pending,
        };
        // The list is always written as a whole and without ids; an entry's position is its id.
        Todo::new((at + 1).to_string(), cut(step.text("step"), TODO_MAX_CHARS), status)
    };
    let todos = params.list("plan").iter().take(TODOS_MAX).enumerate().map(entry).collect();
    out.events.push(AgentEvent::Todos(todos));
}

/// Handles the total usage of a conversation and reports what is new in it.
pub(super) fn usage(state: &mut Revisioned<CodexState>, params: &Value, out: &mut Decoded) {
    let said = params.under("tokenUsage");
    let (total, last) = (tokens(said.under("total")), tokens(said.under("last")));
    match whose(state, params) {
        NotificationScope::Own => {}
        NotificationScope::Workers(call) => {
            let Some(worker) = state.workers.get_mut(params.text("threadId")) else { return };
            let usage = total.beyond(&worker.counted);
            worker.counted = total;
            if !usage.is_empty() {
                let (context_tokens, context_window, parent) = (None, None, Some(call));
                out.events.push(AgentEvent::Usage { usage, context_tokens, context_window, parent });
            }
            return;
        }
        NotificationScope::Nobodys => return,
    }
    let usage = match state.counted.replace(total) {
        Some(counted) => total.beyond(&counted),
        // The past of a resumed conversation, unless it is about the running turn.
        None if is_running(state, params.text("turnId")) => last,
        None => Usage::default(),
    };
    let context = said.under("last").count("totalTokens").filter(|tokens| *tokens > 0);
    let window = said.count("modelContextWindow");
    let changed = context != state.context_tokens || window != state.context_window;
    (state.context_tokens, state.context_window) = (context, window);
    if !usage.is_empty() || changed {
        let (context_tokens, context_window) = (context, window);
        out.events.push(AgentEvent::Usage { usage, context_tokens, context_window, parent: None });
    }
}

fn is_running(state: &CodexState, turn: &str) -> bool {
    state.turn.as_ref().is_some_and(|running| running.id == turn && !turn.is_empty())
}

/// Reads token counts. The agent counts tokens read from a cache as input; a session does not.
fn tokens(said: &Value) -> Usage {
    let cached = said.count("cachedInputTokens").unwrap_or(0);
    Usage {
        input_tokens: said.count("inputTokens").unwrap_or(0).saturating_sub(cached),
        output_tokens: said.count("outputTokens").unwrap_or(0),
        cache_read_tokens: cached,
        cache_write_tokens: said.count("cacheWriteInputTokens").unwrap_or(0),
        ..Usage::default()
    }
}
