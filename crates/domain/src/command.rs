//! The commands a session accepts. Closed: this list, with the supervisor's methods, is the product.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::event::{Attachment, ClientTool};
use crate::id::{CallId, RequestId};
use crate::permission::{Choice, Decision, Grant, Mode};
use crate::request::PermissionSubject;

/// What to do with a prompt while a turn is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenBusy {
    Refuse,
    /// Add it to the running turn.
    Steer,
}

/// How a session is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// The running turn may end first, within a timeout.
    Graceful,
    Now,
}

/// A command of a client to a session. `by` names the client for the record.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Starts the agent of a session that was just created.
    Start,
    Prompt {
        text: String,
        attachments: Vec<Attachment>,
        when_busy: WhenBusy,
        by: String,
    },
    CancelTurn,
    Decide {
        request: RequestId,
        decision: Decision,
        message: String,
        updated_input: Option<Value>,
        /// What to remember; `None`: what the decision implies.
        grant: Option<Choice>,
        by: String,
    },
    Answer {
        request: RequestId,
        answers: BTreeMap<String, String>,
        by: String,
    },
    /// Asks for a permission on the agent's behalf: its call reached the daemon directly, not through the
    /// agent's protocol.
    AskPermission {
        native: String,
        ask: PermissionSubject,
    },
    /// Has a client run a tool for the agent, whose call reached the daemon directly. Repeating it with the
    /// same id changes nothing.
    CallTool {
        native: String,
        call: CallId,
        tool: String,
        input: Value,
    },
    ReturnTool {
        request: RequestId,
        ok: bool,
        output: String,
        by: String,
    },
    RegisterTools {
        source: String,
        tools: Vec<ClientTool>,
    },
    SetMode {
        mode: Mode,
    },
    SetModel {
        model: String,
    },
    Rename {
        name: String,
    },
    Compact,
    /// Remembers an answer for the rest of the session, replacing one for the same calls.
    SetGrant {
        grant: Box<Grant>,
        by: String,
    },
    /// Removes the answers for a tool or a pattern, or the one with this id; all if it is empty.
    ClearGrants {
        tool: String,
        by: String,
    },
    /// Acquires or releases the right to send input.
    HoldInput {
        holder: Option<String>,
    },
    Stop {
        how: StopMode,
    },
    /// Restarts a stopped, failed or running session.
    Restart {
        provider_config: BTreeMap<String, String>,
    },
    /// Changes the settings for the next start of the agent. For sessions without a running agent.
    Configure {
        provider_config: BTreeMap<String, String>,
    },
    /// Records a report of a program outside the daemon: activity and notices, nothing that changes the
    /// session's status.
    Report(crate::event::EventKind),
}
