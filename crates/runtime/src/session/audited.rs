//! Converts events of a session into rows of the audit: what a caller did to the session over any surface, how requests were
//! settled, and which grants were given. The rows are written in the same transaction as the events. They name the caller and
//! the action, never the text of a prompt or an answer: that is in the journal. Pure.

use domain::permission::Grant;
use domain::queue::QueueChange;
use domain::turn::InterruptReason;
use domain::{EventKind, SessionId, Status, Timestamp, any_event};

use storage::audit::{AuditEntry, AuditOutcome};

use crate::limits;

/// Returns the row of an event; most have none.
pub(crate) fn entry(session: &SessionId, at: Timestamp, kind: &EventKind) -> Option<AuditEntry> {
    let row = |operation: &str, by: &str, outcome: AuditOutcome, summary: String| {
        Some(AuditEntry {
            at,
            session: session.to_string(),
            caller: if by.is_empty() { String::new() } else { format!("by {by}") },
            operation: operation.to_owned(),
            outcome,
            summary,
            ..AuditEntry::default()
        })
    };
    let done = |operation, by, summary| row(operation, by, AuditOutcome::Done, summary);
    match kind {
        EventKind::SessionCreated { provider, mode, .. } => {
            done("session.create", "", format!("{} in mode {}", provider.name(), mode.name()))
        }
        EventKind::TurnStarted { turn, by, prompt, attachments, .. } => {
            let (letters, files) = (prompt.chars().count(), attachments.len());
            done("session.prompt", by, format!("turn {turn}: {letters} letters, {files} attachments"))
        }
        EventKind::MessageAdded { turn, by, text } => {
            done("session.add", by, format!("turn {turn}: {} letters", text.chars().count()))
        }
        EventKind::InterruptRequested { turn, reason: InterruptReason::Cancelled } => {
            done("session.cancel", "", format!("turn {turn}"))
        }
        EventKind::RequestSettled { request, outcome, by, grant, .. } => {
            let granted = grant.as_ref().map(|grant| format!(", granted: {}", grant.summary()));
            let granted = granted.unwrap_or_default();
            row(
                "session.request",
                by,
                AuditOutcome::Word(outcome.word().to_owned()),
                format!("{request} {}{granted}", outcome.word()),
            )
        }
        EventKind::GrantsChanged { grants, by } => {
            let shown = grants.iter().take(limits::AUDIT_GRANTS_MAX).map(Grant::summary);
            let mut text = format!("{} grants: {}", grants.len(), shown.collect::<Vec<_>>().join("; "));
            if grants.len() > limits::AUDIT_GRANTS_MAX {
                text.push_str("; …");
            }
            done("session.grants", by, text)
        }
        EventKind::QueueChanged { change } => match change {
            QueueChange::Added { entry, by, .. } => done("session.queue", by, format!("{entry} queued")),
            QueueChange::Edited { entry, by, .. } => done("session.queue", by, format!("{entry} edited")),
            QueueChange::Dropped { entry, by } => done("session.queue", by, format!("{entry} dropped")),
            _ => None,
        },
        EventKind::BudgetChanged { budget, by } => done("session.budget", by, budget.describe()),
        EventKind::ArchiveChanged { archived, by } => {
            done("session.archive", by, if *archived { "archived" } else { "shown again" }.to_owned())
        }
        EventKind::SessionForked { from, seq, by, .. } => {
            done("session.fork", by, format!("of {from} at event {seq}"))
        }
        EventKind::ModeChanged { mode } => done("session.mode", "", mode.name().to_owned()),
        EventKind::Restarted { count } => done("session.restart", "", format!("restart {count}")),
        EventKind::StatusChanged {
            to: to @ (Status::Stopping | Status::Stopped | Status::Failed),
            code,
            ..
        } => row("session.status", "", AuditOutcome::of(*code), to.name().to_owned()),
        any_event!(
            StatusChanged AgentStarted AgentReady AgentExited AgentLogged InterruptRequested TurnEnded output
            RequestOpened Renamed TodosChanged PlanModeChanged ModelChanged CommandsChanged ServersChanged
            ToolsRegistered InputHolderChanged RateLimited RateLimitEnded usage worker report
        ) => None,
    }
}
