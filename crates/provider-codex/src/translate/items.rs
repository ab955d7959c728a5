//! The model's output and actions: texts and thinking piece by piece, calls from start to end, sub-agents.

use agent_port::{Decoded, Revisioned};
use domain::{AgentEvent, CallId};
use serde_json::{Value, json};

use super::super::state::{CodexState, CodexTurn};
use super::{NotificationScope, parent, tools, whose};
use crate::limits::{MESSAGE_MAX_CHARS, OPEN_CALLS_MAX, PLAN_MAX_CHARS, TITLE_MAX_CHARS};
use provider_common::json_fields::Look;
use provider_common::text::{cut, one_line};

/// Handles a piece of a text.
pub(super) fn text(state: &mut Revisioned<CodexState>, params: &Value, out: &mut Decoded) {
    let (Ok(parent), text) = (parent(state, params), params.text("delta")) else { return };
    if !text.is_empty() {
        remember_streamed(state, params.text("itemId"));
        out.events.push(AgentEvent::Text { text: text.to_owned(), parent });
    }
}

/// Records that an item is streamed; most pieces are of one that is recorded already.
fn remember_streamed(state: &mut Revisioned<CodexState>, item: &str) {
    if !state.streamed.contains(item) {
        state.remember_streamed(item);
    }
}

/// Handles a piece of thinking.
pub(super) fn thinking(state: &mut Revisioned<CodexState>, params: &Value, out: &mut Decoded) {
    let (Ok(parent), text) = (parent(state, params), params.text("delta")) else { return };
    if !text.is_empty() {
        remember_streamed(state, params.text("itemId"));
        out.events.push(AgentEvent::Thinking { text: text.to_owned(), parent });
    }
}

/// Handles the start of a further part of thinking: parts are paragraphs.
pub(super) fn thinking_part(state: &CodexState, params: &Value, out: &mut Decoded) {
    let Ok(parent) = parent(state, params) else { return };
    if params.count("summaryIndex").unwrap_or(0) > 0 {
        out.events.push(AgentEvent::Thinking { text: "\n\n".to_owned(), parent });
    }
}

/// Handles a piece of a call's output. A call that is not open ended with its turn.
pub(super) fn output(state: &CodexState, params: &Value, field: &str, out: &mut Decoded) {
    let call = CallId::new(params.text("itemId"));
    let output = params.text(field).to_owned();
    if state.calls.contains_key(&call) && !output.is_empty() {
        out.events.push(AgentEvent::ToolProgress { call, output });
    }
}

/// Handles the start of an item.
pub(super) fn started(state: &mut Revisioned<CodexState>, params: &Value, out: &mut Decoded) {
    let Ok(parent) = parent(state, params) else { return };
    let item = params.under("item");
    match item.text("type") {
        "subAgentActivity" => worker(state, item, out),
        "contextCompaction" => state.compacting = state.context_tokens.or(Some(0)),
        _ => begin_call(state, params, parent, out),
    }
}

fn begin_call(state: &mut Revisioned<CodexState>, params: &Value, parent: Option<CallId>, out: &mut Decoded) {
    let item = params.under("item");
    let Some(begun) = tools::begun(item, parent.clone()) else { return };
    let call = CallId::new(item.text("id"));
    // What an earlier turn left in the background reports later; that turn is closed.
    let of_turn = |turn: &CodexTurn| turn.id == params.text("turnId");
    let is_current = parent.is_some() || state.turn.as_ref().is_some_and(of_turn);
    if state.calls.contains_key(&call) || !is_current || state.calls.len() >= OPEN_CALLS_MAX {
        return;
    }
    state.calls.insert(call.clone(), begun.open);
    let tools::StartedCall { tool, input, title, .. } = begun;
    out.events.push(AgentEvent::ToolStarted { call, tool, input, title, parent });
}

/// Handles the end of an item.
pub(super) fn completed(state: &mut Revisioned<CodexState>, params: &Value, out: &mut Decoded) {
    let Ok(parent) = parent(state, params) else { return };
    let item = params.under("item");
    let told = state.streamed.remove(item.text("id"));
    if item.text("type") == "agentMessage"
        && let Some(worker) = state.workers.get_mut(params.text("threadId"))
    {
        worker.said = cut(item.text("text"), MESSAGE_MAX_CHARS);
    }
    match item.text("type") {
        "agentMessage" | "exitedReviewMode" if !told => {
            let text = format!("{}{}", item.text("text"), item.text("review"));
            if !text.is_empty() {
                out.events.push(AgentEvent::Text { text, parent });
            }
        }
        "reasoning" if !told => {
            let parts = item.list("summary").iter().chain(item.list("content")).filter_map(Value::as_str);
            let text = parts.collect::<Vec<&str>>().join("\n\n");
            if !text.is_empty() {
                out.events.push(AgentEvent::Thinking { text, parent });
            }
        }
        "plan" => plan(state, item.text("text"), told, parent, out),
        "contextCompaction" => {
            let tokens_before = state.compacting.take().filter(|tokens| *tokens > 0);
            let tokens_after = state.context_tokens;
            out.events.push(AgentEvent::Compacted { tokens_before, tokens_after, summary: String::new() });
        }
        "agentMessage" | "exitedReviewMode" | "reasoning" | "subAgentActivity" => {}
        _ => end_call(state, params, parent, out),
    }
}

fn plan(
    state: &mut Revisioned<CodexState>,
    text: &str,
    told: bool,
    parent: Option<CallId>,
    out: &mut Decoded,
) {
    if parent.is_none() {
        state.plan = cut(text, PLAN_MAX_CHARS);
    }
    if !told && !text.is_empty() {
        out.events.push(AgentEvent::Text { text: text.to_owned(), parent });
    }
}

/// Reports the end of a call, and the sub-agents it has started.
fn end_call(state: &mut Revisioned<CodexState>, params: &Value, parent: Option<CallId>, out: &mut Decoded) {
    // A call may be reported only when it has ended.
    begin_call(state, params, parent, out);
    let item = params.under("item");
    let call = CallId::new(item.text("id"));
    let Some(open) = state.calls.remove(&call) else { return };
    let (ok, mut output) = tools::outcome(item);
    if !ok && !open.denied.is_empty() {
        // The agent only knows that it was denied.
        output = format!("{output}: {}", open.denied);
    }
    out.events.push(AgentEvent::ToolFinished { call, ok, output });
    if item.text("type") == "collabAgentToolCall" && item.text("tool") == "spawnAgent" {
        for thread in item.list("receiverThreadIds").iter().filter_map(Value::as_str) {
            begin_worker(state, thread, item.text("id"), item.text("prompt"), out);
        }
    }
}

/// Handles the state of a sub-agent.
fn worker(state: &mut Revisioned<CodexState>, item: &Value, out: &mut Decoded) {
    let (thread, id) = (item.text("agentThreadId"), item.text("id"));
    let path = item.text("agentPath");
    match item.text("kind") {
        "started" => {
            let (call, tool) = (CallId::new(id), "spawn_agent".to_owned());
            let title = one_line(&format!("{tool}: {path}"), TITLE_MAX_CHARS);
            let input = json!({"agent": path, "model": item.under("model")});
            out.events.push(AgentEvent::ToolStarted { call: call.clone(), tool, input, title, parent: None });
            out.events.push(AgentEvent::ToolFinished { call, ok: true, output: String::new() });
            begin_worker(state, thread, id, path, out);
        }
        kind @ ("completed" | "interrupted") => {
            let Some(found) = state.workers.get_mut(thread) else { return };
            let (worker, summary) = (thread.to_owned(), std::mem::take(&mut found.said));
            out.events.push(AgentEvent::WorkerFinished { worker, ok: kind == "completed", summary });
        }
        _ => {}
    }
}

/// Handles the start of a conversation: a sub-agent's may be reported before the call that started it has
/// ended.
pub(super) fn thread_started(state: &mut Revisioned<CodexState>, params: &Value, out: &mut Decoded) {
    let thread = params.under("thread");
    let by = json!({"threadId": thread.text("parentThreadId")});
    let is_ours =
        !thread.text("parentThreadId").is_empty() && !matches!(whose(state, &by), NotificationScope::Nobodys);
    if is_ours {
        let id = thread.text("id").to_owned();
        let name = thread.text("agentNickname");
        begin_worker(state, &id, &id, if name.is_empty() { thread.text("preview") } else { name }, out);
    }
}

fn begin_worker(
    state: &mut Revisioned<CodexState>,
    thread: &str,
    call: &str,
    title: &str,
    out: &mut Decoded,
) {
    if thread.is_empty() || state.workers.contains_key(thread) {
        return;
    }
    let call = CallId::new(call);
    state.remember_worker(thread, call.clone());
    out.events.push(AgentEvent::WorkerStarted {
        worker: thread.to_owned(),
        call: Some(call),
        title: one_line(title, TITLE_MAX_CHARS),
    });
}
