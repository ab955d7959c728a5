//! What a permission for an agent's own call covers when the agent then asks its client to carry it out. A
//! permission is for one kind of action on one file or one command, and for once. Pure.

use agent_port::Revisioned;
use std::path::{Component, Path, PathBuf};

use agent_client_protocol_schema::v1::{ToolCall, ToolKind};
use domain::CallId;
use serde::{Deserialize, Serialize};

use super::names::{self, NamedCall};
use super::state::AcpState;
use crate::limits::DEEDS_MAX;
use provider_common::json_fields::Look;

/// Names of tools that change a file and nothing else. Tools that also read are not listed: an approval to
/// read is no approval to change.
pub(super) const EDITS: [&str; 11] = [
    "Edit",
    "Write",
    "MultiEdit",
    "NotebookEdit",
    "apply_patch",
    "edit",
    "write",
    "write_file",
    "replace",
    "developer__edit",
    "developer__write",
];

/// Something the agent asks us to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PermittedAction {
    Write { path: PathBuf },
    Run { command: String, folder: PathBuf },
}

/// An action that was approved and is not done yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UnusedPermission {
    /// The call it belongs to.
    pub(super) call: Option<CallId>,
    pub(super) deed: PermittedAction,
}

impl PermittedAction {
    pub(super) fn write(state: &AcpState, path: &str) -> Self {
        Self::Write { path: plain(&state.cwd, path) }
    }

    /// A command that is run with the usual variables only.
    pub(super) fn run(state: &AcpState, command: &str, folder: &str) -> Self {
        Self::Run { command: command.to_owned(), folder: plain(&state.cwd, folder) }
    }
}

/// Returns what an agent may ask us to do for an approved call.
pub(super) fn of(state: &AcpState, call: &ToolCall, named: &NamedCall) -> Vec<PermittedAction> {
    match named.tool.as_str() {
        names::SHELL => {
            let folder = call.raw_input.as_ref().map(|raw| raw.text("cwd")).unwrap_or_default();
            let command = named.input.under("command").as_str();
            command.map(|command| PermittedAction::run(state, command, folder)).into_iter().collect()
        }
        // An approval to delete or move a file is no approval to write it.
        tool if EDITS.contains(&tool) && !matches!(call.kind, ToolKind::Delete | ToolKind::Move) => {
            names::paths(call, &state.cwd).iter().map(|path| PermittedAction::write(state, path)).collect()
        }
        _ => Vec::new(),
    }
}

/// Stores what was approved. Some agents ask twice about one call; it is still allowed only once.
pub(super) fn allow(state: &mut Revisioned<AcpState>, call: Option<&CallId>, deeds: Vec<PermittedAction>) {
    let Some(turn) = &mut state.turn else { return };
    for deed in deeds {
        let allowed = UnusedPermission { call: call.cloned(), deed };
        if turn.deeds.len() < DEEDS_MAX && !turn.deeds.contains(&allowed) {
            turn.deeds.push(allowed);
        }
    }
}

/// Uses a permission; returns whether there was one.
pub(super) fn take(state: &mut Revisioned<AcpState>, deed: &PermittedAction) -> bool {
    let Some(turn) = &mut state.turn else { return false };
    let found = turn.deeds.iter().position(|allowed| allowed.deed == *deed);
    found.map(|at| turn.deeds.remove(at)).is_some()
}

/// Drops what was approved for a call that has ended.
pub(super) fn forget(state: &mut Revisioned<AcpState>, call: &CallId) {
    if let Some(turn) = &mut state.turn {
        turn.deeds.retain(|allowed| allowed.call.as_ref() != Some(call));
    }
}

/// Returns a path without `.` and `..`, relative to a folder.
pub(super) fn plain(folder: &str, path: &str) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in Path::new(folder).join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}
