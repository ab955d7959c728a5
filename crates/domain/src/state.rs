//! The current state of a session: the fold of its journal. `evolve` is the only way state changes, so that
//! replaying a journal gives the same state as recording it did.

mod reported;
mod spending;
mod title;
mod workers;

pub(crate) use spending::elapsed_ms;
pub use spending::{ForkOrigin, RateLimit};
pub use workers::Worker;

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::any_event;
use crate::budget::{Budget, Spending};
use crate::error::ErrorCode;
use crate::event::{ClientTool, EventKind, Todo, ToolServer};
use crate::id::{CallId, RequestId};
use crate::limits;
use crate::overview::{LastLine, ModelWait, TurnOutcome, WaitCause};
use crate::permission::{Grant, Mode, Scope};
use crate::queue::PromptQueue;
use crate::request::{PendingRequest, RequestSubject, SettledRequest};
use crate::resources::ResourceReport;
use crate::session::{SessionSpec, Status};
use crate::time::Timestamp;
use crate::tools::{self, ClientToolQueue};
use crate::turn::{COMPACT, EndReason, OpenTurn, PendingPrompt};
use crate::usage::Usage;
use crate::worker::AutoApproved;

/// The changing part of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    pub status: Status,
    pub name: String,
    /// What the session is about; see `shown_title`.
    pub title: String,
    pub model: String,
    /// What the agent says the model is called in full; empty: as `model`.
    pub resolved_model: String,
    /// What clients of betcode.v1 said about the session that nothing here uses.
    pub metadata: BTreeMap<String, String>,
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
    /// Calls in progress that no turn ends, with their tools: those of sub-agents, and those between turns.
    pub background_calls: BTreeMap<CallId, String>,
    /// Workers that have started and not ended, by the name their agent gives them.
    pub workers: BTreeMap<String, Worker>,
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
    #[serde(rename = "untold")]
    pub pending_settings: PendingSettings,
    pub stderr_tail: VecDeque<String>,
    /// What the last agent that ended had used.
    pub resources: Option<ResourceReport>,
    /// How the last turn ended; nothing before the first one has.
    pub last_turn: Option<TurnOutcome>,
    /// The last line that the agent wrote, or what it did last.
    pub last_line: LastLine,
    /// The model keeps the open turn waiting, as the agent reports it.
    pub model_wait: Option<ModelWait>,
    /// The agent has reported usage at least once: until then the sum is unknown, not 0.
    pub is_usage_reported: bool,
    /// Prompts that wait.
    pub queue: PromptQueue,
    /// The budget that was set after the session was created.
    pub budget: Option<Budget>,
    /// Calls started so far.
    pub calls: u64,
    /// How long turns were open, without the open one.
    pub work_ms: u64,
    /// The last turn was ended because the budget was used up.
    pub stopped_by_budget: bool,
    /// The rate limit that the session waits for.
    pub rate_limit: Option<RateLimit>,
    /// Rate limits met in a row.
    pub rate_limits_met: u32,
    /// Hidden from lists.
    pub archived: bool,
    /// Where the history before came from.
    pub fork: Option<ForkOrigin>,
    /// What workers that have ended spent.
    pub workers_spent: Spending,
    /// Calls that were approved automatically.
    pub auto_approved: AutoApproved,
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
        let (name, title) = (spec.name.clone(), title::given(spec));
        Self { name, title, model: spec.model.clone(), mode: spec.mode, ..Self::default() }
    }

    /// Applies an event.
    pub fn evolve(&mut self, at: Timestamp, kind: &EventKind) {
        self.evolve_overview(at, kind);
        self.evolve_title(kind);
        match kind {
            any_event!(StatusChanged AgentStarted AgentReady AgentExited AgentLogged Restarted) => {
                self.evolve_life(at, kind)
            }
            any_event!(TurnStarted InterruptRequested TurnEnded ToolStarted ToolFinished) => {
                self.evolve_turn(at, kind)
            }
            EventKind::RequestOpened { .. }
            | EventKind::RequestSettled { .. }
            | EventKind::GrantsChanged { .. } => self.evolve_requests(at, kind),
            EventKind::WorkerStarted { .. }
            | EventKind::WorkerProgressed { .. }
            | EventKind::WorkerFinished { .. } => self.evolve_workers(at, kind),
            EventKind::Renamed { name } => self.name.clone_from(name),
            EventKind::ModeChanged { mode } => {
                self.mode = *mode;
                self.pending_settings.mode = self.status == Status::Starting;
            }
            EventKind::ModelChanged { .. } => self.evolve_model(kind),
            EventKind::TodosChanged { todos } => self.todos.clone_from(todos),
            EventKind::ServersChanged { servers } => self.servers.clone_from(servers),
            EventKind::ActivityReported { .. } => self.evolve_activity(at, kind),
            EventKind::ToolsRegistered { source, tools } => {
                tools::register(&mut self.tools, source, tools);
                self.tools_revision += 1;
                self.pending_settings.tools = self.status == Status::Starting;
            }
            EventKind::InputHolderChanged { holder } => {
                self.input_holder.clone_from(holder);
                self.attended_since = holder.as_ref().map(|_| self.attended_since.unwrap_or(at));
            }
            EventKind::MessageAdded { text, .. } => {
                if let Some(pending) = self.turn.as_mut().and_then(|turn| turn.pending_prompt.as_mut()) {
                    pending.text.push_str("\n\n");
                    pending.text.push_str(text);
                }
                self.count_message(text);
                self.last_activity_at = Some(at);
            }
            EventKind::TextDelta { .. }
            | EventKind::ThinkingDelta { .. }
            | EventKind::ToolProgress { .. } => self.last_activity_at = Some(at),
            any_event!(plan usage) => self.evolve_spending(at, kind),
            any_event!(SessionCreated PlanModeChanged CommandsChanged Notice Unparsed) => {}
        }
    }

    /// Applies what only the overview of sessions shows.
    fn evolve_overview(&mut self, at: Timestamp, kind: &EventKind) {
        match kind {
            EventKind::TextDelta { text, parent: None } => self.last_line.append(text),
            EventKind::TurnStarted { prompt, .. } => self.last_line.replace(prompt),
            EventKind::ToolStarted { tool, title, .. } => {
                self.last_line.replace(if title.is_empty() { tool } else { title });
            }
            EventKind::TurnEnded { turn, reason, text, error } => {
                self.last_line.replace_with_end(if text.is_empty() { error } else { text });
                let outcome = TurnOutcome::new(*turn, *reason, error, at);
                self.last_turn = Some(outcome);
            }
            EventKind::UsageReported { .. } => self.is_usage_reported = true,
            EventKind::ActivityReported { tokens_input, tokens_output, .. } => {
                self.is_usage_reported |= *tokens_input > 0 || *tokens_output > 0;
            }
            // A restart is a new beginning: how the run before it ended is no longer worth a look.
            EventKind::Restarted { .. } => self.last_turn = None,
            EventKind::Notice { code, message, .. } if self.turn.is_some() => {
                if let Some(cause) = code.and_then(WaitCause::of_code) {
                    self.model_wait = Some(ModelWait::new(cause, at, message));
                }
            }
            any_event!(
                SessionCreated StatusChanged AgentStarted AgentReady AgentExited AgentLogged
                InterruptRequested MessageAdded TextDelta ThinkingDelta ToolProgress ToolFinished request
                settings plan Compacted worker Notice Unparsed
            ) => {}
        }
        if ends_model_wait(kind) {
            self.model_wait = None;
        }
    }

    /// Applies events of the agent's life.
    fn evolve_life(&mut self, at: Timestamp, kind: &EventKind) {
        match kind {
            EventKind::StatusChanged { to, message, code, .. } => self.change_status(at, *to, message, *code),
            EventKind::AgentStarted { pid } => self.pid = *pid,
            EventKind::AgentReady { native_session, .. } => {
                if !native_session.is_empty() {
                    self.native_session.clone_from(native_session);
                }
                self.evolve_model(kind);
                let told = self.turn.as_mut().and_then(|turn| turn.pending_prompt.take()).is_some();
                if let Some(fork) = &mut self.fork {
                    fork.branches = false;
                    if told {
                        fork.history.clear();
                    }
                }
                self.pending_settings = PendingSettings::default();
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
            any_event!(SessionCreated turn output request settings plan usage worker report) => {}
        }
    }

    fn change_status(&mut self, at: Timestamp, to: Status, message: &str, code: Option<ErrorCode>) {
        if to == Status::Starting {
            self.started_at = Some(at);
            self.ended_at = None;
            self.error.clear();
            self.error_code = None;
            self.pending_settings = PendingSettings::default();
        }
        if to.is_terminal() {
            self.ended_at = Some(at);
            self.pid = 0;
            self.rate_limit = None;
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
                    pending_prompt: (!told)
                        .then(|| PendingPrompt { text: prompt.clone(), attachments: attachments.clone() }),
                    interrupted: None,
                    compacting: prompt == COMPACT,
                    calls: BTreeMap::new(),
                    started_at: Some(at),
                });
                self.stopped_by_budget = false;
                self.rate_limit = None;
                if let Some(fork) = self.fork.as_mut().filter(|_| told) {
                    fork.history.clear();
                }
            }
            EventKind::TurnEnded { text, reason, .. } => {
                let open = self.turn.as_ref().and_then(|turn| turn.started_at);
                self.work_ms = self.work_ms.saturating_add(open.map_or(0, |from| elapsed_ms(from, at)));
                self.stopped_by_budget = *reason == EndReason::BudgetExceeded;
                if *reason != EndReason::Failed {
                    self.rate_limit = None;
                    self.rate_limits_met = 0;
                }
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
            EventKind::ToolStarted { call, tool, parent, .. } => {
                self.calls += 1;
                let of_turn = self.turn.as_mut().filter(|_| parent.is_none());
                let calls = of_turn.map_or(&mut self.background_calls, |turn| &mut turn.calls);
                calls.insert(call.clone(), tool.clone());
            }
            EventKind::ToolFinished { call, .. } => {
                if let Some(turn) = &mut self.turn {
                    turn.calls.remove(call);
                }
                self.background_calls.remove(call);
            }
            any_event!(
                life MessageAdded TextDelta ThinkingDelta ToolProgress request settings plan usage worker
                report
            ) => {}
        }
    }

    /// Applies events of requests and grants.
    fn evolve_requests(&mut self, at: Timestamp, kind: &EventKind) {
        match kind {
            EventKind::RequestOpened { request, native, ask, proposals, advice, .. } => {
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
                    advice: advice.clone(),
                    turn: self.turn.as_ref().filter(|_| !self.is_of_worker(ask)).map(|turn| turn.id),
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
                self.note_automatic(at, *request, used_grant);
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
            any_event!(life turn output settings plan usage worker report) => {}
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

    /// Returns whether a sub-agent asks, whose work no turn ends.
    fn is_of_worker(&self, ask: &RequestSubject) -> bool {
        let is_background = |call: &CallId| self.background_calls.contains_key(call);
        match ask {
            RequestSubject::Permission(permission) => {
                permission.parent.is_some() || permission.call.as_ref().is_some_and(is_background)
            }
            RequestSubject::Question { call, .. } => call.as_ref().is_some_and(is_background),
            RequestSubject::ClientTool { call, .. } => is_background(call),
        }
    }

    /// Returns whether something goes on without a turn: a worker, a call, or a request that waits.
    pub fn is_busy_between_turns(&self) -> bool {
        !self.workers.is_empty() || !self.background_calls.is_empty() || !self.requests.is_empty()
    }

    /// Returns how a request was settled, if it was and is still kept.
    pub fn settled_request(&self, id: RequestId) -> Option<&SettledRequest> {
        self.settled.iter().rev().find(|settled| settled.request.id == id)
    }
}

/// Returns whether an event shows that the model answers again, or that nobody waits for it any more.
fn ends_model_wait(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::TextDelta { .. }
            | EventKind::ThinkingDelta { .. }
            | EventKind::ToolStarted { .. }
            | EventKind::ToolFinished { .. }
            | EventKind::TurnStarted { .. }
            | EventKind::TurnEnded { .. }
            | EventKind::UsageReported { .. }
            | EventKind::StatusChanged { .. }
    )
}
