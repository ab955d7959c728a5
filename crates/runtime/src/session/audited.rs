//! What of a session's events is in the audit, too: what somebody did to it, over whichever surface, and what became of
//! requests, and which grants were given. Written with the events, in one transaction. Tells who and what, never the text of
//! anybody: that is in the journal. Pure.

use domain::permission::Grant;
use domain::queue::QueueChange;
use domain::turn::InterruptReason;
use domain::{EventKind, SessionId, Status, Timestamp, any_event};

use storage::audit::AuditEntry;

use crate::limits;

/// Returns the row of an event; most have none.
pub(crate) fn entry(session: &SessionId, at: Timestamp, kind: &EventKind) -> Option<AuditEntry> {
    let row = |operation: &str, by: &str, outcome: &str, summary: String| {
        Some(AuditEntry {
            at,
            session: session.to_string(),
            caller: if by.is_empty() { String::new() } else { format!("by {by}") },
            operation: operation.to_owned(),
            outcome: outcome.to_owned(),
            summary,
            ..AuditEntry::default()
        })
    };
    match kind {
        EventKind::SessionCreated { provider, mode, .. } => {
            row("session.create", "", "ok", format!("{} in mode {}", provider.name(), mode.name()))
        }
        EventKind::TurnStarted { turn, by, prompt, attachments, .. } => {
            let (letters, files) = (prompt.chars().count(), attachments.len());
            row("session.prompt", by, "ok", format!("turn {turn}: {letters} letters, {files} attachments"))
        }
        EventKind::MessageAdded { turn, by, text } => {
            row("session.add", by, "ok", format!("turn {turn}: {} letters", text.chars().count()))
        }
        EventKind::InterruptRequested { turn, reason: InterruptReason::Cancelled } => {
            row("session.cancel", "", "ok", format!("turn {turn}"))
        }
        EventKind::RequestSettled { request, outcome, by, grant, .. } => {
            let granted = grant.as_ref().map(|grant| format!(", granted: {}", grant.summary()));
            let granted = granted.unwrap_or_default();
            row("session.request", by, outcome.word(), format!("{request} {}{granted}", outcome.word()))
        }
        EventKind::GrantsChanged { grants, by } => {
            let shown = grants.iter().take(limits::AUDIT_GRANTS_MAX).map(Grant::summary);
            let mut text = format!("{} grants: {}", grants.len(), shown.collect::<Vec<_>>().join("; "));
            if grants.len() > limits::AUDIT_GRANTS_MAX {
                text.push_str("; …");
            }
            row("session.grants", by, "ok", text)
        }
        EventKind::QueueChanged { change } => match change {
            QueueChange::Added { entry, by, .. } => row("session.queue", by, "ok", format!("{entry} queued")),
            QueueChange::Edited { entry, by, .. } => {
                row("session.queue", by, "ok", format!("{entry} edited"))
            }
            QueueChange::Dropped { entry, by } => row("session.queue", by, "ok", format!("{entry} dropped")),
            _ => None,
        },
        EventKind::BudgetChanged { budget, by } => row("session.budget", by, "ok", budget.describe()),
        EventKind::ArchiveChanged { archived, by } => {
            row("session.archive", by, "ok", if *archived { "archived" } else { "shown again" }.to_owned())
        }
        EventKind::SessionForked { from, seq, by, .. } => {
            row("session.fork", by, "ok", format!("of {from} at event {seq}"))
        }
        EventKind::ModeChanged { mode } => row("session.mode", "", "ok", mode.name().to_owned()),
        EventKind::Restarted { count } => row("session.restart", "", "ok", format!("restart {count}")),
        EventKind::StatusChanged {
            to: to @ (Status::Stopping | Status::Stopped | Status::Failed),
            code,
            ..
        } => {
            let outcome = code.as_ref().map_or_else(|| "ok".to_owned(), ToString::to_string);
            row("session.status", "", &outcome, to.name().to_owned())
        }
        any_event!(
            StatusChanged AgentStarted AgentReady AgentExited AgentLogged InterruptRequested TurnEnded output
            RequestOpened Renamed TodosChanged PlanModeChanged ModelChanged CommandsChanged ServersChanged
            ToolsRegistered InputHolderChanged RateLimited RateLimitEnded usage worker report
        ) => None,
    }
}
