//! How a grant is written in the journal. Older versions read what newer ones write: to them a grant is a
//! tool, a command or a pattern. A newer kind is therefore written as the nearest pattern, with its true
//! meaning beside it.

use serde::{Deserialize, Serialize};

use super::{Coverage, Grant, GrantAction, Principal, Scope};
use crate::time::Timestamp;

/// A grant as stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Stored {
    tool: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    is_pattern: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    denied: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    covers: Option<Covers>,
    #[serde(default, skip_serializing_if = "is_default")]
    asks: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    id: String,
    #[serde(default, skip_serializing_if = "is_default")]
    scope: Scope,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    principal: Option<Principal>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uses_left: Option<u32>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    given_by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    given_at: Option<Timestamp>,
}

/// The true meaning of the pattern in `tool`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Covers {
    tool: String,
    #[serde(flatten)]
    what: Coverage,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Returns whose requests a grant answers if it does not say so: the agent's, or everyone's for a written
/// pattern.
fn usual(covers: &Coverage) -> Principal {
    if *covers == Coverage::Pattern { Principal::Everyone } else { Principal::Agent }
}

impl From<Stored> for Grant {
    fn from(stored: Stored) -> Self {
        let (tool, covers) = match (stored.covers, stored.command) {
            (Some(covers), _) => (covers.tool, covers.what),
            (None, Some(command)) => (stored.tool, Coverage::Command(command)),
            (None, None) if stored.is_pattern => (stored.tool, Coverage::Pattern),
            (None, None) => (stored.tool, Coverage::Tool),
        };
        let action = match (stored.denied, stored.asks) {
            (_, true) => GrantAction::Ask,
            (true, false) => GrantAction::Deny,
            (false, false) => GrantAction::Allow,
        };
        Self {
            id: stored.id,
            tool,
            action,
            scope: stored.scope,
            principal: stored.principal.unwrap_or_else(|| usual(&covers)),
            covers,
            expires_at: stored.expires_at,
            uses_left: stored.uses_left,
            given_by: stored.given_by,
            given_at: stored.given_at,
        }
    }
}

impl From<Grant> for Stored {
    fn from(grant: Grant) -> Self {
        let label = grant.label();
        let principal = (grant.principal != usual(&grant.covers)).then_some(grant.principal);
        let (tool, command, covers, is_pattern) = match grant.covers {
            Coverage::Tool => (grant.tool, None, None, false),
            Coverage::Pattern => (grant.tool, None, None, true),
            Coverage::Command(command) => (grant.tool, Some(command), None, false),
            what @ (Coverage::Prefix(_) | Coverage::File(_) | Coverage::Folder(_)) => {
                (label, None, Some(Covers { tool: grant.tool, what }), true)
            }
        };
        Self {
            tool,
            command,
            is_pattern,
            // An older version does not know asking; it must not take it for an approval.
            denied: grant.action != GrantAction::Allow,
            covers,
            asks: grant.action == GrantAction::Ask,
            id: grant.id,
            scope: grant.scope,
            principal,
            expires_at: grant.expires_at,
            uses_left: grant.uses_left,
            given_by: grant.given_by,
            given_at: grant.given_at,
        }
    }
}
