//! Who may do what without asking: modes, decisions, session grants, and rules.
//! Knows nothing of clients; it only says whether a call is allowed already.

mod glob;
pub mod pattern;
pub mod rules;
mod shell;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Error;
use pattern::{Call, Pattern, command_of};
pub use rules::{Action, Rule, Rules, Verdict};

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

/// What was found out about a call before the rules of the session hear of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    pub verdict: Verdict,
    /// Where the call's paths lead once links are followed; see [`pattern::paths_of`].
    pub real_paths: Vec<std::path::PathBuf>,
}

/// A remembered answer of one session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    /// A tool's name, or a whole pattern such as `Bash(git log *)`.
    pub tool: String,
    /// For tools that run commands: the exact command. A prefix would let `git log; rm -rf .` through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// `tool` is a pattern that somebody wrote, not a call that somebody allowed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_pattern: bool,
    /// What it covers is denied.
    #[serde(default, skip_serializing_if = "is_false")]
    pub denied: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Grant {
    /// Returns the grant that follows from allowing this call for the whole session.
    pub fn of(tool: &str, input: &Value) -> Self {
        let command = command_of(input).map(Cow::into_owned);
        Self { tool: tool.to_owned(), command, is_pattern: false, denied: false }
    }

    /// Returns the grant for whatever a pattern covers, or says what is wrong with the pattern.
    pub fn by_pattern(field: &str, pattern: &str, denied: bool) -> Result<Self, Error> {
        Pattern::parse(field, pattern)?;
        Ok(Self { tool: pattern.trim().to_owned(), command: None, is_pattern: true, denied })
    }

    /// Returns whether the grant answers a call.
    pub fn covers(&self, call: &Call<'_>) -> bool {
        if !self.is_pattern {
            return self.tool == call.tool && self.command.as_deref() == command_of(call.input).as_deref();
        }
        match Pattern::parse("grant", &self.tool) {
            Ok(pattern) if self.denied => pattern.may_cover(call),
            Ok(pattern) => pattern.surely_covers(call),
            Err(_) => false,
        }
    }

    /// Returns how people write it.
    pub fn label(&self) -> String {
        match &self.command {
            Some(command) => format!("{}({command})", self.tool),
            None => self.tool.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn covers(grant: &Grant, tool: &str, input: &Value) -> bool {
        grant.covers(&Call { tool, input, working_dir: std::path::Path::new("/repo"), real_paths: None })
    }

    #[test]
    fn a_grant_for_a_command_covers_that_command_only() {
        let grant = Grant::of("Bash", &json!({"command": "git log", "description": "x"}));
        assert!(covers(&grant, "Bash", &json!({"command": "git log"})));
        assert!(!covers(&grant, "Bash", &json!({"command": "git log; rm -rf ."})));
        assert!(!covers(&grant, "Bash", &json!({})));
        assert!(!covers(&grant, "Shell", &json!({"command": "git log"})));
        assert_eq!(grant.label(), "Bash(git log)");
    }

    #[test]
    fn a_grant_by_pattern_covers_what_the_pattern_does() {
        let grant = Grant::by_pattern("tool_name", "Bash(git *)", false).unwrap();
        assert!(covers(&grant, "Bash", &json!({"command": "git log"})));
        assert!(!covers(&grant, "Bash", &json!({"command": "git log; rm -rf ."})));
        let denial = Grant::by_pattern("tool_name", "Bash(rm *)", true).unwrap();
        assert!(covers(&denial, "Bash", &json!({"command": "git log; rm -rf ."})));
        let whole = Grant::by_pattern("tool_name", "Bash", false).unwrap();
        assert!(covers(&whole, "Bash", &json!({"command": "git log; rm -rf ."})));
        assert!(Grant::by_pattern("tool_name", "", false).is_err());
    }

    #[test]
    fn a_grant_for_a_list_of_arguments_covers_that_list_only() {
        let grant = Grant::of("shell", &json!({"command": ["git", "log"]}));
        assert!(covers(&grant, "shell", &json!({"command": ["git", "log"]})));
        assert!(!covers(&grant, "shell", &json!({"command": ["rm", "-rf", "."]})));
        let grant = Grant::of("exec_command", &json!({"cmd": "git log"}));
        assert!(covers(&grant, "exec_command", &json!({"cmd": "git log", "yield_ms": 5})));
        assert!(!covers(&grant, "exec_command", &json!({"cmd": "rm -rf ."})));
    }

    #[test]
    fn a_grant_for_a_tool_without_commands_covers_the_tool() {
        let grant = Grant::of("Edit", &json!({"file_path": "a"}));
        assert!(covers(&grant, "Edit", &json!({"file_path": "b"})));
    }

    #[test]
    fn every_mode_reads_its_own_name() {
        for (mode, name) in Mode::ALL {
            assert_eq!(Mode::parse(name), Some(mode));
            assert_eq!(mode.name(), name);
        }
    }
}
