//! What is known of a session as a whole after the events of a fold: its name, its model, its open turn and requests,
//! its plan and what it used.

use domain::event::{Todo, TodoPriority, TodoStatus};
use serde::Serialize;

use crate::row::{TodoRow, TurnUsage};

/// The state of a session as far as the folded events tell it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SessionHeader {
    pub name: String,
    pub provider: String,
    pub model: String,
    pub mode: String,
    pub folder: String,
    /// As in the event: `RUNNING`, `WORKING`, …
    pub status: String,
    /// The open turn.
    pub turn: Option<String>,
    /// When it began, in milliseconds since the Unix epoch.
    pub turn_at: Option<i64>,
    /// The agent is in its planning state.
    pub planning: bool,
    pub todos: Vec<TodoRow>,
    /// `null` until the agent reports some.
    pub usage: Option<TurnUsage>,
    pub context_tokens: Option<u64>,
    pub context_window: Option<u64>,
    /// Requests that wait for an answer, oldest first.
    pub open_requests: Vec<String>,
    /// Names of the commands that the agent offers.
    pub commands: Vec<String>,
    /// The client that alone may write, if there is one.
    pub input_holder: Option<String>,
    /// The first and the last event of the fold; 0 if there is none.
    pub first_seq: u64,
    pub last_seq: u64,
}

impl SessionHeader {
    /// Returns how many entries of the to-do list are done.
    pub fn todos_done(&self) -> u64 {
        done(&self.todos)
    }
}

/// Counts the completed entries.
pub(crate) fn done(todos: &[TodoRow]) -> u64 {
    todos.iter().filter(|todo| todo.status == "completed").count() as u64
}

/// Converts the entries of an event.
pub(crate) fn todo_rows(todos: &[Todo]) -> Vec<TodoRow> {
    let row = |todo: &Todo| TodoRow {
        text: todo.text.clone(),
        status: match todo.status {
            TodoStatus::Pending => "pending",
            TodoStatus::InProgress => "in_progress",
            TodoStatus::Completed => "completed",
        },
        description: todo.description.clone(),
        active_form: todo.active_form.clone(),
        priority: todo.priority.map(|priority| match priority {
            TodoPriority::High => "high",
            TodoPriority::Medium => "medium",
            TodoPriority::Low => "low",
        }),
    };
    todos.iter().map(row).collect()
}
