//! Detects that another program changed the file of permission rules. The user gets a notice and the audit a row, because an
//! agent without the sandbox can write that file, too.

use domain::notice::{Notice, NoticeKind};
use runtime::Supervisor;
use storage::audit::{AuditEntry, AuditOutcome};

/// What the audit and the notice call it.
const WHAT: &str = "rules.toml was changed, and not by obey";

/// The operation's name in the audit.
const OPERATION: &str = "rules/Changed";

/// Returns the notice of the change with this number.
pub(super) fn notice(count: u64) -> Notice {
    Notice {
        id: format!("rules/{count}"),
        kind: NoticeKind::NeedsYou,
        session_id: String::new(),
        name: "rules.toml".to_owned(),
        folder: String::new(),
        text: format!("{WHAT}; if it was not you, look at it: obey grants list"),
    }
}

/// Adds the change to the audit.
pub(super) async fn record(supervisor: &Supervisor) {
    tracing::warn!("{WHAT}");
    let entry = AuditEntry {
        at: host::clock::now(),
        caller: "unknown".to_owned(),
        operation: OPERATION.to_owned(),
        outcome: AuditOutcome::Done,
        summary: WHAT.to_owned(),
        origin: "file".to_owned(),
        ..AuditEntry::default()
    };
    if let Err(error) = supervisor.audit().append(entry).await {
        tracing::warn!(%error, "the audit does not have that rules.toml was changed");
    }
}
