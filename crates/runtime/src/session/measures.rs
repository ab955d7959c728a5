//! What a session adds to the daemon's metrics: how long its turns, first outputs and requests take. Kept in memory
//! only; what began under an earlier daemon is not measured. Decides nothing.

use std::collections::HashMap;
use std::sync::Arc;

use domain::request::RequestOutcome;
use domain::turn::EndReason;
use domain::{Event, EventKind, RequestId, SessionSpec, Timestamp, any_event};
use host::metric;

use crate::trace::TurnTrace;

/// What is being measured of one session. Bounded by what the rules allow to be open at once.
#[derive(Default)]
pub(super) struct SessionMeasures {
    /// The spans of the open turn, for a receiver of traces.
    pub(super) trace: TurnTrace,
    turn_began: Option<Timestamp>,
    /// The open turn has shown nothing yet.
    is_silent: bool,
    /// When requests that wait for a person were made.
    asked: HashMap<RequestId, Timestamp>,
}

impl SessionMeasures {
    /// Measures events that were committed, `scrubbed` of them without their secrets.
    pub(super) fn note(&mut self, spec: &SessionSpec, events: &[Arc<Event>], scrubbed: usize) {
        if scrubbed > 0 {
            metric::scrubbed(scrubbed as u64);
        }
        for event in events {
            self.note_one(spec, event);
        }
    }

    fn note_one(&mut self, spec: &SessionSpec, event: &Event) {
        match &event.kind {
            EventKind::TextDelta { .. } | EventKind::ThinkingDelta { .. } | EventKind::ToolStarted { .. }
                if self.is_silent =>
            {
                self.is_silent = false;
                self.trace.output_began();
                if let Some(began) = self.turn_began {
                    metric::first_output_took(event.at.since(began));
                }
            }
            EventKind::TurnStarted { turn, .. } => {
                metric::turns_started(1);
                self.trace.turn_started(spec, *turn);
                (self.turn_began, self.is_silent) = (Some(event.at), true);
            }
            EventKind::TurnEnded { reason, .. } => {
                if let Some(began) = self.turn_began.take() {
                    metric::turn_took(event.at.since(began));
                }
                self.is_silent = false;
                self.trace.turn_ended(*reason);
                if *reason == EndReason::BudgetExceeded {
                    metric::budgets_exceeded(1);
                }
            }
            EventKind::RequestOpened { request, automatic: false, .. } => {
                self.asked.insert(*request, event.at);
            }
            EventKind::RequestSettled { request, outcome, .. } => {
                metric::permission_settled(word(outcome));
                if let Some(asked) = self.asked.remove(request) {
                    metric::permission_wait_took(event.at.since(asked));
                }
            }
            any_event!(
                life InterruptRequested MessageAdded TextDelta ThinkingDelta ToolStarted ToolProgress
                ToolFinished RequestOpened GrantsChanged settings plan usage worker report
            ) => {}
        }
    }
}

fn word(outcome: &RequestOutcome) -> &'static str {
    match outcome {
        RequestOutcome::Decided { decision } if decision.allows() => "allowed",
        RequestOutcome::Decided { .. } => "denied",
        RequestOutcome::Answered { .. } => "answered",
        RequestOutcome::ToolReturned { .. } => "tool_returned",
        RequestOutcome::Withdrawn { .. } => "withdrawn",
    }
}
