//! What can be asked of a session. Closed: this list, with the supervisor's, is the product.

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
    /// The running turn may end first, for a while.
    Graceful,
    Now,
}

/// Something a client asks of a session. `by` names the client for the record.
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
        /// What is to be remembered; none: what the decision alone says.
        grant: Option<Choice>,
        by: String,
    },
    Answer {
        request: RequestId,
        answers: BTreeMap<String, String>,
        by: String,
    },
    /// Asks for a permission in the agent's name: its call came to the daemon, not through its own protocol.
    AskPermission {
        native: String,
        ask: PermissionSubject,
    },
    /// Has a client run a tool for the agent, whose call came to the daemon. Asked again under the same name it
    /// changes nothing.
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
    /// Remembers an answer for the rest of the session, in place of the one for the same.
    SetGrant {
        grant: Box<Grant>,
        by: String,
    },
    /// Forgets the answers for a tool or a pattern, or the one of this id; empty: all.
    ClearGrants {
        tool: String,
        by: String,
    },
    /// Takes or leaves the right to send input.
    HoldInput {
        holder: Option<String>,
    },
    Stop {
        how: StopMode,
    },
    /// Starts a stopped or failed session again, or a running one anew.
    Restart {
        provider_config: BTreeMap<String, String>,
    },
    /// Changes what the agent is started with, the next time it is. For sessions without one.
    Configure {
        provider_config: BTreeMap<String, String>,
    },
    /// Records what a program outside the daemon reports: activity and notices, nothing that would move the session.
    Report(crate::event::EventKind),
}
