//! The limits of automatic approval: how many calls, and how many of a kind within a minute. Beyond them a person is asked.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::time::Timestamp;

/// What an automatically approved call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallClass {
    Shell,
    Write,
    Other,
}

impl CallClass {
    /// Returns the class of a tool.
    pub fn of(tool: &str) -> Self {
        match tool {
            "Bash" | "shell" | "local_shell" | "exec_command" | "execute" | "unified_exec" | "safe_bash" => {
                Self::Shell
            }
            "Edit" | "Write" | "MultiEdit" | "NotebookEdit" | "apply_patch" | "edit" | "write"
            | "safe_write" => Self::Write,
            _ => Self::Other,
        }
    }
}

/// The calls of a session that were approved automatically.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AutoApproved {
    pub total: u32,
    /// Those of the last minute.
    recent: VecDeque<(Timestamp, CallClass)>,
}

impl AutoApproved {
    /// Returns whether one more call may be approved now.
    pub fn has_room(&self, now: Timestamp, class: CallClass) -> bool {
        let last_minute = || self.recent.iter().filter(|(at, _)| is_recent(*at, now));
        let of_class = last_minute().filter(|(_, other)| *other == class).count();
        let most = match class {
            CallClass::Shell => limits::AUTO_APPROVE_SHELL_PER_MINUTE,
            CallClass::Write => limits::AUTO_APPROVE_WRITES_PER_MINUTE,
            CallClass::Other => limits::AUTO_APPROVE_PER_MINUTE,
        };
        self.total < limits::AUTO_APPROVE_CALLS_MAX
            && of_class < most
            && last_minute().count() < limits::AUTO_APPROVE_PER_MINUTE
    }

    /// Counts a call.
    pub(crate) fn note(&mut self, at: Timestamp, class: CallClass) {
        self.total = self.total.saturating_add(1);
        self.recent.retain(|(other, _)| is_recent(*other, at));
        self.recent.push_back((at, class));
    }
}

fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    now.since(at) < limits::AUTO_APPROVE_MINUTE
}
