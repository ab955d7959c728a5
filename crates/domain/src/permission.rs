//! Who may do what without asking: modes, decisions and session grants.
//! Knows nothing of clients; it only says whether a call is allowed already.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How much an agent may do by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// What the agent asks becomes a pending request.
    #[default]
    Supervised,
    /// Everything the agent asks is allowed and recorded.
    Autonomous,
    /// The agent reads and plans; leaving the plan is a request.
    Plan,
    /// File edits are allowed, the rest is asked.
    AcceptEdits,
}

impl Mode {
    /// Every mode with its printed name.
    pub const ALL: [(Mode, &'static str); 4] = [
        (Mode::Supervised, "supervised"),
        (Mode::Autonomous, "autonomous"),
        (Mode::Plan, "plan"),
        (Mode::AcceptEdits, "acceptEdits"),
    ];

    /// Reads a mode; the names Claude Code and Codex use for the same things are accepted too.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "supervised" | "default" | "manual" | "on-request" => Some(Self::Supervised),
            "autonomous" | "bypassPermissions" | "never" => Some(Self::Autonomous),
            "plan" | "read-only" => Some(Self::Plan),
            "acceptEdits" | "accept_edits" | "accept-edits" => Some(Self::AcceptEdits),
            _ => None,
        }
    }

    /// Returns the printed name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Supervised => "supervised",
            Self::Autonomous => "autonomous",
            Self::Plan => "plan",
            Self::AcceptEdits => "acceptEdits",
        }
    }
}

/// The answer to a permission request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    AllowOnce,
    /// Allow now and, in this session, whatever the grant that follows from it covers.
    AllowSession,
    Deny,
    /// Deny and end the turn.
    DenyAndStop,
}

impl Decision {
    /// Returns whether the call may run.
    pub fn allows(self) -> bool {
        matches!(self, Self::AllowOnce | Self::AllowSession)
    }
}

/// A remembered permission of one session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    pub tool: String,
    /// For tools that run commands: the exact command. A prefix would let `git log; rm -rf .` through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl Grant {
    /// Returns the grant that follows from allowing this call for the whole session.
    pub fn of(tool: &str, input: &Value) -> Self {
        Self { tool: tool.to_owned(), command: command_of(input).map(Cow::into_owned) }
    }

    /// Returns whether the grant covers a call.
    pub fn covers(&self, tool: &str, input: &Value) -> bool {
        self.tool == tool && self.command.as_deref() == command_of(input).as_deref()
    }
}

/// Returns the command a call would run; one given as a list of arguments counts as its JSON.
fn command_of(input: &Value) -> Option<Cow<'_, str>> {
    let command = input.get("command").or_else(|| input.get("cmd"))?;
    Some(command.as_str().map_or_else(|| Cow::Owned(command.to_string()), Cow::Borrowed))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_grant_for_a_command_covers_that_command_only() {
        let grant = Grant::of("Bash", &json!({"command": "git log", "description": "x"}));
        assert!(grant.covers("Bash", &json!({"command": "git log"})));
        assert!(!grant.covers("Bash", &json!({"command": "git log; rm -rf ."})));
        assert!(!grant.covers("Bash", &json!({})));
        assert!(!grant.covers("Shell", &json!({"command": "git log"})));
    }

    #[test]
    fn a_grant_for_a_list_of_arguments_covers_that_list_only() {
        let grant = Grant::of("shell", &json!({"command": ["git", "log"]}));
        assert!(grant.covers("shell", &json!({"command": ["git", "log"]})));
        assert!(!grant.covers("shell", &json!({"command": ["rm", "-rf", "."]})));
        let grant = Grant::of("exec_command", &json!({"cmd": "git log"}));
        assert!(grant.covers("exec_command", &json!({"cmd": "git log", "yield_ms": 5})));
        assert!(!grant.covers("exec_command", &json!({"cmd": "rm -rf ."})));
    }

    #[test]
    fn a_grant_for_a_tool_without_commands_covers_the_tool() {
        let grant = Grant::of("Edit", &json!({"file_path": "a"}));
        assert!(grant.covers("Edit", &json!({"file_path": "b"})));
    }

    #[test]
    fn every_mode_reads_its_own_name() {
        for (mode, name) in Mode::ALL {
            assert_eq!(Mode::parse(name), Some(mode));
            assert_eq!(mode.name(), name);
        }
    }
}
