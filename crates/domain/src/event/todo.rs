//! The entries of an agent's to-do list. Knows no agent and no protocol.

use serde::{Deserialize, Serialize};

/// An entry of the agent's to-do list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    pub id: String,
    pub text: String,
    /// What is to be done, at length; empty if the agent does not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The words for it while it is in progress (`Running the tests`); empty if the agent does not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub active_form: String,
    pub status: TodoStatus,
    /// `None` if the agent does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<TodoPriority>,
}

impl Todo {
    /// Makes an entry of what every agent reports.
    pub fn new(id: impl Into<String>, text: impl Into<String>, status: TodoStatus) -> Self {
        Self {
            id: id.into(),
            text: text.into(),
            description: String::new(),
            active_form: String::new(),
            status,
            priority: None,
        }
    }

    /// Returns what the agent does now, as it says it.
    pub fn current_words(&self) -> &str {
        if self.active_form.is_empty() { &self.text } else { &self.active_form }
    }
}

/// The progress of a to-do entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    Pending,
    InProgress,
    Completed,
}

/// How important a to-do entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoPriority {
    High,
    Medium,
    Low,
}
