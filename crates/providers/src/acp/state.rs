//! The codec state: everything the codec keeps between two lines. One plain struct, saved with the events: what is
//! not in it does not survive the daemon, so translating and encoding keep nothing anywhere else. Its size is bounded.

use std::collections::{BTreeMap, VecDeque};

use agent_client_protocol_schema::v1;
use domain::{CallId, Mode};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::options;
use super::permitted::{PermittedAction, UnusedPermission};
use super::rpc::{self, AcpRequestKind};
use crate::limits;

/// What is known about the agent and the turn it is in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct AcpState {
    /// Requests of ours numbered so far.
    pub(super) sent: u64,
    pub(super) cwd: String,
    /// The conversation to take up; empty: a new one.
    pub(super) resume: String,
    /// The session had turns before this run, so a conversation that is gone is a loss.
    pub(super) had_turns: bool,
    /// The model as it was asked for; empty: the agent's own.
    pub(super) asked_model: String,
    /// Somebody asked for that model; it is not just what the agent said it used last time.
    pub(super) model_is_wanted: bool,
    pub(super) mode: Mode,
    pub(super) version: String,
    /// The agent has answered the first request.
    pub(super) is_met: bool,
    /// Lines nobody understood before that.
    pub(super) garbage: u32,
    pub(super) can: AgentAbilities,
    /// How the agent calls the conversation; empty until it is ready.
    pub(super) session: String,
    pub(super) is_ready: bool,
    pub(super) models: SelectableOption,
    pub(super) modes: SelectableOption,
    /// Modes, models and options we asked for and have no answer to yet. Some agents begin a prompt beside such a
    /// request, in the mode they had before.
    pub(super) unsettled: u32,
    /// The agent is ready once they are answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ready: Option<PendingReady>,
    /// A prompt that waits for that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) held: Vec<v1::ContentBlock>,
    pub(super) turn: Option<AcpTurn>,
    /// Messages that came during a turn and wait for its end.
    pub(super) queued: VecDeque<String>,
    /// Calls that started and have not finished.
    pub(super) calls: BTreeMap<CallId, AcpCall>,
    /// Permissions that wait for an answer, by their native name.
    pub(super) asks: BTreeMap<String, PendingPermission>,
    /// What the agent wants done and has no answer to yet, by its name.
    pub(super) errands: BTreeMap<String, PendingClientRequest>,
    /// The daemon's own server, whose tools go by their plain names and ask by themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bridge: Option<BridgeCommand>,
    /// Commands of the agent were run by us and may run still.
    pub(super) has_commands: bool,
    /// Money the conversation has cost, as the agent said last, in millionths of a dollar.
    pub(super) cost: u64,
}

/// How the daemon's own server is started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct BridgeCommand {
    pub(super) command: String,
    pub(super) args: Vec<String>,
}

/// What is told when the agent is ready.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct PendingReady {
    pub(super) model: String,
}

/// What an agent says it can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct AgentAbilities {
    pub(super) load: bool,
    pub(super) resume: bool,
    pub(super) image: bool,
    pub(super) http_servers: bool,
    pub(super) sse_servers: bool,
}

/// Something to choose from: the names, the current one, and how another is chosen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SelectableOption {
    pub(super) names: Vec<String>,
    pub(super) current: String,
    /// The configuration option that holds it; empty: it has a call of its own.
    pub(super) option: String,
    /// There were more names than are kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_cut: bool,
}

/// The turn that is open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct AcpTurn {
    /// The number of the prompt that waits for its answer.
    pub(super) prompt: u64,
    pub(super) interrupted: bool,
    pub(super) has_thought: bool,
    /// The last message of the agent. A long one is not saved: it would be written again with each of its pieces. None: it
    /// was begun before the daemon came back, and is not known as a whole.
    #[serde(serialize_with = "unless_long")]
    pub(super) said: Option<String>,
    /// Tokens of every reply of the model, where the agent says nothing more precise.
    pub(super) used: u64,
    /// What was said to a denial and the agent does not pass on.
    pub(super) denial: String,
    /// What was allowed with calls of its own: doing it through us needs no second word.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) deeds: Vec<UnusedPermission>,
}

impl AcpTurn {
    pub(super) fn new() -> Self {
        Self { said: Some(String::new()), ..Self::default() }
    }
}

fn unless_long<S: serde::Serializer>(said: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    said.as_ref().filter(|said| said.len() <= limits::SAVED_TEXT_MAX_BYTES).serialize(serializer)
}

/// An open call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct AcpCall {
    pub(super) tool: String,
    /// What it has shown so far.
    pub(super) output: String,
    /// One of the daemon's own tools.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) bridged: bool,
    /// The terminal of ours that it shows.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) terminal: String,
    /// Why it was denied.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) denied: String,
}

/// A permission that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PendingPermission {
    /// The agent's name for its request.
    pub(super) id: Value,
    pub(super) call: Option<CallId>,
    pub(super) what: PermissionChoice,
}

/// What a permission is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PermissionChoice {
    /// The agent chooses among these: kind and name of each option.
    Options {
        #[serde(deserialize_with = "known")]
        options: Vec<(v1::PermissionOptionKind, v1::PermissionOptionId)>,
        /// What it may have us do then.
        #[serde(default)]
        deeds: Vec<PermittedAction>,
    },
    /// We do it ourselves.
    Errand(Value),
}

/// Reads options as every build wrote them: earlier ones kept kinds that the protocol does not have.
fn known<'a, D: Deserializer<'a>>(
    saved: D,
) -> Result<Vec<(v1::PermissionOptionKind, v1::PermissionOptionId)>, D::Error> {
    let saved: Vec<(String, String)> = Vec::deserialize(saved)?;
    let kept = saved.into_iter().filter_map(|(kind, id)| Some((options::kind(&kind, &id, "")?, id.into())));
    Ok(kept.collect())
}

/// What the agent wants done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PendingClientRequest {
    /// The agent's name for its request.
    pub(super) id: Value,
    pub(super) what: Value,
}

impl AcpState {
    /// Asks the agent something.
    pub(super) fn send_request(
        &mut self,
        purpose: AcpRequestKind,
        params: impl Serialize,
        wire: &mut Vec<u8>,
    ) {
        self.sent += 1;
        if matches!(purpose, AcpRequestKind::SetMode | AcpRequestKind::SetModel | AcpRequestKind::SetOption) {
            self.unsettled += 1;
        }
        rpc::ask(purpose, self.sent, params, wire);
    }

    /// Ends what the agent does.
    pub(super) fn cancel(&self, wire: &mut Vec<u8>) {
        rpc::notify("session/cancel", v1::CancelNotification::new(self.session.clone()), wire);
    }

    /// Remembers a permission until it is answered; returns whether there was room.
    pub(super) fn remember_permission(&mut self, native: &str, asking: PendingPermission) -> bool {
        let has_room = self.asks.len() < limits::ASKS_MAX;
        if has_room {
            self.asks.insert(native.to_owned(), asking);
        }
        has_room
    }

    /// Remembers an errand until it is done. Returns its name.
    pub(super) fn remember_client_request(&mut self, id: &Value, what: Value) -> Option<String> {
        if self.errands.len() >= limits::ERRANDS_MAX {
            return None;
        }
        self.has_commands |= what["do"] == "run";
        self.sent += 1;
        let name = format!("errand-{}", self.sent);
        self.errands.insert(name.clone(), PendingClientRequest { id: id.clone(), what });
        Some(name)
    }

    /// Forgets what ended with the turn.
    pub(super) fn end_turn(&mut self) {
        self.turn = None;
        self.held.clear();
        self.calls.clear();
        self.asks.clear();
    }
}
