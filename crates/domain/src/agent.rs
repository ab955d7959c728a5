//! The types exchanged between the rules and any agent: what an adapter reports and what is sent to it.
//! Adapters translate their own protocol into these types; nothing here knows an adapter.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::ErrorCode;
use crate::event::{AgentCommand, Attachment, ClientTool, Level, Todo, ToolServer};
use crate::id::CallId;
use crate::permission::{Decision, Mode};
use crate::request::{PermissionSubject, RequestSubject};
use crate::resources::{OutOfMemory, ResourceReport};
use crate::time::Timestamp;
use crate::turn::EndReason;
use crate::usage::Usage;

/// A report of an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentEvent {
    /// It accepts prompts.
    Ready {
        native_session: String,
        model: String,
        version: String,
        /// The full name of the model, where `model` is a short one; else empty.
        resolved_model: String,
    },
    /// A turn started. Reported for every turn; a turn that no prompt asked for is the agent's own.
    TurnStarted,
    Text {
        text: String,
        parent: Option<CallId>,
    },
    Thinking {
        text: String,
        parent: Option<CallId>,
    },
    ToolStarted {
        call: CallId,
        tool: String,
        input: Value,
        title: String,
        parent: Option<CallId>,
    },
    ToolProgress {
        call: CallId,
        output: String,
    },
    ToolFinished {
        call: CallId,
        ok: bool,
        output: String,
    },
    TurnEnded {
        reason: EndReason,
        text: String,
        error: String,
    },
    /// It waits for an answer; `native` is its own id of the request.
    Asked {
        native: String,
        ask: RequestSubject,
    },
    /// It continues unless grants or rules object, and gets the result like the answer to a request. A person
    /// is asked only if a rule demands it, and nothing is recorded if nothing objects.
    Checks {
        native: String,
        ask: PermissionSubject,
    },
    /// It no longer waits.
    Withdrew {
        native: String,
    },
    Todos(Vec<Todo>),
    Mode(Mode),
    PlanMode(bool),
    Model(String),
    Commands(Vec<AgentCommand>),
    /// All of them; the same list again is ignored.
    Servers(Vec<ToolServer>),
    Usage {
        usage: Usage,
        context_tokens: Option<u64>,
        context_window: Option<u64>,
        /// The call that started the worker which used it.
        parent: Option<CallId>,
    },
    Compacted {
        tokens_before: Option<u64>,
        tokens_after: Option<u64>,
        summary: String,
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
    /// The model refuses it until a limit of its use is over; the turn may end with an error because of that.
    RateLimited {
        /// When the limit ends, if the agent knows.
        resumes_at: Option<Timestamp>,
        reason: String,
    },
    Notice {
        level: Level,
        message: String,
    },
    /// The model does not answer and will be asked again: its rate limit is reached (`RateLimited`), or it cannot be
    /// reached (`ConnectionLost`).
    Waits {
        code: ErrorCode,
        message: String,
    },
    Logged(String),
    Unparsed {
        raw: String,
        length: Option<u64>,
    },
    /// It cannot continue. The session fails with this text, and with this code if the adapter knows a better
    /// one than "could not be started" or "crashed".
    Broken {
        code: Option<ErrorCode>,
        message: String,
    },
}

/// A pattern for any of the kinds and groups of reports that are listed, without a separator, as `any_event!` is one for
/// events. The tidy rule `events` refuses a wildcard in place of it.
#[macro_export]
macro_rules! any_report {
    (@ life) => { $crate::any_report!(Ready Broken) };
    (@ turn) => { $crate::any_report!(TurnStarted TurnEnded) };
    (@ text) => { $crate::any_report!(Text Thinking) };
    (@ call) => { $crate::any_report!(ToolStarted ToolProgress ToolFinished) };
    (@ request) => { $crate::any_report!(Asked Checks Withdrew) };
    (@ settings) => { $crate::any_report!(Todos Mode PlanMode Model Commands Servers) };
    (@ usage) => { $crate::any_report!(Usage Compacted RateLimited) };
    (@ worker) => { $crate::any_report!(WorkerStarted WorkerProgressed WorkerFinished) };
    (@ log) => { $crate::any_report!(Notice Waits Logged Unparsed) };
    (@ $kind:ident) => { $crate::AgentEvent::$kind { .. } };
    ($($name:ident)+) => { $($crate::any_report!(@ $name))|+ };
}

/// An input for an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentInput {
    Prompt {
        text: String,
        attachments: Vec<Attachment>,
    },
    /// Added to the running turn.
    Steer {
        text: String,
    },
    Interrupt,
    Decide {
        native: String,
        decision: Decision,
        message: String,
        updated_input: Option<Value>,
        /// The original request, so that an adapter need not keep it.
        ask: RequestSubject,
    },
    Answer {
        native: String,
        answers: BTreeMap<String, String>,
        ask: RequestSubject,
    },
    ToolResult {
        native: String,
        ok: bool,
        output: String,
    },
    Tools(Vec<ClientTool>),
    SetMode(Mode),
    SetModel(String),
    Compact,
    /// Exit cleanly.
    Leave,
}

/// How an agent's process ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// Additional information, such as the last lines of standard error.
    pub message: String,
    /// The kernel ended it because memory ran out.
    #[serde(default)]
    pub out_of_memory: Option<OutOfMemory>,
    /// What it used, where that was measured.
    #[serde(default)]
    pub resources: Option<ResourceReport>,
    /// Its walls ended it, because it could have changed a protected file: which, and how.
    #[serde(default)]
    pub unprotected: Option<String>,
}

impl Exit {
    /// Returns whether the agent exited on its own and without an error.
    pub fn is_clean(&self) -> bool {
        self.code == Some(0)
    }

    /// Describes the exit in words.
    pub fn describe(&self) -> String {
        match (self.code, self.signal) {
            (_, Some(signal)) if signal != 0 => format!("killed by signal {signal}"),
            (Some(code), _) => format!("exited with code {code}"),
            _ => "ended without an exit status".to_owned(),
        }
    }
}
