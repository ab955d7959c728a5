//! Small facts that the state of a session keeps for its overview: how the last turn ended, what was written last, and
//! what the model keeps the turn waiting for. They are part of the stored state.

use serde::{Deserialize, Serialize};

use super::StateCause;
use crate::error::ErrorCode;
use crate::id::TurnId;
use crate::limits;
use crate::time::Timestamp;
use crate::turn::EndReason;

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnOutcome {
    pub turn: TurnId,
    pub reason: EndReason,
    /// The first line of the error; empty without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    pub ended_at: Timestamp,
}

impl TurnOutcome {
    /// Returns the outcome of a turn, its error cut to a line.
    pub fn new(turn: TurnId, reason: EndReason, error: &str, ended_at: Timestamp) -> Self {
        Self { turn, reason, error: one_line(error, limits::REASON_MAX_CHARS), ended_at }
    }

    /// Returns whether the turn ended without what it was for, and nobody asked for that.
    pub fn is_failure(&self) -> bool {
        is_failure(self.reason)
    }

    /// Returns whether somebody asked for its end.
    pub fn is_cancelled(&self) -> bool {
        self.reason == EndReason::Cancelled
    }

    pub(super) fn cause(&self) -> StateCause {
        match self.reason {
            EndReason::BudgetExceeded => StateCause::BudgetExceeded,
            EndReason::Interrupted => StateCause::AgentDied,
            _ => StateCause::TurnFailed,
        }
    }

    /// Returns how it ended, as the rest of a sentence that begins with the turn.
    pub fn describe(&self) -> String {
        let how = match self.reason {
            EndReason::Completed => "ended",
            EndReason::Cancelled => "was cancelled",
            EndReason::Failed => "failed",
            EndReason::Refused => "was refused by the model",
            EndReason::LimitReached => "reached a limit of the model or the agent",
            EndReason::BudgetExceeded => "used up the budget",
            EndReason::Interrupted => "was interrupted",
        };
        if self.error.is_empty() { how.to_owned() } else { format!("{how}: {}", self.error) }
    }
}

/// Returns whether a turn that ended so did not do what it was for, and nobody asked for that.
pub fn is_failure(reason: EndReason) -> bool {
    match reason {
        EndReason::Completed | EndReason::Cancelled => false,
        EndReason::Failed
        | EndReason::Refused
        | EndReason::LimitReached
        | EndReason::BudgetExceeded
        | EndReason::Interrupted => true,
    }
}

/// What a model keeps a turn waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitCause {
    RateLimit,
    Connection,
}

impl WaitCause {
    /// Returns the cause that the code of a notice names, if it is one.
    pub fn of_code(code: ErrorCode) -> Option<Self> {
        match code {
            ErrorCode::RateLimited => Some(Self::RateLimit),
            ErrorCode::ConnectionLost => Some(Self::Connection),
            _ => None,
        }
    }
}

/// A turn waits for its model, which will be asked again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelWait {
    pub cause: WaitCause,
    pub since: Timestamp,
    pub message: String,
}

impl ModelWait {
    pub(crate) fn new(cause: WaitCause, since: Timestamp, message: &str) -> Self {
        Self { cause, since, message: one_line(message, limits::REASON_MAX_CHARS) }
    }
}

/// The last line that was written. Text comes in pieces, so a line is open until its end was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastLine {
    pub text: String,
    #[serde(skip_serializing_if = "is_closed")]
    is_open: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_closed(is_open: &bool) -> bool {
    !is_open
}

impl LastLine {
    /// Appends a piece of text. Blank lines do not replace what was written before them.
    pub fn append(&mut self, piece: &str) {
        for (index, part) in piece.split('\n').enumerate() {
            if index > 0 {
                self.is_open = false;
            }
            if !self.is_open {
                if part.trim().is_empty() {
                    continue;
                }
                self.text.clear();
                self.is_open = true;
            }
            let room = limits::LAST_LINE_MAX_CHARS.saturating_sub(self.text.chars().count());
            self.text.extend(part.chars().filter(|char| !char.is_control()).take(room));
        }
    }

    /// Replaces it with the first line of a text.
    pub fn replace(&mut self, text: &str) {
        let line = one_line(text, limits::LAST_LINE_MAX_CHARS);
        if !line.is_empty() {
            self.text = line;
        }
        self.is_open = false;
    }

    /// Replaces it with the last line of a text.
    pub fn replace_with_end(&mut self, text: &str) {
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        self.replace(last.unwrap_or_default());
    }
}

/// Returns the first line of a text that is not blank, without control characters, cut with an ellipsis.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let mut chars = line.chars().filter(|char| !char.is_control());
    let mut cut: String = chars.by_ref().take(most).collect();
    if chars.next().is_some() {
        cut.pop();
        cut.push('…');
    }
    cut
}
