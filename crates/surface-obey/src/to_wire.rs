//! Converts our types to this surface's messages. Pure. Handles every kind of event.

use domain::answer::AnswerText;
use domain::id::RequestId;
use domain::request::{PendingRequest, RequestSubject, SettledRequest};
use domain::turn::EndReason;
use domain::{
    Error, ErrorCode, Event, EventKind, ProviderKind, SessionId, Status, Timestamp, any_event, event::Level,
};
use prost_types::Timestamp as PbTimestamp;
use runtime::Snapshot;
use wire::obey::local::v1 as pb;
use wire::obey::v1 as pb_own;

use surface::pump::{Flow, Projector};
use surface::shorten;

pub(super) fn timestamp(at: Timestamp) -> PbTimestamp {
    let (seconds, nanos) = at.seconds_and_nanos();
    PbTimestamp { seconds, nanos }
}

pub(super) fn status(status: Status) -> pb::SessionStatus {
    match status {
        Status::Created => pb::SessionStatus::Created,
        Status::Starting => pb::SessionStatus::Starting,
        Status::Running => pb::SessionStatus::Running,
        Status::Working => pb::SessionStatus::Working,
        Status::Stopping => pb::SessionStatus::Stopping,
        Status::Stopped => pb::SessionStatus::Stopped,
        Status::Failed => pb::SessionStatus::Failed,
    }
}

pub(super) fn provider(kind: ProviderKind) -> pb::SessionProvider {
    match kind {
        ProviderKind::ClaudeCode => pb::SessionProvider::ClaudeCode,
        ProviderKind::Openclaw => pb::SessionProvider::Openclaw,
        ProviderKind::Codex => pb::SessionProvider::Codex,
        ProviderKind::OpenaiApi => pb::SessionProvider::OpenaiApi,
        ProviderKind::Acp => pb::SessionProvider::Acp,
        ProviderKind::Scripted => pb::SessionProvider::Scripted,
        ProviderKind::External => pb::SessionProvider::External,
    }
}

fn count(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}

/// Converts a session with all its details.
pub(super) fn session_info(snapshot: &Snapshot) -> pb::SessionInfo {
    let (spec, state) = (&snapshot.spec, &snapshot.state);
    pb::SessionInfo {
        id: spec.id.to_string(),
        campaign_id: spec.campaign_id.as_ref().map(ToString::to_string).unwrap_or_default(),
        provider: provider(spec.provider).into(),
        model: state.model.clone(),
        agent_name: state.name.clone(),
        status: status(state.status).into(),
        festival_id: spec.festival_id.clone(),
        task_id: spec.task_id.clone(),
        tokens_input: count(state.usage.input_tokens),
        tokens_output: count(state.usage.output_tokens),
        max_tokens: count(spec.max_tokens),
        pid: i32::try_from(state.pid).unwrap_or(0),
        restart_count: i32::try_from(state.restart_count).unwrap_or(i32::MAX),
        created_at: Some(timestamp(spec.created_at)),
        started_at: state.started_at.map(timestamp),
        last_activity_at: state.last_activity_at.map(timestamp),
        ended_at: state.ended_at.map(timestamp),
        error_message: state.error.clone(),
        working_dir: spec.working_dir.display().to_string(),
    }
}

/// Converts a session for the overview of the daemon's state.
pub(super) fn session_summary(snapshot: &Snapshot) -> pb::SessionSummary {
    pb::SessionSummary {
        id: snapshot.spec.id.to_string(),
        campaign_id: snapshot.spec.campaign_id.as_ref().map(ToString::to_string).unwrap_or_default(),
        provider: provider(snapshot.spec.provider).into(),
        agent_name: snapshot.state.name.clone(),
        status: status(snapshot.state.status).into(),
    }
}

/// Returns the status change of an event, if it is one. A request that waits is told as a change from WORKING to WORKING:
/// a client of this interface learns of it in no other way.
pub(super) fn status_event(event: &Event) -> Option<pb::SessionStatusEvent> {
    let (from, to, message) = match &event.kind {
        EventKind::StatusChanged { from, to, message, .. } => (*from, *to, message.clone()),
        EventKind::RequestOpened { automatic: false, request, ask, .. } => {
            (Status::Working, Status::Working, waiting(event.session.as_str(), *request, ask))
        }
        any_event!(
            SessionCreated AgentStarted AgentReady AgentExited AgentLogged Restarted turn output RequestOpened
            RequestSettled GrantsChanged settings plan usage worker report
        ) => return None,
    };
    Some(pb::SessionStatusEvent {
        session_id: event.session.to_string(),
        previous_status: status(from).into(),
        new_status: status(to).into(),
        message,
        timestamp: Some(timestamp(event.at)),
    })
}

/// Streams the status changes of one session until it ends.
pub(super) struct StatusProjector;

impl Projector for StatusProjector {
    type Wire = pb::SessionStatusEvent;

    fn project(&mut self, event: &Event, out: &mut Vec<Self::Wire>) -> Flow {
        out.extend(status_event(event));
        if event.kind.ends_session() { Flow::Done } else { Flow::More }
    }
}

/// One turn as `SendMessage` streams it: text and thinking, calls and results as they happen, the whole answer at the end.
#[derive(Default)]
pub(super) struct TurnActivityProjector {
    answer: AnswerText,
    tokens_input: u64,
    tokens_output: u64,
    /// The session is being stopped: a turn that is cut short by that has no answer.
    stopping: bool,
    failure: Option<Error>,
}

impl Projector for TurnActivityProjector {
    type Wire = pb::SessionActivityEvent;

    fn project(&mut self, event: &Event, out: &mut Vec<Self::Wire>) -> Flow {
        let base = activity(&event.session, event.at);
        // Text before a call is part of the work, not of the answer.
        let before_call = matches!(event.kind, EventKind::ToolStarted { parent: None, .. })
            .then(|| self.answer.answer("").to_owned());
        self.answer.take(&event.kind);
        if let Some(said) = before_call.filter(|said| !said.is_empty()) {
            out.push(typed(base.clone(), pb::ActivityType::Thinking, &said));
        }
        match &event.kind {
            EventKind::TextDelta { text, parent: None } => {
                out.push(typed(base, pb::ActivityType::Text, text))
            }
            EventKind::ThinkingDelta { text, parent: None } => {
                out.push(typed(base, pb::ActivityType::Thinking, text));
            }
            EventKind::ToolStarted { call, tool, title, input, .. } => {
                let content = if title.is_empty() { input.to_string() } else { title.clone() };
                let mut started = typed(base, pb::ActivityType::ToolCall, &content);
                started.tool_name.clone_from(tool);
                started.tool_call_id = call.to_string();
                out.push(started);
            }
            EventKind::ToolFinished { call, tool, ok, output } => {
                let mut finished = typed(base, pb::ActivityType::ToolResult, output);
                finished.tool_name.clone_from(tool);
                finished.tool_call_id = call.to_string();
                finished.tool_success = *ok;
                out.push(finished);
            }
            EventKind::UsageReported { usage, .. } => {
                self.tokens_input += usage.input_tokens;
                self.tokens_output += usage.output_tokens;
            }
            EventKind::TurnEnded { reason, text, error, .. } => {
                return self.end(base, *reason, text, error, out);
            }
            other @ (any_event!(
                life TurnStarted InterruptRequested MessageAdded TextDelta ThinkingDelta ToolProgress request
                settings plan Compacted worker report
            )) => out.extend(notice(base, other)),
        }
        self.take_status(&event.kind)
    }

    fn ending(&mut self) -> Option<Error> {
        self.failure.take()
    }
}

impl TurnActivityProjector {
    /// Adds the messages for the end of a turn, and decides whether the stream ends with it.
    fn end(
        &mut self,
        base: pb::SessionActivityEvent,
        reason: EndReason,
        text: &str,
        error: &str,
        out: &mut Vec<pb::SessionActivityEvent>,
    ) -> Flow {
        match reason {
            EndReason::Completed | EndReason::LimitReached | EndReason::Refused => {}
            EndReason::Cancelled if self.stopping => return Flow::More,
            // The end of the session follows and contains the reason.
            EndReason::Interrupted => return Flow::More,
            EndReason::Cancelled => {
                out.push(typed(base.clone(), pb::ActivityType::Status, "the turn was cancelled"));
            }
            EndReason::Failed => out.push(typed(base.clone(), pb::ActivityType::Error, error)),
            EndReason::BudgetExceeded => {
                self.failure =
                    Some(Error::new(ErrorCode::BudgetExceeded, "the session's token budget is used up"));
            }
        }
        let mut completion = typed(base, pb::ActivityType::Completion, self.answer.answer(text));
        completion.tokens_input = count(self.tokens_input);
        completion.tokens_output = count(self.tokens_output);
        out.push(completion);
        Flow::Done
    }

    /// The end of the session ends the stream.
    fn take_status(&mut self, kind: &EventKind) -> Flow {
        let EventKind::StatusChanged { to, message, code, .. } = kind else { return Flow::More };
        self.stopping |= *to == Status::Stopping;
        if !to.is_terminal() {
            return Flow::More;
        }
        let code = code.unwrap_or(ErrorCode::WrongState);
        let text = code.sentence(message);
        self.failure = Some(if *to == Status::Failed {
            Error::new(code, text)
        } else {
            Error::new(ErrorCode::WrongState, format!("the session was stopped: {text}"))
        });
        Flow::Done
    }
}

/// Returns an activity event without a type, for the session and time.
fn activity(session: &SessionId, at: Timestamp) -> pb::SessionActivityEvent {
    pb::SessionActivityEvent {
        session_id: session.to_string(),
        timestamp: Some(timestamp(at)),
        ..pb::SessionActivityEvent::default()
    }
}

/// Sets the type of an activity event and its text, shortened to the limit.
fn typed(
    mut base: pb::SessionActivityEvent,
    kind: pb::ActivityType,
    content: &str,
) -> pb::SessionActivityEvent {
    base.r#type = kind.into();
    base.content = shorten::text(content, surface::limits::ACTIVITY_TEXT_MAX_BYTES);
    base
}

/// Returns the STATUS or ERROR message of an event, if it has one.
fn notice(base: pb::SessionActivityEvent, kind: &EventKind) -> Option<pb::SessionActivityEvent> {
    let said = |text: &str| Some(typed(base.clone(), pb::ActivityType::Status, text));
    match kind {
        EventKind::RequestOpened { automatic: true, .. } => None,
        EventKind::RequestOpened { request, ask, .. } => said(&waiting(&base.session_id, *request, ask)),
        EventKind::RequestSettled { request, outcome, by, message, .. } => {
            let why = if message.is_empty() { String::new() } else { format!(": {message}") };
            said(&format!("{request} {} by {by}{why}", outcome.word()))
        }
        EventKind::Notice { level: Level::Error, message, code } => {
            let text = code.map_or_else(|| message.clone(), |code| format!("{code}: {message}"));
            Some(typed(base, pb::ActivityType::Error, &text))
        }
        EventKind::Notice { message, .. } => said(message),
        EventKind::Compacted { .. } => said("the conversation was compacted"),
        EventKind::StatusChanged { to, message, .. } => said(&format!("{}: {message}", to.name())),
        EventKind::ModeChanged { mode } => said(&format!("mode: {}", mode.name())),
        EventKind::PlanModeChanged { on } => said(if *on { "planning" } else { "planning ended" }),
        EventKind::WorkerStarted { title, .. } => said(&format!("worker started: {title}")),
        EventKind::WorkerFinished { summary, .. } => said(&format!("worker finished: {summary}")),
        EventKind::ActivityReported { activity, content, .. } => said(&format!("{activity}: {content}")),
        EventKind::QueueChanged { change } => said(&change.describe()),
        EventKind::BudgetChanged { budget, .. } => said(&format!("budget: {}", budget.describe())),
        EventKind::RateLimited { reason, .. } => said(&format!("waiting for a rate limit: {reason}")),
        EventKind::RateLimitEnded {} => said("no longer waiting for a rate limit"),
        EventKind::SessionForked { from, seq, .. } => said(&format!("forked from {from} at event {seq}")),
        any_event!(
            SessionCreated AgentStarted AgentReady AgentExited AgentLogged Restarted turn output GrantsChanged
            Renamed TodosChanged ModelChanged CommandsChanged ServersChanged ToolsRegistered
            InputHolderChanged ArchiveChanged UsageReported WorkerProgressed Unparsed
        ) => None,
    }
}

/// Says that a request waits, what it asks, and the command that answers it: a client of this interface has no call for it.
fn waiting(session: &str, request: RequestId, ask: &RequestSubject) -> String {
    let command = match ask {
        RequestSubject::Permission(_) => format!("obey session approve {session} {request}"),
        RequestSubject::Question { .. } => format!("obey session answer {session} {request}"),
        RequestSubject::ClientTool { .. } => return format!("waiting for {request}: {}", title(ask)),
    };
    format!("waiting for an answer to {request}: {}; answer with: {command}", title(ask))
}

/// Returns the title of a request for people.
fn title(ask: &RequestSubject) -> String {
    match ask {
        RequestSubject::Permission(permission) if permission.title.is_empty() => permission.tool.clone(),
        RequestSubject::Permission(permission) => permission.title.clone(),
        RequestSubject::Question { questions, .. } => {
            questions.iter().map(|question| question.text.as_str()).collect::<Vec<_>>().join(" / ")
        }
        RequestSubject::ClientTool { tool, .. } => tool.clone(),
    }
}

/// Converts a pending request.
pub(super) fn request(session: &SessionId, pending: &PendingRequest) -> pb_own::Request {
    let mut wire = pb_own::Request {
        id: pending.id.to_string(),
        session_id: session.to_string(),
        kind: pb_own::RequestKind::Permission.into(),
        title: title(&pending.ask),
        asked_at: Some(timestamp(pending.asked_at)),
        proposals: pending.proposals.iter().map(proposal).collect(),
        destructive: pending.advice.destructive.clone(),
        not_covered: pending.advice.not_covered.clone(),
        ..pb_own::Request::default()
    };
    match &pending.ask {
        RequestSubject::Permission(permission) => {
            wire.tool_name.clone_from(&permission.tool);
            wire.tool_call_id = permission.call.as_ref().map(ToString::to_string).unwrap_or_default();
            wire.input_json = permission.input.to_string();
        }
        RequestSubject::Question { questions, call } => {
            wire.kind = pb_own::RequestKind::Question.into();
            wire.tool_call_id = call.as_ref().map(ToString::to_string).unwrap_or_default();
            wire.questions = questions.iter().map(question).collect();
        }
        RequestSubject::ClientTool { call, tool, input } => {
            wire.kind = pb_own::RequestKind::Unspecified.into();
            wire.tool_name.clone_from(tool);
            wire.tool_call_id = call.to_string();
            wire.input_json = input.to_string();
        }
    }
    wire
}

fn proposal(proposal: &domain::permission::Proposal) -> pb_own::GrantProposal {
    pb_own::GrantProposal { id: proposal.id.clone(), text: proposal.text.clone() }
}

fn question(question: &domain::request::Question) -> pb_own::Question {
    pb_own::Question {
        id: question.id.clone(),
        header: question.header.clone(),
        text: question.text.clone(),
        options: question
            .options
            .iter()
            .map(|option| pb_own::QuestionOption {
                label: option.label.clone(),
                description: option.description.clone(),
            })
            .collect(),
        multi_select: question.multi_select,
    }
}

/// Converts a settled request, with its outcome.
pub(super) fn settled_request(session: &SessionId, settled: &SettledRequest) -> pb_own::Request {
    let mut wire = request(session, &settled.request);
    wire.settled_by.clone_from(&settled.by);
    settled.outcome.word().clone_into(&mut wire.outcome);
    wire.settled_at = Some(timestamp(settled.at));
    wire.settled_message.clone_from(&settled.message);
    wire
}
