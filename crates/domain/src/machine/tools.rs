//! Tools that clients run for the agent: offered, called through the daemon, returned, or timed out.

use serde_json::Value;

use super::requests::PLAN_REFUSAL;
use super::{Timer, Transition};
use crate::agent::AgentInput;
use crate::error::{Error, ErrorCode};
use crate::event::{ClientTool, EventKind};
use crate::id::{CallId, RequestId};
use crate::limits;
use crate::permission::{CallEvaluation, PermissionAdvice};
use crate::request::{PendingRequest, PermissionSubject, RequestOutcome, RequestSubject, Settler};
use crate::session::Status;
use crate::tools::{self, TURN_SOURCE};

impl Transition<'_> {
    /// Replaces the tools of one source, within the limit for all sources.
    pub(super) fn register_tools(&mut self, source: String, tools: Vec<ClientTool>) -> Result<(), Error> {
        let others = self.state().tools.iter().filter(|(name, _)| **name != source);
        let count = others.map(|(_, tools)| tools.len()).sum::<usize>() + tools.len();
        if count > limits::TOOLS_MAX {
            let most = limits::TOOLS_MAX;
            return Err(Error::new(ErrorCode::LimitReached, format!("tools: {count}; the limit is {most}")));
        }
        self.record(EventKind::ToolsRegistered { source, tools });
        if self.has_live_agent() {
            self.tell_tools();
        }
        Ok(())
    }

    /// Sends the agent the tools it may call now.
    pub(super) fn tell_tools(&mut self) {
        let all = tools::offered(&self.state().tools).into_iter().cloned().collect();
        self.tell(AgentInput::Tools(all));
    }

    /// Removes the tools that were offered for one turn only.
    pub(super) fn forget_turn_tools(&mut self) {
        if self.state().tools.contains_key(TURN_SOURCE) {
            self.record(EventKind::ToolsRegistered { source: TURN_SOURCE.to_owned(), tools: Vec::new() });
            if self.has_live_agent() {
                self.tell_tools();
            }
        }
    }

    /// Opens a permission for a call that came through the bridge.
    pub(super) fn ask_bridged(
        &mut self,
        native: String,
        ask: PermissionSubject,
        findings: Option<&CallEvaluation>,
    ) -> Result<(), Error> {
        self.check_bridge()?;
        if !self.knows(&native) {
            self.open_request(native, RequestSubject::Permission(ask), findings);
        }
        Ok(())
    }

    /// Opens a request for a client's tool that was called through the bridge. Idempotent by `native`.
    pub(super) fn call_tool(
        &mut self,
        native: String,
        call: CallId,
        tool: String,
        input: Value,
    ) -> Result<(), Error> {
        self.check_bridge()?;
        if self.knows(&native) {
            return Ok(());
        }
        if tools::find(&self.state().tools, &tool).is_none() {
            return Err(Error::invalid("tool", format_args!("no client offers {tool:?}")));
        }
        if self.plan_forbids(&tool) {
            let ask = RequestSubject::ClientTool { call, tool, input };
            self.fail_unoffered(native, ask, PLAN_REFUSAL.to_owned(), Settler::PLAN_MODE);
            return Ok(());
        }
        self.open_request(native, RequestSubject::ClientTool { call, tool, input }, None);
        Ok(())
    }

    /// Refuses calls through the bridge unless the agent is starting or running; an agent that is being ended
    /// is not served.
    fn check_bridge(&self) -> Result<(), Error> {
        match self.state().status {
            Status::Starting | Status::Running | Status::Working => Ok(()),
            Status::Created | Status::Stopping | Status::Stopped | Status::Failed => {
                Err(self.wrong_state("so that its agent calls nothing"))
            }
        }
    }

    fn knows(&self, native: &str) -> bool {
        let state = self.state();
        state.requests.values().any(|pending| pending.native == native)
            || state.settled.iter().any(|settled| settled.request.native == native)
    }

    /// Fails a call that no client can or may be asked to run.
    pub(super) fn fail_unoffered(
        &mut self,
        native: String,
        ask: RequestSubject,
        output: String,
        by: Settler<'_>,
    ) {
        let id = RequestId(self.state().requests_opened + 1);
        let (opened, asked_at) = (native.clone(), self.now);
        self.record(EventKind::RequestOpened {
            request: id,
            native: opened,
            automatic: true,
            ask: ask.clone(),
            proposals: Vec::new(),
            advice: PermissionAdvice::default(),
        });
        let (proposals, advice) = (Vec::new(), PermissionAdvice::default());
        let pending = PendingRequest { id, native, asked_at, ask, proposals, advice, turn: None };
        self.settle_tool(pending, false, output, by.to_string());
    }

    /// Records the result of a client's tool and sends it to the agent, unless the call came through the
    /// bridge.
    pub(super) fn settle_tool(&mut self, pending: PendingRequest, ok: bool, output: String, by: String) {
        let told = output.clone();
        self.record(EventKind::RequestSettled {
            request: pending.id,
            outcome: RequestOutcome::ToolReturned { ok, output },
            by,
            message: String::new(),
            grant: None,
            used_grant: String::new(),
        });
        if pending.origin().is_agent() {
            self.tell(AgentInput::ToolResult { native: pending.native, ok, output: told });
        }
        self.watch_tools();
    }

    /// Sets the timer for the call with the earliest deadline.
    pub(super) fn watch_tools(&mut self) {
        let armed = self.machine.tool_deadline;
        let deadline = self.state().tool_calls.deadline();
        if armed == deadline {
            return;
        }
        self.machine.tool_deadline = deadline;
        match deadline {
            Some(at) => self.arm(Timer::Tool, at.since(self.now)),
            None => self.disarm(Timer::Tool),
        }
    }

    /// Fails the calls that have not returned in time; later results are ignored.
    pub(super) fn tools_ran_out(&mut self) {
        self.machine.tool_deadline = None;
        for (request, timeout_ms) in self.state().tool_calls.late(self.now) {
            let Some(pending) = self.state().requests.get(&request).cloned() else { continue };
            let output = format!("tool timeout after {timeout_ms} ms");
            self.settle_tool(pending, false, output, Settler::Timeout.to_string());
        }
        self.watch_tools();
    }

    /// Fails every call that waits for a client, with one reason.
    pub(super) fn fail_tools(&mut self, reason: &str) {
        let waiting = self.state().requests.values();
        let calls: Vec<PendingRequest> = waiting
            .filter(|pending| matches!(pending.ask, RequestSubject::ClientTool { .. }))
            .cloned()
            .collect();
        for pending in calls {
            self.settle_tool(pending, false, reason.to_owned(), Settler::Obey.to_string());
        }
    }
}
