//! The plan of one step: what the rules decided, as a write and the actions that follow its commit, in that
//! order.

use std::sync::Arc;
use std::time::Duration;

use domain::shared_budget::{SharedScope, SpendingChange};
use domain::{AgentInput, Event, EventKind, SessionId, StopStep, Timer, Timestamp};

use super::audited;
use storage::SessionWrite;
use storage::sessions::{StoredEvent, json};

/// An action that follows the commit.
pub(super) enum AfterCommit {
    /// Bytes for the agent's process; they are in the outbox.
    Send {
        write_id: u64,
        bytes: Arc<[u8]>,
    },
    /// Input for an agent inside the daemon.
    Tell(Box<AgentInput>),
    Launch {
        resume: bool,
    },
    Terminate(StopStep),
    Arm(Timer, Duration),
    Disarm(Timer),
    RaiseSharedBudget {
        scope: SharedScope,
        by: String,
    },
}

/// One step of a session: a write and what follows it.
#[derive(Default)]
pub(super) struct StepPlan {
    pub(super) write: SessionWrite,
    pub(super) events: Vec<Arc<Event>>,
    pub(super) after: Vec<AfterCommit>,
    /// Something besides streamed output changed, so the state must be stored and published again.
    pub(super) state_changed: bool,
    /// What the session spent, for the budgets it shares.
    pub(super) spending: Vec<SpendingChange>,
    /// The step ends a turn, and with it the secrets kept for that turn.
    pub(super) ends_turn: bool,
    /// The write is already sealed with a new key.
    pub(super) is_key_replaced: bool,
    /// Events as they were before redaction, by sequence number.
    pub(super) originals: Vec<(u64, EventKind)>,
}

impl StepPlan {
    /// Adds an event with the next sequence number.
    pub(super) fn record(&mut self, session: &SessionId, seq: u64, at: Timestamp, kind: EventKind) {
        self.state_changed |= !is_stream(&kind);
        self.ends_turn |= matches!(kind, EventKind::TurnEnded { .. });
        self.write.audit.extend(audited::entry(session, at, &kind));
        self.write.events.push(StoredEvent { seq, at, body: json(&kind) });
        self.write.last_seq = seq;
        self.events.push(Arc::new(Event { session: session.clone(), seq, at, kind }));
    }
}

/// Returns whether an event is streamed output, which changes only the time of the last activity.
fn is_stream(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::TextDelta { .. }
            | EventKind::ThinkingDelta { .. }
            | EventKind::ToolProgress { .. }
            | EventKind::Unparsed { .. }
    )
}
