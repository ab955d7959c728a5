//! What of an event must not be kept: every text that a person, an agent or a program wrote goes through a [`Redact`] before the
//! rules take it in, so that the journal and what is made of it never hold a secret. What somebody must act on with the true
//! bytes is remembered in [`Originals`], beside the state and never in it. Knows no rule for what a secret is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Error;
use crate::event::{EventKind, Todo};
use crate::id::RequestId;
use crate::permission::{Coverage, Grant};
use crate::request::{PermissionSubject, RequestOutcome, RequestSubject};
use crate::state::State;
use crate::turn::PendingPrompt;

/// Takes secrets out of texts.
pub trait Redact {
    /// Returns the text without its secrets, or nothing if it has none.
    fn redact(&self, text: &str) -> Option<String>;

    /// The same for a text that stands under a name, such as `password`.
    fn redact_named(&self, name: &str, text: &str) -> Option<String> {
        let _ = name;
        self.redact(text)
    }

    /// The same for a file in base64.
    fn redact_base64(&self, media_type: &str, content: &str) -> Option<String> {
        let _ = (media_type, content);
        None
    }
}

/// Leaves everything as it is.
#[derive(Clone, Copy, Debug)]
pub struct KeepAll;

impl Redact for KeepAll {
    fn redact(&self, _text: &str) -> Option<String> {
        None
    }
}

/// How a place is marked where something was taken out.
pub const MARK: &str = "[REDACTED:";

/// What was taken out and is still needed by those who act on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Originals {
    /// Requests that wait, as they were asked.
    pub asks: BTreeMap<RequestId, RequestSubject>,
    /// The prompt that waits for its agent.
    pub untold: Option<PendingPrompt>,
}

impl Originals {
    pub fn is_empty(&self) -> bool {
        self.asks.is_empty() && self.untold.is_none()
    }

    /// Takes in an event before the state does; `original` is what it was where something was taken out of it.
    pub(crate) fn note(&mut self, state: &State, kind: &EventKind, original: Option<&EventKind>) {
        match original.unwrap_or(kind) {
            EventKind::RequestOpened { request, ask, .. } if original.is_some() => {
                self.asks.insert(*request, ask.clone());
            }
            EventKind::RequestSettled { request, .. } => drop(self.asks.remove(request)),
            EventKind::TurnStarted { prompt, attachments, .. } => {
                self.untold = original
                    .map(|_| PendingPrompt { text: prompt.clone(), attachments: attachments.clone() });
            }
            EventKind::MessageAdded { text, .. } => {
                let waiting = state.turn.as_ref().and_then(|turn| turn.untold.clone());
                if let Some(mut prompt) = self.untold.take().or(waiting.filter(|_| original.is_some())) {
                    prompt.text.push_str("\n\n");
                    prompt.text.push_str(text);
                    self.untold = Some(prompt);
                }
            }
            EventKind::AgentReady { .. } | EventKind::TurnEnded { .. } => self.untold = None,
            _ => {}
        }
    }
}

/// Whether an event is a piece of a text that comes in pieces.
pub(crate) fn is_streamed(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::TextDelta { .. }
            | EventKind::ThinkingDelta { .. }
            | EventKind::ToolProgress { .. }
            | EventKind::AgentLogged { .. }
    )
}

/// Takes secrets out of an event; tells whether there were any. Streams of output are left alone: a secret may be cut in two
/// there, so that they are scrubbed before they become events.
pub fn redact_event(kind: &mut EventKind, redact: &dyn Redact) -> bool {
    let text = |text: &mut String| redact_text(text, redact);
    match kind {
        EventKind::TextDelta { .. }
        | EventKind::ThinkingDelta { .. }
        | EventKind::ToolProgress { .. }
        | EventKind::AgentLogged { .. }
        | EventKind::AgentStarted { .. }
        | EventKind::AgentReady { .. }
        | EventKind::Restarted { .. }
        | EventKind::InterruptRequested { .. }
        | EventKind::ModeChanged { .. }
        | EventKind::PlanModeChanged { .. }
        | EventKind::ModelChanged { .. }
        | EventKind::UsageReported { .. }
        | EventKind::InputHolderChanged { .. } => false,
        EventKind::SessionCreated { name, .. } | EventKind::Renamed { name } => text(name),
        EventKind::StatusChanged { message, .. }
        | EventKind::AgentExited { message, .. }
        | EventKind::Notice { message, .. } => text(message),
        EventKind::TurnStarted { prompt, attachments, .. } => {
            let said = text(prompt);
            attachments.iter_mut().fold(said, |any, file| {
                let clean = redact.redact_base64(&file.media_type, &file.content);
                let held = clean.map(|clean| file.content = clean).is_some();
                text(&mut file.name) | held | any
            })
        }
        EventKind::MessageAdded { text: message, .. } => text(message),
        EventKind::ToolStarted { input, title, .. } => redact_value(input, redact) | text(title),
        EventKind::ToolFinished { output, .. } => text(output),
        EventKind::TurnEnded { text: said, error, .. } => text(said) | text(error),
        EventKind::RequestOpened { ask, proposals, .. } => {
            let offered = proposals.iter_mut().fold(false, |any, proposal| text(&mut proposal.text) | any);
            redact_ask(ask, redact) | offered
        }
        EventKind::RequestSettled { outcome, message, grant, .. } => {
            let granted = grant.as_mut().is_some_and(|grant| redact_grant(grant, redact));
            redact_outcome(outcome, redact) | text(message) | granted
        }
        EventKind::GrantsChanged { grants, .. } => {
            grants.iter_mut().fold(false, |any, grant| redact_grant(grant, redact) | any)
        }
        EventKind::TodosChanged { todos } => {
            todos.iter_mut().fold(false, |any, Todo { text: item, .. }| text(item) | any)
        }
        EventKind::CommandsChanged { commands } => {
            commands.iter_mut().fold(false, |any, command| text(&mut command.description) | any)
        }
        EventKind::ServersChanged { servers } => servers
            .iter_mut()
            .fold(false, |any, server| text(&mut server.endpoint) | text(&mut server.error) | any),
        EventKind::Compacted { summary, .. }
        | EventKind::WorkerProgressed { summary, .. }
        | EventKind::WorkerFinished { summary, .. } => text(summary),
        EventKind::ToolsRegistered { tools, .. } => {
            tools.iter_mut().fold(false, |any, tool| text(&mut tool.description) | any)
        }
        EventKind::WorkerStarted { title, .. } => text(title),
        EventKind::ActivityReported { content, extra, .. } => {
            let said = text(content);
            extra.iter_mut().fold(said, |any, (name, value)| redact_member(name, value, redact) | any)
        }
        EventKind::Unparsed { raw, .. } => text(raw),
    }
}

fn redact_text(text: &mut String, redact: &dyn Redact) -> bool {
    let clean = if text.is_empty() { None } else { redact.redact(text) };
    clean.map(|clean| *text = clean).is_some()
}

fn redact_member(name: &str, text: &mut String, redact: &dyn Redact) -> bool {
    let clean = if text.is_empty() { None } else { redact.redact_named(name, text) };
    clean.map(|clean| *text = clean).is_some()
}

/// Takes secrets out of every text in a value.
pub fn redact_value(value: &mut Value, redact: &dyn Redact) -> bool {
    match value {
        Value::String(text) => redact_text(text, redact),
        Value::Array(items) => items.iter_mut().fold(false, |any, item| redact_value(item, redact) | any),
        Value::Object(fields) => fields.iter_mut().fold(false, |any, (name, field)| {
            any | match field {
                Value::String(text) => redact_member(name, text, redact),
                other => redact_value(other, redact),
            }
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn redact_ask(ask: &mut RequestSubject, redact: &dyn Redact) -> bool {
    match ask {
        RequestSubject::Permission(PermissionSubject { input, title, .. }) => {
            redact_value(input, redact) | redact_text(title, redact)
        }
        RequestSubject::ClientTool { input, .. } => redact_value(input, redact),
        RequestSubject::Question { questions, .. } => questions.iter_mut().fold(false, |any, question| {
            let asked = redact_text(&mut question.text, redact) | redact_text(&mut question.header, redact);
            question.options.iter_mut().fold(any | asked, |any, option| {
                redact_text(&mut option.label, redact) | redact_text(&mut option.description, redact) | any
            })
        }),
    }
}

fn redact_outcome(outcome: &mut RequestOutcome, redact: &dyn Redact) -> bool {
    match outcome {
        RequestOutcome::Answered { answers } => answers
            .iter_mut()
            .fold(false, |any, (question, answer)| redact_member(question, answer, redact) | any),
        RequestOutcome::ToolReturned { output, .. } => redact_text(output, redact),
        RequestOutcome::Withdrawn { reason } => redact_text(reason, redact),
        RequestOutcome::Decided { .. } => false,
    }
}

fn redact_grant(grant: &mut Grant, redact: &dyn Redact) -> bool {
    // What a mark stands in covers nothing but the mark: such a call is asked about again.
    let covers = match &mut grant.covers {
        Coverage::Command(text) | Coverage::Prefix(text) => redact_text(text, redact),
        Coverage::File(path) | Coverage::Folder(path) => {
            let clean = path.to_str().and_then(|text| redact.redact(text));
            clean.map(|clean| *path = clean.into()).is_some()
        }
        Coverage::Tool | Coverage::Pattern => false,
    };
    redact_text(&mut grant.tool, redact) | covers
}

/// Puts the true bytes back into an input that somebody changed after having been shown it without its secrets: a text left
/// as it was shown stands for the original. A text that was changed and still has a mark in it cannot be understood.
pub(crate) fn put_back(updated: &mut Value, shown: &Value, original: &Value) -> Result<(), Error> {
    let mut pairs = Vec::new();
    collect(shown, original, &mut pairs);
    put_texts_back(updated, &pairs)
}

fn collect<'v>(shown: &'v Value, original: &'v Value, pairs: &mut Vec<(&'v str, &'v str)>) {
    match (shown, original) {
        (Value::String(shown), Value::String(original)) if shown != original => pairs.push((shown, original)),
        (Value::Array(shown), Value::Array(original)) => {
            shown.iter().zip(original).for_each(|(shown, original)| collect(shown, original, pairs));
        }
        (Value::Object(shown), Value::Object(original)) => {
            for (name, shown) in shown {
                if let Some(original) = original.get(name) {
                    collect(shown, original, pairs);
                }
            }
        }
        _ => {}
    }
}

fn put_texts_back(value: &mut Value, pairs: &[(&str, &str)]) -> Result<(), Error> {
    match value {
        Value::String(text) => {
            if let Some((_, original)) = pairs.iter().find(|(shown, _)| shown == text) {
                *text = (*original).to_owned();
            } else if text.contains(MARK) && !pairs.is_empty() {
                return Err(Error::invalid(
                    "updated_input",
                    format_args!(
                        "a text was changed that a secret was taken out of ({MARK}…]): leave it as it is, or write the secret"
                    ),
                ));
            }
            Ok(())
        }
        Value::Array(items) => items.iter_mut().try_for_each(|item| put_texts_back(item, pairs)),
        Value::Object(fields) => fields.values_mut().try_for_each(|field| put_texts_back(field, pairs)),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}
