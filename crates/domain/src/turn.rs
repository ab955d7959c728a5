//! The open turn of a session and what is under way in it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::event::Attachment;
use crate::id::{CallId, TurnId};

/// Why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    Completed,
    Cancelled,
    /// The agent or its model reported an error; the session goes on.
    Failed,
    /// The model refused.
    Refused,
    /// The model ran into its output limit or the agent into its number of steps.
    LimitReached,
    BudgetExceeded,
    /// The agent died, or the daemon did and could not keep the turn.
    Interrupted,
}

/// Who began a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnOrigin {
    /// A client's prompt; the text names the client where it is known.
    #[default]
    Client,
    /// The agent itself, as when a background task ends.
    Agent,
}

/// Why a running turn was told to end early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptReason {
    Cancelled,
    BudgetExceeded,
}

/// The prompt of a turn that compacts the conversation; agents know it by this name.
pub const COMPACT: &str = "/compact";

/// A prompt that waits for its agent to be ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingPrompt {
    pub text: String,
    pub attachments: Vec<Attachment>,
}

/// The turn that is open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenTurn {
    pub id: TurnId,
    /// The prompt, until the agent was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untold: Option<PendingPrompt>,
    pub interrupted: Option<InterruptReason>,
    /// It was opened to compact the conversation.
    #[serde(default)]
    pub compacting: bool,
    /// Calls that started and have not finished, with their tools.
    pub calls: BTreeMap<CallId, String>,
}
