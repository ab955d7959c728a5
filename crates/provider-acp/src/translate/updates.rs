//! The updates an ACP agent reports while it works.

use agent_client_protocol_schema::v1::{
    AvailableCommand, AvailableCommandInput, ContentBlock, PlanEntry, PlanEntryPriority, PlanEntryStatus,
    SessionUpdate as Update, ToolCall, ToolCallStatus as Status, UsageUpdate,
};
use agent_port::{Decoded, Revisioned};
use domain::event::{AgentCommand, Level, Todo, TodoPriority, TodoStatus};
use domain::{AgentEvent, CallId, Mode, Usage};
use serde_json::Value;

use super::super::state::{AcpCall, AcpState};
use super::super::{choices, names, permitted, typed};
use super::{notice, plan, requests};
use crate::limits::{
    COMMAND_DESCRIPTION_MAX_CHARS, OPEN_CALLS_MAX, REPLY_TEXT_MAX_BYTES, TITLE_MAX_CHARS, TODO_MAX_CHARS,
    TODOS_MAX, TOOL_OUTPUT_MAX_BYTES,
};
use provider_common::json_fields::Look;
use provider_common::text::{cut, one_line};

/// Kinds of updates that may be ignored if they cannot be parsed. The last three are drafts.
const QUIET: [&str; 9] = [
    "agent_thought_chunk",
    "user_message_chunk",
    "config_option_update",
    "session_info_update",
    "compaction_update",
    "compaction_summary_chunk",
    "plan_update",
    "plan_removed",
    "subagent_update",
];

/// Handles an update; returns whether it was understood.
pub(super) fn update(state: &mut Revisioned<AcpState>, update: &mut Value, out: &mut Decoded) -> bool {
    let kind = update.text("sessionUpdate").to_owned();
    let read = typed::read::<Update>(update, &kind);
    // A resumed conversation is replayed from its beginning; the journal already has all of that.
    if !state.is_ready && !matches!(read, Some(Update::AvailableCommandsUpdate(_) | Update::Notice(_))) {
        return true;
    }
    match read {
        Some(Update::AgentMessageChunk(chunk)) => text(state, shown(Some(chunk.content), update), out),
        Some(Update::AgentThoughtChunk(chunk)) => {
            if let ContentBlock::Text(part) = chunk.content {
                thinking(state, &part.text, out);
            }
        }
        Some(Update::ToolCall(begun)) => call(state, &begun, out),
        Some(Update::ToolCallUpdate(change)) => {
            let is_open = state.calls.contains_key(&CallId::new(&*change.tool_call_id.0));
            // Otherwise it is the end of a call that has already ended.
            if (is_open || !update.under("kind").is_null())
                && let Ok(change) = change.try_into()
            {
                call(state, &change, out);
            }
        }
        Some(Update::Plan(plan)) => todos(&plan.entries, out),
        Some(Update::AvailableCommandsUpdate(update)) => commands(update.available_commands, out),
        // While one of our requests is pending, the update may report the previous mode.
        Some(Update::CurrentModeUpdate(update)) if state.unsettled == 0 => {
            mode(state, &update.current_mode_id.0, out);
        }
        Some(Update::ConfigOptionUpdate(update)) if state.unsettled == 0 => {
            let current = choices::mode_option(&update.config_options).current;
            if state.modes.names.contains(&current) {
                mode(state, &current, out);
            }
        }
        Some(Update::UsageUpdate(update)) => usage(state, &update, out),
        Some(Update::Notice(said)) => {
            let said = [said.title, said.description.unwrap_or_default()].join("\n");
            // Where the text was before it became part of the protocol.
            let said = if said.trim().is_empty() { update.text("message") } else { &said };
            notice(out, Level::Info, said);
        }
        Some(_) => {}
        None if kind == "agent_message_chunk" => text(state, shown(None, update), out),
        None => return QUIET.contains(&kind.as_str()),
    }
    true
}

/// Returns the text of a part of a message, whether there is a type for it or not.
fn shown(content: Option<ContentBlock>, update: &Value) -> String {
    match (content, update.under("content").text("type")) {
        (Some(ContentBlock::Text(part)), _) => part.text,
        (Some(ContentBlock::ResourceLink(link)), _) => link.uri,
        (_, "") => update.under("content").text("text").to_owned(),
        (_, kind) => format!("[{}]", one_line(kind, 32)),
    }
}

fn text(state: &mut Revisioned<AcpState>, text: String, out: &mut Decoded) {
    if text.is_empty() {
        return;
    }
    if let Some(turn) = &mut state.turn {
        turn.denial.clear();
        if let Some(said) = turn.said.as_mut().filter(|said| said.len() + text.len() <= REPLY_TEXT_MAX_BYTES)
        {
            said.push_str(&text);
        }
    }
    out.events.push(AgentEvent::Text { text, parent: None });
}

fn thinking(state: &mut Revisioned<AcpState>, text: &str, out: &mut Decoded) {
    let begun = state.turn.as_ref().is_some_and(|turn| turn.has_thought);
    // Gemini puts each thought's subject before it, even if there is none.
    let text = text.strip_prefix("****\n").unwrap_or(text);
    // Some agents begin with the gap between two thoughts.
    let text = if begun { text } else { text.trim_start() };
    if text.is_empty() {
        return;
    }
    if let Some(turn) = &mut state.turn {
        turn.has_thought = true;
    }
    out.events.push(AgentEvent::Thinking { text: text.to_owned(), parent: None });
}

/// Handles the start, a change or the end of a call. Agents may send them in one update, or the end alone.
fn call(state: &mut Revisioned<AcpState>, update: &ToolCall, out: &mut Decoded) {
    let name = &*update.tool_call_id.0;
    if name.is_empty() || state.turn.is_none() {
        return;
    }
    let id = CallId::new(name);
    start_call(state, update, out);
    if let Some(turn) = &mut state.turn {
        // Text after a call is a new message.
        turn.said = Some(String::new());
    }
    let Some(open) = state.calls.get_mut(&id) else { return };
    let delta = names::meta(update, "terminal_output_delta").text("data");
    if !delta.is_empty() && open.output.len() + delta.len() <= TOOL_OUTPUT_MAX_BYTES {
        open.output.push_str(delta);
        out.events.push(AgentEvent::ToolProgress { call: id.clone(), output: delta.to_owned() });
    }
    let shows = names::terminal(update).filter(|terminal| *terminal != open.terminal).map(str::to_owned);
    if let Some(terminal) = &shows {
        terminal.clone_into(&mut open.terminal);
    }
    let shown = names::output(update);
    if !shown.is_empty() {
        open.output = shown;
    }
    if let Some(terminal) = shows {
        requests::watch(state, &terminal, 0);
    }
    if matches!(update.status, Status::Completed | Status::Failed)
        && let Some(open) = state.calls.remove(&id)
    {
        permitted::forget(state, &id);
        let raw = update.raw_output.as_ref();
        let exit = raw.and_then(|raw| raw.under("exit_code").as_i64());
        let denied = !open.denied.is_empty();
        let ok = update.status == Status::Completed && exit.unwrap_or(0) == 0 && !denied;
        let output = if denied { open.denied } else { open.output };
        out.events.push(AgentEvent::ToolFinished { call: id, ok, output });
    }
}

/// Reports the start of a call, unless it was already reported.
pub(super) fn start_call(
    state: &mut Revisioned<AcpState>,
    call: &ToolCall,
    out: &mut Decoded,
) -> Option<CallId> {
    let name = &*call.tool_call_id.0;
    if name.is_empty() || state.turn.is_none() {
        return None;
    }
    let id = CallId::new(name);
    if state.calls.contains_key(&id) {
        return Some(id);
    }
    if state.calls.len() >= OPEN_CALLS_MAX {
        return None;
    }
    let named = names::call(call, state);
    let bridged = state.bridge.is_some() && names::bridged(call).is_some();
    state.calls.insert(id.clone(), AcpCall { tool: named.tool.clone(), bridged, ..AcpCall::default() });
    out.events.push(AgentEvent::ToolStarted {
        call: id.clone(),
        tool: named.tool,
        input: named.input,
        title: named.title,
        parent: None,
    });
    Some(id)
}

fn todos(entries: &[PlanEntry], out: &mut Decoded) {
    let entry = |(at, entry): (usize, &PlanEntry)| {
        let status = match entry.status {
            PlanEntryStatus::InProgress => TodoStatus::InProgress,
            PlanEntryStatus::Completed => TodoStatus::Completed,
            _ => TodoStatus::Pending,
        };
        let priority = match entry.priority {
            PlanEntryPriority::High => Some(TodoPriority::High),
            PlanEntryPriority::Medium => Some(TodoPriority::Medium),
            PlanEntryPriority::Low => Some(TodoPriority::Low),
            _ => None,
        };
        Todo { priority, ..Todo::new((at + 1).to_string(), cut(&entry.content, TODO_MAX_CHARS), status) }
    };
    out.events.push(AgentEvent::Todos(entries.iter().take(TODOS_MAX).enumerate().map(entry).collect()));
}

/// Returns what a command's arguments are.
fn hint(input: Option<&AvailableCommandInput>) -> String {
    match input {
        Some(AvailableCommandInput::Unstructured(input)) => cut(&input.hint, COMMAND_DESCRIPTION_MAX_CHARS),
        _ => String::new(),
    }
}

fn commands(commands: Vec<AvailableCommand>, out: &mut Decoded) {
    let command = |command: AvailableCommand| AgentCommand {
        name: command.name,
        description: cut(&command.description, COMMAND_DESCRIPTION_MAX_CHARS),
        hint: hint(command.input.as_ref()),
    };
    out.events.push(AgentEvent::Commands(commands.into_iter().map(command).collect()));
}

/// Follows the agent when it leaves plan mode after a person has approved its plan; what it then does is asked
/// about. A person is asked about one that leaves by itself. Any other mode is the session's choice, so a person
/// is informed of it.
fn mode(state: &mut Revisioned<AcpState>, name: &str, out: &mut Decoded) {
    if name.is_empty() || name == state.modes.current {
        return;
    }
    let was_planning = state.modes.current == "plan";
    name.clone_into(&mut state.modes.current);
    let plans = name == "plan";
    let meant = choices::meant(name);
    if was_planning && state.mode == Mode::Plan && meant.is_some() {
        plan::leaves(state, out);
    } else if plans && state.asks_to_leave_plan {
        plan::stays(state, out);
    } else if plans != was_planning {
        out.events.push(AgentEvent::PlanMode(plans));
    }
    // A mode in which it asks more than the session demands needs no notice, and an autonomous session
    // answers itself.
    let is_stricter = meant == Some(Mode::Supervised) || state.mode == Mode::Autonomous && meant.is_some();
    if !plans && !is_stricter && meant != Some(state.mode) {
        let name = one_line(name, TITLE_MAX_CHARS);
        notice(out, Level::Warning, &format!("the agent says it is in mode {name}"));
    }
}

fn usage(state: &mut Revisioned<AcpState>, update: &UsageUpdate, out: &mut Decoded) {
    let (used, size) = (update.used, Some(update.size).filter(|size| *size > 0));
    if let Some(turn) = &mut state.turn {
        turn.used = turn.used.saturating_add(used);
    }
    let amount = update.cost.as_ref().map(|cost| cost.amount).filter(|amount| (0.0..1e6).contains(amount));
    let cost = amount.map_or(state.cost, |amount| (amount * 1e6) as u64);
    let usage = Usage { cost_micro_usd: cost.saturating_sub(state.cost), ..Usage::default() };
    state.cost = cost;
    out.events.push(AgentEvent::Usage {
        usage,
        context_tokens: Some(used),
        context_window: size,
        parent: None,
    });
}
