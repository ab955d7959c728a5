//! From what the rules decided to what must be written, and then done, in that order.

use std::sync::Arc;
use std::time::Duration;

use domain::{AgentInput, Event, EventKind, SessionId, StopStep, Timer, Timestamp};

use super::audited;
use storage::SessionWrite;
use storage::sessions::{StoredEvent, json};

/// What is done once the write is committed.
pub(super) enum AfterCommit {
    /// Bytes for the agent's process; they are in the outbox.
    Send {
        write_id: u64,
        bytes: Vec<u8>,
    },
    /// For an agent inside the daemon.
    Tell(Box<AgentInput>),
    Launch {
        resume: bool,
    },
    Terminate(StopStep),
    Arm(Timer, Duration),
    Disarm(Timer),
}

/// One step of a session: a write and what follows it.
#[derive(Default)]
pub(super) struct StepPlan {
    pub(super) write: SessionWrite,
    pub(super) events: Vec<Arc<Event>>,
    pub(super) after: Vec<AfterCommit>,
    /// Something besides the stream of output changed, so the state must be stored and shown anew.
    pub(super) state_changed: bool,
    /// A turn ends with it, and with the turn what had to be kept of its secrets.
    pub(super) ends_turn: bool,
    /// What it stores is sealed with a new key already.
    pub(super) is_key_replaced: bool,
    /// Events as they were before something was taken out of them.
    pub(super) originals: Vec<(u64, EventKind)>,
}

impl StepPlan {
    /// Adds an event under the next number.
    pub(super) fn record(&mut self, session: &SessionId, seq: u64, at: Timestamp, kind: EventKind) {
        self.state_changed |= !is_stream(&kind);
        self.ends_turn |= matches!(kind, EventKind::TurnEnded { .. });
        self.write.audit.extend(audited::entry(session, at, &kind));
        self.write.events.push(StoredEvent { seq, at, body: json(&kind) });
        self.write.last_seq = seq;
        self.events.push(Arc::new(Event { session: session.clone(), seq, at, kind }));
    }
}

/// Returns whether an event only adds to the output: it moves the time of the last activity and nothing else.
fn is_stream(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::TextDelta { .. }
            | EventKind::ThinkingDelta { .. }
            | EventKind::ToolProgress { .. }
            | EventKind::Unparsed { .. }
    )
}
