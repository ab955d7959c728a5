//! The open turn of a session and the calls in progress in it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::event::Attachment;
use crate::id::{CallId, TurnId};
use crate::time::Timestamp;

/// Why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    Completed,
    Cancelled,
    /// The agent or its model reported an error; the session continues.
    Failed,
    /// The model refused.
    Refused,
    /// The model reached its output limit or the agent its number of steps.
    LimitReached,
    BudgetExceeded,
    /// The agent died, or the daemon did and could not preserve the turn.
    Interrupted,
}

impl EndReason {
    /// Every reason.
    pub const ALL: [EndReason; 7] = [
        Self::Completed,
        Self::Cancelled,
        Self::Failed,
        Self::Refused,
        Self::LimitReached,
        Self::BudgetExceeded,
        Self::Interrupted,
    ];

    /// Returns the stored name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::LimitReached => "limit_reached",
            Self::BudgetExceeded => "budget_exceeded",
            Self::Interrupted => "interrupted",
        }
    }

    /// Parses the stored name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == text)
    }
}

/// Who started a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnOrigin {
    /// A client's prompt; the event names the client if it is known.
    #[default]
    Client,
    /// The agent itself, as when a background task ends.
    Agent,
}

/// Why a running turn was asked to end early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptReason {
    Cancelled,
    BudgetExceeded,
}

/// The prompt of a turn that compacts the conversation; agents know it by this name.
pub const COMPACT: &str = "/compact";

/// The prompt by which an agent goes on with what was interrupted.
pub const GO_ON: &str = "Go on where you stopped.";

/// A prompt that is pending until its agent is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingPrompt {
    pub text: String,
    pub attachments: Vec<Attachment>,
}

/// The open turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenTurn {
    pub id: TurnId,
    /// The prompt, until it was sent to the agent.
    #[serde(rename = "untold", default, skip_serializing_if = "Option::is_none")]
    pub pending_prompt: Option<PendingPrompt>,
    pub interrupted: Option<InterruptReason>,
    /// It was opened to compact the conversation.
    #[serde(default)]
    pub compacting: bool,
    /// Calls that started and have not finished, with their tools.
    pub calls: BTreeMap<CallId, String>,
    /// Absent in turns that a former version opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
}
