//! Sessions whose agent runs outside the daemon: what is reported of it becomes turns and calls like those of any agent.
//! Nothing can be sent to such an agent.

use super::{Transition, fit};
use crate::agent::AgentEvent;
use crate::error::{Error, ErrorCode};
use crate::redact::redact_text;
use crate::session::ProviderKind;

impl Transition<'_> {
    /// Records what an agent outside the daemon did. What belongs to a turn begins one if none is open.
    pub(super) fn observe(&mut self, events: Vec<AgentEvent>) -> Result<(), Error> {
        if !self.is_external() {
            return Err(Error::invalid(
                "session_id",
                "names a session whose agent the daemon runs; only an external session is reported on",
            ));
        }
        if !self.has_live_agent() {
            return Err(self.wrong_state("activity is taken while it is RUNNING or WORKING; restart it"));
        }
        self.check_budget_left()?;
        for mut event in events {
            // Each report is a whole text, so nothing of a secret waits in the next one.
            if let AgentEvent::Text { text, .. } | AgentEvent::Thinking { text, .. } = &mut event {
                redact_text(text, self.redact);
            }
            if belongs_to_turn(&event) {
                self.agent(AgentEvent::TurnStarted);
            }
            for event in fit::fit(event) {
                self.agent(event);
            }
        }
        Ok(())
    }

    /// Refuses to end a turn that goes on outside the daemon.
    pub(super) fn check_turn_is_ours(&self) -> Result<(), Error> {
        if self.is_external() && self.state().turn.is_some() {
            return Err(Error::new(
                ErrorCode::WrongState,
                format!(
                    "session {} is external: its agent runs outside the daemon; end its work there, or stop the session",
                    self.machine.spec.id
                ),
            ));
        }
        Ok(())
    }

    /// Returns whether the session's agent runs outside the daemon.
    pub(super) fn is_external(&self) -> bool {
        self.machine.spec.provider == ProviderKind::External
    }
}

fn belongs_to_turn(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::Text { .. } | AgentEvent::Thinking { .. } | AgentEvent::ToolStarted { .. })
}
