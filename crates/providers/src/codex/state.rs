//! The codec state: everything the codec keeps between two lines. One plain struct, saved with the events: what is
//! not in it does not survive the daemon, so translating and encoding keep nothing anywhere else. Its size is bounded. What `provider_config` says
//! is not in here (it may hold keys); it is read from the session again.

use std::collections::{BTreeMap, BTreeSet};

use domain::event::ToolServer;
use domain::turn::EndReason;
use domain::{CallId, Mode, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::mode_settings::Workspace;
use super::rpc::{self, CodexRequestKind};
use crate::limits;

/// What is known about the agent and the turn it is in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct CodexState {
    /// Requests of ours numbered so far.
    pub(super) sent: u64,
    pub(super) cwd: String,
    /// The conversation to take up; empty: a new one.
    pub(super) resume: String,
    /// The session had turns before this run, so a conversation that is gone is a loss.
    pub(super) had_turns: bool,
    /// The model as it was asked for; empty: the agent's default.
    pub(super) asked_model: String,
    /// Somebody asked for that model; it is not just what the agent said it used last time.
    pub(super) model_is_wanted: bool,
    pub(super) mode: Mode,
    /// The agent has the daemon's own server.
    pub(super) bridged: bool,
    /// How it starts that server, told when a conversation begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bridge: Option<Value>,
    pub(super) version: String,
    /// Lines nobody understood before the agent said what it is.
    pub(super) garbage: u32,
    /// The model that was asked for is one the agent has.
    pub(super) checked: bool,
    /// How the agent calls the conversation; empty until it has begun.
    pub(super) thread: String,
    pub(super) model: String,
    /// Names that can be asked for.
    pub(super) models: Vec<String>,
    pub(super) workspace: Workspace,
    /// The agent works in its planning mode.
    pub(super) planning: bool,
    /// The plan it has proposed in this turn.
    pub(super) plan: String,
    /// The session left its planning mode and has not heard of it.
    pub(super) left_plan: bool,
    /// The agent is ready as soon as it has taken its planning mode.
    pub(super) awaits_plan_mode: bool,
    pub(super) turn: Option<CodexTurn>,
    /// A turn without the agent's part ends with the next answer, like this.
    pub(super) settling: Option<EndReason>,
    /// Items of the model that were told piece by piece.
    pub(super) streamed: BTreeSet<String>,
    /// Calls that started and have not finished.
    pub(super) calls: BTreeMap<CallId, CodexCall>,
    /// Commands of a turn that was cut short; what still runs of them is ended.
    pub(super) strays: BTreeSet<String>,
    /// Conversations whose commands were asked for, by the names of our requests.
    pub(super) lists: BTreeMap<String, String>,
    /// Requests that wait for an answer, by their native name.
    pub(super) asks: BTreeMap<String, AnswerForm>,
    /// Answers that wait until the agent has taken what explains them, by the name of our request that does.
    pub(super) held: BTreeMap<String, Value>,
    /// Sub-agents, by the name of their conversation.
    pub(super) workers: BTreeMap<String, CodexSubagent>,
    /// Servers of tools, as they were told.
    pub(super) servers: Vec<ToolServer>,
    /// Tokens of the conversation that were reported; absent until its past is known.
    pub(super) counted: Option<Usage>,
    pub(super) context_tokens: Option<u64>,
    pub(super) context_window: Option<u64>,
    /// Tokens in use when a compaction began.
    pub(super) compacting: Option<u64>,
}

/// The turn that is open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct CodexTurn {
    /// How the agent calls it; empty until it says, and while a plan is put before a person.
    pub(super) id: String,
    pub(super) interrupt: InterruptState,
    /// The agent is done and its plan waits for a decision.
    pub(super) plan_asked: bool,
}

/// Whether the turn was told to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum InterruptState {
    #[default]
    No,
    /// As soon as the agent has said how it calls the turn.
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
    /// The tool, where a request does not name it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) tool: String,
    /// Somebody was asked whether a server's tool may run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_asked: bool,
    /// Why it was denied.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) denied: String,
    /// The call of the sub-agent that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<CallId>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CodexCallKind {
    Command,
    #[default]
    Other,
}

/// What kind of answer a request wants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AnswerForm {
    /// A decision about a command or a change.
    Decision,
    /// Permissions, given back as they were asked for.
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
    /// Its turn that is open.
    #[serde(default)]
    pub(super) turn: String,
    /// It has had a turn.
    #[serde(default)]
    pub(super) has_begun: bool,
    /// The turn it works for was cut short, and it is to end.
    #[serde(default)]
    pub(super) is_cut: bool,
}

impl CodexSubagent {
    fn new(call: CallId) -> Self {
        Self { call, counted: Usage::default(), turn: String::new(), has_begun: false, is_cut: false }
    }
}

impl CodexState {
    /// Asks the agent something. Returns the request's name.
    pub(super) fn send_request(
        &mut self,
        purpose: CodexRequestKind,
        params: Value,
        wire: &mut Vec<u8>,
    ) -> String {
        self.sent += 1;
        rpc::ask(purpose, self.sent, params, wire)
    }

    /// Ends the open turn without the agent's part, at its next answer.
    pub(super) fn settle(&mut self, reason: EndReason, wire: &mut Vec<u8>) {
        if self.settling.is_none() {
            self.settling = Some(reason);
            self.send_request(CodexRequestKind::Settle, serde_json::json!({}), wire);
        }
    }

    /// Remembers a request until it is answered.
    pub(super) fn remember_request(&mut self, native: &str, asking: AnswerForm) {
        if self.asks.len() < limits::ASKS_MAX {
            self.asks.insert(native.to_owned(), asking);
        }
    }

    /// Remembers a sub-agent; the oldest is forgotten when there are too many.
    pub(super) fn remember_worker(&mut self, thread: &str, call: CallId) {
        if self.workers.len() >= limits::WORKERS_MAX {
            // Names grow with time.
            self.workers.pop_first();
        }
        self.workers.insert(thread.to_owned(), CodexSubagent::new(call));
    }

    /// Notes that an item is told piece by piece.
    pub(super) fn remember_streamed(&mut self, item: &str) {
        if !self.streamed.contains(item) && self.streamed.len() < limits::OPEN_CALLS_MAX {
            self.streamed.insert(item.to_owned());
        }
    }

    /// Forgets what ended with the turn.
    pub(super) fn end_turn(&mut self) {
        self.turn = None;
        self.settling = None;
        self.plan.clear();
        self.streamed.clear();
        self.calls.clear();
        self.asks.clear();
        self.held.clear();
        self.compacting = None;
    }
}
