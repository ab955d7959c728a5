//! The rules of a fork: a copied history becomes the past of a new session whose agent has not started.

use super::Transition;
use crate::event::EventKind;
use crate::id::SessionId;
use crate::session::Status;
use crate::turn::EndReason;

/// Where a session's history was copied from.
#[derive(Clone, Debug, PartialEq)]
pub struct Fork {
    pub from: SessionId,
    /// The last event that was copied.
    pub seq: u64,
    /// The conversation in words, for an agent that cannot resume it by its own means; empty: it can.
    pub history: String,
    pub name: String,
    pub by: String,
}

impl Transition<'_> {
    /// Ends what was open at that point of the history, and makes the session one that starts with its next prompt.
    pub(super) fn forked(&mut self, fork: Fork) {
        let Fork { from, seq, history, name, by } = fork;
        self.close_turn(EndReason::Interrupted, "the session was forked here");
        self.change_status(Status::Stopped, "forked; the next prompt starts its agent");
        self.record(EventKind::SessionForked { from, seq, history, by });
        self.record(EventKind::Renamed { name });
    }

    /// Returns a prompt preceded by the history that the agent of a fork does not know yet.
    pub(super) fn with_fork_history(&self, prompt: String) -> String {
        match self.state().fork.as_ref().map(|fork| fork.history.as_str()) {
            None | Some("") => prompt,
            Some(history) => format!(
                "This conversation continues an earlier one. What was said and done in it so far:\n\n\
                 <history>\n{history}\n</history>\n\n{prompt}"
            ),
        }
    }
}
