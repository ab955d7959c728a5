//! Converts our types to this surface's messages. Pure. Handles every kind of event; an event becomes at most
//! one numbered message, so that a sequence number tells where a client stopped reading.

mod plans;
mod statuses;
mod summaries;

use std::collections::{HashMap, HashSet};

use domain::event::Level;
use domain::permission::Proposal;
use domain::request::{PendingRequest, RequestSubject};
use domain::turn::{COMPACT, EndReason, TurnOrigin};
use domain::{
    CallId, Error, Event, EventKind, Mode, RequestId, SessionSpec, State, Timestamp, Usage, any_event,
};
use runtime::Snapshot;
use wire::betcode::v1 as pb;
use wire::betcode::v1::agent_event::Event as Body;

use super::{questions, structs};
use summaries::{full_model, percent, plain_input};
pub(super) use summaries::{session_info, summary};
use surface::pump::{Flow, Projector};
use surface::shorten;

/// The tool by which an agent asks to leave plan mode; its input holds the plan.
const EXIT_PLAN: &str = "ExitPlanMode";

pub(super) fn timestamp(at: Timestamp) -> prost_types::Timestamp {
    let (seconds, nanos) = at.seconds_and_nanos();
    prost_types::Timestamp { seconds, nanos }
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn dollars(usage: &Usage) -> f64 {
    usage.cost_micro_usd as f64 / 1_000_000.0
}

/// Returns a message for one connection, without a sequence number.
pub(super) fn unnumbered(at: Timestamp, body: Body) -> pb::AgentEvent {
    numbered(0, at, None, body)
}

fn numbered(sequence: u64, at: Timestamp, parent: Option<&CallId>, body: Body) -> pb::AgentEvent {
    pb::AgentEvent {
        sequence,
        timestamp: Some(timestamp(at)),
        parent_tool_use_id: parent.map(ToString::to_string).unwrap_or_default(),
        event: Some(body),
    }
}

/// Whether the stream continues after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    Inline,
    Fatal,
}

/// Converts an error, with its title and whether a retry can help.
pub(super) fn error(error: &Error, severity: Severity) -> Body {
    let details = [
        ("title".to_owned(), error.code.title().to_owned()),
        ("retryable".to_owned(), error.code.retryable().to_string()),
    ];
    Body::Error(pb::ErrorEvent {
        code: error.code.to_string(),
        message: error.message.clone(),
        is_fatal: severity == Severity::Fatal,
        details: details.into(),
    })
}

/// Returns a pending request as a message; `None` for requests of another protocol.
pub(super) fn request(pending: &PendingRequest) -> Option<(Option<&CallId>, Body)> {
    let id = pending.id.to_string();
    match &pending.ask {
        RequestSubject::Permission(permission) => {
            let body = Body::PermissionRequest(pb::PermissionRequest {
                request_id: id,
                tool_name: permission.tool.clone(),
                description: described(&permission.title, &pending.proposals),
                input: Some(structs::from_json(&permission.input)),
                settled: String::new(),
            });
            Some((permission.parent.as_ref(), body))
        }
        RequestSubject::Question { questions, .. } => {
            Some((None, Body::UserQuestion(questions::user_question(id, questions))))
        }
        RequestSubject::ClientTool { .. } => None,
    }
}

/// Describes the request and what ALLOW_SESSION would remember: the message has no field for the latter.
fn described(title: &str, proposals: &[Proposal]) -> String {
    match proposals.first() {
        Some(proposal) => format!("{title}\nALLOW_SESSION allows: {}", proposal.text).trim_start().to_owned(),
        None => title.to_owned(),
    }
}

pub(super) fn stop_reason(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Completed => "end_turn",
        EndReason::Cancelled => "cancelled",
        EndReason::Failed => "error",
        EndReason::Refused => "refusal",
        EndReason::LimitReached => "max_tokens",
        EndReason::BudgetExceeded => "budget_exceeded",
        EndReason::Interrupted => "interrupted",
    }
}

/// Projects a session's journal to a conversation. Its state is the fold of the previous events, so a reader
/// that starts later must apply those first.
#[derive(Debug)]
pub(super) struct BetcodeProjector {
    spec: SessionSpec,
    /// The session as it was after the last event.
    state: State,
    worktree_id: String,
    messages: u64,
    compacted: bool,
    context: (Option<u64>, Option<u64>),
    turn_began: Option<Timestamp>,
    compacting: bool,
    calls: HashMap<CallId, (Timestamp, Option<CallId>)>,
    /// The calls that started the workers inside the agent.
    workers: HashMap<String, CallId>,
    status: pb::AgentStatus,
    /// The status the client was told last.
    told: pb::AgentStatus,
    /// Requests that were answered without a person, which clients do not see.
    automatic: HashSet<RequestId>,
    settled: statuses::SettledRequests,
    planning: bool,
    plan: String,
}

impl BetcodeProjector {
    pub(super) fn new(snapshot: &Snapshot, worktree_id: String) -> Self {
        Self {
            state: State::new(&snapshot.spec),
            spec: snapshot.spec.clone(),
            worktree_id,
            messages: 0,
            compacted: false,
            context: (None, None),
            turn_began: None,
            compacting: false,
            calls: HashMap::new(),
            workers: HashMap::new(),
            status: pb::AgentStatus::Idle,
            told: pb::AgentStatus::Idle,
            automatic: HashSet::new(),
            settled: statuses::SettledRequests::of(snapshot),
            planning: snapshot.spec.mode == Mode::Plan,
            plan: String::new(),
        }
    }

    /// Appends the messages of one event. Before the end of a failed turn it adds an unnumbered error,
    /// because the end itself has no field for it; after an event that changes the agent's status, an unnumbered status.
    pub(super) fn take(&mut self, event: &Event, out: &mut Vec<pb::AgentEvent>) {
        if let EventKind::TurnEnded { reason: EndReason::Failed, error: text, .. } = &event.kind
            && !text.is_empty()
        {
            let failure = Error::new(domain::ErrorCode::SessionError, text);
            out.push(unnumbered(event.at, error(&failure, Severity::Inline)));
        }
        let parent = self.parent(&event.kind);
        let reason = self.follow(event);
        if let Some(mut body) = self.body(event.at, &event.kind) {
            self.settled.mark(event.seq, &mut body);
            if matches!(body, Body::StatusChange(_)) {
                self.told = self.status;
            }
            out.push(numbered(event.seq, event.at, parent.as_ref(), body));
        }
        if self.told != self.status {
            self.told = self.status;
            out.push(unnumbered(event.at, self.status_message(reason)));
        }
    }

    /// Returns the call that an event belongs to, for events of agents within the agent.
    fn parent(&self, kind: &EventKind) -> Option<CallId> {
        match kind {
            EventKind::TextDelta { parent, .. }
            | EventKind::ToolStarted { parent, .. }
            | EventKind::UsageReported { parent, .. } => parent.clone(),
            EventKind::ToolFinished { call, .. } => {
                self.calls.get(call).and_then(|(_, parent)| parent.clone())
            }
            EventKind::RequestOpened { ask: RequestSubject::Permission(permission), .. } => {
                permission.parent.clone()
            }
            EventKind::WorkerStarted { call, .. } => call.clone(),
            EventKind::WorkerProgressed { worker, .. } | EventKind::WorkerFinished { worker, .. } => {
                self.workers.get(worker).cloned()
            }
            any_event!(
                life turn ThinkingDelta ToolProgress RequestOpened RequestSettled GrantsChanged settings plan
                Compacted report
            ) => None,
        }
    }

    /// Returns the body of an event's message; `None` for events this protocol does not show.
    fn body(&mut self, at: Timestamp, kind: &EventKind) -> Option<Body> {
        match kind {
            EventKind::StatusChanged { message, .. } => Some(self.status_message(message.clone())),
            EventKind::AgentReady { .. } | EventKind::ModelChanged { .. } => Some(self.session_info()),
            EventKind::SessionCreated { mode: Mode::Plan, .. } => {
                self.planning = false;
                self.mode(true)
            }
            EventKind::TurnStarted { .. } | EventKind::MessageAdded { .. } | EventKind::TurnEnded { .. } => {
                self.turn(at, kind)
            }
            EventKind::TextDelta { text, .. } => {
                Some(Body::TextDelta(pb::TextDelta { text: fitting(text), is_complete: false }))
            }
            EventKind::ToolStarted { .. } | EventKind::ToolFinished { .. } => self.call(at, kind),
            EventKind::RequestOpened { .. } | EventKind::RequestSettled { .. } => self.request(at, kind),
            EventKind::TodosChanged { todos } => {
                Some(Body::TodoUpdate(pb::TodoUpdate { items: todos.iter().map(plans::todo).collect() }))
            }
            EventKind::ModeChanged { mode } => self.mode(*mode == Mode::Plan),
            EventKind::PlanModeChanged { on } => self.mode(*on),
            EventKind::UsageReported { usage, context_tokens, context_window, .. } => {
                self.context = (context_tokens.or(self.context.0), context_window.or(self.context.1));
                Some(self.usage(at, usage))
            }
            EventKind::Compacted { tokens_after, .. } => {
                self.compacted = true;
                self.context.0 = *tokens_after;
                Some(self.session_info())
            }
            EventKind::Notice { level: Level::Error, code, message } => {
                let code = code.unwrap_or(domain::ErrorCode::SessionError);
                Some(error(&Error::new(code, message), Severity::Inline))
            }
            EventKind::Notice { message, .. } => Some(self.status_message(message.clone())),
            EventKind::WorkerStarted { worker, call, title } => {
                self.workers.extend(call.clone().map(|call| (worker.clone(), call)));
                Some(self.status_message(format!("worker started: {title}")))
            }
            EventKind::WorkerFinished { worker, summary, .. } => {
                self.workers.remove(worker);
                Some(self.status_message(format!("worker finished: {summary}")))
            }
            EventKind::InputHolderChanged { holder } => Some(self.status_message(match holder {
                Some(holder) => format!("input is held by {holder}"),
                None => "nobody holds the input".to_owned(),
            })),
            any_event!(QueueChanged BudgetChanged RateLimited RateLimitEnded SessionForked) => {
                Some(self.status_message(plans::describe(kind)))
            }
            EventKind::GrantsChanged { by, .. } => {
                Some(self.status_message(format!("{by} changed what is allowed without asking")))
            }
            EventKind::InterruptRequested { .. } => {
                Some(self.status_message("the turn was told to end".to_owned()))
            }
            any_event!(
                SessionCreated AgentStarted AgentExited AgentLogged Restarted ThinkingDelta ToolProgress
                Renamed CommandsChanged ServersChanged ToolsRegistered ArchiveChanged WorkerProgressed
                ActivityReported Unparsed
            ) => None,
        }
    }

    /// Returns a text without a message type of its own; the status stays as it was.
    fn status_message(&self, message: String) -> Body {
        Body::StatusChange(pb::StatusChange { status: self.status.into(), message })
    }

    fn session_info(&self) -> Body {
        Body::SessionInfo(pb::SessionInfo {
            session_id: self.spec.id.to_string(),
            model: full_model(&self.state),
            working_directory: self.spec.working_dir.display().to_string(),
            worktree_id: self.worktree_id.clone(),
            message_count: self.messages,
            is_resumed: self.messages > 1,
            is_compacted: self.compacted,
            context_usage_percent: percent(self.context.0, self.context.1),
            metadata: self.state.metadata.clone().into_iter().collect(),
        })
    }

    /// Converts events of turns, and counts messages.
    fn turn(&mut self, at: Timestamp, kind: &EventKind) -> Option<Body> {
        match kind {
            EventKind::TurnStarted { origin, prompt, .. } => {
                self.turn_began = Some(at);
                self.compacting = prompt == COMPACT;
                self.messages += u64::from(!prompt.is_empty() && !self.compacting);
                (*origin == TurnOrigin::Client)
                    .then(|| Body::UserInput(pb::UserInput { content: fitting(prompt) }))
            }
            EventKind::MessageAdded { text, .. } => {
                self.messages += 1;
                Some(Body::UserInput(pb::UserInput { content: fitting(text) }))
            }
            EventKind::TurnEnded { reason, .. } => {
                self.messages += u64::from(!self.compacting);
                self.turn_began = None;
                self.compacting = false;
                // A call of a worker may outlive the turn that started it.
                self.calls.retain(|_, (_, parent)| parent.is_some());
                let stop_reason = stop_reason(*reason).to_owned();
                Some(Body::TurnComplete(pb::TurnComplete { stop_reason }))
            }
            any_event!(life InterruptRequested output request settings plan usage worker report) => None,
        }
    }

    /// Converts events of tool calls. A call's start time is kept until it ends.
    fn call(&mut self, at: Timestamp, kind: &EventKind) -> Option<Body> {
        match kind {
            EventKind::ToolStarted { call, tool, input, title, parent } => {
                self.calls.insert(call.clone(), (at, parent.clone()));
                Some(Body::ToolCallStart(pb::ToolCallStart {
                    tool_id: call.to_string(),
                    tool_name: tool.clone(),
                    input: Some(structs::from_json(input)),
                    description: title.clone(),
                }))
            }
            EventKind::ToolFinished { call, ok, output, .. } => {
                let took = self.calls.remove(call).map_or(0, |(began, _)| millis(at, began));
                Some(Body::ToolCallResult(pb::ToolCallResult {
                    tool_id: call.to_string(),
                    output: fitting(output),
                    is_error: !ok,
                    duration_ms: took,
                }))
            }
            any_event!(
                life turn TextDelta ThinkingDelta ToolProgress request settings plan usage worker report
            ) => None,
        }
    }

    /// Converts events of requests.
    fn request(&mut self, at: Timestamp, kind: &EventKind) -> Option<Body> {
        match kind {
            EventKind::RequestOpened { request: id, native, automatic, ask, proposals, advice } => {
                if let RequestSubject::Permission(permission) = ask
                    && permission.tool == EXIT_PLAN
                {
                    self.plan = permission.input["plan"].as_str().unwrap_or_default().to_owned();
                }
                // Requests that a rule answers are not shown.
                if *automatic {
                    self.automatic.insert(*id);
                    return None;
                }
                let (native, ask, proposals) = (native.clone(), ask.clone(), proposals.clone());
                let advice = advice.clone();
                let pending =
                    PendingRequest { id: *id, native, asked_at: at, ask, proposals, advice, turn: None };
                request(&pending).map(|(_, body)| body)
            }
            // Nobody was shown it.
            EventKind::RequestSettled { request, .. } if self.automatic.remove(request) => None,
            EventKind::RequestSettled { request, outcome, by, .. } => {
                Some(self.status_message(format!("{request} {} by {by}", outcome.word())))
            }
            any_event!(life turn output GrantsChanged settings plan usage worker report) => None,
        }
    }

    /// Reports plan mode if it changes. A change comes as the daemon's word, the agent's, or both.
    fn mode(&mut self, on: bool) -> Option<Body> {
        if std::mem::replace(&mut self.planning, on) == on {
            return None;
        }
        let plan = if on { String::new() } else { std::mem::take(&mut self.plan) };
        Some(Body::PlanMode(pb::PlanModeChange { active: on, plan }))
    }

    /// Converts token usage; the duration is that of the current turn so far.
    fn usage(&self, at: Timestamp, usage: &Usage) -> Body {
        Body::Usage(pb::UsageReport {
            // Our input tokens include those written to the cache; here they have a separate field.
            input_tokens: plain_input(usage),
            output_tokens: small(usage.output_tokens),
            cache_read_tokens: small(usage.cache_read_tokens),
            cache_creation_tokens: small(usage.cache_write_tokens),
            model: full_model(&self.state),
            cost_usd: dollars(usage),
            duration_ms: self.turn_began.map_or(0, |began| millis(at, began)),
        })
    }
}

/// Shortens a text to the size every client accepts; the journal holds the whole text.
fn fitting(text: &str) -> String {
    shorten::text(text, surface::limits::ACTIVITY_TEXT_MAX_BYTES)
}

fn millis(at: Timestamp, began: Timestamp) -> u32 {
    u32::try_from(at.since(began).as_millis()).unwrap_or(u32::MAX)
}

/// A conversation of which only the events after a sequence number are sent.
pub(super) struct BetcodeReplay {
    pub(super) conversation: BetcodeProjector,
    pub(super) after: u64,
}

impl Projector for BetcodeReplay {
    type Wire = pb::AgentEvent;

    fn project(&mut self, event: &Event, out: &mut Vec<Self::Wire>) -> Flow {
        self.conversation.take(event, out);
        if event.seq <= self.after {
            out.clear();
        }
        // What is stored has no status between events.
        out.retain(|message| message.sequence > 0 || !matches!(message.event, Some(Body::StatusChange(_))));
        Flow::More
    }
}

#[cfg(test)]
mod tests;
