//! The commands a session accepts. Closed: this list, with the supervisor's methods, is the product.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::budget::Budget;
use crate::event::{Attachment, ClientTool};
use crate::id::{CallId, QueueEntryId, RequestId};
use crate::permission::{Choice, Decision, Grant, Mode};
use crate::request::PermissionSubject;

/// What to do with a prompt while a turn is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenBusy {
    Refuse,
    /// Add it to the running turn.
    Steer,
    /// Queue it until the turn, and what was queued before, has ended.
    Queue,
}

/// A change of the prompt queue.
#[derive(Clone, Debug, PartialEq)]
pub enum QueueCommand {
    Add {
        text: String,
        attachments: Vec<Attachment>,
        by: String,
    },
    Edit {
        entry: QueueEntryId,
        text: String,
        by: String,
    },
    Move {
        entry: QueueEntryId,
        /// The first place is 1.
        position: u32,
        by: String,
    },
    Drop {
        entry: QueueEntryId,
        by: String,
    },
    Pause {
        by: String,
    },
    Resume {
        by: String,
    },
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
    Queue(QueueCommand),
    /// Sets parts of the budget: 0 removes a limit, what is not given stays.
    SetBudget {
        change: Budget,
        by: String,
    },
    /// Hides the session from lists, or shows it again.
    Archive {
        archived: bool,
        by: String,
    },
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
    /// Has every call asked about again that was approved automatically.
    RevokeAutoApprove {
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
    /// Records what an agent outside the daemon did, for a session of the provider `external`: it begins and ends turns as
    /// an agent's own reports do.
    Observe {
        events: Vec<crate::agent::AgentEvent>,
    },
    /// Records a report of a program outside the daemon: activity and notices, nothing that changes the
    /// session's status.
    Report(crate::event::EventKind),
    /// Records how workers of the session progressed or ended; all of these events or none.
    ReportWorkers {
        events: Vec<crate::event::EventKind>,
    },
}
