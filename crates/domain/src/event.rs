//! The events of a session. These types are the journal's stored format: fields are only ever added, with a
//! default, and a kind is never renamed. `tests/journal_format.rs` enforces that.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::budget::{Budget, Spending};
use crate::error::ErrorCode;
use crate::id::{CallId, RequestId, SessionId, TurnId};
use crate::permission::{Grant, Mode, PermissionAdvice, Proposal};
use crate::queue::QueueChange;
use crate::request::{RequestOutcome, RequestSubject};
use crate::resources::ResourceReport;
use crate::session::{ProviderKind, Status};
use crate::time::Timestamp;
use crate::turn::{EndReason, InterruptReason, TurnOrigin};
use crate::usage::Usage;

mod groups;
mod todo;
pub use todo::{Todo, TodoPriority, TodoStatus};

/// One entry of a session's journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub session: SessionId,
    /// Starts at 1, has no gaps, is never reused.
    pub seq: u64,
    pub at: Timestamp,
    pub kind: EventKind,
}

/// How urgent a notice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Info,
    Warning,
    Error,
}

/// A tool that a client offers and runs itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientTool {
    pub name: String,
    pub description: String,
    pub input_schema: Value,
    /// Calls of such a tool run one at a time.
    #[serde(default)]
    pub exclusive: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Each call needs a permission first.
    #[serde(default, skip_serializing_if = "is_false")]
    pub asks: bool,
}

/// A file sent along with a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    pub name: String,
    pub media_type: String,
    /// Base64.
    pub content: String,
}

impl Attachment {
    /// The media type of a text that is no file of the user but context from the program that drives the session. An
    /// agent that can takes it as a system message, the others as any other text.
    pub const SYSTEM_MEDIA_TYPE: &str = "text/plain;purpose=system";

    pub fn is_system(&self) -> bool {
        self.media_type == Self::SYSTEM_MEDIA_TYPE
    }
}

/// The activity of `ActivityReported` that holds what a client said about a session at its start.
pub const METADATA_ACTIVITY: &str = "metadata";

/// A command an agent offers, such as `/compact`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentCommand {
    pub name: String,
    #[serde(default)]
    pub description: String,
    /// What its arguments are; empty: it takes none, or the agent does not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hint: String,
}

/// An MCP server that the agent uses, as reported by the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolServer {
    pub name: String,
    pub status: ServerStatus,
    /// Names as the server defines them, without the server's name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Its address, if the agent reports it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// The state of an MCP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerStatus {
    Starting,
    Running,
    Stopped,
    Failed,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// What happened. Closed: a surface's projector matches every kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventKind {
    SessionCreated {
        provider: ProviderKind,
        model: String,
        name: String,
        working_dir: String,
        mode: Mode,
    },
    StatusChanged {
        from: Status,
        to: Status,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        message: String,
        /// Set if an error is the cause.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<ErrorCode>,
    },
    /// The agent's process exists (pid 0 if it has no process).
    AgentStarted {
        pid: u32,
    },
    /// The agent accepts prompts.
    AgentReady {
        /// The agent's id of the conversation; needed to resume it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        native_session: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        model: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        version: String,
        /// The full name of the model, where `model` is a short one.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        resolved_model: String,
    },
    AgentExited {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        message: String,
        /// What it and everything it started used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resources: Option<Box<ResourceReport>>,
    },
    /// A line of the agent's standard error.
    AgentLogged {
        line: String,
    },
    Restarted {
        count: u32,
    },
    Renamed {
        name: String,
    },

    TurnStarted {
        turn: TurnId,
        origin: TurnOrigin,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        prompt: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        by: String,
    },
    /// The running turn was asked to end.
    InterruptRequested {
        turn: TurnId,
        reason: InterruptReason,
    },
    /// A message added to the running turn.
    MessageAdded {
        turn: TurnId,
        text: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        by: String,
    },
    TextDelta {
        text: String,
        /// Call of the sub-agent that speaks; absent for the agent itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<CallId>,
    },
    ThinkingDelta {
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<CallId>,
    },
    ToolStarted {
        call: CallId,
        tool: String,
        input: Value,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        title: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<CallId>,
    },
    ToolProgress {
        call: CallId,
        output: String,
    },
    ToolFinished {
        call: CallId,
        tool: String,
        ok: bool,
        output: String,
    },
    TurnEnded {
        turn: TurnId,
        reason: EndReason,
        /// The answer: what the agent said since its last call, or what it reports where it streamed nothing of it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        error: String,
    },

    RequestOpened {
        request: RequestId,
        native: String,
        /// No client is asked: a grant, a rule or the mode answers it at once.
        #[serde(default, skip_serializing_if = "is_false")]
        automatic: bool,
        #[serde(flatten)]
        ask: RequestSubject,
        /// What may be remembered with an approval, the default first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        proposals: Vec<Proposal>,
        /// What a person should know before answering.
        #[serde(default, skip_serializing_if = "PermissionAdvice::is_empty")]
        advice: PermissionAdvice,
    },
    RequestSettled {
        request: RequestId,
        #[serde(flatten)]
        outcome: RequestOutcome,
        by: String,
        /// Sent to the agent.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        message: String,
        /// The grant that is remembered from now on; one that reaches beyond the session is stored elsewhere.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grant: Option<Box<Grant>>,
        /// The session's grant that answered it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        used_grant: String,
    },

    /// The session's grants were changed directly; contains all that are in force from now on.
    GrantsChanged {
        grants: Vec<Grant>,
        by: String,
    },
    TodosChanged {
        todos: Vec<Todo>,
    },
    ModeChanged {
        mode: Mode,
    },
    /// The agent itself entered or left its planning state.
    PlanModeChanged {
        on: bool,
    },
    ModelChanged {
        model: String,
    },
    CommandsChanged {
        commands: Vec<AgentCommand>,
    },
    /// The MCP servers the agent uses, all of them.
    ServersChanged {
        servers: Vec<ToolServer>,
    },
    UsageReported {
        #[serde(flatten)]
        usage: Usage,
        /// Tokens of the model's context window in use, if the agent reports it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context_tokens: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context_window: Option<u64>,
        /// The call that started the worker inside the agent which used it; none: the agent itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<CallId>,
    },
    Compacted {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens_before: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens_after: Option<u64>,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        summary: String,
    },
    ToolsRegistered {
        source: String,
        tools: Vec<ClientTool>,
    },
    WorkerStarted {
        worker: String,
        call: Option<CallId>,
        title: String,
    },
    WorkerProgressed {
        worker: String,
        summary: String,
        /// What it has spent so far, if it is a session of its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spent: Option<Spending>,
    },
    WorkerFinished {
        worker: String,
        ok: bool,
        summary: String,
        /// What it has spent in all, if it is a session of its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spent: Option<Spending>,
    },
    InputHolderChanged {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<String>,
    },
    /// The prompts that wait changed.
    QueueChanged {
        #[serde(flatten)]
        change: QueueChange,
    },
    /// What the session may spend in all from now on.
    BudgetChanged {
        budget: Budget,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        by: String,
    },
    /// The model refuses the agent until a limit of its use is over. If that ended the turn, the session goes on by itself.
    RateLimited {
        resumes_at: Timestamp,
        reason: String,
        /// How often in a row.
        attempt: u32,
    },
    /// The session no longer waits for the rate limit.
    RateLimitEnded {},
    /// The session is hidden from lists, or shown again.
    ArchiveChanged {
        archived: bool,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        by: String,
    },
    /// Everything before is copied from another session; this one starts here.
    SessionForked {
        from: SessionId,
        /// The last event that was copied.
        seq: u64,
        /// The text about it that precedes the agent's first prompt; empty: the agent resumes the conversation itself.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        history: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        by: String,
    },
    /// Something a person should know: a retry, a refusal, a budget.
    Notice {
        level: Level,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<ErrorCode>,
        message: String,
    },
    /// Reported by a program outside the daemon.
    ActivityReported {
        activity: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        agent_name: String,
        content: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        tool: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        call: String,
        #[serde(default)]
        ok: bool,
        #[serde(default)]
        tokens_input: u64,
        #[serde(default)]
        tokens_output: u64,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        extra: BTreeMap<String, String>,
    },
    /// Output that could not be parsed, kept as received.
    Unparsed {
        raw: String,
        /// Length of the whole line if `raw` is only its beginning.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        length: Option<u64>,
    },
}

impl EventKind {
    /// Returns whether the session has ended with this event.
    pub fn ends_session(&self) -> bool {
        matches!(self, Self::StatusChanged { to, .. } if to.is_terminal())
    }

    /// Returns the text of this event and the piece that a later one continues it with; `None` if it does not.
    pub fn continued_by<'a>(&'a mut self, later: &'a Self) -> Option<(&'a mut String, &'a str)> {
        if let (Self::TextDelta { text, parent }, Self::TextDelta { text: more, parent: same })
        | (Self::ThinkingDelta { text, parent }, Self::ThinkingDelta { text: more, parent: same }) =
            (self, later)
            && parent == same
        {
            return Some((text, more));
        }
        None
    }

    /// Returns the stored name of the kind.
    pub fn name(&self) -> &'static str {
        match self {
            Self::SessionCreated { .. } => "session_created",
            Self::StatusChanged { .. } => "status_changed",
            Self::AgentStarted { .. } => "agent_started",
            Self::AgentReady { .. } => "agent_ready",
            Self::AgentExited { .. } => "agent_exited",
            Self::AgentLogged { .. } => "agent_logged",
            Self::Restarted { .. } => "restarted",
            Self::Renamed { .. } => "renamed",
            Self::TurnStarted { .. } => "turn_started",
            Self::InterruptRequested { .. } => "interrupt_requested",
            Self::MessageAdded { .. } => "message_added",
            Self::TextDelta { .. } => "text_delta",
            Self::ThinkingDelta { .. } => "thinking_delta",
            Self::ToolStarted { .. } => "tool_started",
            Self::ToolProgress { .. } => "tool_progress",
            Self::ToolFinished { .. } => "tool_finished",
            Self::TurnEnded { .. } => "turn_ended",
            Self::RequestOpened { .. } => "request_opened",
            Self::RequestSettled { .. } => "request_settled",
            Self::GrantsChanged { .. } => "grants_changed",
            Self::TodosChanged { .. } => "todos_changed",
            Self::ModeChanged { .. } => "mode_changed",
            Self::PlanModeChanged { .. } => "plan_mode_changed",
            Self::ModelChanged { .. } => "model_changed",
            Self::CommandsChanged { .. } => "commands_changed",
            Self::ServersChanged { .. } => "servers_changed",
            Self::UsageReported { .. } => "usage_reported",
            Self::Compacted { .. } => "compacted",
            Self::ToolsRegistered { .. } => "tools_registered",
            Self::WorkerStarted { .. } => "worker_started",
            Self::WorkerProgressed { .. } => "worker_progressed",
            Self::WorkerFinished { .. } => "worker_finished",
            Self::InputHolderChanged { .. } => "input_holder_changed",
            Self::QueueChanged { .. } => "queue_changed",
            Self::BudgetChanged { .. } => "budget_changed",
            Self::RateLimited { .. } => "rate_limited",
            Self::RateLimitEnded {} => "rate_limit_ended",
            Self::ArchiveChanged { .. } => "archive_changed",
            Self::SessionForked { .. } => "session_forked",
            Self::Notice { .. } => "notice",
            Self::ActivityReported { .. } => "activity_reported",
            Self::Unparsed { .. } => "unparsed",
        }
    }
}
