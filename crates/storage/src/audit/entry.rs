//! The content of an audit row.

use domain::Timestamp;
use serde::{Deserialize, Serialize};

/// One thing that was done or refused. The hashed text is this struct as JSON, in this order; fields may only
/// be added at the end. Must be given scrubbed text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AuditEntry {
    pub at: Timestamp,
    pub session: String,
    /// `user`, `agent` and its session, `token`, `device` and its name, or `unknown`.
    pub caller: String,
    /// Such as `SafeExec.Bash`, `session.prompt` or `obey.local.v1.AgentDaemon/CreateSession`.
    pub operation: String,
    /// The request as JSON, truncated if it is long.
    pub input: String,
    /// `ok`, or the error code.
    pub outcome: String,
    /// The result, in one line.
    pub summary: String,
    pub duration_us: u64,
    /// The sandbox tier, if a command ran.
    pub tier: String,
    /// Number of secrets that were redacted.
    pub secrets: u64,
    /// The origin: `unix` or `tcp`, with user and process as far as known.
    pub origin: String,
}

/// Prefix of operations on sessions that come from events.
const OF_SESSIONS: &str = "session.";

impl AuditEntry {
    /// Returns whether it was written by the workbench, or for an agent that used it.
    pub fn is_of_workbench(&self) -> bool {
        !self.operation.contains('/') && !self.operation.starts_with(OF_SESSIONS)
    }
}

/// A stored row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub seq: u64,
    pub entry: AuditEntry,
    /// The hashed text.
    pub body: String,
    pub hash: Vec<u8>,
}
