//! The codec state: everything the codec keeps between two lines. One plain struct, saved with the events.
//! What is not in it does not survive the daemon, so translating and encoding keep nothing anywhere else. Its
//! size is bounded. `provider_config` is not in here (it may contain keys); it is read from the session
//! again.

use std::collections::{BTreeMap, BTreeSet};

use domain::event::ToolServer;
use domain::turn::EndReason;
use domain::{CallId, Mode, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::mode_settings::Workspace;
use super::rpc::{self, CodexRequestKind};
use crate::limits;

/// What is known about the agent and its current turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct CodexState {
    /// Number of our requests so far.
    pub(super) sent: u64,
    pub(super) cwd: String,
    /// The conversation to resume; empty for a new one.
    pub(super) resume: String,
    /// The conversation that the session was created with, as items of the Responses API, until the agent has it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) history: Vec<Value>,
    /// The session had turns before this run, so a missing conversation is a loss.
    pub(super) had_turns: bool,
    /// The requested model; empty for the agent's default.
    pub(super) asked_model: String,
    /// The model was requested; it is not just what the agent reported last time.
    pub(super) model_is_wanted: bool,
    pub(super) mode: Mode,
    /// The agent has the daemon's own server.
    pub(super) bridged: bool,
    /// How the agent starts that server; sent when a conversation starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bridge: Option<Value>,
    pub(super) version: String,
    /// Lines that could not be parsed before the agent reported its version.
    pub(super) garbage: u32,
    /// The requested model is one the agent has.
    pub(super) checked: bool,
    /// The agent's id of the conversation; empty until it has started.
    pub(super) thread: String,
    pub(super) model: String,
    /// Names that can be requested.
    pub(super) models: Vec<String>,
    pub(super) workspace: Workspace,
    /// The agent is in its planning mode.
    pub(super) planning: bool,
    /// The plan it has proposed in this turn.
    pub(super) plan: String,
    /// The session left plan mode, which is not reported yet.
    pub(super) left_plan: bool,
    /// The agent is ready as soon as it is in its planning mode.
    pub(super) awaits_plan_mode: bool,
    pub(super) turn: Option<CodexTurn>,
    /// How a turn without the agent's participation ends at the next answer.
    pub(super) settling: Option<EndReason>,
    /// Items of the model that were streamed.
    pub(super) streamed: BTreeSet<String>,
    /// Calls that started and have not finished.
    pub(super) calls: BTreeMap<CallId, CodexCall>,
    /// Commands of an interrupted turn; those that still run are ended.
    pub(super) strays: BTreeSet<String>,
    /// Conversations whose commands were asked for, by the ids of our requests.
    pub(super) lists: BTreeMap<String, String>,
    /// Requests that wait for an answer, by their native id.
    pub(super) asks: BTreeMap<String, AnswerForm>,
    /// Answers that wait until the agent has accepted the message that explains them, by the id of that
    /// request.
    pub(super) held: BTreeMap<String, Value>,
    /// Sub-agents, by the id of their conversation.
    pub(super) workers: BTreeMap<String, CodexSubagent>,
    /// MCP servers, as reported.
    pub(super) servers: Vec<ToolServer>,
    /// Tokens of the conversation that were reported; `None` until its past is known.
    pub(super) counted: Option<Usage>,
    pub(super) context_tokens: Option<u64>,
    pub(super) context_window: Option<u64>,
    /// Tokens in use when a compaction started.
    pub(super) compacting: Option<u64>,
    /// When the limits of the user's plan that are used up end, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limit_resets_at: Option<u64>,
}

/// The open turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct CodexTurn {
    /// The agent's id of it; empty until it is reported, and while a plan waits for a decision.
    pub(super) id: String,
    pub(super) interrupt: InterruptState,
    /// The agent is done and its plan waits for a decision.
    pub(super) plan_asked: bool,
}

/// Whether the turn was asked to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum InterruptState {
    #[default]
    No,
    /// As soon as the agent has reported its id of the turn.
    Wanted,
    Sent,
}

/// An open call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct CodexCall {
    pub(super) kind: CodexCallKind,
    /// The files of a change, for the request that asks about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) files: Vec<(String, String)>,
    /// The tool, if a request does not name it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) tool: String,
    /// A permission for a server's tool was asked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_asked: bool,
    /// Why it was denied.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) denied: String,
    /// The call of the sub-agent that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<CallId>,
}

/// What a call does, as far as its end depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CodexCallKind {
    Command,
    #[default]
    Other,
}

/// The form of the answer that a request needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AnswerForm {
    /// A decision about a command or a change.
    Decision,
    /// Permissions, returned as they were asked for.
    Permissions,
    /// Answers to questions.
    Answers,
    /// Yes or no to a server.
    Consent,
    /// A server's form: its fields with their types.
    Form(BTreeMap<String, String>),
    /// Whether a plan is carried out; the agent does not wait for it.
    Plan,
}

/// A sub-agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct CodexSubagent {
    /// The call that started it.
    pub(super) call: CallId,
    /// Its tokens that were reported.
    #[serde(default)]
    pub(super) counted: Usage,
    /// Its open turn.
    #[serde(default)]
    pub(super) turn: String,
    /// It has had a turn.
    #[serde(default)]
    pub(super) has_begun: bool,
    /// The turn it works for was interrupted, and it must end.
    #[serde(default)]
    pub(super) is_cut: bool,
    /// The last it said, which is its result when it ends.
    #[serde(default)]
    pub(super) said: String,
}

impl CodexSubagent {
    fn new(call: CallId) -> Self {
        let (turn, said) = (String::new(), String::new());
        Self { call, counted: Usage::default(), turn, has_begun: false, is_cut: false, said }
    }
}

impl CodexState {
    /// Sends a request to the agent. Returns the request's id.
    pub(super) fn send_request(
        &mut self,
        purpose: CodexRequestKind,
        params: Value,
        wire: &mut Vec<u8>,
    ) -> String {
        self.sent += 1;
        rpc::ask(purpose, self.sent, params, wire)
    }

    /// Ends the open turn without the agent's participation, at its next answer.
    pub(super) fn settle(&mut self, reason: EndReason, wire: &mut Vec<u8>) {
        if self.settling.is_none() {
            self.settling = Some(reason);
            self.send_request(CodexRequestKind::Settle, serde_json::json!({}), wire);
        }
    }

    /// Stores a request until it is answered.
    pub(super) fn remember_request(&mut self, native: &str, asking: AnswerForm) {
        if self.asks.len() < limits::ASKS_MAX {
            self.asks.insert(native.to_owned(), asking);
        }
    }

    /// Stores a sub-agent; drops the oldest if there are too many.
    pub(super) fn remember_worker(&mut self, thread: &str, call: CallId) {
        if self.workers.len() >= limits::WORKERS_MAX {
            // Ids increase with time.
            self.workers.pop_first();
        }
        self.workers.insert(thread.to_owned(), CodexSubagent::new(call));
    }

    /// Records that an item is streamed.
    pub(super) fn remember_streamed(&mut self, item: &str) {
        if !self.streamed.contains(item) && self.streamed.len() < limits::OPEN_CALLS_MAX {
            self.streamed.insert(item.to_owned());
        }
    }

    /// Drops what ended with the turn.
    pub(super) fn end_turn(&mut self) {
        self.turn = None;
        self.settling = None;
        self.plan.clear();
        self.streamed.clear();
        // Sub-agents go on, with their calls and what they ask.
        self.calls.retain(|_, call| call.parent.is_some());
        if self.workers.values().all(|worker| worker.turn.is_empty()) {
            self.asks.clear();
        }
        self.held.clear();
        self.compacting = None;
    }
}
