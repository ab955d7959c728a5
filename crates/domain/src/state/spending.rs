//! The part of the state about what a session spends and may spend, what is planned for it, and where it came from.

use serde::{Deserialize, Serialize};

use super::State;
use crate::any_event;
use crate::budget::{Budget, Spending};
use crate::event::EventKind;
use crate::id::SessionId;
use crate::queue::PromptQueue;
use crate::session::SessionSpec;
use crate::time::Timestamp;
use crate::usage::Usage;

/// A rate limit that a session waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateLimit {
    pub resumes_at: Timestamp,
    pub reason: String,
}

/// The session and the event after which this one went its own way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkOrigin {
    pub from: SessionId,
    pub seq: u64,
    /// What the agent has yet to be told; empty: nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub history: String,
    /// The agent has yet to branch off the other session's conversation.
    #[serde(default)]
    pub branches: bool,
}

impl State {
    /// Applies events of what the session spends and may spend, and of what is planned for it.
    pub(super) fn evolve_spending(&mut self, at: Timestamp, kind: &EventKind) {
        match kind {
            EventKind::UsageReported { usage, context_tokens, context_window, .. } => {
                self.usage.add(usage);
                self.context_tokens = context_tokens.or(self.context_tokens);
                self.context_window = context_window.or(self.context_window);
            }
            EventKind::Compacted { tokens_after, .. } => {
                self.compacted = true;
                self.context_tokens = *tokens_after;
                // The summary.
                self.context_messages = 1;
            }
            EventKind::QueueChanged { change } => self.queue.evolve(at, change),
            EventKind::BudgetChanged { budget, .. } => self.budget = Some(*budget),
            EventKind::RateLimited { resumes_at, reason, attempt } => {
                self.rate_limit = Some(RateLimit { resumes_at: *resumes_at, reason: reason.clone() });
                self.rate_limits_met = *attempt;
            }
            EventKind::RateLimitEnded {} => self.rate_limit = None,
            EventKind::ArchiveChanged { archived, .. } => self.archived = *archived,
            EventKind::SessionForked { from, seq, history, .. } => self.fork_off(from, *seq, history),
            any_event!(life turn output request settings worker report) => {}
        }
    }

    /// Makes the copied history the past of a session of its own: nothing that was spent, allowed or planned in it counts.
    fn fork_off(&mut self, from: &SessionId, seq: u64, history: &str) {
        self.usage = Usage::default();
        self.workers_spent = Spending::default();
        (self.calls, self.work_ms, self.restart_count) = (0, 0, 0);
        (self.budget, self.stopped_by_budget) = (None, false);
        (self.rate_limit, self.rate_limits_met) = (None, 0);
        self.queue = PromptQueue::default();
        self.grants.clear();
        self.tools.clear();
        self.stderr_tail.clear();
        self.input_holder = None;
        self.attended_since = None;
        self.resources = None;
        self.archived = false;
        let branches = history.is_empty() && !self.native_session.is_empty();
        if !branches {
            self.native_session.clear();
        }
        self.fork = Some(ForkOrigin { from: from.clone(), seq, history: history.to_owned(), branches });
    }

    /// Returns the budget in force: the one that was set, else that of the session's creation.
    pub fn budget_of(&self, spec: &SessionSpec) -> Budget {
        let created =
            Budget { tokens: (spec.max_tokens > 0).then_some(spec.max_tokens), ..Budget::default() };
        self.budget.unwrap_or(created)
    }

    /// Returns what was spent until a moment, with the open turn.
    pub fn spending(&self, now: Timestamp) -> Spending {
        let open = self.turn.as_ref().and_then(|turn| turn.started_at);
        let working = open.map_or(0, |from| elapsed_ms(from, now));
        let ended = self.spent_in_turns();
        Spending { work_ms: ended.work_ms.saturating_add(working), ..ended }
    }

    /// Returns what the session spent itself, without its workers and the time of the open turn.
    pub fn own_spending(&self) -> Spending {
        Spending { work_ms: self.work_ms, calls: self.calls, ..Spending::of_usage(&self.usage) }
    }

    /// Returns what was spent, its workers included, without the time of the open turn.
    pub fn spent_in_turns(&self) -> Spending {
        let mut spent = self.own_spending();
        spent.add(&self.workers_spent);
        let of_workers = self.workers.values().filter_map(|worker| worker.spent.as_ref());
        of_workers.for_each(|worker| spent.add(worker));
        spent
    }
}

/// Returns the whole milliseconds between two moments.
pub(crate) fn elapsed_ms(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.since(from).as_millis()).unwrap_or(u64::MAX)
}
