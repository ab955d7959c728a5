//! Converts our types to this surface's messages. Pure. Handles every kind of event; an event becomes at most
//! one numbered message, so that a sequence number tells where a client stopped reading.

use std::collections::HashMap;

use domain::event::{Level, Todo, TodoStatus};
use domain::permission::Proposal;
use domain::request::{PendingRequest, Question, RequestOutcome, RequestSubject};
use domain::turn::{COMPACT, EndReason, TurnOrigin};
use domain::{CallId, Error, Event, EventKind, LaunchPolicy, Mode, Status, Timestamp, Usage};
use runtime::Snapshot;
use wire::betcode::v1 as pb;
use wire::betcode::v1::agent_event::Event as Body;

use super::structs;
use surface::pump::{Flow, Projector};
use surface::shorten;

/// The separator between several questions of one request.
const BETWEEN_QUESTIONS: &str = "\n\n";

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

/// Returns the message that answers a start.
pub(super) fn session_info(snapshot: &Snapshot, worktree_id: &str, is_resumed: bool) -> Body {
    let (spec, state) = (&snapshot.spec, &snapshot.state);
    Body::SessionInfo(pb::SessionInfo {
        session_id: spec.id.to_string(),
        model: state.model.clone(),
        working_directory: spec.working_dir.display().to_string(),
        worktree_id: worktree_id.to_owned(),
        message_count: state.messages,
        is_resumed,
        is_compacted: state.compacted,
        context_usage_percent: percent(state.context_tokens, state.context_window),
    })
}

/// Returns how much of the context window is used, in percent; 0 when unknown.
fn percent(tokens: Option<u64>, window: Option<u64>) -> f32 {
    match (tokens, window) {
        (Some(tokens), Some(window)) if window > 0 => (tokens as f64 * 100.0 / window as f64) as f32,
        _ => 0.0,
    }
}

/// Converts a session for lists.
pub(super) fn summary(snapshot: &Snapshot, worktree_id: &str) -> pb::SessionSummary {
    let (spec, state) = (&snapshot.spec, &snapshot.state);
    pb::SessionSummary {
        id: spec.id.to_string(),
        model: state.model.clone(),
        working_directory: spec.working_dir.display().to_string(),
        worktree_id: worktree_id.to_owned(),
        status: status_word(state.status, spec.launch).to_owned(),
        message_count: small(state.messages),
        total_input_tokens: small(state.usage.input_tokens),
        total_output_tokens: small(state.usage.output_tokens),
        total_cost_usd: dollars(&state.usage),
        created_at: Some(timestamp(spec.created_at)),
        updated_at: Some(timestamp(state.last_activity_at.unwrap_or(spec.created_at))),
        last_message_preview: state.preview.clone(),
        name: state.name.clone(),
    }
}

/// A stopped session that launches with a prompt is only idle.
fn status_word(status: Status, launch: LaunchPolicy) -> &'static str {
    match (status, launch) {
        (Status::Created | Status::Running, _) | (Status::Stopped, LaunchPolicy::OnPrompt) => "idle",
        (Status::Starting | Status::Working | Status::Stopping, _) => "active",
        (Status::Stopped, LaunchPolicy::Now) => "completed",
        (Status::Failed, _) => "error",
    }
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
            });
            Some((permission.parent.as_ref(), body))
        }
        RequestSubject::Question { questions, .. } => {
            Some((None, Body::UserQuestion(user_question(id, questions))))
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

/// The message holds one question. Several questions are joined to one text with the options of all of them.
fn user_question(question_id: String, questions: &[Question]) -> pb::UserQuestion {
    let option = |option: &domain::request::QuestionOption| pb::QuestionOption {
        value: option.label.clone(),
        label: option.label.clone(),
        description: option.description.clone(),
    };
    pb::UserQuestion {
        question_id,
        question: question_text(questions),
        options: questions.iter().flat_map(|question| question.options.iter().map(option)).collect(),
        multi_select: questions.len() > 1 || questions.iter().any(|question| question.multi_select),
    }
}

/// Returns the joined text of the questions, which is also the key of the answer.
pub(super) fn question_text(questions: &[Question]) -> String {
    let texts: Vec<&str> = questions.iter().map(|question| question.text.as_str()).collect();
    texts.join(BETWEEN_QUESTIONS)
}

fn todo(todo: &Todo) -> pb::TodoItem {
    let status = match todo.status {
        TodoStatus::Pending => pb::TodoStatus::Pending,
        TodoStatus::InProgress => pb::TodoStatus::InProgress,
        TodoStatus::Completed => pb::TodoStatus::Completed,
    };
    pb::TodoItem {
        id: todo.id.clone(),
        subject: todo.text.clone(),
        status: status.into(),
        ..pb::TodoItem::default()
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
#[derive(Debug, Default)]
pub(super) struct BetcodeProjector {
    session_id: String,
    working_directory: String,
    worktree_id: String,
    model: String,
    messages: u64,
    compacted: bool,
    context: (Option<u64>, Option<u64>),
    turn_began: Option<Timestamp>,
    compacting: bool,
    calls: HashMap<CallId, (Timestamp, Option<CallId>)>,
    status: pb::AgentStatus,
    planning: bool,
    plan: String,
}

impl BetcodeProjector {
    pub(super) fn new(snapshot: &Snapshot, worktree_id: String) -> Self {
        Self {
            session_id: snapshot.spec.id.to_string(),
            working_directory: snapshot.spec.working_dir.display().to_string(),
            worktree_id,
            model: snapshot.spec.model.clone(),
            planning: snapshot.spec.mode == Mode::Plan,
            status: pb::AgentStatus::Idle,
            ..Self::default()
        }
    }

    /// Appends the messages of one event. Before the end of a failed turn it adds an unnumbered error,
    /// because the end itself has no field for it.
    pub(super) fn take(&mut self, event: &Event, out: &mut Vec<pb::AgentEvent>) {
        if let EventKind::TurnEnded { reason: EndReason::Failed, error: text, .. } = &event.kind
            && !text.is_empty()
        {
            let failure = Error::new(domain::ErrorCode::SessionError, text);
            out.push(unnumbered(event.at, error(&failure, Severity::Inline)));
        }
        let parent = self.parent(&event.kind);
        if let Some(body) = self.body(event.at, &event.kind) {
            out.push(numbered(event.seq, event.at, parent.as_ref(), body));
        }
    }

    /// Returns the call that an event belongs to, for events of agents within the agent.
    fn parent(&self, kind: &EventKind) -> Option<CallId> {
        match kind {
            EventKind::TextDelta { parent, .. } | EventKind::ToolStarted { parent, .. } => parent.clone(),
            EventKind::ToolFinished { call, .. } => {
                self.calls.get(call).and_then(|(_, parent)| parent.clone())
            }
            EventKind::RequestOpened { ask: RequestSubject::Permission(permission), .. } => {
                permission.parent.clone()
            }
            EventKind::WorkerStarted { call, .. } => call.clone(),
            _ => None,
        }
    }

    /// Returns the body of an event's message; `None` for events this protocol does not show.
    fn body(&mut self, at: Timestamp, kind: &EventKind) -> Option<Body> {
        match kind {
            EventKind::StatusChanged { to, message, .. } => Some(self.status(*to, message)),
            EventKind::AgentReady { model, .. } | EventKind::ModelChanged { model } => self.model(model),
            EventKind::TurnStarted { .. } | EventKind::MessageAdded { .. } | EventKind::TurnEnded { .. } => {
                self.turn(at, kind)
            }
            EventKind::TextDelta { text, .. } => {
                Some(Body::TextDelta(pb::TextDelta { text: fitting(text), is_complete: false }))
            }
            EventKind::ToolStarted { .. } | EventKind::ToolFinished { .. } => self.call(at, kind),
            EventKind::RequestOpened { .. } | EventKind::RequestSettled { .. } => self.request(at, kind),
            EventKind::TodosChanged { todos } => {
                Some(Body::TodoUpdate(pb::TodoUpdate { items: todos.iter().map(todo).collect() }))
            }
            EventKind::ModeChanged { mode } => self.mode(*mode == Mode::Plan, self.planning),
            EventKind::PlanModeChanged { on } => self.mode(*on, true),
            EventKind::UsageReported { usage, context_tokens, context_window } => {
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
            EventKind::WorkerStarted { title, .. } => {
                Some(self.status_message(format!("worker started: {title}")))
            }
            EventKind::WorkerFinished { summary, .. } => {
                Some(self.status_message(format!("worker finished: {summary}")))
            }
            EventKind::InputHolderChanged { holder } => Some(self.status_message(match holder {
                Some(holder) => format!("input is held by {holder}"),
                None => "nobody holds the input".to_owned(),
            })),
            EventKind::GrantsChanged { by, .. } => {
                Some(self.status_message(format!("{by} changed what is allowed without asking")))
            }
            EventKind::InterruptRequested { .. } => {
                Some(self.status_message("the turn was told to end".to_owned()))
            }
            EventKind::SessionCreated { .. }
            | EventKind::AgentStarted { .. }
            | EventKind::AgentExited { .. }
            | EventKind::AgentLogged { .. }
            | EventKind::Restarted { .. }
            | EventKind::Renamed { .. }
            | EventKind::ThinkingDelta { .. }
            | EventKind::ToolProgress { .. }
            | EventKind::CommandsChanged { .. }
            | EventKind::ServersChanged { .. }
            | EventKind::ToolsRegistered { .. }
            | EventKind::WorkerProgressed { .. }
            | EventKind::ActivityReported { .. }
            | EventKind::Unparsed { .. } => None,
        }
    }

    fn status(&mut self, to: Status, message: &str) -> Body {
        self.status = match to {
            Status::Working if self.compacting => pb::AgentStatus::Compacting,
            Status::Starting | Status::Working => pb::AgentStatus::Thinking,
            Status::Created | Status::Running | Status::Stopping | Status::Stopped => pb::AgentStatus::Idle,
            Status::Failed => pb::AgentStatus::Error,
        };
        self.status_message(message.to_owned())
    }

    /// Returns a text without a message type of its own; the status stays as it was.
    fn status_message(&self, message: String) -> Body {
        Body::StatusChange(pb::StatusChange { status: self.status.into(), message })
    }

    fn model(&mut self, model: &str) -> Option<Body> {
        if !model.is_empty() {
            model.clone_into(&mut self.model);
        }
        Some(self.session_info())
    }

    fn session_info(&self) -> Body {
        Body::SessionInfo(pb::SessionInfo {
            session_id: self.session_id.clone(),
            model: self.model.clone(),
            working_directory: self.working_directory.clone(),
            worktree_id: self.worktree_id.clone(),
            message_count: self.messages,
            is_resumed: self.messages > 1,
            is_compacted: self.compacted,
            context_usage_percent: percent(self.context.0, self.context.1),
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
                self.calls.clear();
                let stop_reason = stop_reason(*reason).to_owned();
                Some(Body::TurnComplete(pb::TurnComplete { stop_reason }))
            }
            _ => None,
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
            _ => None,
        }
    }

    /// Converts events of requests.
    fn request(&mut self, at: Timestamp, kind: &EventKind) -> Option<Body> {
        match kind {
            EventKind::RequestOpened { request: id, native, automatic, ask, proposals } => {
                if let RequestSubject::Permission(permission) = ask
                    && permission.tool == EXIT_PLAN
                {
                    self.plan = permission.input["plan"].as_str().unwrap_or_default().to_owned();
                }
                // Requests that a rule answers are not shown.
                if *automatic {
                    return None;
                }
                let (native, ask, proposals) = (native.clone(), ask.clone(), proposals.clone());
                let pending = PendingRequest { id: *id, native, asked_at: at, ask, proposals };
                request(&pending).map(|(_, body)| body)
            }
            EventKind::RequestSettled { request, outcome, by, .. } => {
                let status = match outcome {
                    RequestOutcome::Decided { decision } if decision.allows() => {
                        pb::AgentStatus::ExecutingTool
                    }
                    RequestOutcome::Withdrawn { .. } => self.status,
                    RequestOutcome::Decided { .. }
                    | RequestOutcome::Answered { .. }
                    | RequestOutcome::ToolReturned { .. } => pb::AgentStatus::Thinking,
                };
                let message = format!("{request} {} by {by}", outcome.word());
                Some(Body::StatusChange(pb::StatusChange { status: status.into(), message }))
            }
            _ => None,
        }
    }

    /// Reports plan mode if it changes, or if the agent reports it itself.
    fn mode(&mut self, on: bool, tell: bool) -> Option<Body> {
        let tell = tell || on;
        self.planning = on;
        let plan = if on { String::new() } else { std::mem::take(&mut self.plan) };
        tell.then_some(Body::PlanMode(pb::PlanModeChange { active: on, plan }))
    }

    /// Converts token usage; the duration is that of the current turn so far.
    fn usage(&self, at: Timestamp, usage: &Usage) -> Body {
        Body::Usage(pb::UsageReport {
            // Our input tokens include those written to the cache; here they have a separate field.
            input_tokens: small(usage.input_tokens.saturating_sub(usage.cache_write_tokens)),
            output_tokens: small(usage.output_tokens),
            cache_read_tokens: small(usage.cache_read_tokens),
            cache_creation_tokens: small(usage.cache_write_tokens),
            model: self.model.clone(),
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
        Flow::More
    }
}

#[cfg(test)]
mod tests;
