//! The codec state: everything the codec keeps between two lines. One plain struct, saved with the events.
//! What is not in it does not survive the daemon, so translating and encoding keep nothing anywhere else. Its
//! size is bounded.

use std::collections::{BTreeMap, VecDeque};

use agent_client_protocol_schema::v1;
use domain::{CallId, Mode};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::options;
use super::permitted::{PermittedAction, UnusedPermission};
use super::rpc::{self, AcpRequestKind};
use crate::limits;

/// What is known about the agent and its current turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct AcpState {
    /// Number of our requests so far.
    pub(super) sent: u64,
    pub(super) cwd: String,
    /// The conversation to resume; empty for a new one.
    pub(super) resume: String,
    /// The session had turns before this run, so a missing conversation is a loss.
    pub(super) had_turns: bool,
    /// The requested model; empty for the agent's default.
    pub(super) asked_model: String,
    /// The model was requested; it is not just what the agent reported last time.
    pub(super) model_is_wanted: bool,
    pub(super) mode: Mode,
    /// A person approved that it leaves plan mode, which it has not done yet.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) may_leave_plan: bool,
    /// It left plan mode by itself, and a person is asked whether the session may follow.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) asks_to_leave_plan: bool,
    pub(super) version: String,
    /// The agent has answered the first request.
    pub(super) is_met: bool,
    /// Lines before that which could not be parsed.
    pub(super) garbage: u32,
    pub(super) can: AgentAbilities,
    /// The agent's id of the conversation; empty until it is ready.
    pub(super) session: String,
    pub(super) is_ready: bool,
    pub(super) models: SelectableOption,
    pub(super) modes: SelectableOption,
    /// Modes, models and options we sent that are not answered yet. Some agents start a prompt concurrently
    /// with such a request, in the previous mode.
    pub(super) unsettled: u32,
    /// The agent is ready once they are answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ready: Option<PendingReady>,
    /// A prompt that waits for that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) held: Vec<v1::ContentBlock>,
    pub(super) turn: Option<AcpTurn>,
    /// Messages that arrived during a turn and wait for its end.
    pub(super) queued: VecDeque<String>,
    /// Calls that started and have not finished.
    pub(super) calls: BTreeMap<CallId, AcpCall>,
    /// Permissions that wait for an answer, by their native id.
    pub(super) asks: BTreeMap<String, PendingPermission>,
    /// Pending client requests of the agent, by their id.
    pub(super) errands: BTreeMap<String, PendingClientRequest>,
    /// The daemon's own server, whose tools have their plain names and ask for permission themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bridge: Option<BridgeCommand>,
    /// We ran commands of the agent, which may still be running.
    pub(super) has_commands: bool,
    /// Cost of the conversation as last reported by the agent, in millionths of a dollar.
    pub(super) cost: u64,
}

/// How the daemon's own server is started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct BridgeCommand {
    pub(super) command: String,
    pub(super) args: Vec<String>,
}

/// What is reported when the agent is ready.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct PendingReady {
    pub(super) model: String,
}

/// The capabilities reported by an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct AgentAbilities {
    pub(super) load: bool,
    pub(super) resume: bool,
    pub(super) image: bool,
    pub(super) http_servers: bool,
    pub(super) sse_servers: bool,
}

/// A choice: the names, the current one, and how another one is selected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SelectableOption {
    pub(super) names: Vec<String>,
    pub(super) current: String,
    /// The configuration option that holds it; empty if there is a separate call for it.
    pub(super) option: String,
    /// There were more names than are kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_cut: bool,
}

/// The open turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct AcpTurn {
    /// The number of the prompt that waits for its answer.
    pub(super) prompt: u64,
    pub(super) interrupted: bool,
    pub(super) has_thought: bool,
    /// The last message of the agent. A long one is not saved: it would be written again with each of its
    /// pieces. `None`: it started before the daemon restarted and is not complete.
    #[serde(serialize_with = "unless_long")]
    pub(super) said: Option<String>,
    /// Tokens of all replies of the model, if the agent reports nothing more precise.
    pub(super) used: u64,
    /// The message of a denial that the agent does not pass on to its model.
    pub(super) denial: String,
    /// What was approved with the agent's own calls: carrying it out through us needs no second approval.
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
    /// Its output so far.
    pub(super) output: String,
    /// One of the daemon's own tools.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) bridged: bool,
    /// Our terminal that it shows.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) terminal: String,
    /// Why it was denied.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) denied: String,
}

/// A pending permission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PendingPermission {
    /// The agent's id of its request.
    pub(super) id: Value,
    pub(super) call: Option<CallId>,
    pub(super) what: PermissionChoice,
    /// It is about leaving plan mode.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) leaves_plan: bool,
}

/// What a permission is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PermissionChoice {
    /// The agent chooses among these: kind and id of each option.
    Options {
        #[serde(deserialize_with = "known")]
        options: Vec<(v1::PermissionOptionKind, v1::PermissionOptionId)>,
        /// What it may then ask us to do.
        #[serde(default)]
        deeds: Vec<PermittedAction>,
    },
    /// A client request that we carry out ourselves.
    Errand(Value),
}

/// Reads options as saved by any version: earlier ones stored kinds that the protocol does not have.
fn known<'a, D: Deserializer<'a>>(
    saved: D,
) -> Result<Vec<(v1::PermissionOptionKind, v1::PermissionOptionId)>, D::Error> {
    let saved: Vec<(String, String)> = Vec::deserialize(saved)?;
    let kept = saved.into_iter().filter_map(|(kind, id)| Some((options::kind(&kind, &id, "")?, id.into())));
    Ok(kept.collect())
}

/// A pending client request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PendingClientRequest {
    /// The agent's id of its request.
    pub(super) id: Value,
    pub(super) what: Value,
}

impl AcpState {
    /// Sends a request to the agent.
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

    /// Cancels what the agent does.
    pub(super) fn cancel(&self, wire: &mut Vec<u8>) {
        rpc::notify("session/cancel", v1::CancelNotification::new(self.session.clone()), wire);
    }

    /// Stores a permission until it is answered; returns whether there was room.
    pub(super) fn remember_permission(&mut self, native: &str, asking: PendingPermission) -> bool {
        let has_room = self.asks.len() < limits::ASKS_MAX;
        if has_room {
            self.asks.insert(native.to_owned(), asking);
        }
        has_room
    }

    /// Stores a client request until it is done. Returns its id.
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

    /// Drops what ended with the turn.
    pub(super) fn end_turn(&mut self) {
        self.turn = None;
        self.held.clear();
        self.calls.clear();
        self.asks.clear();
    }
}
