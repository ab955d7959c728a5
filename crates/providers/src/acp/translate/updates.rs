//! What an ACP agent reports while it works.

use domain::event::{AgentCommand, Level, Todo, TodoStatus};
use domain::{AgentEvent, CallId, Usage};
use runtime::provider::Decoded;
use serde_json::Value;

use super::super::memory::{Call, Memory};
use super::super::names;
use super::notice;
use crate::limits::{
    COMMAND_DESCRIPTION_MAX_CHARS, OPEN_CALLS_MAX, SCRIPTED_TEXT_MAX_BYTES, TODO_MAX_CHARS, TODOS_MAX,
    TOOL_OUTPUT_MAX_BYTES,
};
use crate::look::Look;
use crate::text::{cut, one_line};

/// Takes an update; returns whether it was understood.
pub(super) fn update(memory: &mut Memory, params: &Value, out: &mut Decoded) -> bool {
    let update = params.under("update");
    let kind = update.text("sessionUpdate");
    // A conversation that is taken up is told from its beginning; the journal has all of that.
    if !memory.is_ready && !matches!(kind, "available_commands_update" | "notice") {
        return true;
    }
    match kind {
        "agent_message_chunk" => text(memory, update.under("content"), out),
        "agent_thought_chunk" => thinking(memory, update.under("content").text("text"), out),
        "tool_call" | "tool_call_update" => call(memory, update, out),
        "plan" => todos(update, out),
        "available_commands_update" => commands(update, out),
        "current_mode_update" => mode(memory, update.text("currentModeId"), out),
        "usage_update" => usage(memory, update, out),
        "notice" => notice(out, Level::Info, update.text("message")),
        "user_message_chunk"
        | "config_option_update"
        | "session_info_update"
        | "compaction_update"
        | "compaction_summary_chunk"
        | "plan_update"
        | "plan_removed"
        | "subagent_update" => {}
        _ => return false,
    }
    true
}

fn text(memory: &mut Memory, content: &Value, out: &mut Decoded) {
    let text = match content.text("type") {
        "text" => content.text("text").to_owned(),
        "resource_link" => content.text("uri").to_owned(),
        "" => return,
        kind => format!("[{}]", one_line(kind, 32)),
    };
    if text.is_empty() {
        return;
    }
    if let Some(turn) = &mut memory.turn {
        turn.denial.clear();
        if turn.text.len() + text.len() <= SCRIPTED_TEXT_MAX_BYTES {
            turn.text.push_str(&text);
        }
    }
    out.events.push(AgentEvent::Text { text, parent: None });
}

fn thinking(memory: &mut Memory, text: &str, out: &mut Decoded) {
    let begun = memory.turn.as_ref().is_some_and(|turn| turn.has_thought);
    // Gemini puts each thought's subject before it, even where there is none.
    let text = text.strip_prefix("****\n").unwrap_or(text);
    // Some agents begin with the gap between two thoughts.
    let text = if begun { text } else { text.trim_start() };
    if text.is_empty() {
        return;
    }
    if let Some(turn) = &mut memory.turn {
        turn.has_thought = true;
    }
    out.events.push(AgentEvent::Thinking { text: text.to_owned(), parent: None });
}

/// Takes the beginning, a change or the end of a call. Agents may say them in one, or the end alone.
fn call(memory: &mut Memory, update: &Value, out: &mut Decoded) {
    let name = update.text("toolCallId");
    if name.is_empty() || memory.turn.is_none() {
        return;
    }
    let id = CallId::new(name);
    let ended = matches!(update.text("status"), "completed" | "failed");
    if !memory.calls.contains_key(&id) {
        // The end of a call that has ended already.
        if update.text("sessionUpdate") == "tool_call_update" && update.under("kind").is_null() {
            return;
        }
        start_call(memory, update, out);
    }
    if let Some(turn) = &mut memory.turn {
        // What is said behind a call is another message.
        turn.text.clear();
    }
    let Some(open) = memory.calls.get_mut(&id) else { return };
    let delta = update.under("_meta").under("terminal_output_delta").text("data");
    if !delta.is_empty() && open.output.len() + delta.len() <= TOOL_OUTPUT_MAX_BYTES {
        open.output.push_str(delta);
        out.events.push(AgentEvent::ToolProgress { call: id.clone(), output: delta.to_owned() });
    }
    if let Some(terminal) = names::terminal(update) {
        terminal.clone_into(&mut open.terminal);
    }
    let shown = names::output(update);
    if !shown.is_empty() {
        open.output = shown;
    }
    if ended && let Some(open) = memory.calls.remove(&id) {
        let exit = update.under("rawOutput").under("exit_code").as_i64();
        let denied = !open.denied.is_empty();
        let ok = update.text("status") == "completed" && exit.unwrap_or(0) == 0 && !denied;
        let output = if denied { open.denied } else { open.output };
        out.events.push(AgentEvent::ToolFinished { call: id, ok, output });
    }
}

/// Reports that a call begins, unless it was.
pub(super) fn start_call(memory: &mut Memory, call: &Value, out: &mut Decoded) -> Option<CallId> {
    let name = call.text("toolCallId");
    if name.is_empty() || memory.turn.is_none() {
        return None;
    }
    let id = CallId::new(name);
    if memory.calls.contains_key(&id) {
        return Some(id);
    }
    if memory.calls.len() >= OPEN_CALLS_MAX {
        return None;
    }
    let named = names::call(call, memory.bridge.is_some());
    let bridged = memory.bridge.is_some() && names::bridged(call).is_some();
    memory.calls.insert(id.clone(), Call { tool: named.tool.clone(), bridged, ..Call::default() });
    out.events.push(AgentEvent::ToolStarted {
        call: id.clone(),
        tool: named.tool,
        input: named.input,
        title: named.title,
        parent: None,
    });
    Some(id)
}

fn todos(update: &Value, out: &mut Decoded) {
    let entry = |(at, entry): (usize, &Value)| Todo {
        id: (at + 1).to_string(),
        text: cut(entry.text("content"), TODO_MAX_CHARS),
        status: match entry.text("status") {
            "in_progress" => TodoStatus::InProgress,
            "completed" => TodoStatus::Completed,
            _ => TodoStatus::Pending,
        },
    };
    let todos = update.list("entries").iter().take(TODOS_MAX).enumerate().map(entry).collect();
    out.events.push(AgentEvent::Todos(todos));
}

fn commands(update: &Value, out: &mut Decoded) {
    let command = |command: &Value| AgentCommand {
        name: command.text("name").to_owned(),
        description: cut(command.text("description"), COMMAND_DESCRIPTION_MAX_CHARS),
    };
    out.events.push(AgentEvent::Commands(update.list("availableCommands").iter().map(command).collect()));
}

fn mode(memory: &mut Memory, name: &str, out: &mut Decoded) {
    let was_planning = memory.modes.current == "plan";
    name.clone_into(&mut memory.modes.current);
    let plans = name == "plan";
    if plans != was_planning {
        out.events.push(AgentEvent::PlanMode(plans));
    }
}

fn usage(memory: &mut Memory, update: &Value, out: &mut Decoded) {
    let (used, size) = (update.count("used").unwrap_or(0), update.count("size"));
    if let Some(turn) = &mut memory.turn {
        turn.used = turn.used.saturating_add(used);
    }
    let amount = update.under("cost").under("amount").as_f64().filter(|amount| (0.0..1e6).contains(amount));
    let cost = amount.map_or(memory.cost, |amount| (amount * 1e6) as u64);
    let usage = Usage { cost_micro_usd: cost.saturating_sub(memory.cost), ..Usage::default() };
    memory.cost = cost;
    out.events.push(AgentEvent::Usage { usage, context_tokens: Some(used), context_window: size });
}
