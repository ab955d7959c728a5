//! What happens in a session. These types are the journal's stored format: fields are only ever added, with a
//! default, and a kind is never renamed. `tests/journal_format.rs` holds that promise.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::ErrorCode;
use crate::id::{CallId, RequestId, SessionId, TurnId};
use crate::permission::{Grant, Mode, Proposal};
use crate::request::{RequestOutcome, RequestSubject};
use crate::resources::ResourceReport;
use crate::session::{ProviderKind, Status};
use crate::time::Timestamp;
use crate::turn::{EndReason, InterruptReason, TurnOrigin};
use crate::usage::Usage;

/// One entry of a session's journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub session: SessionId,
    /// From 1, without gaps, never reused.
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

/// An entry of the agent's own list of things to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    pub id: String,
    pub text: String,
    pub status: TodoStatus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    Pending,
    InProgress,
    Completed,
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

/// A command an agent offers, such as `/compact`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentCommand {
    pub name: String,
    #[serde(default)]
    pub description: String,
}

/// A server of tools that the agent uses (MCP), as the agent sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolServer {
    pub name: String,
    pub status: ServerStatus,
    /// As the server calls them, without its own name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Where it is reached, where the agent says.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
}

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
        /// Set when an error is the cause.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<ErrorCode>,
    },
    /// The agent's process exists (pid 0: it is no process).
    AgentStarted {
        pid: u32,
    },
    /// The agent takes prompts.
    AgentReady {
        /// How the agent calls the conversation; needed to resume it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        native_session: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        model: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        version: String,
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
    /// The running turn was told to end.
    InterruptRequested {
        turn: TurnId,
        reason: InterruptReason,
    },
    /// A message added to the turn that was running.
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
        /// The agent's own last word on the turn, where it gives one.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        error: String,
    },

    RequestOpened {
        request: RequestId,
        native: String,
        /// Nobody is asked: a grant, a rule or the mode answers it at once.
        #[serde(default, skip_serializing_if = "is_false")]
        automatic: bool,
        #[serde(flatten)]
        ask: RequestSubject,
        /// What may be remembered with an allowance, the default first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        proposals: Vec<Proposal>,
    },
    RequestSettled {
        request: RequestId,
        #[serde(flatten)]
        outcome: RequestOutcome,
        by: String,
        /// Told to the agent.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        message: String,
        /// What is remembered from now on; one that reaches beyond the session is kept elsewhere.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grant: Option<Box<Grant>>,
        /// The session's grant that answered it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        used_grant: String,
    },

    /// Somebody changed what the session allows or denies without asking; all that holds from now on.
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
    /// The servers of tools the agent uses, all of them.
    ServersChanged {
        servers: Vec<ToolServer>,
    },
    UsageReported {
        #[serde(flatten)]
        usage: Usage,
        /// Tokens of the model's window in use, where the agent says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context_tokens: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context_window: Option<u64>,
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
    },
    WorkerFinished {
        worker: String,
        ok: bool,
        summary: String,
    },
    InputHolderChanged {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<String>,
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
    /// Output nobody understood, kept as it came.
    Unparsed {
        raw: String,
        /// Length of the whole line where `raw` is only its beginning.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        length: Option<u64>,
    },
}

impl EventKind {
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
            Self::Notice { .. } => "notice",
            Self::ActivityReported { .. } => "activity_reported",
            Self::Unparsed { .. } => "unparsed",
        }
    }
}
