//! What a permission for a call of an agent's own covers of what the agent then has us do. A permission is for one kind of
//! deed on one file or one command, and for once. Pure.

use std::path::{Component, Path, PathBuf};

use agent_client_protocol_schema::v1::{ToolCall, ToolKind};
use domain::CallId;
use serde::{Deserialize, Serialize};

use super::names::{self, NamedCall};
use super::state::AcpState;
use crate::json_fields::Look;
use crate::limits::DEEDS_MAX;

/// Names of tools that change a file and nothing else. One that also reads is not here: who allowed a look has allowed
/// no change.
const EDITS: [&str; 11] = [
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

/// Something the agent has us do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PermittedAction {
    Write { path: PathBuf },
    Run { command: String, folder: PathBuf },
}

/// A deed that was allowed and is not done yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UnusedPermission {
    /// The call it is part of.
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

/// Returns what an agent may have us do for a call that is allowed.
pub(super) fn of(state: &AcpState, call: &ToolCall, named: &NamedCall) -> Vec<PermittedAction> {
    match named.tool.as_str() {
        names::SHELL => {
            let folder = call.raw_input.as_ref().map(|raw| raw.text("cwd")).unwrap_or_default();
            let command = named.input.under("command").as_str();
            command.map(|command| PermittedAction::run(state, command, folder)).into_iter().collect()
        }
        // Who lets a file go has not allowed another in its place.
        tool if EDITS.contains(&tool) && !matches!(call.kind, ToolKind::Delete | ToolKind::Move) => {
            names::paths(call, &state.cwd).iter().map(|path| PermittedAction::write(state, path)).collect()
        }
        _ => Vec::new(),
    }
}

/// Remembers what was allowed. Some agents ask twice about one call; it is done once all the same.
pub(super) fn allow(state: &mut AcpState, call: Option<&CallId>, deeds: Vec<PermittedAction>) {
    let Some(turn) = &mut state.turn else { return };
    for deed in deeds {
        let allowed = UnusedPermission { call: call.cloned(), deed };
        if turn.deeds.len() < DEEDS_MAX && !turn.deeds.contains(&allowed) {
            turn.deeds.push(allowed);
        }
    }
}

/// Uses a permission up; returns whether there was one.
pub(super) fn take(state: &mut AcpState, deed: &PermittedAction) -> bool {
    let Some(turn) = &mut state.turn else { return false };
    let found = turn.deeds.iter().position(|allowed| allowed.deed == *deed);
    found.map(|at| turn.deeds.remove(at)).is_some()
}

/// Forgets what was allowed for a call that has ended.
pub(super) fn forget(state: &mut AcpState, call: &CallId) {
    if let Some(turn) = &mut state.turn {
        turn.deeds.retain(|allowed| allowed.call.as_ref() != Some(call));
    }
}

/// Returns a path as it is without detours, below a folder where it is relative.
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
