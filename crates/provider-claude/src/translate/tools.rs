//! Calls: each started once, when its input is complete, and finished once. Successful calls of the tools for
//! the agent's to-do list change that list.

use agent_port::{BridgeServer, Decoded, Revisioned};
use domain::event::{Todo, TodoStatus};
use domain::{AgentEvent, CallId};
use serde_json::Value;

use super::super::state::{ClaudeCall, ClaudeState, TodoChange};
use super::super::title;
use super::super::wire::Look;
use super::parent_of;
use crate::limits;
use provider_common::text::cut;

/// Handles a block that calls a tool.
pub(super) fn started(
    state: &mut Revisioned<ClaudeState>,
    block: &Value,
    parent: Option<&CallId>,
    out: &mut Decoded,
) {
    let (id, tool, input) = (block.text("id"), block.text("name"), block.under("input"));
    let tool = plain_name(state, tool);
    let call = CallId::new(id);
    if id.is_empty() || state.calls.contains_key(&call) {
        return;
    }
    if state.calls.len() < limits::OPEN_CALLS_MAX {
        let todo = if parent.is_none() { todo_change(tool, input) } else { None };
        state.calls.insert(call.clone(), ClaudeCall { parent: parent.cloned(), todo });
    }
    out.events.push(AgentEvent::ToolStarted {
        call,
        tool: tool.to_owned(),
        input: input.clone(),
        title: title::of(tool, input),
        parent: parent.cloned(),
    });
}

/// Returns the session's name of a tool: tools of the daemon's own server have their plain names.
pub(super) fn plain_name<'a>(state: &ClaudeState, tool: &'a str) -> &'a str {
    BridgeServer::plain_name(tool).filter(|_| state.bridged).unwrap_or(tool)
}

/// Handles what the agent adds in the user's name. Text there is the agent's note to itself and is not
/// reported.
pub(super) fn results(state: &mut Revisioned<ClaudeState>, value: &Value, out: &mut Decoded) {
    let content = value.under("message").list("content");
    let structured = value.under("tool_use_result");
    for block in content.iter().filter(|block| block.text("type") == "tool_result") {
        // The structured result belongs to the one block a line normally has, and to the agent itself.
        let own = content.len() == 1 && parent_of(value).is_none();
        finished(state, block, if own { structured } else { &Value::Null }, out);
    }
}

/// Handles the result of a call. A call that is not open ended with its turn, or was never reported.
pub(super) fn finished(
    state: &mut Revisioned<ClaudeState>,
    block: &Value,
    structured: &Value,
    out: &mut Decoded,
) {
    let call = CallId::new(block.text("tool_use_id"));
    let Some(known) = state.calls.remove(&call) else { return };
    let ok = !block.is("is_error");
    out.events.push(AgentEvent::ToolFinished { call, ok, output: plain(block.under("content")) });
    if ok && known.parent.is_none() && change_todos(&mut state.todos, known.todo, structured) {
        out.events.push(AgentEvent::Todos(state.todos.clone()));
    }
}

/// Returns the text of a result; other content is named.
fn plain(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let parts: Vec<String> = blocks.iter().map(plain_block).filter(|part| !part.is_empty()).collect();
            parts.join("\n")
        }
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn plain_block(block: &Value) -> String {
    match block.text("type") {
        "text" => block.text("text").to_owned(),
        "image" | "document" => {
            let source = block.under("source");
            format!("[{} {}]", block.text("type"), source.text("media_type"))
        }
        // Such as search results: people read their title and address.
        _ if !block.text("url").is_empty() => format!("{} {}", block.text("title"), block.text("url")),
        _ => block.to_string(),
    }
}

/// Returns what a call will change in the list, if its result does not contain that.
fn todo_change(tool: &str, input: &Value) -> Option<TodoChange> {
    let some = |key: &str, limit: usize| {
        let text = input.text(key);
        (!text.is_empty()).then(|| cut(text, limit))
    };
    let id = match tool {
        "TaskUpdate" => some("taskId", limits::TODO_MAX_CHARS)?,
        "TaskCreate" => String::new(),
        _ => return None,
    };
    Some(TodoChange {
        id,
        text: some("subject", limits::TODO_MAX_CHARS),
        description: some("description", limits::TODO_DESCRIPTION_MAX_CHARS),
        active_form: some("activeForm", limits::TODO_MAX_CHARS),
        status: some("status", limits::TODO_MAX_CHARS),
    })
}

/// Applies a successful call to the list; returns whether the list changed.
fn change_todos(todos: &mut Vec<Todo>, change: Option<TodoChange>, structured: &Value) -> bool {
    let before = todos.clone();
    let created = structured.under("task");
    if let Some(mut change) = change {
        if change.id.is_empty() {
            created.text("id").clone_into(&mut change.id);
        }
        if change.id.is_empty() {
            return false;
        }
        if change.status.as_deref() == Some("deleted") {
            todos.retain(|todo| todo.id != change.id);
        } else if let Some(todo) = entry(todos, &change.id) {
            todo.text = change.text.unwrap_or_else(|| std::mem::take(&mut todo.text));
            todo.description = change.description.unwrap_or_else(|| std::mem::take(&mut todo.description));
            todo.active_form = change.active_form.unwrap_or_else(|| std::mem::take(&mut todo.active_form));
            todo.status = change.status.map_or(todo.status, |status| status_of(&status));
        }
    } else if let Some(list) = structured.get("newTodos").and_then(Value::as_array) {
        *todos =
            list.iter().take(limits::TODOS_MAX).enumerate().map(|(at, todo)| written(at, todo)).collect();
    } else {
        let (id, subject) = (created.text("id"), created.text("subject"));
        if !id.is_empty()
            && !subject.is_empty()
            && let Some(todo) = entry(todos, id)
        {
            todo.text = cut(subject, limits::TODO_MAX_CHARS);
        }
    }
    *todos != before
}

/// Returns the entry with this id; adds it if there is room.
fn entry<'a>(todos: &'a mut Vec<Todo>, id: &str) -> Option<&'a mut Todo> {
    if let Some(at) = todos.iter().position(|todo| todo.id == id) {
        return todos.get_mut(at);
    }
    if todos.len() >= limits::TODOS_MAX {
        return None;
    }
    todos.push(Todo::new(id, String::new(), TodoStatus::Pending));
    todos.last_mut()
}

/// Parses an entry of a list that was written as a whole; it has no ids, so its position is its id.
fn written(at: usize, todo: &Value) -> Todo {
    let text = cut(todo.text("content"), limits::TODO_MAX_CHARS);
    Todo {
        active_form: cut(todo.text("activeForm"), limits::TODO_MAX_CHARS),
        ..Todo::new((at + 1).to_string(), text, status_of(todo.text("status")))
    }
}

fn status_of(text: &str) -> TodoStatus {
    match text {
        "in_progress" => TodoStatus::InProgress,
        "completed" => TodoStatus::Completed,
        _ => TodoStatus::Pending,
    }
}
