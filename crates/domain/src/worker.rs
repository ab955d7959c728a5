//! The rules of workers, which are sessions that work for another session: what they may do without asking, how they ended,
//! and what a worker is given. Starts nothing and knows no pool.

mod auto_approve;
mod permissions;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorCode};
use crate::id::{CallId, SessionId};
use crate::limits;
use crate::session::{ProviderKind, Status};
use crate::time::Timestamp;
use crate::turn::EndReason;

pub use auto_approve::{AutoApproved, CallClass};
pub use permissions::{AUTO_APPROVE, WorkerAuthority, worker_grants};

/// What a worker was started with. Stored beside its session until that is removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerRecord {
    pub session: SessionId,
    pub parent: SessionId,
    /// May contain secrets: sent to the agent, never shown as it is.
    pub prompt: String,
    pub provider: ProviderKind,
    #[serde(default)]
    pub model: String,
    pub name: String,
    pub working_dir: PathBuf,
    #[serde(default)]
    pub allowed_tools: Vec<String>,
    #[serde(default)]
    pub auto_approve: bool,
    /// Prompts that it may be given in all.
    pub max_turns: u32,
    /// The working tree that was made for it; empty: none.
    #[serde(default)]
    pub worktree: String,
    /// The orchestration whose step it is; empty: none.
    #[serde(default)]
    pub orchestration: String,
    /// Its session ends by itself when it is idle.
    #[serde(default)]
    pub lingers: bool,
    /// The call of the parent's agent that asked for it.
    #[serde(default)]
    pub call: Option<CallId>,
    pub created_at: Timestamp,
}

/// The states of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerStatus {
    /// It waits for a free place.
    Pending,
    Running,
    Completed,
    Failed,
    Cancelled,
}

impl WorkerStatus {
    /// Every state.
    pub const ALL: [WorkerStatus; 5] =
        [Self::Pending, Self::Running, Self::Completed, Self::Failed, Self::Cancelled];

    /// Returns the printed name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Parses the printed name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == text)
    }

    /// Returns whether nothing follows it.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// How a worker ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerEnd {
    pub status: WorkerStatus,
    /// Its last answer, the error, or the reason for which it was cancelled.
    pub summary: String,
}

/// The last turn of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerTurn {
    pub reason: EndReason,
    pub text: String,
    pub error: String,
}

impl WorkerEnd {
    /// Decides how a worker whose session has ended did: by why it was cancelled, its last turn, and its session's error.
    pub fn of(status: Status, error: &str, last: Option<&WorkerTurn>, cancelled: Option<&str>) -> Self {
        let end = |status, summary: &str| Self { status, summary: summary.to_owned() };
        if let Some(last) = last.filter(|last| last.reason == EndReason::Completed)
            && status == Status::Stopped
        {
            return end(WorkerStatus::Completed, &last.text);
        }
        if let Some(reason) = cancelled {
            return end(WorkerStatus::Cancelled, if reason.is_empty() { "cancelled" } else { reason });
        }
        match (status, last) {
            (Status::Failed, _) => end(WorkerStatus::Failed, error),
            (_, Some(last)) if last.reason == EndReason::Cancelled => {
                end(WorkerStatus::Cancelled, "its turn was cancelled")
            }
            (_, Some(last)) if last.reason == EndReason::Interrupted => {
                end(WorkerStatus::Cancelled, "its session was stopped")
            }
            (_, Some(last)) if !last.error.is_empty() => end(WorkerStatus::Failed, &last.error),
            (_, Some(last)) => end(WorkerStatus::Failed, last.reason.name()),
            (_, None) => end(WorkerStatus::Cancelled, "its session was stopped before it started"),
        }
    }
}

/// Returns how many prompts a worker may be given; 0 stands for the default.
pub fn max_turns(asked: i64) -> Result<u32, Error> {
    match u32::try_from(asked) {
        Ok(0) => Ok(limits::WORKER_TURNS_DEFAULT),
        Ok(turns) if turns <= limits::WORKER_TURNS_MAX => Ok(turns),
        _ => Err(Error::invalid(
            "max_turns",
            format_args!("{asked} is not between 1 and {}; 0 is the default", limits::WORKER_TURNS_MAX),
        )),
    }
}

/// Refuses variables by which a worker would become another program than its parent's user chose.
pub fn check_environment<'a>(names: impl IntoIterator<Item = &'a String>) -> Result<(), Error> {
    const PREFIXES: [&str; 5] = ["ANTHROPIC_", "BETCODE_", "CLAUDE_", "OBEY_", "DYLD_"];
    for name in names {
        let upper = name.to_uppercase();
        if upper == "LD_PRELOAD" || PREFIXES.iter().any(|prefix| upper.starts_with(prefix)) {
            return Err(Error::invalid(
                "env",
                format_args!("{name} may not be set for a worker; leave it out"),
            ));
        }
    }
    Ok(())
}

/// Returns the error for a message to a worker that has ended.
pub fn already_ended(worker: &SessionId, status: WorkerStatus) -> Error {
    Error::new(ErrorCode::WrongState, format!("worker {worker} has ended already: {}", status.name()))
}
