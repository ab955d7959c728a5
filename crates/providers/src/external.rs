//! Agents that run outside the daemon: a program of the user's reports what its agent does (`StreamAgentActivity`), and the
//! daemon keeps the record. Nothing is started, and nothing can be sent to the agent.

use std::ffi::OsStr;

use agent_port::{Availability, Capabilities, Codec, InProcessAgent, LaunchPlan, LaunchRequest, Provider};
use domain::{AgentEvent, AgentInput, Error, ErrorCode, ProviderKind, SessionSpec, turn::EndReason};
use tokio::sync::mpsc;

use provider_common::config::{check_keys, check_permission_mode};

/// The provider `external`.
pub(crate) struct External;

/// What `provider_config` may contain.
const KEYS: [&str; 1] = ["permission_mode"];

impl Provider for External {
    fn kind(&self) -> ProviderKind {
        ProviderKind::External
    }

    fn capabilities(&self) -> Capabilities {
        // A daemon that comes back goes on with the record.
        Capabilities { resume: true, ..Capabilities::default() }
    }

    fn check(&self, spec: &SessionSpec) -> Result<(), Error> {
        check_keys(&spec.provider_config, &KEYS)?;
        check_permission_mode(&spec.provider_config)
    }

    fn launch(&self, request: &LaunchRequest<'_>) -> Result<LaunchPlan, Error> {
        let model = request.state.model.clone();
        Ok(LaunchPlan::InProcess(Box::new(ExternalAgent { model, events: None })))
    }

    fn codec(&self, _spec: &SessionSpec, _saved: &str) -> Result<Box<dyn Codec>, Error> {
        Err(Error::new(ErrorCode::SessionError, "an agent outside the daemon has no lines to read"))
    }

    fn availability(&self, _path: Option<&OsStr>) -> Availability {
        Availability::BuiltIn
    }
}

/// Stands for the agent outside; ends with the session.
struct ExternalAgent {
    model: String,
    /// Open while the session takes reports.
    events: Option<mpsc::Sender<AgentEvent>>,
}

impl InProcessAgent for ExternalAgent {
    fn start(&mut self, events: mpsc::Sender<AgentEvent>) {
        let ready = AgentEvent::Ready {
            native_session: String::new(),
            model: self.model.clone(),
            version: String::new(),
            resolved_model: String::new(),
        };
        // The channel is new and has room.
        let _ = events.try_send(ready);
        self.events = Some(events);
    }

    fn check(&self, input: &AgentInput) -> Result<(), Error> {
        match input {
            AgentInput::Prompt { .. } | AgentInput::Steer { .. } | AgentInput::Compact => Err(Error::new(
                ErrorCode::WrongState,
                "the session is external: its agent runs outside the daemon and takes no prompts from it; \
                 prompt it there",
            )),
            AgentInput::Interrupt
            | AgentInput::Decide { .. }
            | AgentInput::Answer { .. }
            | AgentInput::ToolResult { .. }
            | AgentInput::Tools(_)
            | AgentInput::SetMode(_)
            | AgentInput::SetModel(_)
            | AgentInput::Leave => Ok(()),
        }
    }

    fn send(&mut self, input: AgentInput) -> Result<(), Error> {
        // A budget that is used up ends the record of the turn; the agent itself cannot be reached.
        if input == AgentInput::Interrupt
            && let Some(events) = &self.events
        {
            let ended = AgentEvent::TurnEnded {
                reason: EndReason::Cancelled,
                text: String::new(),
                error: "the agent runs outside the daemon and was not interrupted".to_owned(),
            };
            // A full channel means that the turn's end is on its way.
            let _ = events.try_send(ended);
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.events = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_ready_at_once_takes_no_prompt_and_ends_when_it_is_stopped() {
        let mut agent = ExternalAgent { model: "m".to_owned(), events: None };
        let (events, mut heard) = mpsc::channel(4);
        agent.start(events);
        assert!(matches!(heard.recv().await, Some(AgentEvent::Ready { .. })));
        let prompt = AgentInput::Prompt { text: "x".to_owned(), attachments: Vec::new() };
        let refused = agent.check(&prompt).unwrap_err();
        assert_eq!(refused.code, ErrorCode::WrongState);
        agent.send(AgentInput::Interrupt).unwrap();
        assert!(matches!(heard.recv().await, Some(AgentEvent::TurnEnded { .. })));
        agent.stop();
        assert_eq!(heard.recv().await, None);
    }
}
