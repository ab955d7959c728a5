//! What a worker may do without asking: never more than its parent, unless the user says so for this worker.

use crate::error::Error;
use crate::limits;
use crate::permission::pattern::CallPattern;
use crate::permission::{Coverage, Grant, GrantAction, Principal, Scope};
use crate::time::Timestamp;

/// Who gave the grants by which a worker's calls are approved automatically.
pub const AUTO_APPROVE: &str = "auto_approve";

/// On whose word a worker is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerAuthority {
    User,
    /// The agent of the parent session, which can give no more than it has.
    Agent,
}

/// Returns the grants of a new worker. What its parent is denied it is denied too. What is allowed is what both its parent
/// and `allowed_tools` (empty: everything) allow; a user who asks for `auto_approve` allows `allowed_tools` themselves.
pub fn worker_grants(
    parent: &[Grant],
    allowed_tools: &[String],
    auto_approve: bool,
    authority: WorkerAuthority,
    now: Timestamp,
) -> Result<Vec<Grant>, Error> {
    if auto_approve && allowed_tools.is_empty() {
        return Err(Error::invalid("allowed_tools", "is required with auto_approve: name what is approved"));
    }
    if allowed_tools.len() > limits::WORKER_TOOLS_MAX {
        let most = limits::WORKER_TOOLS_MAX;
        return Err(Error::invalid("allowed_tools", format_args!("has more than {most} entries")));
    }
    let allowed = allowed_tools
        .iter()
        .map(|text| Grant::by_pattern("allowed_tools", text, false))
        .collect::<Result<Vec<_>, _>>()?;
    let lives = |grant: &&Grant| grant.expires_at.is_none_or(|end| now < end) && grant.uses_left.is_none();
    let mut grants: Vec<Grant> =
        parent.iter().filter(|grant| grant.action != GrantAction::Allow).cloned().collect();
    if auto_approve && authority == WorkerAuthority::User {
        let expires_at = Some(now.after(limits::AUTO_APPROVE_WAIT));
        grants.extend(allowed.into_iter().map(|grant| Grant { expires_at, ..grant }));
        return Ok(grants);
    }
    let of_parent = parent.iter().filter(|grant| grant.action == GrantAction::Allow).filter(lives);
    // What was allowed to one sub-agent of the parent was allowed to no other.
    let of_parent = of_parent.filter(|grant| !matches!(grant.principal, Principal::SubAgent(_)));
    for grant in of_parent {
        let inherited = Grant { scope: Scope::Session, principal: Principal::Everyone, ..grant.clone() };
        if allowed.is_empty() || allowed.iter().any(|pattern| is_within(grant, pattern)) {
            grants.push(inherited);
            continue;
        }
        let narrower = allowed.iter().filter(|pattern| is_within(pattern, grant));
        grants.extend(narrower.map(|pattern| Grant { expires_at: grant.expires_at, ..pattern.clone() }));
    }
    Ok(grants)
}

/// Returns whether everything that a grant covers is surely covered by another.
fn is_within(grant: &Grant, wide: &Grant) -> bool {
    let (Ok(narrow), Ok(general)) =
        (CallPattern::parse("tool", &grant.tool), CallPattern::parse("tool", &wide.tool))
    else {
        return false;
    };
    if grant.tool == wide.tool && grant.covers == wide.covers {
        return true;
    }
    let is_whole_tool = matches!(wide.covers, Coverage::Tool | Coverage::Pattern) && general.is_general();
    is_whole_tool && covers_name(general.tool(), narrow.tool())
}

/// Returns whether a tool's name, which may end in `*`, covers another.
fn covers_name(wide: &str, narrow: &str) -> bool {
    match wide.strip_suffix('*') {
        Some(prefix) => narrow.trim_end_matches('*').starts_with(prefix),
        None => wide == narrow,
    }
}
