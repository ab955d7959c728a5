//! The calls behind the dialogs about work: queue, search, usage, budget, name, merge.

use client::format;
use config::failure::{Failure, Result};
use domain::budget::{Budget, Spending};
use view::SummaryBudget;
use wire::obey::v1 as pb;

use super::{DaemonSettings, ms};
use crate::data::{QueueChange, QueuedPrompt, SearchHit, Update};
use crate::limits;

/// The prompts of a session that wait, after a change if there is one.
pub(super) async fn queue(
    settings: &DaemonSettings,
    session: String,
    change: Option<QueueChange>,
) -> Result<Update> {
    let session_id = session.clone();
    let mut service = settings.client.queue();
    let queue = match change {
        None => service.list(pb::ListQueuedRequest { session_id }).await?,
        Some(QueueChange::Edit { entry, text }) => {
            service.edit(pb::EditQueuedRequest { session_id, entry, text }).await?
        }
        Some(QueueChange::Move { entry, place }) => {
            service.r#move(pb::MoveQueuedRequest { session_id, entry, position: place }).await?
        }
        Some(QueueChange::Drop { entry }) => {
            service.drop(pb::DropQueuedRequest { session_id, entry }).await?
        }
        Some(QueueChange::Pause) => service.pause(pb::PauseQueueRequest { session_id }).await?,
        Some(QueueChange::Resume) => service.resume(pb::ResumeQueueRequest { session_id }).await?,
    }
    .into_inner();
    let entry = |entry: pb::QueuedPrompt| QueuedPrompt {
        id: entry.id,
        text: entry.text,
        attachments: entry.attachments.len(),
    };
    let entries = queue.entries.into_iter().map(entry).collect();
    Ok(Update::Queue { session, entries, paused: queue.paused })
}

/// Where a text occurs.
pub(super) async fn search(settings: &DaemonSettings, text: String) -> Update {
    let request = pb::SearchRequest { text: text.clone(), limit: limits::SEARCH_HITS, ..Default::default() };
    let found = settings.client.search().search(request).await;
    let found = found.map(|response| {
        let response = response.into_inner();
        (response.hits.into_iter().map(hit).collect(), response.more)
    });
    Update::Found { text, found: found.map_err(|status| Failure::from(status).for_people()) }
}

fn hit(hit: pb::SearchHit) -> SearchHit {
    let kind = match hit.kind() {
        pb::SearchKind::Prompt => "prompt",
        pb::SearchKind::Answer => "answer",
        pb::SearchKind::Command => "command",
        pb::SearchKind::Output => "output",
        pb::SearchKind::Unspecified => "text",
    };
    SearchHit {
        at: ms(hit.at.as_ref()),
        session: hit.session_id,
        name: hit.session_name,
        seq: hit.seq,
        kind,
        snippet: hit.snippet,
    }
}

/// Returns the budgets that sessions share; none from a daemon that does not know them.
pub(super) async fn shared_budgets(settings: &DaemonSettings) -> Vec<(String, SummaryBudget)> {
    let listed = settings.client.budgets().list(pb::ListSharedBudgetsRequest::default()).await;
    let found = listed.map(|listed| listed.into_inner().budgets).unwrap_or_default();
    let titled = |from: pb::SharedBudget| {
        let title = match (from.campaign.as_str(), from.per_day) {
            ("", _) => "all, today".to_owned(),
            (name, true) => format!("{name}, today"),
            (name, false) => format!("{name}, in all"),
        };
        let limit = Budget {
            tokens: from.tokens,
            cost_micro_usd: from.cost_micro_usd,
            work_ms: from.work_ms,
            calls: from.calls,
        };
        let spent = Spending {
            tokens: from.spent_tokens,
            cost_micro_usd: from.spent_micro_usd,
            work_ms: from.spent_work_ms,
            calls: from.spent_calls,
        };
        (title, SummaryBudget { limit, left: limit.remaining(&spent) })
    };
    found.into_iter().map(titled).collect()
}

/// Changes what a session may spend; 0 removes a limit.
pub(super) async fn set_budget(settings: &DaemonSettings, session: String, change: Budget) -> Result<String> {
    let request = pb::SetBudgetRequest {
        session_id: session,
        tokens: change.tokens,
        cost_micro_usd: change.cost_micro_usd,
        work_ms: change.work_ms,
        calls: change.calls,
    };
    let status = settings.client.session_operations().set_budget(request).await?.into_inner();
    let budget = Budget {
        tokens: status.tokens,
        cost_micro_usd: status.cost_micro_usd,
        work_ms: status.work_ms,
        calls: status.calls,
    };
    Ok(format!("the budget is {}", budget.describe()))
}

pub(super) async fn rename(settings: &DaemonSettings, session: String, name: String) -> Result<String> {
    let request = pb::RenameSessionRequest { session_id: session, name };
    let answer = settings.client.session_operations().rename(request).await?.into_inner();
    Ok(format!("the name is {}", answer.name))
}

/// Merges the tree of a session into the branch it was made from.
pub(super) async fn merge(settings: &DaemonSettings, session: String, commit: String) -> Update {
    let tree = pb::WorktreeName { session_id: session.clone(), ..Default::default() };
    let request = pb::WorktreeMergeRequest { tree: Some(tree), commit_message: commit, ..Default::default() };
    let merged = settings.client.worktrees().merge(request).await;
    let result = merged.map(|response| {
        let merged = response.into_inner();
        if merged.up_to_date {
            return format!("{} has everything already", merged.into);
        }
        format!("merged into {}: {}", merged.into, format::shorten(&merged.commit, 13).trim_end_matches('…'))
    });
    Update::Merged { session, result: result.map_err(|status| Failure::from(status).for_people()) }
}
