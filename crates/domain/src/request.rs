//! Requests of an agent that wait for an answer: permissions and questions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{CallId, RequestId, TurnId};
use crate::limits;
use crate::permission::{Decision, PermissionAdvice, Proposal};
use crate::time::Timestamp;

mod origin;
mod settler;

pub use origin::RequestOrigin;
pub use settler::Settler;

/// What a permission request is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PermissionSubject {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    pub tool: String,
    pub input: Value,
    /// One line for a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Call of the sub-agent that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<CallId>,
}

/// One question with its choices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Question {
    pub id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub header: String,
    pub text: String,
    #[serde(default)]
    pub options: Vec<QuestionOption>,
    #[serde(default)]
    pub multi_select: bool,
}

/// A choice of a question.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QuestionOption {
    pub label: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RequestSubject {
    Permission(PermissionSubject),
    Question {
        questions: Vec<Question>,
        call: Option<CallId>,
    },
    /// A tool that a client runs for the agent.
    ClientTool {
        call: CallId,
        tool: String,
        input: Value,
    },
}

impl RequestSubject {
    /// Returns the call that must be allowed, if that is asked.
    pub fn permission(&self) -> Option<&PermissionSubject> {
        match self {
            Self::Permission(permission) => Some(permission),
            Self::Question { .. } | Self::ClientTool { .. } => None,
        }
    }

    /// Returns what a person must answer; nothing where something else is asked.
    pub fn questions(&self) -> &[Question] {
        match self {
            Self::Question { questions, .. } => questions,
            Self::Permission(_) | Self::ClientTool { .. } => &[],
        }
    }

    /// Drops a tool input that is too large for the state; the journal has it.
    pub(crate) fn forget_large_input(&mut self) {
        match self {
            Self::Permission(PermissionSubject { input, .. }) | Self::ClientTool { input, .. } => {
                if input.to_string().len() > limits::SETTLED_INPUT_MAX_BYTES {
                    *input = Value::Null;
                }
            }
            Self::Question { .. } => {}
        }
    }
}

/// A pending request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingRequest {
    pub id: RequestId,
    /// The agent's id of the request; sent back with the answer.
    pub native: String,
    pub asked_at: Timestamp,
    pub ask: RequestSubject,
    /// What may be remembered with an approval, the default first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proposals: Vec<Proposal>,
    /// What a person should know before answering.
    #[serde(default, skip_serializing_if = "PermissionAdvice::is_empty")]
    pub advice: PermissionAdvice,
    /// The turn that it ends with; a worker's request, and one that is asked between turns, has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
}

impl PendingRequest {
    /// Returns where the request comes from.
    pub fn origin(&self) -> RequestOrigin<'_> {
        RequestOrigin::parse(&self.native)
    }
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum RequestOutcome {
    Decided {
        decision: Decision,
    },
    Answered {
        answers: BTreeMap<String, String>,
    },
    ToolReturned {
        ok: bool,
        /// The client's output, for the caller that waits for it outside the journal.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        output: String,
    },
    /// The agent no longer waits for it.
    Withdrawn {
        reason: String,
    },
}

impl RequestOutcome {
    /// Drops output that is too large for the state; the journal has it.
    pub(crate) fn forget_output(&mut self) {
        if let Self::ToolReturned { output, .. } = self {
            output.clear();
        }
    }

    /// Returns a short text for lists.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Decided { decision: Decision::AllowOnce } => "allowed once",
            Self::Decided { decision: Decision::AllowSession } => "allowed for the session",
            Self::Decided { decision: Decision::Deny } => "denied",
            Self::Decided { decision: Decision::DenyAndStop } => "denied and stopped",
            Self::Answered { .. } => "answered",
            Self::ToolReturned { ok: true, .. } => "returned",
            Self::ToolReturned { ok: false, .. } => "failed",
            Self::Withdrawn { .. } => "withdrawn",
        }
    }
}

/// A settled request, and who settled it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SettledRequest {
    pub request: PendingRequest,
    pub outcome: RequestOutcome,
    pub by: String,
    pub at: Timestamp,
    /// The message the agent got with it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// How the message of a denial begins that says by whom.
const DENIAL: &str = "Permission ";

/// Returns a denial as it is said to an agent whose protocol has no place for the reason. What no person denied says so itself.
pub fn spoken_denial(message: &str) -> String {
    if message.starts_with(DENIAL) { message.to_owned() } else { format!("I denied that: {message}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_denial_by_a_person_is_worded_in_the_first_person() {
        assert_eq!(spoken_denial("not now"), "I denied that: not now");
        let told = Settler::Timeout.denial("move", "nobody answered within 60 s");
        assert_eq!(
            spoken_denial(&told),
            "Permission request timed out for: move: nobody answered within 60 s"
        );
    }
}
