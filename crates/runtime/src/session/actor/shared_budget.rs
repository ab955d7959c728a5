//! What a session has to do with the budgets it shares: it reports what it spends, stops when one is used up by anybody,
//! and goes on when one is raised or its day is over. The rules decide; this tells them when to look.

use domain::shared_budget::{SharedScope, SpendingChange};
use domain::{Spending, State};

use super::*;
use crate::shared_budgets::{BudgetLedger, today};

/// What a session has reported to its shared budgets, and the last state of them that it has seen.
pub(super) struct SharedBudgetWatch {
    news: watch::Receiver<u64>,
    raises_seen: u64,
    /// What of its spending is counted already.
    counted: Spending,
    open_since: Option<Timestamp>,
}

impl SharedBudgetWatch {
    pub(super) fn new(budgets: &BudgetLedger, machine: &Machine) -> Self {
        let (spec, state) = (machine.spec(), machine.state());
        let open_since = turn_began(state);
        budgets.note(spec, &[], open_since);
        let (raises_seen, _) = budgets.raises(spec);
        Self { news: budgets.news(), raises_seen, counted: state.own_spending(), open_since }
    }

    /// Waits until a shared budget has changed.
    pub(super) async fn changed(&mut self) {
        if self.news.changed().await.is_err() {
            // The sender lives as long as the daemon's services.
            std::future::pending::<()>().await;
        }
    }

    /// Returns what was spent and is not counted yet.
    pub(super) fn changes(&self, machine: &Machine) -> Vec<SpendingChange> {
        let spent = machine.state().own_spending();
        if spent == self.counted {
            return Vec::new();
        }
        let campaign = machine.spec().campaign_id.as_ref();
        SpendingChange::between(&self.counted, &spent, campaign, &today(), self.open_since)
    }

    /// Counts what was committed.
    pub(super) fn note(&mut self, budgets: &BudgetLedger, machine: &Machine, changes: &[SpendingChange]) {
        let (spent, open_since) = (machine.state().own_spending(), turn_began(machine.state()));
        if spent == self.counted && open_since == self.open_since {
            return;
        }
        budgets.note(machine.spec(), changes, open_since);
        (self.counted, self.open_since) = (spent, open_since);
    }
}

impl Actor {
    /// Asks the rules what a change of a shared budget means, if it can mean something to this session.
    pub(super) async fn look_at_shared_budget(&mut self) {
        let (spec, state) = (self.state.machine.spec(), self.state.machine.state());
        let (raises, by) = self.services.budgets.raises(spec);
        let is_raised = raises > self.share.raises_seen;
        self.share.raises_seen = raises;
        let may_go_on = state.stopped_by_budget || !state.queue.entries.is_empty();
        let is_used_up = self.services.budgets.used_up(spec).is_some();
        let must_stop = state.turn.is_some() && is_used_up;
        // A budget that is not used up may be one of a new day.
        if must_stop || (may_go_on && (is_raised || !is_used_up)) {
            self.take(Input::SharedBudgetChanged { raised_by: is_raised.then_some(by) }).await;
        }
    }

    /// Raises a budget for all who share it. The others hear of it, and so does this session.
    pub(super) async fn raise_shared_budget(&mut self, scope: SharedScope, by: String) {
        if let Err(error) = self.services.budgets.raise(scope, self.state.machine.spec(), by).await {
            tracing::error!(session = %self.state.machine.spec().id, %error, "the shared budget cannot be raised");
        }
    }
}

fn turn_began(state: &State) -> Option<Timestamp> {
    state.turn.as_ref().and_then(|turn| turn.started_at)
}
