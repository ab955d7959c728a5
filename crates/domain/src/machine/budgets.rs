//! Budgets, rate limits and what goes on by itself after them: a turn is interrupted when a budget is used up, a person
//! is asked whether to raise it, and a session that a model's rate limit stopped goes on when that is over.

use std::collections::BTreeMap;

use super::{Timer, Transition};
use crate::agent::AgentInput;
use crate::budget::{Budget, Spending};
use crate::error::{Error, ErrorCode};
use crate::event::{EventKind, Level};
use crate::id::RequestId;
use crate::limits;
use crate::request::{Question, QuestionOption, RequestOrigin, RequestOutcome, RequestSubject, Settler};
use crate::session::Status;
use crate::time::Timestamp;
use crate::turn::{EndReason, GO_ON, InterruptReason, TurnOrigin};

/// The answers to the question whether a budget is raised.
pub(super) const RAISE: &str = "Raise it and go on";
const LEAVE: &str = "Leave it";

impl Transition<'_> {
    /// Returns the budget in force: the one that was set, else that of the session's creation.
    pub(super) fn budget(&self) -> Budget {
        self.state().budget_of(&self.machine.spec)
    }

    /// Returns what was spent until now, with the open turn.
    pub(super) fn spent(&self) -> Spending {
        self.state().spending(self.now)
    }

    /// Returns the error of a session whose budget is used up.
    pub(super) fn check_budget_left(&self) -> Result<(), Error> {
        let refused = |what: &str, remedy: &str| {
            Err(Error::new(ErrorCode::BudgetExceeded, format!("{what}; raise it with `{remedy}`")))
        };
        if let Some(what) = self.budget().exhausted_by(&self.spent()) {
            let remedy = format!("obey session budget {}", self.machine.spec.id);
            return refused(&format!("the session has used {what}"), &remedy);
        }
        self.shared_used_up().map_or(Ok(()), |shared| refused(&shared.what, &shared.remedy))
    }

    /// Says which budget is used up: the session's own, else one that it shares.
    fn used_up(&self) -> Option<String> {
        let own = self.budget().exhausted_by(&self.spent());
        own.map(|what| format!("the session has used {what}"))
            .or_else(|| self.shared_used_up().map(|shared| shared.what.clone()))
    }

    /// Interrupts the turn once a budget is used up.
    pub(super) fn check_budget(&mut self) {
        let Some(what) = self.used_up() else { return };
        let Some(turn) = self.interruptible_turn() else { return };
        let is_pending = turn.pending_prompt.is_some();
        let message = format!("{what}; the turn is ended");
        self.record(EventKind::Notice {
            level: Level::Error,
            code: Some(ErrorCode::BudgetExceeded),
            message: message.clone(),
        });
        if is_pending {
            self.close_turn(EndReason::BudgetExceeded, &message);
            self.ask_to_raise();
        } else {
            self.interrupt(InterruptReason::BudgetExceeded);
        }
    }

    /// Asks a person whether to raise the budget that stopped a turn.
    pub(super) fn ask_to_raise(&mut self) {
        if !self.state().stopped_by_budget || self.budget_request().is_some() {
            return;
        }
        let (budget, spent) = (self.budget(), self.spent());
        let Some(what) = budget.exhausted_by(&spent) else { return self.ask_to_raise_shared() };
        let question = raise_question(
            RequestOrigin::Budget.question_id(),
            format!("The session has used {what}, and its turn was ended. Raise the budget?"),
            &budget.renewed(&spent).describe(),
            "nothing is sent until the budget is raised",
        );
        let ask = RequestSubject::Question { questions: vec![question], call: None };
        self.open_request(RequestOrigin::Budget.to_string(), ask, None);
    }

    fn budget_request(&self) -> Option<RequestId> {
        let mut pending = self.state().requests.values();
        pending.find(|pending| pending.origin() == RequestOrigin::Budget).map(|pending| pending.id)
    }

    /// Checks an answer to the question about the budget. Returns whether the budget is raised.
    pub(super) fn budget_answer(answers: &BTreeMap<String, String>) -> Result<bool, Error> {
        match answers.values().next().map(String::as_str) {
            Some(RAISE) => Ok(true),
            Some(LEAVE) => Ok(false),
            _ => Err(Error::invalid(
                "answers",
                format_args!("use {RAISE:?} or {LEAVE:?}; `obey session budget` sets any other amount"),
            )),
        }
    }

    /// Raises the budget as the answered question offered it.
    pub(super) fn raise_budget(&mut self, by: String) {
        let budget = self.budget().renewed(&self.spent());
        self.put_budget(budget, by);
    }

    /// Sets parts of the budget: 0 removes a limit, what is not given stays.
    pub(super) fn set_budget(&mut self, change: Budget, by: String) -> Result<(), Error> {
        if change.is_unlimited() {
            return Err(Error::invalid("budget", "say what is to change: usd, tokens, minutes or calls"));
        }
        let budget = change.over(&self.budget());
        self.put_budget(budget, by);
        Ok(())
    }

    /// Records a budget, stops the turn if it is used up, and goes on with a turn that the former one stopped.
    fn put_budget(&mut self, budget: Budget, by: String) {
        if self.budget().work_ms.is_some() && budget.work_ms.is_none() {
            self.disarm(Timer::Budget);
        }
        let was_used_up = self.check_budget_left().is_err();
        self.record(EventKind::BudgetChanged { budget, by: by.clone() });
        self.watch_work_time();
        if budget.exhausted_by(&self.spent()).is_some() {
            return self.check_budget();
        }
        if let Some(request) = self.budget_request() {
            let answers = BTreeMap::from([(RequestOrigin::Budget.question_id(), RAISE.to_owned())]);
            self.record(EventKind::RequestSettled {
                request,
                outcome: RequestOutcome::Answered { answers },
                by: by.clone(),
                message: String::new(),
                grant: None,
                used_grant: String::new(),
            });
        }
        if self.shared_used_up().is_some() {
            self.ask_to_raise();
        } else if self.state().stopped_by_budget && self.state().status == Status::Running {
            self.go_on(by);
        } else if was_used_up {
            self.resume_queue(by);
        }
    }

    /// Has the agent go on with its conversation.
    pub(super) fn go_on(&mut self, by: String) {
        if self.check_prompt(GO_ON).is_err() || self.state().turn.is_some() {
            return;
        }
        self.open_turn(TurnOrigin::Client, GO_ON.to_owned(), Vec::new(), by);
        self.change_status(Status::Working, "going on");
        self.tell(AgentInput::Prompt { text: GO_ON.to_owned(), attachments: Vec::new() });
    }

    /// Sets the timer for the working time of the open turn.
    pub(super) fn watch_work_time(&mut self) {
        let Some(left) = self.budget().time_left(&self.spent()) else { return };
        if self.interruptible_turn().is_some() {
            // What is spent is counted in whole milliseconds.
            self.arm(Timer::Budget, left + std::time::Duration::from_millis(1));
        } else {
            self.disarm(Timer::Budget);
        }
    }

    pub(super) fn work_time_ran_out(&mut self) {
        if self.budget().exhausted_by(&self.spent()).is_some() {
            self.check_budget();
        } else {
            self.watch_work_time();
        }
    }

    /// Records that the model's rate limit stopped the agent. The session goes on when the limit is over. A report without an
    /// end adds nothing to one of the same turn.
    pub(super) fn rate_limited(&mut self, resumes_at: Option<Timestamp>, reason: String) {
        // An end that is over already, as by a clock that is wrong, is not known: it would be asked for every second.
        let resumes_at = resumes_at.filter(|at| *at > self.now);
        let is_known = resumes_at.is_none() && self.state().rate_limit.is_some();
        if self.state().turn.is_none() || is_known {
            return;
        }
        let attempt = self.state().rate_limits_met.saturating_add(1);
        let doubled = limits::RATE_LIMIT_WAIT.saturating_mul(1 << (attempt - 1).min(16));
        let wait =
            resumes_at.map_or(doubled.min(limits::RATE_LIMIT_WAIT_DOUBLED_MAX), |at| at.since(self.now));
        let wait = wait.clamp(limits::RATE_LIMIT_WAIT_MIN, limits::RATE_LIMIT_WAIT_MAX);
        let resumes_at = self.now.after(wait);
        self.record(EventKind::RateLimited { resumes_at, reason, attempt });
    }

    /// Waits for the end of a rate limit that ended a turn.
    pub(super) fn watch_rate_limit(&mut self) {
        let parked = self.state().rate_limit.as_ref().map(|limit| limit.resumes_at);
        if let Some(resumes_at) = parked.filter(|_| self.state().status == Status::Running) {
            self.arm(Timer::RateLimit, resumes_at.since(self.now).min(limits::RATE_LIMIT_LOOK_WAIT));
        }
    }

    /// Goes on after a rate limit, once it is over.
    pub(super) fn look_at_rate_limit(&mut self) {
        let state = self.state();
        let Some(limit) = &state.rate_limit else { return };
        if state.status != Status::Running || state.turn.is_some() {
            return;
        }
        if limit.resumes_at > self.now {
            return self.watch_rate_limit();
        }
        self.record(EventKind::RateLimitEnded {});
        self.go_on(Settler::Obey.to_string());
        self.send_queued();
    }

    /// Stops waiting for a rate limit without going on. Returns whether the session waited.
    pub(super) fn forget_rate_limit(&mut self) -> bool {
        let is_parked = self.state().rate_limit.is_some() && self.state().turn.is_none();
        if is_parked {
            self.disarm(Timer::RateLimit);
            self.record(EventKind::RateLimitEnded {});
            self.turn_ended_for_queue(EndReason::Cancelled);
        }
        is_parked
    }
}

/// Returns the question whether a budget is raised.
pub(super) fn raise_question(id: String, text: String, renewed: &str, left: &str) -> Question {
    let option = |label: &str, description: String| QuestionOption { label: label.to_owned(), description };
    let options = vec![option(RAISE, format!("to {renewed}")), option(LEAVE, left.to_owned())];
    Question { id, header: "Budget".to_owned(), text, options, multi_select: false }
}
