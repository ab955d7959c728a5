//! Converts our types to this surface's messages. Pure. Handles every kind of event.

mod activity;

use std::collections::HashMap;

use domain::author::{self, Author, Correlation};
use domain::event::ClientTool;
use domain::request::{RequestOutcome, RequestSubject};
use domain::tools::{self, ClientToolQueue, Sources};
use domain::turn::{COMPACT, EndReason};
use domain::{
    Error, ErrorCode, ErrorKind, Event, EventKind, ProviderKind, RequestId, Status, Timestamp, Usage,
    any_event,
};
use runtime::Snapshot;
use wire::roz::v1 as pb;
use wire::roz::v1::session_response::Response as Body;

use self::activity::AgentActivity;
use crate::limits;
use surface::{shorten, structs};

/// Who writes this surface's prompts, for the journal.
const AUTHOR: &str = "roz";

/// Returns the `by` field of a message's prompt, so that responses can name the message.
pub(super) fn signature(message_id: &str) -> String {
    Author { client: AUTHOR, correlation: Some(Correlation::Message(message_id)) }.to_string()
}

pub(super) fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

pub(super) fn response(body: Body) -> pb::SessionResponse {
    pb::SessionResponse { response: Some(body) }
}

/// Returns an error under one of the published codes.
pub(super) fn error(code: &str, message: impl Into<String>, retryable: bool) -> Body {
    let message = shorten::text(&message.into(), surface::limits::ACTIVITY_TEXT_MAX_BYTES);
    Body::Error(pb::SessionError { code: code.to_owned(), message, retryable })
}

/// Returns one of our errors under the closest published code.
pub(super) fn failure(failure: &Error) -> Body {
    let code = match failure.code.kind() {
        ErrorKind::Invalid | ErrorKind::NotFound | ErrorKind::Exhausted => "invalid_argument",
        ErrorKind::Denied | ErrorKind::Unauthenticated => "unauthenticated",
        ErrorKind::State if failure.code == ErrorCode::SandboxFailed => "invalid_argument",
        ErrorKind::State | ErrorKind::Deadline | ErrorKind::Unavailable | ErrorKind::Internal => "internal",
    };
    error(code, failure.to_string(), failure.code.retryable() || code == "internal")
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

/// Whether a turn failed because of its model rather than its agent. Some agents fail a turn only for errors
/// of the model's endpoint and pass on nothing but its text.
fn failed_at_model(provider: Option<ProviderKind>, text: &str) -> bool {
    let passes_on = matches!(provider, Some(ProviderKind::Codex | ProviderKind::OpenaiApi));
    passes_on || is_model_error(text)
}

/// Whether an error text comes from a model.
pub(super) fn is_model_error(text: &str) -> bool {
    let text = text.to_lowercase();
    ["api error", "overloaded", "rate limit", "model", "status 5", "status 4", "connection"]
        .iter()
        .any(|word| text.contains(word))
}

/// A call that the client is to execute.
#[derive(Debug)]
struct WantedToolCall {
    call: String,
    tool: String,
    parameters: prost_types::Struct,
}

/// Projects a session's journal for its client. Its state is the fold of the previous events.
#[derive(Debug, Default)]
pub(super) struct RozProjector {
    provider: Option<ProviderKind>,
    sources: Sources,
    calls: ClientToolQueue,
    wanted: HashMap<RequestId, WantedToolCall>,
    /// The message that the open turn answers; `None` between turns.
    message_id: Option<String>,
    /// The open turn answers no message: it compacts the conversation.
    compacting: bool,
    usage: Usage,
    messages: u64,
    context: (Option<u64>, Option<u64>),
    /// What was reported last, with its detail.
    activity: Option<(AgentActivity, String)>,
    presence: String,
    /// The session as it was after the last event, which says what its agent does.
    session: Option<Box<activity::FollowedSession>>,
    /// The session has ended.
    ended: bool,
}

impl RozProjector {
    /// Starts from the session's current state, so that counts continue correctly.
    pub(super) fn new(snapshot: &Snapshot, max_context_tokens: Option<u32>) -> Self {
        let state = &snapshot.state;
        let window = max_context_tokens.map(u64::from).or(state.context_window);
        Self {
            provider: Some(snapshot.spec.provider),
            sources: state.tools.clone(),
            messages: state.context_messages,
            context: (state.context_tokens, window),
            session: Some(Box::new(activity::FollowedSession::new(snapshot))),
            ..Self::default()
        }
    }

    /// Whether a turn is open.
    pub(super) fn in_turn(&self) -> bool {
        self.message_id.is_some()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Returns a keepalive with the current use of the context.
    pub(super) fn keepalive(&self) -> Body {
        Body::Keepalive(pb::Keepalive {
            tokens_used: self.context.0.map(small),
            tokens_max: self.context.1.map(small),
        })
    }

    /// Appends the messages of one event.
    pub(super) fn take(&mut self, event: &Event, out: &mut Vec<pb::SessionResponse>) {
        let mut bodies = Vec::new();
        if let Some(session) = &mut self.session {
            session.follow(event);
        }
        self.bodies(event, &mut bodies);
        out.extend(bodies.into_iter().map(response));
    }

    /// Converts an event to any number of messages.
    fn bodies(&mut self, event: &Event, out: &mut Vec<Body>) {
        match &event.kind {
            EventKind::TurnStarted { .. } | EventKind::TurnEnded { .. } => self.turn(&event.kind, out),
            EventKind::TextDelta { text, parent: None } => {
                if let Some(message_id) = self.speaker() {
                    self.active(AgentActivity::Thinking, "", out);
                    out.push(Body::TextDelta(pb::TextDelta { message_id, content: text.clone() }));
                }
            }
            EventKind::ThinkingDelta { text, parent: None } => {
                if let Some(message_id) = self.speaker() {
                    self.active(AgentActivity::Thinking, "", out);
                    out.push(Body::ThinkingDelta(pb::ThinkingDelta { message_id, content: text.clone() }));
                }
            }
            EventKind::ToolStarted { tool, parent: None, .. } => {
                let physical = tools::find(&self.sources, tool).is_some_and(|tool| tool.exclusive);
                self.active(AgentActivity::CallingTool, tool, out);
                self.present(if physical { "full" } else { "mini" }, tool, out);
            }
            EventKind::ToolFinished { .. } => self.active_again(event.at, out),
            EventKind::RequestOpened { .. } | EventKind::RequestSettled { .. } => self.request(event, out),
            EventKind::UsageReported { usage, context_tokens, context_window, .. } => {
                self.usage.add(usage);
                self.context.0 = context_tokens.or(self.context.0);
                self.context.1 = self.context.1.or(*context_window);
            }
            EventKind::Compacted { tokens_before, tokens_after, summary } => {
                out.push(self.compacted(*tokens_before, *tokens_after, summary));
            }
            EventKind::ToolsRegistered { source, tools } => {
                tools::register(&mut self.sources, source, tools);
            }
            EventKind::StatusChanged { to, message, .. } => self.status(*to, message, out),
            any_event!(
                SessionCreated AgentStarted AgentReady AgentExited AgentLogged Restarted InterruptRequested
                MessageAdded TextDelta ThinkingDelta ToolStarted ToolProgress GrantsChanged Renamed
                TodosChanged ModeChanged PlanModeChanged ModelChanged CommandsChanged ServersChanged
                InputHolderChanged plan worker report
            ) => {}
        }
    }

    /// Returns the message that the agent's current output answers.
    fn speaker(&self) -> Option<String> {
        self.message_id.clone().filter(|_| !self.compacting)
    }

    /// Converts the start and the end of a turn.
    fn turn(&mut self, kind: &EventKind, out: &mut Vec<Body>) {
        match kind {
            EventKind::TurnStarted { turn, prompt, by, .. } => {
                self.compacting = prompt == COMPACT;
                self.messages += u64::from(!prompt.is_empty() && !self.compacting);
                self.usage = Usage::default();
                let id = author::message_of(by, AUTHOR).map_or_else(|| turn.to_string(), str::to_owned);
                self.message_id = Some(id);
                self.active(AgentActivity::Thinking, "", out);
                self.present("mini", "thinking", out);
            }
            EventKind::TurnEnded { reason, error: text, .. } => {
                let Some(message_id) = self.message_id.take() else { return };
                if !std::mem::take(&mut self.compacting) {
                    self.messages += 1;
                    if *reason == EndReason::Failed {
                        let model = failed_at_model(self.provider, text);
                        out.push(error(if model { "model_error" } else { "agent_error" }, text, model));
                    }
                    let usage = (*reason != EndReason::Cancelled).then(|| token_usage(&self.usage));
                    let stop_reason = stop_reason(*reason).to_owned();
                    out.push(Body::TurnComplete(pb::TurnComplete { message_id, usage, stop_reason }));
                }
                self.active(AgentActivity::Idle, "", out);
                self.present("hidden", "idle", out);
            }
            any_event!(
                life InterruptRequested MessageAdded output request settings plan usage worker report
            ) => {}
        }
    }

    /// Converts events of requests.
    fn request(&mut self, event: &Event, out: &mut Vec<Body>) {
        match &event.kind {
            EventKind::RequestOpened { automatic: true, .. } => {}
            EventKind::RequestOpened {
                request,
                ask: RequestSubject::ClientTool { call, tool, input },
                ..
            } => {
                let Some(known) = tools::find(&self.sources, tool) else { return };
                let goes_out = self.calls.open(event.at, *request, known);
                let wanted = WantedToolCall {
                    call: call.to_string(),
                    tool: tool.clone(),
                    parameters: structs::from_json(input),
                };
                self.wanted.insert(*request, wanted);
                if goes_out {
                    self.offer(*request, out);
                }
            }
            EventKind::RequestOpened { request, ask: RequestSubject::Permission(permission), .. } => {
                let call = permission.call.as_ref();
                let detail = call.map_or_else(|| request.to_string(), ToString::to_string);
                self.active(AgentActivity::WaitingApproval, &detail, out);
                self.present("full", &permission.tool, out);
            }
            EventKind::RequestOpened { .. } => {}
            EventKind::RequestSettled { request, outcome, .. } => {
                self.wanted.remove(request);
                if let Some(next) = self.calls.settle(event.at, *request) {
                    self.offer(next, out);
                }
                let decided =
                    matches!(outcome, RequestOutcome::Decided { .. } | RequestOutcome::Withdrawn { .. });
                if decided && matches!(self.activity, Some((AgentActivity::WaitingApproval, _))) {
                    self.active_again(event.at, out);
                }
            }
            any_event!(life turn output GrantsChanged settings plan usage worker report) => {}
        }
    }

    /// Sends a call to the client.
    fn offer(&mut self, request: RequestId, out: &mut Vec<Body>) {
        let (Some(wanted), Some(call)) = (self.wanted.get(&request), self.calls.get(request)) else { return };
        let asked = pb::ToolRequest {
            tool_call_id: wanted.call.clone(),
            tool_name: wanted.tool.clone(),
            parameters: Some(wanted.parameters.clone()),
            timeout_ms: small(call.timeout_ms),
        };
        let (tool, physical) = (wanted.tool.clone(), call.exclusive);
        self.active(AgentActivity::CallingTool, &tool, out);
        self.present(if physical { "full" } else { "mini" }, &tool, out);
        out.push(Body::ToolRequest(asked));
    }

    /// Converts a compaction, after which the context counts as one message.
    fn compacted(&mut self, before: Option<u64>, after: Option<u64>, summary: &str) -> Body {
        let messages_before = std::mem::replace(&mut self.messages, 1);
        let tokens_before = before.or(self.context.0).unwrap_or_default();
        self.context.0 = after.or(self.context.0);
        Body::ContextCompacted(pb::ContextCompacted {
            level: "summary".to_owned(),
            messages_before: small(messages_before),
            messages_after: 1,
            tokens_before: small(tokens_before),
            tokens_after: small(after.unwrap_or_default()),
            summary: (!summary.is_empty())
                .then(|| shorten::text(summary, surface::limits::ACTIVITY_TEXT_MAX_BYTES)),
        })
    }

    /// Ends the stream when the session stops or fails.
    fn status(&mut self, to: Status, message: &str, out: &mut Vec<Body>) {
        match to {
            Status::Failed => {
                out.push(error("internal", message, true));
                self.ended = true;
            }
            Status::Stopped => self.ended = true,
            Status::Created | Status::Starting | Status::Running | Status::Working | Status::Stopping => {}
        }
    }

    /// Reports the agent's activity if it has changed.
    fn active(&mut self, activity: AgentActivity, detail: &str, out: &mut Vec<Body>) {
        let detail: String = detail.chars().take(limits::ACTIVITY_DETAIL_MAX_CHARS).collect();
        let now = Some((activity, detail.clone()));
        if self.activity != now {
            self.activity = now;
            let state = activity.name().to_owned();
            out.push(Body::ActivityUpdate(pb::ActivityUpdate { state, detail, progress: None }));
        }
    }

    /// Reports what the agent does after something ended: another call, another approval, or thinking.
    fn active_again(&mut self, at: Timestamp, out: &mut Vec<Body>) {
        let now = self.session.as_ref().map(|session| session.activity(at));
        let (activity, detail) = now.unwrap_or((AgentActivity::Thinking, String::new()));
        self.active(activity, &detail, out);
    }

    /// Reports how visible the agent should be, if that has changed.
    fn present(&mut self, level: &str, reason: &str, out: &mut Vec<Body>) {
        if self.presence != level {
            level.clone_into(&mut self.presence);
            let (level, reason) = (level.to_owned(), reason.to_owned());
            out.push(Body::PresenceHint(pb::PresenceHint { level, reason }));
        }
    }
}

fn token_usage(usage: &Usage) -> pb::TokenUsage {
    pb::TokenUsage {
        // Our input tokens include those written to the cache; here they have a separate field.
        input_tokens: small(usage.input_tokens.saturating_sub(usage.cache_write_tokens)),
        output_tokens: small(usage.output_tokens),
        cache_read_tokens: small(usage.cache_read_tokens),
        cache_creation_tokens: small(usage.cache_write_tokens),
    }
}

/// Returns the answer to a start.
pub(super) fn started(snapshot: &Snapshot, permissions: Vec<pb::PermissionRule>) -> Body {
    let (spec, state) = (&snapshot.spec, &snapshot.state);
    let model = if state.model.is_empty() { &spec.model } else { &state.model };
    let model = if model.is_empty() { spec.provider.name() } else { model };
    Body::SessionStarted(pb::SessionStarted {
        session_id: spec.id.to_string(),
        model: model.to_owned(),
        permissions,
    })
}

/// Returns the tools of a session that its client may be asked to execute.
pub(super) fn offered(snapshot: &Snapshot) -> Vec<&ClientTool> {
    tools::offered(&snapshot.state.tools)
}

#[cfg(test)]
mod tests;
