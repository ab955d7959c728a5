//! Conversations that an agent had without this daemon, kept by the agent in files of its own, or given by a client.
//! Defines what is told about them; making sessions of them is the runtime's.

use std::path::PathBuf;

use domain::event::Attachment;
use domain::{Error, Timestamp};
use serde_json::Value;

/// Finds and reads the conversations of one kind of agent.
pub trait ConversationFiles: Send + Sync {
    /// Returns the conversations on this machine, the last used first, up to a bound. Reads many files.
    fn list(&self) -> Result<Vec<ConversationSummary>, Error>;

    /// Reads one conversation; `None` if there is none with this id.
    fn read(&self, id: &str) -> Result<Option<PastConversation>, Error>;

    /// Returns the command with which a person continues a conversation without this daemon.
    fn way_back(&self, id: &str) -> String;
}

/// What a list says about a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConversationSummary {
    /// The agent's own id of it.
    pub id: String,
    /// The folder it was held in.
    pub folder: PathBuf,
    /// The agent's title of it, or the first prompt.
    pub title: String,
    pub started_at: Timestamp,
    pub last_at: Timestamp,
    pub turns: u64,
}

/// A conversation and what was said in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PastConversation {
    pub summary: ConversationSummary,
    /// The last model; empty if unknown.
    pub model: String,
    pub entries: Vec<ConversationEntry>,
    /// There was more than is read.
    pub truncated: bool,
}

/// Something said or done in a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct ConversationEntry {
    pub at: Timestamp,
    pub kind: EntryKind,
}

/// The kind of an entry.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryKind {
    Prompt {
        text: String,
        attachments: Vec<Attachment>,
    },
    Text(String),
    Thinking(String),
    CallStarted {
        call: String,
        tool: String,
        input: Value,
        title: String,
    },
    CallFinished {
        call: String,
        ok: bool,
        output: String,
    },
    /// The turn ended, if the agent records that.
    TurnEnded {
        interrupted: bool,
    },
}

impl EntryKind {
    /// Returns a prompt without files.
    pub fn prompt(text: impl Into<String>) -> Self {
        Self::Prompt { text: text.into(), attachments: Vec::new() }
    }
}
