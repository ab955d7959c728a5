//! The prompt queue of a session: prompts that are sent one after another, each when the turn before it has ended. Holds
//! the order and its changes; when an entry is sent is decided in `machine::queue`.

use serde::{Deserialize, Serialize};

use crate::event::Attachment;
use crate::id::{QueueEntryId, TurnId};
use crate::time::Timestamp;

/// One prompt that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedPrompt {
    pub id: QueueEntryId,
    pub text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    pub at: Timestamp,
}

impl QueuedPrompt {
    /// Returns the bytes that it adds to the stored state.
    fn size(&self) -> usize {
        size_of_prompt(&self.text, &self.attachments)
    }
}

/// Returns the bytes of a prompt with its attachments.
pub fn size_of_prompt(text: &str, attachments: &[Attachment]) -> usize {
    text.len() + attachments.iter().map(|file| file.content.len() + file.name.len()).sum::<usize>()
}

/// A change of the queue, as it is recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum QueueChange {
    Added {
        entry: QueueEntryId,
        prompt: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        by: String,
    },
    Edited {
        entry: QueueEntryId,
        prompt: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        by: String,
    },
    Moved {
        entry: QueueEntryId,
        /// Its place from now on, the first is 1.
        position: u32,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        by: String,
    },
    Dropped {
        entry: QueueEntryId,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        by: String,
    },
    /// It left the queue as the prompt of this turn.
    Sent { entry: QueueEntryId, turn: TurnId },
    /// Nothing is sent until the queue is resumed or, if no client paused it, a later turn completes.
    Paused {
        reason: String,
        /// The client that paused it; empty: the rules.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        by: String,
    },
    Resumed {
        #[serde(default, skip_serializing_if = "String::is_empty")]
        by: String,
    },
}

impl QueueChange {
    /// Describes the change in a line for people.
    pub fn describe(&self) -> String {
        match self {
            Self::Added { entry, by, .. } => format!("{entry} was queued{}", signed(by)),
            Self::Edited { entry, by, .. } => format!("{entry} was edited{}", signed(by)),
            Self::Moved { entry, position, by } => {
                format!("{entry} was moved to place {position}{}", signed(by))
            }
            Self::Dropped { entry, by } => format!("{entry} was dropped from the queue{}", signed(by)),
            Self::Sent { entry, turn } => format!("{entry} is sent as {turn}"),
            Self::Paused { reason, .. } => format!("the queue is paused: {reason}"),
            Self::Resumed { by } => format!("the queue is resumed{}", signed(by)),
        }
    }
}

fn signed(by: &str) -> String {
    if by.is_empty() { String::new() } else { format!(" by {by}") }
}

/// The queue as the state keeps it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PromptQueue {
    /// In the order in which they are sent.
    pub entries: Vec<QueuedPrompt>,
    /// Entries added so far; used to number them.
    pub added: u64,
    /// Why nothing is sent; none: it is not paused.
    pub paused: Option<QueuePause>,
}

/// Why a queue is paused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuePause {
    pub reason: String,
    /// The client that paused it; empty: the rules.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
}

impl PromptQueue {
    /// Returns the id of the entry that is added next.
    pub fn next_id(&self) -> QueueEntryId {
        QueueEntryId(self.added + 1)
    }

    /// Returns an entry.
    pub fn find(&self, id: QueueEntryId) -> Option<&QueuedPrompt> {
        self.entries.iter().find(|entry| entry.id == id)
    }

    /// Returns the bytes of all entries.
    pub fn size(&self) -> usize {
        self.entries.iter().map(QueuedPrompt::size).sum()
    }

    /// Applies a recorded change.
    pub(crate) fn evolve(&mut self, at: Timestamp, change: &QueueChange) {
        match change {
            QueueChange::Added { entry, prompt, attachments, by } => {
                self.added = entry.0;
                self.entries.push(QueuedPrompt {
                    id: *entry,
                    text: prompt.clone(),
                    attachments: attachments.clone(),
                    by: by.clone(),
                    at,
                });
            }
            QueueChange::Edited { entry, prompt, .. } => {
                if let Some(found) = self.entries.iter_mut().find(|queued| queued.id == *entry) {
                    found.text.clone_from(prompt);
                }
            }
            QueueChange::Moved { entry, position, .. } => self.move_to(*entry, *position),
            QueueChange::Dropped { entry, .. } | QueueChange::Sent { entry, .. } => {
                self.entries.retain(|queued| queued.id != *entry);
            }
            QueueChange::Paused { reason, by } => {
                self.paused = Some(QueuePause { reason: reason.clone(), by: by.clone() });
            }
            QueueChange::Resumed { .. } => self.paused = None,
        }
    }

    fn move_to(&mut self, entry: QueueEntryId, position: u32) {
        let Some(from) = self.entries.iter().position(|queued| queued.id == entry) else { return };
        let moved = self.entries.remove(from);
        let to = (position.max(1) as usize - 1).min(self.entries.len());
        self.entries.insert(to, moved);
    }
}
