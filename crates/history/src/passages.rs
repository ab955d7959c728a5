//! Folds the events of a session into passages and reports of usage. Text that came in pieces is one passage, found at its
//! first piece. Pure.

use domain::request::RequestSubject;
use domain::{CallId, Event, EventKind, Timestamp, any_event};
use serde_json::Value;
use storage::history::{IndexProgress, Passage, PassageKind, UsageReport};

use crate::limits;

/// The fold of one session, between two reads of its journal.
#[derive(Debug, Default)]
pub(super) struct PassageFold {
    read_up_to: u64,
    model: String,
    /// The text that is being written.
    open: Option<OpenText>,
    /// The agent wrote something in this turn.
    has_answered: bool,
}

#[derive(Debug)]
struct OpenText {
    seq: u64,
    at: Timestamp,
    parent: Option<CallId>,
    text: String,
}

impl PassageFold {
    /// Goes on where an index ends.
    pub(super) fn resume(progress: IndexProgress) -> Self {
        Self { read_up_to: progress.seq, model: progress.model, ..Self::default() }
    }

    pub(super) fn read_up_to(&self) -> u64 {
        self.read_up_to
    }

    pub(super) fn skip_to(&mut self, seq: u64) {
        self.read_up_to = seq;
    }

    /// Returns whether nothing is lost if it is forgotten.
    pub(super) fn is_at_rest(&self) -> bool {
        self.open.is_none() && !self.has_answered
    }

    /// Returns from where the next daemon must read: before a text that is not complete.
    pub(super) fn progress(&self) -> IndexProgress {
        let seq = self.open.as_ref().map_or(self.read_up_to, |open| open.seq - 1);
        IndexProgress { seq, model: self.model.clone() }
    }

    /// Takes one event.
    pub(super) fn take(&mut self, event: &Event, out: &mut Vec<Passage>, usage: &mut Vec<UsageReport>) {
        let passage =
            |kind, text: &str| Passage { seq: event.seq, at: event.at, kind, text: cut(text).to_owned() };
        match &event.kind {
            EventKind::TextDelta { text, parent } => self.write(event, text, parent.as_ref(), out),
            EventKind::TurnStarted { prompt, .. } => {
                self.close(out);
                self.has_answered = false;
                add(out, passage(PassageKind::Prompt, prompt));
            }
            EventKind::MessageAdded { text, .. } => {
                self.close(out);
                add(out, passage(PassageKind::Prompt, text));
            }
            EventKind::ToolStarted { tool, title, input, .. } => {
                self.close(out);
                add(out, passage(PassageKind::Command, &command_text(tool, title, input)));
            }
            EventKind::ToolFinished { output, .. } => {
                self.close(out);
                add(out, passage(PassageKind::Output, output));
            }
            EventKind::TurnEnded { text, .. } => {
                self.close(out);
                // Most agents repeat at the end what they have written.
                if !std::mem::take(&mut self.has_answered) {
                    add_parts(event, text, out);
                }
            }
            EventKind::RequestOpened { ask: RequestSubject::Question { questions, .. }, .. } => {
                self.close(out);
                let texts: Vec<&str> = questions.iter().map(|question| question.text.as_str()).collect();
                add(out, passage(PassageKind::Answer, &texts.join("\n")));
            }
            EventKind::AgentReady { model, .. } | EventKind::ModelChanged { model } if !model.is_empty() => {
                self.model.clone_from(model);
            }
            EventKind::SessionCreated { model, .. } => self.model.clone_from(model),
            EventKind::UsageReported { usage: reported, .. } if !reported.is_empty() => {
                let (seq, at, model) = (event.seq, event.at, self.model.clone());
                usage.push(UsageReport { seq, at, model, usage: *reported });
            }
            EventKind::ActivityReported { tokens_input, tokens_output, .. }
                if *tokens_input > 0 || *tokens_output > 0 =>
            {
                let reported = domain::Usage {
                    input_tokens: *tokens_input,
                    output_tokens: *tokens_output,
                    ..domain::Usage::default()
                };
                usage.push(UsageReport {
                    seq: event.seq,
                    at: event.at,
                    model: self.model.clone(),
                    usage: reported,
                });
            }
            EventKind::StatusChanged { .. } => self.close(out),
            any_event!(
                AgentStarted AgentReady AgentExited AgentLogged Restarted InterruptRequested ThinkingDelta
                ToolProgress RequestOpened RequestSettled GrantsChanged Renamed TodosChanged ModeChanged
                PlanModeChanged ModelChanged CommandsChanged ServersChanged ToolsRegistered InputHolderChanged
                plan UsageReported Compacted worker Notice ActivityReported Unparsed
            ) => {}
        }
    }

    /// Adds a piece to the text that is being written; another speaker begins another one. A long text is several passages,
    /// divided between two pieces: between two words if it can be, so that each word is found.
    fn write(&mut self, event: &Event, piece: &str, parent: Option<&CallId>, out: &mut Vec<Passage>) {
        self.has_answered |= parent.is_none();
        let mut piece = piece;
        if let Some(open) = self.open.as_mut().filter(|open| open.parent.as_ref() == parent) {
            // The next part begins with a word: the end of the last one still belongs to this one.
            let end_of_word = piece.find(char::is_whitespace).unwrap_or(0);
            let is_last = open.text.len() + piece.len() > limits::PASSAGE_MAX_BYTES;
            if is_last && open.text.len() + end_of_word <= limits::PASSAGE_MAX_BYTES {
                let (word, rest) = piece.split_at(end_of_word);
                open.text.push_str(word);
                piece = rest;
            }
        }
        let ends_before = |open: &OpenText| {
            let is_between_words =
                open.text.ends_with(char::is_whitespace) || piece.starts_with(char::is_whitespace);
            open.parent.as_ref() != parent
                || open.text.len() >= limits::PASSAGE_LONG_BYTES && is_between_words
                || open.text.len() + piece.len() > limits::PASSAGE_MAX_BYTES
        };
        if self.open.as_ref().is_some_and(ends_before) {
            self.close(out);
        }
        if piece.len() > limits::PASSAGE_MAX_BYTES {
            add_parts(event, piece, out);
            return;
        }
        let open = self.open.get_or_insert_with(|| OpenText {
            seq: event.seq,
            at: event.at,
            parent: parent.cloned(),
            text: String::new(),
        });
        open.text.push_str(piece);
    }

    fn close(&mut self, out: &mut Vec<Passage>) {
        if let Some(OpenText { seq, at, text, .. }) = self.open.take() {
            add(out, Passage { seq, at, kind: PassageKind::Answer, text });
        }
    }
}

fn add(out: &mut Vec<Passage>, passage: Passage) {
    if !passage.text.trim().is_empty() {
        out.push(passage);
    }
}

/// Adds an answer that came at once, as several passages if it is long.
fn add_parts(event: &Event, mut text: &str, out: &mut Vec<Passage>) {
    while !text.is_empty() {
        let part = cut(text);
        let is_whole = part.len() == text.len();
        let end = part.rfind(char::is_whitespace).filter(|end| !is_whole && *end > 0).unwrap_or(part.len());
        let (part, rest) = text.split_at(end);
        add(out, Passage { seq: event.seq, at: event.at, kind: PassageKind::Answer, text: part.to_owned() });
        text = rest;
    }
}

/// Returns what a call is about: its tool, its title, and every text of its input.
fn command_text(tool: &str, title: &str, input: &Value) -> String {
    let mut text = format!("{tool} {title}");
    append_texts(input, &mut text);
    text
}

fn append_texts(value: &Value, text: &mut String) {
    if text.len() >= limits::PASSAGE_MAX_BYTES {
        return;
    }
    match value {
        Value::String(more) => {
            text.push('\n');
            text.push_str(more);
        }
        Value::Array(items) => items.iter().for_each(|item| append_texts(item, text)),
        Value::Object(fields) => fields.values().for_each(|field| append_texts(field, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the beginning of a text that is indexed.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(limits::PASSAGE_MAX_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
