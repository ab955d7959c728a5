//! What others say of a session: programs and clients outside about its activity, the agent about its model.

use super::State;
use crate::any_event;
use crate::event::{EventKind, METADATA_ACTIVITY};
use crate::time::Timestamp;
use crate::usage::Usage;

impl State {
    /// Applies a report of activity.
    pub(super) fn evolve_activity(&mut self, at: Timestamp, kind: &EventKind) {
        let EventKind::ActivityReported { activity, tokens_input, tokens_output, extra, .. } = kind else {
            return;
        };
        if activity == METADATA_ACTIVITY {
            self.metadata.extend(extra.clone());
        }
        let reported =
            Usage { input_tokens: *tokens_input, output_tokens: *tokens_output, ..Usage::default() };
        self.usage.add(&reported);
        self.last_activity_at = Some(at);
    }

    /// Applies what the agent says about its model.
    pub(super) fn evolve_model(&mut self, kind: &EventKind) {
        match kind {
            EventKind::ModelChanged { model } => {
                self.model.clone_from(model);
                self.resolved_model.clear();
            }
            EventKind::AgentReady { model, resolved_model, .. } => {
                if !model.is_empty() {
                    self.model.clone_from(model);
                }
                if !resolved_model.is_empty() {
                    self.resolved_model.clone_from(resolved_model);
                }
            }
            any_event!(
                SessionCreated StatusChanged AgentStarted AgentExited AgentLogged Restarted turn output
                request Renamed TodosChanged ModeChanged PlanModeChanged CommandsChanged ServersChanged
                ToolsRegistered InputHolderChanged plan usage worker report
            ) => {}
        }
    }
}
