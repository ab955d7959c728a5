//! The content of an audit row.

use std::fmt;

use domain::{ErrorCode, Timestamp};
use serde::{Deserialize, Serialize};

/// What became of what a row tells of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum AuditOutcome {
    Done,
    Failed(ErrorCode),
    Cancelled,
    /// In a word of its own: how a request was settled, and codes that this version does not know.
    Word(String),
}

impl AuditOutcome {
    /// Returns the outcome of a call: done, or failed with this code.
    pub fn of(failure: Option<ErrorCode>) -> Self {
        failure.map_or(Self::Done, Self::Failed)
    }
}

/// Of a row in the making nothing is known yet.
impl Default for AuditOutcome {
    fn default() -> Self {
        Self::Word(String::new())
    }
}

/// As it is stored and printed.
impl fmt::Display for AuditOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("ok"),
            Self::Failed(code) => write!(f, "{code}"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Word(word) => f.write_str(word),
        }
    }
}

impl From<AuditOutcome> for String {
    fn from(outcome: AuditOutcome) -> Self {
        outcome.to_string()
    }
}

impl From<String> for AuditOutcome {
    fn from(text: String) -> Self {
        match text.as_str() {
            "ok" => Self::Done,
            "cancelled" => Self::Cancelled,
            // Most texts are no code, and the comparison with all of them takes time.
            _ if !text.starts_with("OBEY-") => Self::Word(text),
            code => ErrorCode::parse(code).map_or_else(|| Self::Word(code.to_owned()), Self::Failed),
        }
    }
}

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
    pub outcome: AuditOutcome,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_stored_as_the_text_that_is_printed() {
        for (text, outcome) in [
            ("ok", AuditOutcome::Done),
            ("OBEY-1002", AuditOutcome::Failed(ErrorCode::NotAllowed)),
            ("cancelled", AuditOutcome::Cancelled),
            ("denied", AuditOutcome::Word("denied".to_owned())),
            ("OBEY-9999", AuditOutcome::Word("OBEY-9999".to_owned())),
            ("", AuditOutcome::Word(String::new())),
        ] {
            let entry = AuditEntry { outcome, ..AuditEntry::default() };
            let stored = serde_json::to_string(&entry).unwrap();
            assert!(stored.contains(&format!("\"outcome\":\"{text}\",")), "{stored}");
            assert_eq!(serde_json::from_str::<AuditEntry>(&stored).unwrap(), entry);
        }
    }
}
