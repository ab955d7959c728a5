//! Requests of an agent: opened, answered once, or withdrawn.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Timer, Transition};
use crate::agent::AgentInput;
use crate::error::{Error, ErrorCode};
use crate::event::EventKind;
use crate::id::{RequestId, TurnId};
use crate::limits;
use crate::permission::{
    CallEvaluation, Choice, Decision, Grant, GrantAction, Mode, RuleVerdict, Scope, pattern, proposal,
};
use crate::redact;
use crate::request::{
    PendingRequest, PermissionSubject, RequestOrigin, RequestOutcome, RequestSubject, Settler,
};
use crate::session::Status;
use crate::time::Timestamp;
use crate::tools;
use crate::worker::CallClass;

/// An answer to a permission, and who gives it.
pub(super) struct Answer {
    pub(super) decision: Decision,
    /// Sent to the agent.
    pub(super) message: String,
    pub(super) updated_input: Option<Value>,
    pub(super) by: String,
}

impl Transition<'_> {
    pub(super) fn asked(&mut self, native: String, ask: RequestSubject) {
        match &ask {
            // The tool was removed while the agent called it: no client would ever return a result.
            RequestSubject::ClientTool { tool, .. } if tools::find(&self.state().tools, tool).is_none() => {
                let output = format!("no client offers {tool:?} any more");
                self.fail_unoffered(native, ask, output, Settler::Obey);
            }
            RequestSubject::ClientTool { tool, .. } if self.plan_forbids(tool) => {
                self.fail_unoffered(native, ask, PLAN_REFUSAL.to_owned(), Settler::PLAN_MODE);
            }
            RequestSubject::Permission(_)
            | RequestSubject::Question { .. }
            | RequestSubject::ClientTool { .. } => self.open_request(native, ask, None),
        }
    }

    /// Opens a permission whose call has been evaluated.
    pub(super) fn asked_and_judged(
        &mut self,
        native: String,
        ask: PermissionSubject,
        findings: &CallEvaluation,
    ) {
        if self.state().status.has_agent() {
            self.open_request(native, RequestSubject::Permission(ask), Some(findings));
        }
    }

    /// Lets the agent continue with something harmless unless a grant or a rule objects.
    pub(super) fn checked(&mut self, native: String, ask: PermissionSubject, findings: &CallEvaluation) {
        if !self.state().status.has_agent() {
            return;
        }
        let objects = match self.settled_beforehand(&ask, Some(findings)) {
            Some(settled) => !settled.decision.allows(),
            None => findings.verdict != RuleVerdict::Unsaid,
        };
        let ask = RequestSubject::Permission(ask);
        if objects {
            return self.open_request(native, ask, Some(findings));
        }
        let (decision, message) = (Decision::AllowOnce, String::new());
        self.tell(AgentInput::Decide { native, decision, message, updated_input: None, ask });
    }

    /// Records a request, and settles it at once if rules, grants, mode or the limit decide it.
    pub(super) fn open_request(
        &mut self,
        native: String,
        ask: RequestSubject,
        findings: Option<&CallEvaluation>,
    ) {
        let request = RequestId(self.state().requests_opened + 1);
        let too_many = self.state().requests.len() >= limits::REQUESTS_PENDING_MAX;
        let settled = match &ask {
            _ if too_many => Some(AutomaticAnswer::deny(
                Settler::Limit,
                "too many requests are waiting already".to_owned(),
            )),
            RequestSubject::Permission(permission) => {
                let settled = self.settled_beforehand(permission, findings);
                self.refused_by_plan(&native).filter(|_| !is_denial(settled.as_ref())).or(settled)
            }
            RequestSubject::Question { .. } | RequestSubject::ClientTool { .. } => None,
        };
        // What is settled already is shown to nobody who could use them.
        let waiting = ask.permission().filter(|_| settled.is_none());
        let proposals = waiting.map(|permission| proposal::proposals(permission, self.machine.spec.place()));
        let proposals = proposals.unwrap_or_default();
        let advice = waiting.map(|permission| self.advice(permission, findings)).unwrap_or_default();
        self.record(EventKind::RequestOpened {
            request,
            native: native.clone(),
            automatic: settled.is_some(),
            ask: ask.clone(),
            proposals,
            advice,
        });
        match settled {
            Some(AutomaticAnswer { decision, by, message, used_grant }) => {
                let answer = Answer { decision, message, updated_input: None, by };
                self.settle_permission(request, native, ask, answer, None, used_grant);
            }
            None => {
                self.watch_requests();
                self.watch_tools();
                self.leave_unanswered();
            }
        }
    }

    /// A graceful stop waits for the turn, but for no answer.
    fn leave_unanswered(&mut self) {
        let is_stopping = self.state().status == Status::Stopping && self.asked_to_leave() == Some(false);
        if is_stopping && self.waits_for_an_answer() {
            self.disarm(Timer::Grace);
            self.ask_to_leave();
        }
    }

    /// Returns whether plan mode forbids a client's tool: tools that need a permission have effects.
    pub(super) fn plan_forbids(&self, tool: &str) -> bool {
        self.state().mode == Mode::Plan
            && tools::find(&self.state().tools, tool).is_some_and(|tool| tool.asks)
    }

    /// Returns plan mode's answer to a call that came through the daemon: such calls ask only if they act.
    fn refused_by_plan(&self, native: &str) -> Option<AutomaticAnswer> {
        let is_refused = self.state().mode == Mode::Plan && !RequestOrigin::parse(native).is_agent();
        is_refused.then(|| AutomaticAnswer::deny(Settler::PLAN_MODE, PLAN_REFUSAL.to_owned()))
    }

    /// Returns the answer that rules, grants and mode give without asking anybody. What is denied anywhere is denied; a
    /// rule that denies binds an autonomous session too, one that wants to ask does not.
    fn settled_beforehand(
        &self,
        ask: &PermissionSubject,
        findings: Option<&CallEvaluation>,
    ) -> Option<AutomaticAnswer> {
        let verdict = findings.map_or(&RuleVerdict::Unsaid, |findings| &findings.verdict);
        if let RuleVerdict::Deny { by, message } = verdict {
            return Some(AutomaticAnswer::deny(Settler::parse(by), message.clone()));
        }
        let grant = self.grant_for(ask, findings);
        if let Some(grant) = grant.filter(|grant| grant.action == GrantAction::Deny) {
            let message = format!("{} is denied in this session", grant.label());
            return Some(AutomaticAnswer {
                used_grant: grant.id.clone(),
                ..AutomaticAnswer::deny(Settler::Grant, message)
            });
        }
        let mode = self.state().mode;
        if self.plan_forbids(&ask.tool) {
            return Some(AutomaticAnswer::deny(Settler::PLAN_MODE, PLAN_REFUSAL.to_owned()));
        }
        // An earlier approval to act does not hold while planning: a person decides.
        let may_act = mode != Mode::Plan || pattern::is_reading(&ask.tool, &ask.input);
        match (grant.map(|grant| grant.action), verdict) {
            (Some(GrantAction::Allow), _) if may_act && self.may_use(grant, ask) => {
                let used_grant = grant.map(|grant| grant.id.clone()).unwrap_or_default();
                Some(AutomaticAnswer { used_grant, ..AutomaticAnswer::allow(Settler::Grant) })
            }
            _ if mode == Mode::Autonomous => Some(AutomaticAnswer::allow(Settler::AUTONOMOUS_MODE)),
            (None, RuleVerdict::Allow { by }) if may_act => Some(AutomaticAnswer::allow(Settler::parse(by))),
            _ => None,
        }
    }

    /// Returns whether a grant may be used once more; one that approves automatically has limits by the minute.
    fn may_use(&self, grant: Option<&Grant>, ask: &PermissionSubject) -> bool {
        !grant.is_some_and(Grant::is_automatic)
            || self.state().auto_approved.has_room(self.now, CallClass::of(&ask.tool))
    }

    /// Changes who holds the input, which also changes the deadlines of permissions.
    pub(super) fn hold_input(&mut self, holder: Option<String>) {
        if self.state().input_holder != holder {
            self.record(EventKind::InputHolderChanged { holder });
            self.watch_requests();
        }
    }

    /// Sets the timer for the permission with the earliest deadline.
    pub(super) fn watch_requests(&mut self) {
        let timeouts = self.machine.spec.timeouts;
        if timeouts.attended_wait.is_none() && timeouts.unattended_wait.is_none() {
            return;
        }
        match self.state().requests.values().filter_map(|pending| self.answer_by(pending)).min() {
            Some(at) => self.arm(Timer::Answer, at.since(self.now)),
            None => self.disarm(Timer::Answer),
        }
    }

    /// Returns when an unanswered permission is denied. A client that returns gets the full wait again.
    fn answer_by(&self, pending: &PendingRequest) -> Option<Timestamp> {
        if !matches!(pending.ask, RequestSubject::Permission(_)) {
            return None;
        }
        let (timeouts, state) = (&self.machine.spec.timeouts, self.state());
        match state.attended_since {
            Some(since) => Some(since.max(pending.asked_at).after(timeouts.attended_wait?)),
            None => {
                let active = state.last_activity_at.filter(|_| timeouts.activity_extends);
                let since = active.map_or(pending.asked_at, |active| active.max(pending.asked_at));
                Some(since.after(timeouts.unattended_wait?))
            }
        }
    }

    /// Denies the permissions that were not answered in time.
    pub(super) fn answer_ran_out(&mut self) {
        let late: Vec<PendingRequest> = self
            .state()
            .requests
            .values()
            .filter(|pending| self.answer_by(pending).is_some_and(|at| at <= self.now))
            .cloned()
            .collect();
        for pending in late {
            let PendingRequest { id, native, ask, asked_at, .. } = self.as_asked(pending);
            let seconds = self.now.since(asked_at).as_secs();
            let message = format!("nobody answered within {seconds} s");
            let by = Settler::Timeout.to_string();
            let answer = Answer { decision: Decision::Deny, message, updated_input: None, by };
            self.settle_permission(id, native, ask, answer, None, String::new());
        }
        self.watch_requests();
    }

    /// Returns a request as the agent asked it: the state may have it redacted.
    fn as_asked(&self, mut pending: PendingRequest) -> PendingRequest {
        if let Some(ask) = self.machine.originals.asks.get(&pending.id) {
            pending.ask.clone_from(ask);
        }
        pending
    }

    /// Returns the pending request, or `None` if it was already settled (the caller then asks by whom).
    fn waiting(&self, request: RequestId) -> Result<Option<PendingRequest>, Error> {
        if let Some(pending) = self.state().requests.get(&request) {
            return Ok(Some(self.as_asked(pending.clone())));
        }
        if self.state().settled_request(request).is_some() {
            return Ok(None);
        }
        Err(Error::new(
            ErrorCode::RequestNotFound,
            format!("session {} has no request {request}", self.machine.spec.id),
        ))
    }

    /// Answers a permission. A request that was already settled is left as it is.
    pub(super) fn decide(
        &mut self,
        request: RequestId,
        mut answer: Answer,
        choice: Option<&Choice>,
    ) -> Result<(), Error> {
        let Some(pending) = self.waiting(request)? else { return Ok(()) };
        let updated = answer.updated_input.take();
        answer.updated_input = updated.map(|input| self.as_shown_to_agent(&pending, input)).transpose()?;
        let refusal = match &pending.ask {
            RequestSubject::Question { .. } => {
                Some("a question is answered, not allowed; deny it to skip it")
            }
            RequestSubject::ClientTool { .. } => {
                Some("a tool call is returned, not allowed; deny it to refuse it")
            }
            RequestSubject::Permission(_) => None,
        };
        if let Some(refusal) = refusal.filter(|_| answer.decision.allows()) {
            return Err(Error::invalid("decision", refusal));
        }
        let grant = self.remembered(&pending.ask, &answer, choice)?;
        let stops = answer.decision == Decision::DenyAndStop;
        self.settle_permission(request, pending.native, pending.ask, answer, grant, String::new());
        if stops {
            // Agents differ in how a denial affects their turn; an interrupt ends it in all of them.
            self.cancel_turn();
        }
        Ok(())
    }

    /// Restores the secrets in a changed input that its author was not shown.
    fn as_shown_to_agent(&self, asked: &PendingRequest, mut updated: Value) -> Result<Value, Error> {
        let shown = self.state().requests.get(&asked.id).map(|pending| &pending.ask);
        if let (RequestSubject::Permission(asked), Some(RequestSubject::Permission(shown))) =
            (&asked.ask, shown)
        {
            redact::put_back(&mut updated, &shown.input, &asked.input)?;
        }
        Ok(updated)
    }

    /// Returns the grant to remember with an answer.
    fn remembered(
        &self,
        ask: &RequestSubject,
        answer: &Answer,
        choice: Option<&Choice>,
    ) -> Result<Option<Grant>, Error> {
        if choice.is_some() && !answer.decision.allows() {
            return Err(Error::invalid(
                "grant",
                "only an allowance can be remembered; see `obey grants add --deny`",
            ));
        }
        let whole_session = Choice::default();
        let choice = match (choice, answer.decision) {
            (Some(choice), _) => choice,
            (None, Decision::AllowSession) => &whole_session,
            (None, _) => return Ok(None),
        };
        let RequestSubject::Permission(permission) = ask else { return Ok(None) };
        // The approval is for the changed call, not for the original one.
        let mut permission = permission.clone();
        permission.input = answer.updated_input.clone().unwrap_or(permission.input);
        let chosen = proposal::chosen(&permission, self.machine.spec.place(), choice)?;
        let Some(grant) = chosen else { return Ok(None) };
        if grant.scope == Scope::Session && self.state().grants.len() >= limits::GRANTS_MAX {
            return Ok(None);
        }
        let expires_at = choice.expires_after.map(|wait| self.now.after(wait));
        Ok(Some(Grant { expires_at, ..self.signed(grant, &answer.by) }))
    }

    /// Records the decision and sends it to the agent, unless the request came through the bridge.
    fn settle_permission(
        &mut self,
        request: RequestId,
        native: String,
        ask: RequestSubject,
        answer: Answer,
        grant: Option<Grant>,
        used_grant: String,
    ) {
        let Answer { decision, message, updated_input, by } = answer;
        // An agent must not take a rule's denial, or nobody's answer, for its user's word.
        let settler = Settler::parse(&by);
        let told = match ask.permission() {
            Some(subject) if !decision.allows() && !settler.is_person() => {
                settler.denial(&subject.tool, &message)
            }
            Some(_) | None => message.clone(),
        };
        self.record(EventKind::RequestSettled {
            request,
            outcome: RequestOutcome::Decided { decision },
            by,
            message,
            grant: grant.map(Box::new),
            used_grant,
        });
        if RequestOrigin::parse(&native).is_agent() {
            self.tell(AgentInput::Decide { native, decision, message: told, updated_input, ask });
        }
        self.watch_requests();
        self.watch_tools();
    }

    /// Answers the questions of a request.
    pub(super) fn answer(
        &mut self,
        request: RequestId,
        answers: BTreeMap<String, String>,
        by: String,
    ) -> Result<(), Error> {
        let Some(pending) = self.waiting(request)? else { return Ok(()) };
        let RequestSubject::Question { questions, .. } = &pending.ask else {
            return Err(Error::invalid("request_id", format_args!("{request} is not a question")));
        };
        for key in answers.keys() {
            if !questions.iter().any(|question| question.id == *key || question.text == *key) {
                return Err(Error::invalid("answers", format_args!("the request has no question {key:?}")));
            }
        }
        let (is_budget, shared) =
            (pending.origin() == RequestOrigin::Budget, pending.origin().shared_scope());
        let raises = (is_budget || shared.is_some()) && Self::budget_answer(&answers)?;
        let answerer = by.clone();
        self.record(EventKind::RequestSettled {
            request,
            outcome: RequestOutcome::Answered { answers: answers.clone() },
            by,
            message: String::new(),
            grant: None,
            used_grant: String::new(),
        });
        if let Some(scope) = shared.filter(|_| raises) {
            self.raise_shared(scope, answerer);
        } else if raises {
            self.raise_budget(answerer);
        } else if pending.origin().is_agent() {
            self.tell(AgentInput::Answer { native: pending.native, answers, ask: pending.ask });
        }
        Ok(())
    }

    /// Returns the result of a client's tool.
    pub(super) fn return_tool(
        &mut self,
        request: RequestId,
        ok: bool,
        output: String,
        by: String,
    ) -> Result<(), Error> {
        let Some(pending) = self.waiting(request)? else { return Ok(()) };
        if !matches!(pending.ask, RequestSubject::ClientTool { .. }) {
            return Err(Error::invalid("request_id", format_args!("{request} is not a tool call")));
        }
        self.settle_tool(pending, ok, output, by);
        Ok(())
    }

    pub(super) fn withdrew(&mut self, native: &str) {
        let found = self.state().requests.values().find(|pending| pending.native == native);
        if let Some(request) = found.map(|pending| pending.id) {
            self.withdraw(request, "the agent no longer waits for it");
        }
    }

    /// Withdraws the requests that end with a turn.
    pub(super) fn withdraw_of_turn(&mut self, turn: TurnId, reason: &str) {
        let of_turn = self.state().requests.values().filter(|pending| pending.turn == Some(turn));
        for request in of_turn.map(|pending| pending.id).collect::<Vec<_>>() {
            self.withdraw(request, reason);
        }
    }

    pub(super) fn withdraw_all(&mut self, reason: &str) {
        let waiting: Vec<RequestId> = self.state().requests.keys().copied().collect();
        for request in waiting {
            self.withdraw(request, reason);
        }
    }

    fn withdraw(&mut self, request: RequestId, reason: &str) {
        self.record(EventKind::RequestSettled {
            request,
            outcome: RequestOutcome::Withdrawn { reason: reason.to_owned() },
            by: Settler::Agent.to_string(),
            message: String::new(),
            grant: None,
            used_grant: String::new(),
        });
        self.watch_requests();
        self.watch_tools();
    }
}

/// Whether an answer denies.
fn is_denial(answer: Option<&AutomaticAnswer>) -> bool {
    answer.is_some_and(|answer| !answer.decision.allows())
}

/// Told to agents whose call plan mode forbids.
pub(super) const PLAN_REFUSAL: &str = "plan mode: observation only";

/// An answer given without asking a person.
struct AutomaticAnswer {
    decision: Decision,
    by: String,
    message: String,
    /// The session's grant that gives it.
    used_grant: String,
}

impl AutomaticAnswer {
    fn allow(by: Settler<'_>) -> Self {
        let (by, message) = (by.to_string(), String::new());
        Self { decision: Decision::AllowOnce, by, message, used_grant: String::new() }
    }

    fn deny(by: Settler<'_>, message: String) -> Self {
        Self { decision: Decision::Deny, by: by.to_string(), message, used_grant: String::new() }
    }
}
