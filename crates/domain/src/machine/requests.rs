//! Requests of an agent: opened, answered once, or withdrawn.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Step;
use crate::agent::AgentInput;
use crate::error::{Error, ErrorCode};
use crate::event::EventKind;
use crate::id::RequestId;
use crate::limits;
use crate::permission::{Decision, Grant, Mode};
use crate::request::{Ask, Outcome, Pending, PermissionAsk};

impl Step<'_> {
    pub(super) fn asked(&mut self, native: String, ask: Ask) {
        let request = RequestId(self.state().requests_opened + 1);
        let too_many = self.state().requests.len() >= limits::REQUESTS_PENDING_MAX;
        self.record(EventKind::RequestOpened { request, native: native.clone(), ask: ask.clone() });
        let settled = match &ask {
            _ if too_many => Some((Decision::Deny, "limit", "too many requests are waiting already")),
            Ask::Permission(permission) => self.settled_beforehand(permission),
            Ask::Question { .. } | Ask::ClientTool { .. } => None,
        };
        if let Some((decision, by, message)) = settled {
            self.settle_permission(request, native, ask, decision, message.to_owned(), None, by.to_owned());
        }
    }

    /// Returns the decision that mode and grants give without asking anybody.
    fn settled_beforehand(&self, ask: &PermissionAsk) -> Option<(Decision, &'static str, &'static str)> {
        if self.state().grants.iter().any(|grant| grant.covers(&ask.tool, &ask.input)) {
            return Some((Decision::AllowOnce, "grant", ""));
        }
        (self.state().mode == Mode::Autonomous).then_some((Decision::AllowOnce, "mode autonomous", ""))
    }

    /// Returns the waiting request, or nothing when it was settled before (the caller then asks who did).
    fn waiting(&self, request: RequestId) -> Result<Option<Pending>, Error> {
        if let Some(pending) = self.state().requests.get(&request) {
            return Ok(Some(pending.clone()));
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
        self.tell(AgentInput::Decide { native, decision, message, updated_input, ask });
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
        self.record(EventKind::RequestSettled {
            request,
            outcome: Outcome::ToolReturned { ok },
            by,
            message: String::new(),
            grant: None,
        });
        self.tell(AgentInput::ToolResult { native: pending.native, ok, output });
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
    }
}
