//! The status of an agent as this protocol has it, derived from the state that every surface shows, and the marks of requests
//! that are past.

use std::collections::{BTreeSet, HashMap};

use domain::overview::{self, Evidence, SessionFacts, SessionState, StateCause};
use domain::{Event, EventKind, RequestId, Timestamp};
use runtime::Snapshot;
use wire::betcode::v1 as pb;
use wire::betcode::v1::agent_event::Event as Body;

use super::BetcodeProjector;

impl BetcodeProjector {
    /// Applies an event to the session; returns the reason of the status it has then, in words.
    pub(super) fn follow(&mut self, event: &Event) -> String {
        if !is_streamed(&event.kind) {
            self.state.evolve(event.at, &event.kind);
        }
        if !changes_status(&event.kind) {
            return String::new();
        }
        let (status, reason) = status(&SessionFacts::of(&self.spec, &self.state), event.at);
        self.status = status;
        reason
    }
}

/// Pieces of output, which change no status and come in large numbers.
fn is_streamed(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::TextDelta { .. }
            | EventKind::ThinkingDelta { .. }
            | EventKind::ToolProgress { .. }
            | EventKind::AgentLogged { .. }
            | EventKind::Unparsed { .. }
    )
}

/// Events that change the status. The end of a turn is followed by a change of the session's own status.
fn changes_status(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::StatusChanged { .. }
            | EventKind::TurnStarted { .. }
            | EventKind::ToolStarted { .. }
            | EventKind::ToolFinished { .. }
            | EventKind::RequestOpened { automatic: false, .. }
            | EventKind::RequestSettled { .. }
            | EventKind::WorkerStarted { .. }
            | EventKind::WorkerFinished { .. }
    )
}

/// Returns the status of a session, and the reason in words.
fn status(facts: &SessionFacts, at: Timestamp) -> (pb::AgentStatus, String) {
    let evidence = Evidence { last_event_at: Some(at), ..Evidence::default() };
    // The client sees every event: nothing is unseen.
    let assessed = overview::assess(facts, &evidence, Some(at), at);
    let is_compacting = facts.turn.as_ref().is_some_and(|turn| turn.is_compacting);
    let has_calls = facts.turn.as_ref().is_some_and(|turn| !turn.tools.is_empty());
    let status = match assessed.state {
        SessionState::NeedsYou => pb::AgentStatus::WaitingForUser,
        SessionState::Failed => pb::AgentStatus::Error,
        SessionState::Working | SessionState::Quiet => match assessed.cause {
            StateCause::Stopping => pb::AgentStatus::Idle,
            _ if is_compacting => pb::AgentStatus::Compacting,
            _ if has_calls => pb::AgentStatus::ExecutingTool,
            _ => pb::AgentStatus::Thinking,
        },
        SessionState::Done | SessionState::Idle | SessionState::Ended => pb::AgentStatus::Idle,
    };
    (status, assessed.reason)
}

/// The requests of a session that were settled when its replay began.
#[derive(Debug)]
pub(super) struct SettledRequests {
    /// Events after this one are live.
    last_seq: u64,
    pending: BTreeSet<RequestId>,
    /// How those that are still known were settled.
    how: HashMap<RequestId, String>,
}

impl SettledRequests {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let state = &snapshot.state;
        let how = |settled: &domain::request::SettledRequest| {
            (settled.request.id, format!("{} by {}", settled.outcome.word(), settled.by))
        };
        Self {
            last_seq: snapshot.last_seq,
            pending: state.requests.keys().copied().collect(),
            how: state.settled.iter().map(how).collect(),
        }
    }

    /// Marks a request that is past, so that nobody is asked again.
    pub(super) fn mark(&self, seq: u64, body: &mut Body) {
        let (id, text, settled) = match body {
            Body::PermissionRequest(request) => {
                (&request.request_id, &mut request.description, &mut request.settled)
            }
            Body::UserQuestion(question) => {
                (&question.question_id, &mut question.question, &mut question.settled)
            }
            _ => return,
        };
        let Some(id) = RequestId::parse(id) else { return };
        if seq > self.last_seq || self.pending.contains(&id) {
            return;
        }
        *settled = self.how.get(&id).cloned().unwrap_or_else(|| "settled".to_owned());
        // Clients of the publication alone read the text.
        *text = format!("{text} [settled: {settled}]").trim_start().to_owned();
    }
}
