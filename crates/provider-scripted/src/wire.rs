//! The scripted agent's protocol: one JSON object per line, both ways.
//!
//! The daemon writes `{"do": …}` lines: `start` first and once, then `prompt`, `steer`, `interrupt`,
//! `decide`, `answer`, `tools`, `tool_result`, `mode`, `compact`, `leave`. The agent writes `{"say": …}`
//! lines: `ready` once, and for every prompt `turn_started`, what happens, and `turn_ended`. A request of the
//! agent (`asked`) has an `id` that `decide` and `answer` name. The end of its input ends the agent, once its
//! turn has ended. It ignores lines it cannot parse.

use std::collections::BTreeMap;

use domain::event::Todo;
use domain::request::RequestSubject;
use domain::turn::EndReason;
use domain::{CallId, Mode, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An input for the agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum ToScriptedAgent {
    Start(StartMessage),
    Prompt {
        text: String,
        /// Names of the attached files.
        #[serde(default)]
        attachments: Vec<String>,
    },
    Steer {
        text: String,
    },
    Interrupt,
    Decide {
        id: String,
        allow: bool,
        #[serde(default)]
        message: String,
        /// A denial that also ends the turn.
        #[serde(default)]
        stop: bool,
    },
    Answer {
        id: String,
        answers: BTreeMap<String, String>,
    },
    /// Tools that clients run for it: name, and whether a call needs a permission first.
    Tools {
        tools: Vec<(String, bool)>,
    },
    ToolResult {
        id: String,
        ok: bool,
        output: String,
    },
    Mode {
        mode: Mode,
    },
    Compact,
    Leave,
    /// Sent only by the agent to its own child: leave the process session and stay alive.
    Outlive,
}

/// How the agent starts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StartMessage {
    pub(super) session: String,
    pub(super) model: String,
    pub(super) mode: Mode,
    pub(super) resume: bool,
    pub(super) startup_delay_ms: u64,
    /// Not empty: it exits with this instead of being ready.
    pub(super) startup_fail: String,
}

/// A report of the agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub(super) enum FromScriptedAgent {
    Ready { session: String, model: String, version: String },
    TurnStarted,
    Text { text: String },
    Thinking { text: String },
    ToolStarted { call: CallId, tool: String, input: Value, title: String },
    ToolFinished { call: CallId, ok: bool, output: String },
    Asked { id: String, ask: RequestSubject },
    Withdrew { id: String },
    Todos { todos: Vec<Todo> },
    Usage { usage: Usage },
    PlanMode { on: bool },
    Compacted { before: u64, after: u64, summary: String },
    TurnEnded { reason: EndReason, text: String, error: String },
}
