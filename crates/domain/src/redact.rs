//! Redaction of events: every text that a person, an agent or a program wrote goes through a [`Redact`]
//! before the rules handle it, so that the journal and everything derived from it never contain a secret.
//! What is needed to act on the true bytes is kept in [`Originals`], beside the state and never in it. Does
//! not know what a secret is.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::any_event;
use crate::error::Error;
use crate::event::{Attachment, EventKind, Todo};
use crate::id::{QueueEntryId, RequestId};
use crate::permission::{Coverage, Grant};
use crate::queue::QueueChange;
use crate::request::{PermissionSubject, RequestOutcome, RequestSubject};
use crate::state::State;
use crate::turn::PendingPrompt;

/// Redacts secrets from texts.
pub trait Redact {
    /// Returns the text without its secrets, or `None` if it has none.
    fn redact(&self, text: &str) -> Option<String>;

    /// The same for a text under a key, such as `password`.
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

/// Redacts nothing.
#[derive(Clone, Copy, Debug)]
pub struct KeepAll;

impl Redact for KeepAll {
    fn redact(&self, _text: &str) -> Option<String> {
        None
    }
}

/// The mark that replaces redacted text.
pub const MARK: &str = "[REDACTED:";

/// Redacted values that are still needed to act.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Originals {
    /// Pending requests as they were asked.
    pub asks: BTreeMap<RequestId, RequestSubject>,
    /// The prompt that is pending until its agent is ready.
    #[serde(rename = "untold")]
    pub pending_prompt: Option<PendingPrompt>,
    /// Queued prompts as they were sent.
    pub queued: BTreeMap<QueueEntryId, PendingPrompt>,
}

impl Originals {
    pub fn is_empty(&self) -> bool {
        self.asks.is_empty() && self.pending_prompt.is_none() && self.queued.is_empty()
    }

    /// Handles an event before the state does; `original` is its unredacted form if something was redacted.
    pub(crate) fn note(&mut self, state: &State, kind: &EventKind, original: Option<&EventKind>) {
        match original.unwrap_or(kind) {
            EventKind::RequestOpened { request, ask, .. } if original.is_some() => {
                self.asks.insert(*request, ask.clone());
            }
            EventKind::RequestSettled { request, .. } => drop(self.asks.remove(request)),
            EventKind::TurnStarted { prompt, attachments, .. } => {
                self.pending_prompt = original
                    .map(|_| PendingPrompt { text: prompt.clone(), attachments: attachments.clone() });
            }
            EventKind::MessageAdded { text, .. } => {
                let waiting = state.turn.as_ref().and_then(|turn| turn.pending_prompt.clone());
                if let Some(mut prompt) =
                    self.pending_prompt.take().or(waiting.filter(|_| original.is_some()))
                {
                    prompt.text.push_str("\n\n");
                    prompt.text.push_str(text);
                    self.pending_prompt = Some(prompt);
                }
            }
            EventKind::AgentReady { .. } | EventKind::TurnEnded { .. } => self.pending_prompt = None,
            EventKind::QueueChanged { change } => self.note_queue(state, change, original.is_some()),
            any_event!(
                SessionCreated StatusChanged AgentStarted AgentExited AgentLogged Restarted InterruptRequested
                output RequestOpened GrantsChanged settings BudgetChanged RateLimited RateLimitEnded
                ArchiveChanged SessionForked usage worker report
            ) => {}
        }
    }

    /// Keeps the true form of what is queued, for as long as it waits.
    fn note_queue(&mut self, state: &State, change: &QueueChange, is_redacted: bool) {
        match change {
            QueueChange::Added { entry, prompt, attachments, .. } if is_redacted => {
                let prompt = PendingPrompt { text: prompt.clone(), attachments: attachments.clone() };
                self.queued.insert(*entry, prompt);
            }
            QueueChange::Edited { entry, prompt, .. } => {
                let kept = self.queued.remove(entry).map(|prompt| prompt.attachments);
                let shown = || state.queue.find(*entry).map(|queued| queued.attachments.clone());
                // Attachments keep their true form although the text has nothing to hide any more.
                if is_redacted || kept.as_ref().is_some_and(|files| !files.is_empty()) {
                    let attachments = kept.or_else(shown).unwrap_or_default();
                    self.queued.insert(*entry, PendingPrompt { text: prompt.clone(), attachments });
                }
            }
            QueueChange::Dropped { entry, .. } | QueueChange::Sent { entry, .. } => {
                self.queued.remove(entry);
            }
            QueueChange::Added { .. }
            | QueueChange::Moved { .. }
            | QueueChange::Paused { .. }
            | QueueChange::Resumed { .. } => {}
        }
    }
}

/// Returns whether an event is a piece of streamed text.
pub(crate) fn is_streamed(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::TextDelta { .. }
            | EventKind::ThinkingDelta { .. }
            | EventKind::ToolProgress { .. }
            | EventKind::AgentLogged { .. }
    )
}

/// Redacts secrets from an event. Returns whether there were any. Streamed output is left alone: a secret may
/// be split between two pieces, so it is scrubbed before it becomes events.
pub fn redact_event(kind: &mut EventKind, redact: &dyn Redact) -> bool {
    let text = |text: &mut String| redact_text(text, redact);
    match kind {
        any_event!(
            AgentStarted AgentReady AgentLogged Restarted InterruptRequested TextDelta ThinkingDelta
            ToolProgress ModeChanged PlanModeChanged ModelChanged InputHolderChanged BudgetChanged
            RateLimitEnded ArchiveChanged UsageReported
        ) => false,
        EventKind::SessionCreated { name, .. } | EventKind::Renamed { name } => text(name),
        EventKind::StatusChanged { message, .. }
        | EventKind::AgentExited { message, .. }
        | EventKind::Notice { message, .. } => text(message),
        EventKind::TurnStarted { prompt, attachments, .. } => {
            text(prompt) | redact_attachments(attachments, redact)
        }
        EventKind::QueueChanged { change } => redact_queue_change(change, redact),
        EventKind::RateLimited { reason: said, .. } | EventKind::SessionForked { history: said, .. } => {
            text(said)
        }
        EventKind::MessageAdded { text: message, .. } => text(message),
        EventKind::ToolStarted { input, title, .. } => redact_value(input, redact) | text(title),
        EventKind::ToolFinished { output, .. } => text(output),
        EventKind::TurnEnded { text: said, error, .. } => text(said) | text(error),
        EventKind::RequestOpened { ask, proposals, advice, .. } => {
            let offered = proposals.iter_mut().fold(false, |any, proposal| text(&mut proposal.text) | any);
            let advised = text(&mut advice.not_covered);
            redact_ask(ask, redact) | offered | advised
        }
        EventKind::RequestSettled { outcome, message, grant, .. } => {
            let granted = grant.as_mut().is_some_and(|grant| redact_grant(grant, redact));
            redact_outcome(outcome, redact) | text(message) | granted
        }
        EventKind::GrantsChanged { grants, .. } => {
            grants.iter_mut().fold(false, |any, grant| redact_grant(grant, redact) | any)
        }
        EventKind::TodosChanged { todos } => {
            todos.iter_mut().fold(false, |any, Todo { text: item, description, active_form, .. }| {
                text(item) | text(description) | text(active_form) | any
            })
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
            redact_members(extra, redact) | said
        }
        EventKind::Unparsed { raw, .. } => text(raw),
    }
}

fn redact_attachments(attachments: &mut [Attachment], redact: &dyn Redact) -> bool {
    attachments.iter_mut().fold(false, |any, file| {
        let clean = redact.redact_base64(&file.media_type, &file.content);
        let held = clean.map(|clean| file.content = clean).is_some();
        redact_text(&mut file.name, redact) | held | any
    })
}

fn redact_queue_change(change: &mut QueueChange, redact: &dyn Redact) -> bool {
    match change {
        QueueChange::Added { prompt, attachments, .. } => {
            redact_text(prompt, redact) | redact_attachments(attachments, redact)
        }
        QueueChange::Edited { prompt, .. } => redact_text(prompt, redact),
        QueueChange::Moved { .. }
        | QueueChange::Dropped { .. }
        | QueueChange::Sent { .. }
        | QueueChange::Paused { .. }
        | QueueChange::Resumed { .. } => false,
    }
}

pub(crate) fn redact_text(text: &mut String, redact: &dyn Redact) -> bool {
    let clean = if text.is_empty() { None } else { redact.redact(text) };
    clean.map(|clean| *text = clean).is_some()
}

fn redact_member(name: &str, text: &mut String, redact: &dyn Redact) -> bool {
    let clean = if text.is_empty() { None } else { redact.redact_named(name, text) };
    clean.map(|clean| *text = clean).is_some()
}

/// Takes secrets out of texts under names, and out of the names.
fn redact_members(members: &mut BTreeMap<String, String>, redact: &dyn Redact) -> bool {
    let any = members.iter_mut().fold(false, |any, (name, text)| redact_member(name, text, redact) | any);
    if !members.keys().any(|name| redact.redact(name).is_some()) {
        return any;
    }
    let fields = std::mem::take(members).into_iter().map(|(name, text)| (name, Value::String(text)));
    let mut fields: Map<String, Value> = fields.collect();
    redact_names(&mut fields, redact);
    members.extend(fields.into_iter().filter_map(|(name, field)| match field {
        Value::String(text) => Some((name, text)),
        _ => None,
    }));
    true
}

/// Takes secrets out of every text in a value, names of fields included.
pub fn redact_value(value: &mut Value, redact: &dyn Redact) -> bool {
    match value {
        Value::String(text) => redact_text(text, redact),
        Value::Array(items) => items.iter_mut().fold(false, |any, item| redact_value(item, redact) | any),
        Value::Object(fields) => {
            let any = fields.iter_mut().fold(false, |any, (name, field)| {
                any | match field {
                    Value::String(text) => redact_member(name, text, redact),
                    other => redact_value(other, redact),
                }
            });
            any | redact_names(fields, redact)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Takes secrets out of the names of fields. Fields keep their order, and names stay different from each other.
fn redact_names(fields: &mut Map<String, Value>, redact: &dyn Redact) -> bool {
    let clean: Vec<Option<String>> =
        fields.keys().map(|name| redact.redact(name).filter(|_| !name.is_empty())).collect();
    if clean.iter().all(Option::is_none) {
        return false;
    }
    let mut taken: BTreeSet<String> = fields
        .keys()
        .zip(&clean)
        .filter(|(_, clean)| clean.is_none())
        .map(|(name, _)| name.clone())
        .collect();
    let former = std::mem::take(fields);
    for ((name, field), clean) in former.into_iter().zip(clean) {
        let name = match clean {
            None => name,
            Some(clean) => {
                let numbered = (2..).map(|number: u64| format!("{clean} {number}"));
                let free = std::iter::once(clean.clone()).chain(numbered).find(|name| !taken.contains(name));
                free.unwrap_or(clean)
            }
        };
        taken.insert(name.clone());
        fields.insert(name, field);
    }
    true
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
        RequestOutcome::Answered { answers } => redact_members(answers, redact),
        RequestOutcome::ToolReturned { output, .. } => redact_text(output, redact),
        RequestOutcome::Withdrawn { reason } => redact_text(reason, redact),
        RequestOutcome::Decided { .. } => false,
    }
}

fn redact_grant(grant: &mut Grant, redact: &dyn Redact) -> bool {
    // A grant that contains a mark matches only the mark: such a call is asked about again.
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

/// Restores the true bytes in an input that a person changed after seeing it redacted: a text that is
/// unchanged stands for the original. A changed text that still contains a mark is an error.
pub(crate) fn put_back(updated: &mut Value, shown: &Value, original: &Value) -> Result<(), Error> {
    let mut pairs = Vec::new();
    collect(shown, original, &mut pairs);
    put_texts_back(updated, &pairs)
}

/// Collects the texts that differ between the shown and the original value, in pairs.
fn collect<'v>(shown: &'v Value, original: &'v Value, pairs: &mut Vec<(&'v str, &'v str)>) {
    match (shown, original) {
        (Value::String(shown), Value::String(original)) if shown != original => pairs.push((shown, original)),
        (Value::Array(shown), Value::Array(original)) => {
            shown.iter().zip(original).for_each(|(shown, original)| collect(shown, original, pairs));
        }
        // What is shown has the same fields in the same order; only their names may differ.
        (Value::Object(shown), Value::Object(original)) => {
            for ((shown_name, shown), (name, original)) in shown.iter().zip(original) {
                if shown_name != name {
                    pairs.push((shown_name, name));
                }
                collect(shown, original, pairs);
            }
        }
        _ => {}
    }
}

fn put_texts_back(value: &mut Value, pairs: &[(&str, &str)]) -> Result<(), Error> {
    match value {
        Value::String(text) => put_text_back(text, pairs),
        Value::Array(items) => items.iter_mut().try_for_each(|item| put_texts_back(item, pairs)),
        Value::Object(fields) => {
            if fields.keys().any(|name| name.contains(MARK)) {
                for (mut name, field) in std::mem::take(fields) {
                    put_text_back(&mut name, pairs)?;
                    fields.insert(name, field);
                }
            }
            fields.values_mut().try_for_each(|field| put_texts_back(field, pairs))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn put_text_back(text: &mut String, pairs: &[(&str, &str)]) -> Result<(), Error> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Takes one word out.
    struct Word;

    impl Redact for Word {
        fn redact(&self, text: &str) -> Option<String> {
            text.contains("hunter2").then(|| text.replace("hunter2", "[REDACTED:word]"))
        }
    }

    #[test]
    fn a_secret_that_is_the_name_of_a_field_is_taken_out_and_no_field_is_lost() {
        let original = json!({
            "a": 1, "hunter2": {"hunter2!": "x"}, "[REDACTED:word]": 2, "b-hunter2": 3, "c": ["hunter2"]
        });
        let mut shown = original.clone();
        assert!(redact_value(&mut shown, &Word));
        let expected = json!({
            "a": 1, "[REDACTED:word] 2": {"[REDACTED:word]!": "x"}, "[REDACTED:word]": 2,
            "b-[REDACTED:word]": 3, "c": ["[REDACTED:word]"]
        });
        assert_eq!(shown, expected);
        let names: Vec<&String> = shown.as_object().unwrap().keys().collect();
        assert_eq!(names, ["a", "[REDACTED:word] 2", "[REDACTED:word]", "b-[REDACTED:word]", "c"]);
        assert!(!redact_value(&mut json!({"a": [1, {"b": "c"}]}), &Word));
    }

    #[test]
    fn an_edited_input_gets_the_names_of_its_fields_back() {
        let original = json!({"hunter2": 1, "x-hunter2": {"y": "hunter2"}});
        let mut shown = original.clone();
        redact_value(&mut shown, &Word);
        let mut updated = shown.clone();
        updated["new"] = json!("z");
        put_back(&mut updated, &shown, &original).unwrap();
        assert_eq!(updated, json!({"hunter2": 1, "x-hunter2": {"y": "hunter2"}, "new": "z"}));
        let mut changed = json!({"[REDACTED:word] and more": 1});
        assert!(put_back(&mut changed, &shown, &original).is_err());
    }

    #[test]
    fn names_of_answers_are_clean_too() {
        let mut answers = BTreeMap::from([("use hunter2?".to_owned(), "yes".to_owned())]);
        assert!(redact_members(&mut answers, &Word));
        assert_eq!(answers, BTreeMap::from([("use [REDACTED:word]?".to_owned(), "yes".to_owned())]));
    }
}
