//! The current state of a session: the fold of its journal. `evolve` is the only way state changes, so that
//! replaying a journal gives the same state as having lived through it.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::error::ErrorCode;
use crate::event::{ClientTool, EventKind, Todo, ToolServer};
use crate::id::RequestId;
use crate::limits;
use crate::permission::{Grant, Mode, Scope};
use crate::request::{PendingRequest, RequestSubject, SettledRequest};
use crate::resources::ResourceReport;
use crate::session::{SessionSpec, Status};
use crate::time::Timestamp;
use crate::tools::{self, ClientToolQueue};
use crate::turn::{COMPACT, OpenTurn, PendingPrompt};
use crate::usage::Usage;

/// The changing part of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    pub status: Status,
    pub name: String,
    pub model: String,
    pub mode: Mode,
    /// 0 if there is no process.
    pub pid: u32,
    pub restart_count: u32,
    pub error: String,
    pub error_code: Option<ErrorCode>,
    /// The agent's id of the conversation; empty until it reports one.
    pub native_session: String,
    pub usage: Usage,
    pub started_at: Option<Timestamp>,
    pub last_activity_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub turn: Option<OpenTurn>,
    /// Turns started so far.
    pub turns: u64,
    pub requests: BTreeMap<RequestId, PendingRequest>,
    pub requests_opened: u64,
    pub settled: VecDeque<SettledRequest>,
    pub grants: Vec<Grant>,
    /// Grants given so far; used to number their ids.
    pub grants_given: u64,
    pub tools: BTreeMap<String, Vec<ClientTool>>,
    /// Increases with every change of the tools.
    pub tools_revision: u64,
    /// Pending calls of clients' tools.
    pub tool_calls: ClientToolQueue,
    pub todos: Vec<Todo>,
    /// MCP servers, as last reported by the agent.
    pub servers: Vec<ToolServer>,
    pub input_holder: Option<String>,
    /// Since when the input has been held without a break.
    pub attended_since: Option<Timestamp>,
    /// The beginning of the last message, a prompt or an answer.
    pub preview: String,
    /// Prompts and answers so far.
    pub messages: u64,
    /// Those that the agent's own conversation still contains.
    pub context_messages: u64,
    /// How full the model's context window is, as last reported by the agent.
    pub context_tokens: Option<u64>,
    pub context_window: Option<u64>,
    /// The agent has replaced its conversation with a summary at least once.
    pub compacted: bool,
    /// Settings that changed between the launch of the agent and its readiness, so that it does not know them
    /// yet.
    pub untold: PendingSettings,
    pub stderr_tail: VecDeque<String>,
    /// What the last agent that ended had used.
    pub resources: Option<ResourceReport>,
}

/// Settings that must be sent to the agent once it is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PendingSettings {
    pub mode: bool,
    pub tools: bool,
}

impl State {
    /// Returns the state of a session in which nothing has happened yet.
    pub fn new(spec: &SessionSpec) -> Self {
        Self { name: spec.name.clone(), model: spec.model.clone(), mode: spec.mode, ..Self::default() }
    }

    /// Applies an event.
    pub fn evolve(&mut self, at: Timestamp, kind: &EventKind) {
        match kind {
            EventKind::StatusChanged { .. }
            | EventKind::AgentStarted { .. }
            | EventKind::AgentReady { .. }
            | EventKind::AgentExited { .. }
            | EventKind::AgentLogged { .. }
            | EventKind::Restarted { .. } => self.evolve_life(at, kind),
            EventKind::TurnStarted { .. }
            | EventKind::TurnEnded { .. }
            | EventKind::InterruptRequested { .. }
            | EventKind::ToolStarted { .. }
            | EventKind::ToolFinished { .. } => self.evolve_turn(at, kind),
            EventKind::RequestOpened { .. }
            | EventKind::RequestSettled { .. }
            | EventKind::GrantsChanged { .. } => self.evolve_requests(at, kind),
            EventKind::Renamed { name } => self.name.clone_from(name),
            EventKind::ModeChanged { mode } => {
                self.mode = *mode;
                self.untold.mode = self.status == Status::Starting;
            }
            EventKind::ModelChanged { model } => self.model.clone_from(model),
            EventKind::TodosChanged { todos } => self.todos.clone_from(todos),
            EventKind::ServersChanged { servers } => self.servers.clone_from(servers),
            EventKind::UsageReported { usage, context_tokens, context_window } => {
                self.usage.add(usage);
                self.context_tokens = context_tokens.or(self.context_tokens);
                self.context_window = context_window.or(self.context_window);
            }
            EventKind::Compacted { tokens_after, .. } => {
                self.compacted = true;
                self.context_tokens = *tokens_after;
                // The summary.
                self.context_messages = 1;
            }
            EventKind::ActivityReported { tokens_input, tokens_output, .. } => {
                let reported =
                    Usage { input_tokens: *tokens_input, output_tokens: *tokens_output, ..Usage::default() };
                self.usage.add(&reported);
                self.last_activity_at = Some(at);
            }
            EventKind::ToolsRegistered { source, tools } => {
                tools::register(&mut self.tools, source, tools);
                self.tools_revision += 1;
                self.untold.tools = self.status == Status::Starting;
            }
            EventKind::InputHolderChanged { holder } => {
                self.input_holder.clone_from(holder);
                self.attended_since = holder.as_ref().map(|_| self.attended_since.unwrap_or(at));
            }
            EventKind::MessageAdded { text, .. } => {
                if let Some(untold) = self.turn.as_mut().and_then(|turn| turn.untold.as_mut()) {
                    untold.text.push_str("\n\n");
                    untold.text.push_str(text);
                }
                self.count_message(text);
                self.last_activity_at = Some(at);
            }
            EventKind::TextDelta { .. }
            | EventKind::ThinkingDelta { .. }
            | EventKind::ToolProgress { .. } => self.last_activity_at = Some(at),
            EventKind::SessionCreated { .. }
            | EventKind::PlanModeChanged { .. }
            | EventKind::CommandsChanged { .. }
            | EventKind::WorkerStarted { .. }
            | EventKind::WorkerProgressed { .. }
            | EventKind::WorkerFinished { .. }
            | EventKind::Notice { .. }
            | EventKind::Unparsed { .. } => {}
        }
    }

    /// Applies events of the agent's life.
    fn evolve_life(&mut self, at: Timestamp, kind: &EventKind) {
        match kind {
            EventKind::StatusChanged { to, message, code, .. } => self.change_status(at, *to, message, *code),
            EventKind::AgentStarted { pid } => self.pid = *pid,
            EventKind::AgentReady { native_session, model, .. } => {
                if !native_session.is_empty() {
                    self.native_session.clone_from(native_session);
                }
                if !model.is_empty() {
                    self.model.clone_from(model);
                }
                if let Some(turn) = &mut self.turn {
                    turn.untold = None;
                }
                self.untold = PendingSettings::default();
            }
            EventKind::AgentExited { resources, .. } => {
                self.pid = 0;
                self.resources = resources.as_deref().cloned();
            }
            EventKind::AgentLogged { line } => {
                while self.stderr_tail.len() >= limits::STDERR_TAIL_LINES {
                    self.stderr_tail.pop_front();
                }
                self.stderr_tail.push_back(line.chars().take(limits::STDERR_LINE_MAX_CHARS).collect());
            }
            EventKind::Restarted { count } => {
                self.restart_count = *count;
                self.stderr_tail.clear();
            }
            _ => {}
        }
    }

    fn change_status(&mut self, at: Timestamp, to: Status, message: &str, code: Option<ErrorCode>) {
        if to == Status::Starting {
            self.started_at = Some(at);
            self.ended_at = None;
            self.error.clear();
            self.error_code = None;
            self.untold = PendingSettings::default();
        }
        if to.is_terminal() {
            self.ended_at = Some(at);
            self.pid = 0;
        }
        if to == Status::Failed {
            message.clone_into(&mut self.error);
            self.error_code = code;
        }
        self.status = to;
        self.last_activity_at = Some(at);
    }

    /// Applies events of a turn: prompts, interrupts and calls.
    fn evolve_turn(&mut self, at: Timestamp, kind: &EventKind) {
        self.last_activity_at = Some(at);
        match kind {
            EventKind::TurnStarted { turn, prompt, attachments, .. } => {
                self.turns = turn.0;
                if !prompt.is_empty() && prompt != COMPACT {
                    self.count_message(prompt);
                }
                let told = matches!(self.status, Status::Running | Status::Working);
                self.turn = Some(OpenTurn {
                    id: *turn,
                    untold: (!told)
                        .then(|| PendingPrompt { text: prompt.clone(), attachments: attachments.clone() }),
                    interrupted: None,
                    compacting: prompt == COMPACT,
                    calls: BTreeMap::new(),
                });
            }
            EventKind::TurnEnded { text, .. } => {
                let compacted = self.turn.take().is_none_or(|turn| turn.compacting);
                if !compacted {
                    self.count_message(text);
                }
            }
            EventKind::InterruptRequested { reason, .. } => {
                if let Some(turn) = &mut self.turn {
                    turn.interrupted = Some(*reason);
                }
            }
            EventKind::ToolStarted { call, tool, .. } => {
                if let Some(turn) = &mut self.turn {
                    turn.calls.insert(call.clone(), tool.clone());
                }
            }
            EventKind::ToolFinished { call, .. } => {
                if let Some(turn) = &mut self.turn {
                    turn.calls.remove(call);
                }
            }
            _ => {}
        }
    }

    /// Applies events of requests and grants.
    fn evolve_requests(&mut self, at: Timestamp, kind: &EventKind) {
        match kind {
            EventKind::RequestOpened { request, native, ask, proposals, .. } => {
                self.requests_opened = request.0;
                if let RequestSubject::ClientTool { tool, .. } = ask
                    && let Some(tool) = tools::find(&self.tools, tool)
                {
                    self.tool_calls.open(at, *request, tool);
                }
                let pending = PendingRequest {
                    id: *request,
                    native: native.clone(),
                    asked_at: at,
                    ask: ask.clone(),
                    proposals: proposals.clone(),
                };
                self.requests.insert(*request, pending);
            }
            EventKind::RequestSettled { request, outcome, by, message, grant, used_grant } => {
                if let Some(grant) = grant {
                    self.grants_given += 1;
                    if grant.scope == Scope::Session {
                        self.grants.push(Grant::clone(grant));
                    }
                }
                self.use_grant(used_grant);
                self.tool_calls.settle(at, *request);
                let Some(mut pending) = self.requests.remove(request) else { return };
                pending.ask.forget_large_input();
                pending.proposals.clear();
                let mut outcome = outcome.clone();
                outcome.forget_output();
                while self.settled.len() >= limits::REQUESTS_SETTLED_KEPT {
                    self.settled.pop_front();
                }
                let (by, message) = (by.clone(), message.chars().take(limits::PREVIEW_MAX_CHARS).collect());
                self.settled.push_back(SettledRequest { request: pending, outcome, by, at, message });
            }
            EventKind::GrantsChanged { grants, .. } => {
                self.grants_given += 1;
                self.grants.clone_from(grants);
            }
            _ => {}
        }
    }

    /// Counts one use of a grant; a grant that is used up is removed.
    fn use_grant(&mut self, id: &str) {
        let used = self.grants.iter_mut().find(|grant| !id.is_empty() && grant.id == id);
        if let Some(left) = used.and_then(|grant| grant.uses_left.as_mut()) {
            *left = left.saturating_sub(1);
        }
        self.grants.retain(|grant| grant.uses_left != Some(0));
    }

    fn count_message(&mut self, text: &str) {
        self.messages += 1;
        self.context_messages += 1;
        if !text.is_empty() {
            self.preview = text.chars().take(limits::PREVIEW_MAX_CHARS).collect();
        }
    }

    /// Returns how a request was settled, if it was and is still kept.
    pub fn settled_request(&self, id: RequestId) -> Option<&SettledRequest> {
        self.settled.iter().rev().find(|settled| settled.request.id == id)
    }
}
