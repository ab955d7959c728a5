//! What the agent does, in this protocol's words, derived from the state that every surface shows.

use domain::overview::{self, Evidence, SessionFacts, SessionState, StateCause};
use domain::request::RequestSubject;
use domain::{Event, EventKind, SessionSpec, State, Timestamp};
use runtime::Snapshot;

/// What the agent does, as a client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AgentActivity {
    Idle,
    Thinking,
    CallingTool,
    WaitingApproval,
}

impl AgentActivity {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Thinking => "thinking",
            Self::CallingTool => "calling_tool",
            Self::WaitingApproval => "waiting_approval",
        }
    }
}

/// A session that is followed event by event.
#[derive(Debug)]
pub(super) struct FollowedSession {
    spec: SessionSpec,
    state: State,
    last_seq: u64,
}

impl FollowedSession {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        Self { spec: snapshot.spec.clone(), state: snapshot.state.clone(), last_seq: snapshot.last_seq }
    }

    /// Applies an event, unless it is part of what the session was known with.
    pub(super) fn follow(&mut self, event: &Event) {
        let is_output = matches!(
            event.kind,
            EventKind::TextDelta { .. }
                | EventKind::ThinkingDelta { .. }
                | EventKind::ToolProgress { .. }
                | EventKind::AgentLogged { .. }
        );
        if event.seq > self.last_seq && !is_output {
            self.state.evolve(event.at, &event.kind);
        }
    }

    /// Returns the activity and its detail.
    pub(super) fn activity(&self, at: Timestamp) -> (AgentActivity, String) {
        let facts = SessionFacts::of(&self.spec, &self.state);
        let evidence = Evidence { last_event_at: Some(at), ..Evidence::default() };
        let assessed = overview::assess(&facts, &evidence, Some(at), at);
        let tool = facts.turn.as_ref().and_then(|turn| turn.tools.first());
        match (assessed.state, assessed.cause) {
            (SessionState::NeedsYou, StateCause::Permission) => {
                (AgentActivity::WaitingApproval, self.asked_call())
            }
            (SessionState::NeedsYou | SessionState::Working | SessionState::Quiet, _) => match tool {
                Some(tool) => (AgentActivity::CallingTool, tool.clone()),
                None => (AgentActivity::Thinking, String::new()),
            },
            _ => (AgentActivity::Idle, String::new()),
        }
    }

    /// Returns the call of the permission that waits longest, by which a client decides it.
    fn asked_call(&self) -> String {
        let permissions = self.state.requests.values().filter_map(|pending| match &pending.ask {
            RequestSubject::Permission(ask) => Some((pending, ask)),
            RequestSubject::Question { .. } | RequestSubject::ClientTool { .. } => None,
        });
        let oldest = permissions.min_by_key(|(pending, _)| (pending.asked_at, pending.id));
        oldest.map_or_else(String::new, |(pending, ask)| {
            ask.call.as_ref().map_or_else(|| pending.id.to_string(), ToString::to_string)
        })
    }
}
