//! Budgets that sessions share, as one session sees them: a used-up one ends its turn, a person is asked whether to raise
//! it, and the session goes on once it is raised or its day is over. Knows no other session.

use std::collections::BTreeMap;

use super::budgets::{RAISE, raise_question};
use super::{Effect, Transition};
use crate::event::EventKind;
use crate::id::RequestId;
use crate::request::{RequestOrigin, RequestOutcome, RequestSubject, Settler};
use crate::session::Status;
use crate::shared_budget::{SharedScope, UsedUpBudget};
use crate::turn::EndReason;

impl Transition<'_> {
    pub(super) fn shared_used_up(&self) -> Option<&UsedUpBudget> {
        self.machine.shared.as_ref()
    }

    /// Asks a person whether to raise the shared budget that stopped a turn.
    pub(super) fn ask_to_raise_shared(&mut self) {
        let Some(used_up) = self.shared_used_up().cloned() else { return };
        if self.shared_request().is_some() {
            return;
        }
        let origin = RequestOrigin::SharedBudget(used_up.scope);
        let lead = upper_first(&used_up.what);
        let question = raise_question(
            origin.question_id(),
            format!("{lead}, and the turn was ended. Raise the budget?"),
            &used_up.renewed,
            "nothing is sent until the budget is raised",
        );
        let ask = RequestSubject::Question { questions: vec![question], call: None };
        self.open_request(origin.to_string(), ask, None);
    }

    fn shared_request(&self) -> Option<(RequestId, SharedScope)> {
        let mut pending = self.state().requests.values();
        pending.find_map(|pending| Some((pending.id, pending.origin().shared_scope()?)))
    }

    /// Has the shared budget raised as the answered question offered it; goes on at once if it is no longer used up.
    pub(super) fn raise_shared(&mut self, scope: SharedScope, by: String) {
        if self.shared_used_up().is_some_and(|used_up| used_up.scope == scope) {
            self.decided.effects.push(Effect::RaiseSharedBudget { scope, by });
        } else {
            self.go_on_after_shared(by);
        }
    }

    /// A shared budget was used up by anybody, or raised, or its day is over. A raise lets the session go on, and so does a
    /// new day if the budget of a day stopped it and nobody decided to leave it at that.
    pub(super) fn shared_budget_changed(&mut self, raised_by: Option<String>) {
        if self.shared_used_up().is_some() {
            return self.check_budget();
        }
        let asked = self.shared_request();
        let by = match raised_by {
            Some(by) => by,
            None if self.may_go_on_in_a_new_day(asked) => Settler::Obey.to_string(),
            None => return,
        };
        if let Some((request, scope)) = asked {
            let question = RequestOrigin::SharedBudget(scope).question_id();
            let answers = BTreeMap::from([(question, RAISE.to_owned())]);
            self.record(EventKind::RequestSettled {
                request,
                outcome: RequestOutcome::Answered { answers },
                by: by.clone(),
                message: String::new(),
                grant: None,
                used_grant: String::new(),
            });
        }
        self.go_on_after_shared(by);
    }

    /// Returns whether a new day alone lets the session go on: the budget of a day stopped it and its question is open, or
    /// only prompts wait.
    fn may_go_on_in_a_new_day(&self, asked: Option<(RequestId, SharedScope)>) -> bool {
        let state = self.state();
        let waits_for_the_day = asked.is_some_and(|(_, scope)| scope.is_per_day());
        state.status == Status::Running && (waits_for_the_day || !state.stopped_by_budget)
    }

    fn go_on_after_shared(&mut self, by: String) {
        if self.check_budget_left().is_err() {
            return self.ask_to_raise();
        }
        let state = self.state();
        if state.stopped_by_budget && state.status == Status::Running {
            return self.go_on(by);
        }
        let ended_well = |reason| matches!(reason, EndReason::Completed | EndReason::BudgetExceeded);
        // A queue that waits for another reason goes on waiting.
        if state.last_turn.as_ref().is_none_or(|turn| ended_well(turn.reason)) {
            self.resume_queue(by);
        }
    }
}

fn upper_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
