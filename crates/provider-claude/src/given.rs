//! A conversation that a session was created with, as a file of Claude Code's own: the program takes earlier turns only from
//! there, when it resumes a conversation. Makes the lines, and writes the file.

use std::collections::BTreeSet;
use std::io::{Error as IoError, ErrorKind as IoErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use domain::any_event;
use domain::event::{Attachment, Event, EventKind};
use domain::{CallId, Timestamp};
use provider_common::conversation_file::written_time;
use serde_json::{Value, json};

use super::{TESTED_VERSION, encode, uuid};
use crate::limits;

/// What the lines say of whose they are.
pub(super) struct Conversation<'a> {
    /// The agent's id of it.
    pub(super) name: &'a str,
    /// Where it is held.
    pub(super) folder: &'a Path,
}

/// Writes the file below the agent's folder `projects`, whole or not at all.
pub(super) fn write(
    projects: &Path,
    conversation: &Conversation<'_>,
    events: &[Arc<Event>],
) -> std::io::Result<()> {
    let folder = projects.join(folder_name(conversation.folder));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    // What an agent can write to must not lead elsewhere.
    if !folder.symlink_metadata()?.is_dir() {
        return Err(IoError::new(IoErrorKind::NotADirectory, "the folder of the project is a link"));
    }
    let (temporary, file) = (
        folder.join(format!("{}.new", conversation.name)),
        folder.join(format!("{}.jsonl", conversation.name)),
    );
    // One is left if the daemon was killed here.
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != IoErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut written =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    written.write_all(lines(conversation, events).as_bytes())?;
    written.sync_all()?;
    std::fs::rename(&temporary, &file)
}

/// Returns the name of the folder in which the agent keeps the conversations of a project, as the agent makes it: it counts in
/// units of UTF-16, and tells long names apart by a hash.
fn folder_name(project: &Path) -> String {
    let units: Vec<u16> = project.to_string_lossy().encode_utf16().collect();
    let plain =
        |unit: &u16| char::from_u32((*unit).into()).filter(char::is_ascii_alphanumeric).unwrap_or('-');
    let name: String = units.iter().take(limits::PROJECT_NAME_MAX_CHARS).map(plain).collect();
    if units.len() <= limits::PROJECT_NAME_MAX_CHARS {
        return name;
    }
    let hash = units.iter().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add((*unit).into()));
    format!("{name}-{}", base36(hash.unsigned_abs()))
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(number % 36, 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

/// Returns the file's text.
fn lines(conversation: &Conversation<'_>, events: &[Arc<Event>]) -> String {
    let mut messages = Messages::default();
    for (at, event) in events.iter().enumerate() {
        let rest = events.get(at + 1..).unwrap_or_default();
        messages.take(event, |call| result_of(call, rest));
    }
    messages.end_reply();
    let mut text = String::new();
    let mut parent = Value::Null;
    for (number, (at, message)) in (0..).zip(messages.all) {
        let uuid = uuid::of_message(conversation.name, "given", number);
        let line = json!({
            "parentUuid": parent,
            "isSidechain": false,
            "userType": "external",
            "cwd": conversation.folder.to_string_lossy(),
            "sessionId": conversation.name,
            "version": TESTED_VERSION,
            "type": message["role"],
            "message": message,
            "uuid": uuid,
            "timestamp": written_time(at),
        });
        text.push_str(&line.to_string());
        text.push('\n');
        parent = uuid.into();
    }
    text
}

/// Returns what a call returned.
fn result_of(call: &CallId, events: &[Arc<Event>]) -> Option<(bool, String)> {
    events.iter().find_map(|event| {
        let EventKind::ToolFinished { call: ended, ok, output, .. } = &event.kind else { return None };
        (ended == call).then(|| (*ok, output.clone()))
    })
}

/// The messages of a conversation, as the model's interface takes them: a user's first, no empty texts, and the results of all
/// calls of a reply directly behind it.
#[derive(Default)]
struct Messages {
    all: Vec<(Timestamp, Value)>,
    at: Timestamp,
    text: String,
    /// The blocks of the reply that is being read, and the results of its calls.
    reply: Vec<Value>,
    results: Vec<Value>,
    /// Ids of calls that were used.
    ids: BTreeSet<String>,
}

impl Messages {
    fn take(&mut self, event: &Event, result: impl FnOnce(&CallId) -> Option<(bool, String)>) {
        self.at = event.at;
        match &event.kind {
            EventKind::TurnStarted { prompt, attachments, .. } => {
                self.end_reply();
                self.prompt(prompt, attachments);
            }
            EventKind::TextDelta { text, parent: None } => {
                self.text.push_str(text);
            }
            EventKind::ToolStarted { call, tool, input, parent: None, .. } => {
                self.end_text();
                let (ok, output) = result(call).unwrap_or_else(|| (false, "no result".to_owned()));
                let id = self.id(call.as_str());
                let input = if input.is_object() { input.clone() } else { json!({}) };
                self.reply.push(json!({"type": "tool_use", "id": id, "name": plain(tool), "input": input}));
                let mut block = json!({"type": "tool_result", "tool_use_id": id, "is_error": !ok});
                block["content"] = output.into();
                self.results.push(block);
            }
            EventKind::ToolFinished { .. } | EventKind::TurnEnded { .. } => self.end_reply(),
            // Thinking is left out: the model takes only what it has signed itself.
            any_event!(
                life InterruptRequested MessageAdded TextDelta ThinkingDelta ToolStarted
                ToolProgress request settings plan usage worker report
            ) => {}
        }
    }

    fn prompt(&mut self, text: &str, attachments: &[Attachment]) {
        let unshown = |file: &Attachment| {
            // A later part of the conversation may speak of it.
            json!({"type": "text", "text": format!("(the file {} cannot be shown)", file.name)})
        };
        let mut blocks: Vec<Value> =
            attachments.iter().map(|file| encode::block(file).unwrap_or_else(|_| unshown(file))).collect();
        if !text.trim().is_empty() {
            blocks.push(json!({"type": "text", "text": text}));
        }
        if !blocks.is_empty() {
            self.all.push((self.at, json!({"role": "user", "content": blocks})));
        }
    }

    fn end_text(&mut self) {
        let text = std::mem::take(&mut self.text);
        if !text.trim().is_empty() {
            self.reply.push(json!({"type": "text", "text": text}));
        }
    }

    fn end_reply(&mut self) {
        self.end_text();
        if self.reply.is_empty() {
            return;
        }
        if self.all.is_empty() {
            let text = "(The conversation begins with the assistant.)";
            self.all.push((self.at, json!({"role": "user", "content": text})));
        }
        let blocks = std::mem::take(&mut self.reply);
        // A model that nobody has: the agent would go on with the one that is named here.
        let message = json!({
            "role": "assistant", "type": "message", "model": "unknown", "content": blocks,
            "id": format!("msg_given_{}", self.all.len()),
            "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 0, "output_tokens": 0},
        });
        self.all.push((self.at, message));
        let results = std::mem::take(&mut self.results);
        if !results.is_empty() {
            self.all.push((self.at, json!({"role": "user", "content": results})));
        }
    }

    /// Returns an id of a call that the model's interface takes, and no other call has.
    fn id(&mut self, call: &str) -> String {
        let wanted = plain(call);
        let free = (0..).map(|number| match number {
            0 => wanted.clone(),
            number => format!("{wanted}_{number}"),
        });
        let id = free.into_iter().find(|id| !self.ids.contains(id)).unwrap_or(wanted);
        self.ids.insert(id.clone());
        id
    }
}

/// Returns a name as the model's interface takes it.
fn plain(name: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
    let plain: String = name.chars().map(letter).take(limits::CALL_NAME_MAX_CHARS).collect();
    if plain.is_empty() { "_".to_owned() } else { plain }
}

#[cfg(test)]
mod tests;
