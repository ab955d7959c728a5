//! What a row of the audit says.

use domain::Timestamp;
use serde::{Deserialize, Serialize};

/// One thing that was done, or refused. The text that is hashed is this, as JSON, in this order; fields may be added at
/// the end only. Must be given scrubbed text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AuditEntry {
    pub at: Timestamp,
    pub session: String,
    /// `user`, `agent` and its session, `token`, `device` and its name, or `unknown`.
    pub caller: String,
    /// Such as `SafeExec.Bash`, `session.prompt` or `obey.local.v1.AgentDaemon/CreateSession`.
    pub operation: String,
    /// The request as JSON, cut where it is long.
    pub input: String,
    /// `ok`, or the code of the error.
    pub outcome: String,
    /// What became of it, in one line.
    pub summary: String,
    pub duration_us: u64,
    /// The sandbox' tier, where a command ran.
    pub tier: String,
    /// Secrets that were taken out.
    pub secrets: u64,
    /// From where: `unix` or `tcp`, with user and process as far as they are known.
    pub origin: String,
}

/// What operations on sessions begin with, as their events tell them.
const OF_SESSIONS: &str = "session.";

impl AuditEntry {
    /// Whether it was written by the workbench, or for an agent that used it.
    pub fn is_of_workbench(&self) -> bool {
        !self.operation.contains('/') && !self.operation.starts_with(OF_SESSIONS)
    }
}

/// A row as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub seq: u64,
    pub entry: AuditEntry,
    /// The text that is hashed.
    pub body: String,
    pub hash: Vec<u8>,
}
