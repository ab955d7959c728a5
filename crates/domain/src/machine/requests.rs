//! Requests of an agent: opened, answered once, or withdrawn.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Step, Timer};
use crate::agent::AgentInput;
use crate::error::{Error, ErrorCode};
use crate::event::EventKind;
use crate::id::RequestId;
use crate::limits;
use crate::permission::pattern::Call;
use crate::permission::{Decision, Findings, Grant, Mode, Verdict};
use crate::redact;
use crate::request::{Ask, Outcome, Pending, PermissionAsk, is_bridged};
use crate::time::Timestamp;
use crate::tools;

impl Step<'_> {
    pub(super) fn asked(&mut self, native: String, ask: Ask) {
        match &ask {
            // Taken away while the agent called it: nobody would ever return it.
            Ask::ClientTool { tool, .. } if tools::find(&self.state().tools, tool).is_none() => {
                let output = format!("no client offers {tool:?} any more");
                self.fail_unoffered(native, ask, output);
            }
            _ => self.open_request(native, ask, None),
        }
    }

    pub(super) fn asked_and_judged(&mut self, native: String, ask: PermissionAsk, findings: &Findings) {
        if self.state().status.has_agent() {
            self.open_request(native, Ask::Permission(ask), Some(findings));
        }
    }

    /// Lets the agent go on with something harmless unless a grant or a rule is against it.
    pub(super) fn checked(&mut self, native: String, ask: PermissionAsk, findings: &Findings) {
        if !self.state().status.has_agent() {
            return;
        }
        let objects = match self.settled_beforehand(&ask, Some(findings)) {
            Some(settled) => !settled.decision.allows(),
            None => findings.verdict != Verdict::Unsaid,
        };
        let ask = Ask::Permission(ask);
        if objects {
            return self.open_request(native, ask, Some(findings));
        }
        let (decision, message) = (Decision::AllowOnce, String::new());
        self.tell(AgentInput::Decide { native, decision, message, updated_input: None, ask });
    }

    pub(super) fn open_request(&mut self, native: String, ask: Ask, findings: Option<&Findings>) {
        let request = RequestId(self.state().requests_opened + 1);
        let too_many = self.state().requests.len() >= limits::REQUESTS_PENDING_MAX;
        let settled = match &ask {
            _ if too_many => {
                Some(Beforehand::deny("limit", "too many requests are waiting already".to_owned()))
            }
            Ask::Permission(permission) => self.settled_beforehand(permission, findings),
            Ask::Question { .. } | Ask::ClientTool { .. } => None,
        };
        self.record(EventKind::RequestOpened {
            request,
            native: native.clone(),
            automatic: settled.is_some(),
            ask: ask.clone(),
        });
        match settled {
            Some(Beforehand { decision, by, message }) => {
                self.settle_permission(request, native, ask, decision, message, None, by);
            }
            None => {
                self.watch_requests();
                self.watch_tools();
            }
        }
    }

    /// Returns the answer that grants, rules and mode give without asking anybody, in this order. A rule that denies
    /// binds an autonomous session too; one that wants to ask does not.
    fn settled_beforehand(&self, ask: &PermissionAsk, findings: Option<&Findings>) -> Option<Beforehand> {
        let call = Call {
            tool: &ask.tool,
            input: &ask.input,
            working_dir: &self.machine.spec.working_dir,
            real_paths: findings.map(|findings| findings.real_paths.as_slice()),
        };
        // The newest that covers the call: whoever spoke last meant it.
        if let Some(grant) = self.state().grants.iter().rev().find(|grant| grant.covers(&call)) {
            return Some(if grant.denied {
                Beforehand::deny("grant", format!("{} is denied in this session", grant.label()))
            } else {
                Beforehand::allow("grant")
            });
        }
        let mode = self.state().mode;
        if mode == Mode::Plan && tools::find(&self.state().tools, &ask.tool).is_some_and(|tool| tool.asks) {
            return Some(Beforehand::deny("mode plan", "plan mode: observation only".to_owned()));
        }
        let autonomous = mode == Mode::Autonomous;
        match findings.map(|findings| &findings.verdict) {
            Some(Verdict::Deny { by, message }) => Some(Beforehand::deny(by, message.clone())),
            _ if autonomous => Some(Beforehand::allow("mode autonomous")),
            Some(Verdict::Allow { by }) => Some(Beforehand::allow(by)),
            Some(Verdict::Ask | Verdict::Unsaid) | None => None,
        }
    }

    pub(super) fn set_grant(&mut self, grant: Grant, by: String) -> Result<(), Error> {
        let mut grants = self.state().grants.clone();
        grants.retain(|other| other.label() != grant.label());
        if grants.len() >= limits::GRANTS_MAX {
            return Err(Error::new(
                ErrorCode::LimitReached,
                format!("the session has {} grants, which is the limit; clear some", limits::GRANTS_MAX),
            ));
        }
        grants.push(grant);
        self.change_grants(grants, by);
        Ok(())
    }

    pub(super) fn clear_grants(&mut self, tool: &str, by: String) {
        let mut grants = self.state().grants.clone();
        grants.retain(|grant| !tool.is_empty() && grant.label() != tool && grant.tool != tool);
        self.change_grants(grants, by);
    }

    fn change_grants(&mut self, grants: Vec<Grant>, by: String) {
        if grants != self.state().grants {
            self.record(EventKind::GrantsChanged { grants, by });
        }
    }

    pub(super) fn hold_input(&mut self, holder: Option<String>) {
        if self.state().input_holder != holder {
            self.record(EventKind::InputHolderChanged { holder });
            self.watch_requests();
        }
    }

    /// Sets the clock for the permission that must be answered soonest.
    pub(super) fn watch_requests(&mut self) {
        let upkeep = self.machine.spec.upkeep;
        if upkeep.attended_wait.is_none() && upkeep.unattended_wait.is_none() {
            return;
        }
        match self.state().requests.values().filter_map(|pending| self.answer_by(pending)).min() {
            Some(at) => self.arm(Timer::Answer, at.since(self.now)),
            None => self.disarm(Timer::Answer),
        }
    }

    /// Returns when a permission is denied unless somebody answers it. Whoever comes back gets the whole wait anew.
    fn answer_by(&self, pending: &Pending) -> Option<Timestamp> {
        if !matches!(pending.ask, Ask::Permission(_)) {
            return None;
        }
        let (upkeep, state) = (&self.machine.spec.upkeep, self.state());
        match state.attended_since {
            Some(since) => Some(since.max(pending.asked_at).after(upkeep.attended_wait?)),
            None => {
                let active = state.last_activity_at.filter(|_| upkeep.activity_extends);
                let since = active.map_or(pending.asked_at, |active| active.max(pending.asked_at));
                Some(since.after(upkeep.unattended_wait?))
            }
        }
    }

    /// Denies the permissions nobody has answered in time.
    pub(super) fn answer_ran_out(&mut self) {
        let late: Vec<Pending> = self
            .state()
            .requests
            .values()
            .filter(|pending| self.answer_by(pending).is_some_and(|at| at <= self.now))
            .cloned()
            .collect();
        for pending in late {
            let Pending { id, native, ask, asked_at } = self.as_asked(pending);
            let seconds = self.now.since(asked_at).as_secs();
            let message = format!("nobody answered within {seconds} s");
            self.settle_permission(id, native, ask, Decision::Deny, message, None, "timeout".to_owned());
        }
        self.watch_requests();
    }

    /// Returns a request as the agent asked it: the state may have it without its secrets.
    fn as_asked(&self, mut pending: Pending) -> Pending {
        if let Some(ask) = self.machine.originals.asks.get(&pending.id) {
            pending.ask.clone_from(ask);
        }
        pending
    }

    /// Returns the waiting request, or nothing when it was settled before (the caller then asks who did).
    fn waiting(&self, request: RequestId) -> Result<Option<Pending>, Error> {
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

    pub(super) fn decide(
        &mut self,
        request: RequestId,
        decision: Decision,
        message: String,
        updated_input: Option<Value>,
        by: String,
    ) -> Result<(), Error> {
        let Some(pending) = self.waiting(request)? else { return Ok(()) };
        let updated_input = updated_input.map(|input| self.as_shown_to_agent(&pending, input)).transpose()?;
        let refusal = match &pending.ask {
            Ask::Question { .. } => Some("a question is answered, not allowed; deny it to skip it"),
            Ask::ClientTool { .. } => Some("a tool call is returned, not allowed; deny it to refuse it"),
            Ask::Permission(_) => None,
        };
        if let Some(refusal) = refusal.filter(|_| decision.allows()) {
            return Err(Error::invalid("decision", refusal));
        }
        self.settle_permission(request, pending.native, pending.ask, decision, message, updated_input, by);
        if decision == Decision::DenyAndStop {
            // Agents differ in what a denial does to their turn; an interrupt ends it in all of them.
            self.cancel_turn();
        }
        Ok(())
    }

    /// Returns an input that somebody changed, with the secrets in it that its writer was not shown.
    fn as_shown_to_agent(&self, asked: &Pending, mut updated: Value) -> Result<Value, Error> {
        let shown = self.state().requests.get(&asked.id).map(|pending| &pending.ask);
        if let (Ask::Permission(asked), Some(Ask::Permission(shown))) = (&asked.ask, shown) {
            redact::put_back(&mut updated, &shown.input, &asked.input)?;
        }
        Ok(updated)
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one answer; a struct would be built once")]
    fn settle_permission(
        &mut self,
        request: RequestId,
        native: String,
        ask: Ask,
        decision: Decision,
        message: String,
        updated_input: Option<Value>,
        by: String,
    ) {
        let grant = match &ask {
            Ask::Permission(permission)
                if decision == Decision::AllowSession && self.state().grants.len() < limits::GRANTS_MAX =>
            {
                // What was allowed is the call as it was changed, not as it was asked for.
                let input = updated_input.as_ref().unwrap_or(&permission.input);
                Some(Grant::of(&permission.tool, input))
            }
            _ => None,
        };
        self.record(EventKind::RequestSettled {
            request,
            outcome: Outcome::Decided { decision },
            by,
            message: message.clone(),
            grant,
        });
        if !is_bridged(&native) {
            self.tell(AgentInput::Decide { native, decision, message, updated_input, ask });
        }
        self.watch_requests();
        self.watch_tools();
    }

    pub(super) fn answer(
        &mut self,
        request: RequestId,
        answers: BTreeMap<String, String>,
        by: String,
    ) -> Result<(), Error> {
        let Some(pending) = self.waiting(request)? else { return Ok(()) };
        let Ask::Question { questions, .. } = &pending.ask else {
            return Err(Error::invalid("request_id", format_args!("{request} is not a question")));
        };
        for key in answers.keys() {
            if !questions.iter().any(|question| question.id == *key || question.text == *key) {
                return Err(Error::invalid("answers", format_args!("the request has no question {key:?}")));
            }
        }
        self.record(EventKind::RequestSettled {
            request,
            outcome: Outcome::Answered { answers: answers.clone() },
            by,
            message: String::new(),
            grant: None,
        });
        self.tell(AgentInput::Answer { native: pending.native, answers, ask: pending.ask });
        Ok(())
    }

    pub(super) fn return_tool(
        &mut self,
        request: RequestId,
        ok: bool,
        output: String,
        by: String,
    ) -> Result<(), Error> {
        let Some(pending) = self.waiting(request)? else { return Ok(()) };
        if !matches!(pending.ask, Ask::ClientTool { .. }) {
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

    pub(super) fn withdraw_all(&mut self, reason: &str) {
        let waiting: Vec<RequestId> = self.state().requests.keys().copied().collect();
        for request in waiting {
            self.withdraw(request, reason);
        }
    }

    fn withdraw(&mut self, request: RequestId, reason: &str) {
        self.record(EventKind::RequestSettled {
            request,
            outcome: Outcome::Withdrawn { reason: reason.to_owned() },
            by: "agent".to_owned(),
            message: String::new(),
            grant: None,
        });
        self.watch_requests();
        self.watch_tools();
    }
}

/// An answer nobody had to be asked for.
struct Beforehand {
    decision: Decision,
    by: String,
    message: String,
}

impl Beforehand {
    fn allow(by: &str) -> Self {
        Self { decision: Decision::AllowOnce, by: by.to_owned(), message: String::new() }
    }

    fn deny(by: &str, message: String) -> Self {
        Self { decision: Decision::Deny, by: by.to_owned(), message }
    }
}
