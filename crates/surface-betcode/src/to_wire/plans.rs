//! Words for what is planned for a session and what it may spend, and the entries of its to-do list.

use domain::event::{Todo, TodoStatus};
use domain::{EventKind, any_event};
use wire::betcode::v1 as pb;

/// Describes an event of the queue, of budgets, of rate limits or of forks.
pub(super) fn describe(kind: &EventKind) -> String {
    match kind {
        EventKind::QueueChanged { change } => change.describe(),
        EventKind::BudgetChanged { budget, .. } => format!("budget: {}", budget.describe()),
        EventKind::RateLimited { reason, .. } => format!("waiting for a rate limit: {reason}"),
        EventKind::RateLimitEnded {} => "no longer waiting for a rate limit".to_owned(),
        EventKind::SessionForked { from, seq, .. } => format!("forked from {from} at event {seq}"),
        other @ (any_event!(life turn output request settings ArchiveChanged usage worker report)) => {
            other.name().to_owned()
        }
    }
}

pub(super) fn todo(todo: &Todo) -> pb::TodoItem {
    let status = match todo.status {
        TodoStatus::Pending => pb::TodoStatus::Pending,
        TodoStatus::InProgress => pb::TodoStatus::InProgress,
        TodoStatus::Completed => pb::TodoStatus::Completed,
    };
    pb::TodoItem {
        id: todo.id.clone(),
        subject: todo.text.clone(),
        description: todo.description.clone(),
        active_form: todo.active_form.clone(),
        status: status.into(),
    }
}
