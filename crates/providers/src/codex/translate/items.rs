//! What the model writes and does: texts and thoughts piece by piece, calls from beginning to end, sub-agents.

use domain::{AgentEvent, CallId};
use runtime::provider::Decoded;
use serde_json::{Value, json};

use super::super::memory::{Memory, Turn};
use super::{Whose, parent, tools, whose};
use crate::limits::{OPEN_CALLS_MAX, PLAN_MAX_CHARS, TITLE_MAX_CHARS};
use crate::look::Look;
use crate::text::{cut, one_line};

/// Takes a piece of a text.
pub(super) fn text(memory: &mut Memory, params: &Value, out: &mut Decoded) {
    let (Ok(parent), text) = (parent(memory, params), params.text("delta")) else { return };
    if !text.is_empty() {
        memory.remember_streamed(params.text("itemId"));
        out.events.push(AgentEvent::Text { text: text.to_owned(), parent });
    }
}

/// Takes a piece of a thought.
pub(super) fn thinking(memory: &mut Memory, params: &Value, out: &mut Decoded) {
    let (Ok(parent), text) = (parent(memory, params), params.text("delta")) else { return };
    if !text.is_empty() {
        memory.remember_streamed(params.text("itemId"));
        out.events.push(AgentEvent::Thinking { text: text.to_owned(), parent });
    }
}

/// Takes the beginning of a further part of a thought: parts are paragraphs.
pub(super) fn thinking_part(memory: &Memory, params: &Value, out: &mut Decoded) {
    let Ok(parent) = parent(memory, params) else { return };
    if params.count("summaryIndex").unwrap_or(0) > 0 {
        out.events.push(AgentEvent::Thinking { text: "\n\n".to_owned(), parent });
    }
}

/// Takes a piece of a call's output. A call that is not open ended with its turn.
pub(super) fn output(memory: &Memory, params: &Value, field: &str, out: &mut Decoded) {
    let call = CallId::new(params.text("itemId"));
    let output = params.text(field).to_owned();
    if memory.calls.contains_key(&call) && !output.is_empty() {
        out.events.push(AgentEvent::ToolProgress { call, output });
    }
}

/// Takes the beginning of an item.
pub(super) fn started(memory: &mut Memory, params: &Value, out: &mut Decoded) {
    let Ok(parent) = parent(memory, params) else { return };
    let item = params.under("item");
    match item.text("type") {
        "subAgentActivity" => worker(memory, item, out),
        "contextCompaction" => memory.compacting = memory.context_tokens.or(Some(0)),
        _ => begin_call(memory, params, parent, out),
    }
}

fn begin_call(memory: &mut Memory, params: &Value, parent: Option<CallId>, out: &mut Decoded) {
    let item = params.under("item");
    let Some(begun) = tools::begun(item, parent.clone()) else { return };
    let call = CallId::new(item.text("id"));
    // What an earlier turn left in the background tells of itself later; that turn is closed.
    let of_turn = |turn: &Turn| turn.id == params.text("turnId");
    let is_current = parent.is_some() || memory.turn.as_ref().is_some_and(of_turn);
    if memory.calls.contains_key(&call) || !is_current || memory.calls.len() >= OPEN_CALLS_MAX {
        return;
    }
    memory.calls.insert(call.clone(), begun.open);
    let tools::Begun { tool, input, title, .. } = begun;
    out.events.push(AgentEvent::ToolStarted { call, tool, input, title, parent });
}

/// Takes the end of an item.
pub(super) fn completed(memory: &mut Memory, params: &Value, out: &mut Decoded) {
    let Ok(parent) = parent(memory, params) else { return };
    let item = params.under("item");
    let told = memory.streamed.remove(item.text("id"));
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
        "plan" => plan(memory, item.text("text"), told, parent, out),
        "contextCompaction" => {
            let tokens_before = memory.compacting.take().filter(|tokens| *tokens > 0);
            let tokens_after = memory.context_tokens;
            out.events.push(AgentEvent::Compacted { tokens_before, tokens_after, summary: String::new() });
        }
        "agentMessage" | "exitedReviewMode" | "reasoning" | "subAgentActivity" => {}
        _ => end_call(memory, params, parent, out),
    }
}

fn plan(memory: &mut Memory, text: &str, told: bool, parent: Option<CallId>, out: &mut Decoded) {
    if parent.is_none() {
        memory.plan = cut(text, PLAN_MAX_CHARS);
    }
    if !told && !text.is_empty() {
        out.events.push(AgentEvent::Text { text: text.to_owned(), parent });
    }
}

fn end_call(memory: &mut Memory, params: &Value, parent: Option<CallId>, out: &mut Decoded) {
    // A call may be told only when it is over.
    begin_call(memory, params, parent, out);
    let item = params.under("item");
    let call = CallId::new(item.text("id"));
    let Some(open) = memory.calls.remove(&call) else { return };
    let (ok, mut output) = tools::outcome(item);
    if !ok && !open.denied.is_empty() {
        // The agent only knows that it was denied.
        output = format!("{output}: {}", open.denied);
    }
    out.events.push(AgentEvent::ToolFinished { call, ok, output });
    if item.text("type") == "collabAgentToolCall" && item.text("tool") == "spawnAgent" {
        for thread in item.list("receiverThreadIds").iter().filter_map(Value::as_str) {
            begin_worker(memory, thread, item.text("id"), item.text("prompt"), out);
        }
    }
}

/// Takes what became of a sub-agent.
fn worker(memory: &mut Memory, item: &Value, out: &mut Decoded) {
    let (thread, id) = (item.text("agentThreadId"), item.text("id"));
    let path = item.text("agentPath");
    match item.text("kind") {
        "started" => {
            let (call, tool) = (CallId::new(id), "spawn_agent".to_owned());
            let title = one_line(&format!("{tool}: {path}"), TITLE_MAX_CHARS);
            let input = json!({"agent": path, "model": item.under("model")});
            out.events.push(AgentEvent::ToolStarted { call: call.clone(), tool, input, title, parent: None });
            out.events.push(AgentEvent::ToolFinished { call, ok: true, output: String::new() });
            begin_worker(memory, thread, id, path, out);
        }
        kind @ ("completed" | "interrupted") if memory.workers.contains_key(thread) => {
            let worker = thread.to_owned();
            let ok = kind == "completed";
            out.events.push(AgentEvent::WorkerFinished { worker, ok, summary: String::new() });
        }
        _ => {}
    }
}

/// Takes a conversation that began: a sub-agent's may be told so before the call that started it is over.
pub(super) fn thread_started(memory: &mut Memory, params: &Value, out: &mut Decoded) {
    let thread = params.under("thread");
    let by = json!({"threadId": thread.text("parentThreadId")});
    let is_ours = !thread.text("parentThreadId").is_empty() && !matches!(whose(memory, &by), Whose::Nobodys);
    if is_ours {
        let id = thread.text("id").to_owned();
        let name = thread.text("agentNickname");
        begin_worker(memory, &id, &id, if name.is_empty() { thread.text("preview") } else { name }, out);
    }
}

fn begin_worker(memory: &mut Memory, thread: &str, call: &str, title: &str, out: &mut Decoded) {
    if thread.is_empty() || memory.workers.contains_key(thread) {
        return;
    }
    let call = CallId::new(call);
    memory.remember_worker(thread, call.clone());
    out.events.push(AgentEvent::WorkerStarted {
        worker: thread.to_owned(),
        call: Some(call),
        title: one_line(title, TITLE_MAX_CHARS),
    });
}
