//! The codec state: everything the codec keeps between two lines. One plain struct, saved with the events.
//! What is not in it does not survive the daemon, so translating and encoding keep nothing anywhere else. Its
//! size is bounded.

use std::collections::{BTreeMap, VecDeque};

use domain::event::Todo;
use domain::{CallId, Mode, Usage};
use serde::{Deserialize, Serialize};

use super::usage::UsageTally;
use super::uuid;
use crate::limits;

/// What is known about the agent and its current turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ClaudeState {
    /// The agent's id of the conversation.
    pub(super) session: String,
    /// Distinguishes the runs of one session's agent, so that no two messages share an id.
    pub(super) run: String,
    /// Number of our lines so far.
    pub(super) sent: u64,
    /// The agent reported that it accepts prompts.
    pub(super) ready: bool,
    /// Lines before that which could not be parsed.
    pub(super) garbage: u32,
    pub(super) version: String,
    /// The requested model; empty for the agent's default.
    pub(super) asked_model: String,
    /// The model the agent last reported at the start of a turn.
    pub(super) turn_model: String,
    pub(super) mode: Mode,
    /// The agent's own name of its current mode.
    pub(super) native_mode: String,
    /// The agent has the daemon's own server.
    pub(super) bridged: bool,
    /// Fingerprint of the commands last listed at the start of a turn.
    pub(super) commands: u64,
    /// The agent has reported MCP servers.
    pub(super) servers: bool,
    /// Prompts and steering messages whose end has not been seen, oldest first.
    pub(super) outstanding: VecDeque<String>,
    /// A turn started and has not ended, ours or the agent's own.
    pub(super) in_turn: bool,
    /// The agent was asked to end its turn.
    pub(super) interrupting: bool,
    /// Calls that started and have not finished.
    pub(super) calls: BTreeMap<CallId, ClaudeCall>,
    /// The last messages of the model, oldest first.
    pub(super) messages: VecDeque<ModelMessage>,
    pub(super) todos: Vec<Todo>,
    pub(super) tally: UsageTally,
    /// Tokens of the window in use and the window's size, as last reported.
    pub(super) context_tokens: Option<u64>,
    pub(super) context_window: Option<u64>,
    /// A compaction that was announced; its summary is the next line.
    pub(super) compaction: Option<PendingCompaction>,
    /// An error the agent wrote as text; the end of the turn normally repeats it.
    pub(super) error: String,
    /// That error was the model's output limit.
    pub(super) cut_off: bool,
}

/// An open call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ClaudeCall {
    /// The call of the sub-agent that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<CallId>,
    /// What the call changes in the to-do list, once it succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) todo: Option<TodoChange>,
}

/// A change to one entry of the to-do list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct TodoChange {
    /// Empty for a new entry: its id is in the result.
    pub(super) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) active_form: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<String>,
}

/// A message of the model, and which part of it was already reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ModelMessage {
    pub(super) id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<CallId>,
    pub(super) usage: Usage,
    pub(super) text: StreamedBlocks,
    pub(super) thinking: StreamedBlocks,
}

/// Blocks of one kind within a message. Whole blocks come without their index, so they are matched by count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StreamedBlocks {
    /// Number of blocks that were streamed.
    pub(super) streamed: u32,
    /// Index of the block streamed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last: Option<u64>,
    /// How many of those were also received as a whole.
    pub(super) repeated: u32,
}

impl StreamedBlocks {
    /// Records a piece of the block with this index.
    pub(super) fn piece(&mut self, index: u64) {
        if self.last != Some(index) {
            self.last = Some(index);
            self.streamed = self.streamed.saturating_add(1);
        }
    }

    /// Records a whole block; returns whether its pieces were already reported.
    pub(super) fn whole(&mut self) -> bool {
        let told = self.repeated < self.streamed;
        if told {
            self.repeated += 1;
        }
        told
    }

    /// Returns whether something was streamed that was never received as a whole: the model was cut off.
    pub(super) fn is_torn(&self) -> bool {
        self.repeated < self.streamed
    }
}

/// A compaction whose summary was not received yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct PendingCompaction {
    pub(super) before: Option<u64>,
    pub(super) after: Option<u64>,
}

impl ClaudeState {
    /// Returns the next number for a line of ours.
    pub(super) fn next_number(&mut self) -> u64 {
        self.sent += 1;
        self.sent
    }

    /// Returns an id for the next message to the agent and waits for its end.
    pub(super) fn expect_end(&mut self) -> String {
        let number = self.next_number();
        let name = uuid::of_message(&self.session, &self.run, number);
        if self.outstanding.len() == limits::OUTSTANDING_MAX {
            self.outstanding.pop_front();
        }
        self.outstanding.push_back(name.clone());
        name
    }

    /// Returns the message with this id; adds it if it is new.
    pub(super) fn message(&mut self, id: &str, parent: Option<&CallId>) -> &mut ModelMessage {
        let known = self.messages.iter().rposition(|message| message.id == id);
        let at = known.unwrap_or_else(|| {
            if self.messages.len() == limits::MESSAGES_MAX {
                self.messages.pop_front();
            }
            let new = ModelMessage { id: id.to_owned(), parent: parent.cloned(), ..ModelMessage::default() };
            self.messages.push_back(new);
            self.messages.len() - 1
        });
        &mut self.messages[at]
    }

    /// Returns whether a piece of this block was recorded last, so that another one changes nothing.
    pub(super) fn has_piece(
        &self,
        id: &str,
        index: u64,
        blocks: impl Fn(&ModelMessage) -> StreamedBlocks,
    ) -> bool {
        let message = self.messages.iter().rfind(|message| message.id == id);
        message.is_some_and(|message| blocks(message).last == Some(index))
    }

    /// Returns the id of the message that this speaker is currently writing.
    pub(super) fn current_message(&self, parent: Option<&CallId>) -> Option<String> {
        let latest = self.messages.iter().rev().find(|message| message.parent.as_ref() == parent);
        latest.map(|message| message.id.clone())
    }

    /// Drops what ended with the turn. A call of the agent itself that is still open is closed by the session's
    /// rules, so its late result must not close it again; calls of sub-agents go on.
    pub(super) fn end_turn(&mut self) {
        self.in_turn = false;
        self.interrupting = false;
        self.outstanding.clear();
        self.calls.retain(|_, call| call.parent.is_some());
        self.error.clear();
        self.cut_off = false;
    }
}
