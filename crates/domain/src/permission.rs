//! What may be done without asking: modes, decisions, grants, and rules. Knows nothing of clients; it only
//! decides whether a call is already allowed.

pub mod advice;
mod glob;
pub mod grant;
pub mod pattern;
pub mod proposal;
pub mod rules;
mod shell;

use serde::{Deserialize, Serialize};

pub use advice::PermissionAdvice;
pub use grant::{Coverage, Grant, GrantAction, Place, Principal, Scope};
pub use proposal::{Choice, Proposal};
pub use rules::{PermissionRule, PermissionRules, RuleAction, RuleVerdict};

/// How much an agent may do on its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// A permission the agent asks for becomes a pending request.
    #[default]
    Supervised,
    /// Every permission the agent asks for is granted and recorded.
    Autonomous,
    /// The agent reads and plans; leaving the plan is a request.
    Plan,
    /// File edits are allowed, everything else is asked.
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

    /// The key of a mode in the configuration that a client gives a session.
    pub const CONFIG_KEY: &str = "permission_mode";

    /// Parses a mode; the names Claude Code and Codex use for the same things are accepted too.
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
    /// Allow now and, in this session, everything the resulting grant covers.
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

/// The evaluation of a call, made before the rules of the session get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallEvaluation {
    pub verdict: RuleVerdict,
    /// The call's paths with links resolved; see [`pattern::paths_of`].
    pub real_paths: Vec<std::path::PathBuf>,
    /// For people: which rule asks, or which one came closest and does not cover the call.
    pub explanation: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_reads_its_own_name() {
        for (mode, name) in Mode::ALL {
            assert_eq!(Mode::parse(name), Some(mode));
            assert_eq!(mode.name(), name);
        }
    }
}
