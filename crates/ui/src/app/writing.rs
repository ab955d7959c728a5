//! The message field: sending, history, completion of files and of the agent's commands, pasted text.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher};
use ratatui_textarea::{CursorMove, TextArea};
use view::RowBody;

use super::{App, CardMode, Dialog, Effect, Focus, OpenSession, style_field};
use crate::data::{PromptDelivery, Request};
use crate::keys::{Action, KeyContext};
use crate::{limits, sanitize};

/// What may complete the word before the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    /// The sign that began it: `@` or `/`.
    pub(crate) sign: char,
    /// Characters after the sign.
    pub(crate) typed: String,
    pub(crate) found: Vec<String>,
    pub(crate) selected: usize,
}

impl App {
    /// Handles a key in the message field.
    pub(super) fn message_key(&mut self, event: &KeyEvent) {
        if self.completion_key(event) {
            return;
        }
        match self.keys.action(KeyContext::Message, event) {
            Some(Action::Send) => return self.send_message(false),
            Some(Action::AddToTurn) => return self.send_message(true),
            Some(Action::Newline) => {
                if let Some(open) = &mut self.open {
                    open.message.insert_newline();
                }
                return;
            }
            Some(Action::Attach) => return self.open_attach(),
            Some(Action::Editor) => {
                if let Some(open) = &self.open {
                    let text = open.message.lines().join("\n");
                    self.effects.push(Effect::Editor(text));
                }
                return;
            }
            _ => {}
        }
        match event.code {
            KeyCode::Esc => self.focus = Focus::Transcript,
            KeyCode::Tab => self.next_pane(),
            KeyCode::PageUp | KeyCode::PageDown => {
                let pages = if event.code == KeyCode::PageUp { -1 } else { 1 };
                self.with_pane(|pane, look| pane.page(pages, look));
                self.read_older();
            }
            KeyCode::Up if self.at_beginning() => self.recall(1),
            KeyCode::Down if self.open.as_ref().is_some_and(|open| open.history.is_some()) => self.recall(-1),
            KeyCode::Backspace if self.is_before_everything() => self.drop_last_attachment(),
            KeyCode::Char('z') if event.modifiers == KeyModifiers::CONTROL => {
                self.effects.push(Effect::Suspend);
            }
            _ => {
                if let Some(open) = &mut self.open {
                    open.history = None;
                    open.message.input(*event);
                }
                self.complete();
            }
        }
    }

    fn at_beginning(&self) -> bool {
        self.open.as_ref().is_some_and(|open| {
            let cursor = open.message.cursor();
            let is_empty = open.message.lines().iter().all(String::is_empty);
            cursor.0 == 0 && (is_empty || cursor.1 == 0 || open.history.is_some())
        })
    }

    /// Puts an earlier or a later message of one's own into the field.
    fn recall(&mut self, step: isize) {
        let Some(open) = &mut self.open else { return };
        let Some(pane) = &open.pane else { return };
        let own = pane.transcript.rows().iter().rev().filter_map(|row| match &row.body {
            RowBody::Prompt { origin: "client", text, .. } if !text.is_empty() => Some(text),
            _ => None,
        });
        let own: Vec<&String> = own.take(200).collect();
        let at = match (open.history, step) {
            (None, 1) => Some(0),
            (None, _) | (Some(0), -1) => None,
            (Some(at), step) => Some(at.saturating_add_signed(step).min(own.len().saturating_sub(1))),
        };
        let text = at.and_then(|at| own.get(at)).map(|text| sanitize::clean(text)).unwrap_or_default();
        if at.is_some() && own.is_empty() {
            return;
        }
        set_text(&mut open.message, &text);
        open.history = at;
    }

    fn send_message(&mut self, steer: bool) {
        let working = self.is_working();
        let Some(open) = &mut self.open else { return };
        let text = open.message.lines().join("\n");
        if text.trim().is_empty() {
            if !open.attachments.is_empty() {
                self.say("write what the attached files are for", true);
            }
            return;
        }
        if text.len() > limits::MESSAGE_MAX_BYTES {
            self.say("the message is too long", true);
            return;
        }
        let session = open.id.clone();
        open.sending.push(text.clone());
        let attachments = std::mem::take(&mut open.attachments);
        if !attachments.is_empty() {
            open.sent_attachments.push((text.clone(), attachments.clone()));
        }
        open.history = None;
        open.completion = None;
        set_text(&mut open.message, "");
        if let Some(pane) = &mut open.pane {
            pane.follow();
        }
        self.drafts.remove(&session);
        let delivery = match (steer, working) {
            (true, true) => PromptDelivery::Steer,
            (false, true) => PromptDelivery::Queue,
            (_, false) => PromptDelivery::Now,
        };
        self.send(Request::Prompt { session, text, delivery, attachments });
    }

    /// Takes text that was pasted: into the field that has the keys, never as keys.
    pub(crate) fn paste(&mut self, text: &str) {
        self.last_input = self.now;
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        if let Some(dialog) = &mut self.dialog {
            dialog.paste(&sanitize::clean_line(&text));
            self.dialog_changed();
            return;
        }
        if self.focus != Focus::Card && self.attach_pasted(&text) {
            return;
        }
        let clean = sanitize::clean(&text);
        if self.focus == Focus::Card
            && let Some(card) = self.open.as_mut().and_then(|open| open.card.as_mut())
        {
            match &mut card.mode {
                CardMode::Words { field, .. } | CardMode::Input { field, .. } => {
                    field.insert_str(&clean);
                }
                CardMode::Questions(answers) => {
                    if let Some(field) = &mut answers.field {
                        field.insert_str(&clean);
                    }
                }
                CardMode::Choose => {}
            }
            return;
        }
        if let Some(open) = &mut self.open {
            self.focus = Focus::Message;
            open.message.insert_str(&clean);
        }
    }

    /// Replaces the message by what was written in the editor.
    pub(crate) fn set_message(&mut self, text: &str) {
        if let Some(open) = &mut self.open {
            set_text(&mut open.message, text.trim_end_matches('\n'));
        }
    }

    /// Looks for what may complete the word before the cursor.
    pub(super) fn complete(&mut self) {
        let Some(open) = &mut self.open else { return };
        open.completion = None;
        let Some((sign, typed)) = word_before_cursor(open) else { return };
        let candidates: Vec<String> = if sign == '/' {
            open.pane.as_ref().map(|pane| pane.transcript.header().commands.clone()).unwrap_or_default()
        } else {
            let folder = self.overview.get(&open.id).map(|summary| summary.folder.clone());
            let folder =
                folder.or_else(|| open.pane.as_ref().map(|pane| pane.transcript.header().folder.clone()));
            let Some(folder) = folder.filter(|folder| !folder.is_empty()) else { return };
            match self.files.get(&folder) {
                Some(files) => files.clone(),
                None => {
                    self.files.insert(folder.clone(), Vec::new());
                    self.effects.push(Effect::Request(Request::Files { folder }));
                    return;
                }
            }
        };
        let found = best(&typed, candidates, limits::COMPLETIONS_SHOWN);
        if !found.is_empty() {
            open.completion = Some(Completion { sign, typed, found, selected: 0 });
        }
    }

    /// Handles a key while completions are shown. Returns whether it was for them.
    fn completion_key(&mut self, event: &KeyEvent) -> bool {
        let Some(open) = &mut self.open else { return false };
        let Some(completion) = &mut open.completion else { return false };
        let count = completion.found.len();
        match event.code {
            KeyCode::Down => completion.selected = (completion.selected + 1) % count,
            KeyCode::Up => completion.selected = (completion.selected + count - 1) % count,
            KeyCode::Esc => open.completion = None,
            KeyCode::Tab | KeyCode::Enter if event.modifiers.is_empty() => {
                let Some(chosen) = completion.found.get(completion.selected).cloned() else { return false };
                // A whole command that was typed is sent.
                if event.code == KeyCode::Enter && chosen.trim_start_matches('/') == completion.typed {
                    open.completion = None;
                    return false;
                }
                for _ in 0..completion.typed.chars().count() {
                    open.message.delete_char();
                }
                let chosen = chosen.strip_prefix('/').unwrap_or(&chosen);
                open.message.insert_str(format!("{chosen} "));
                open.completion = None;
            }
            _ => return false,
        }
        true
    }
}

/// Returns the sign and the text of the word before the cursor, if it may be completed.
fn word_before_cursor(open: &OpenSession) -> Option<(char, String)> {
    let cursor = open.message.cursor();
    let (line, column) = (cursor.0, cursor.1);
    let before: String = open.message.lines().get(line)?.chars().take(column).collect();
    let word = before.rsplit(char::is_whitespace).next()?;
    if let Some(typed) = word.strip_prefix('@') {
        return Some(('@', typed.to_owned()));
    }
    let is_command = line == 0 && before.starts_with('/') && word.len() == before.len();
    is_command.then(|| ('/', before[1..].to_owned()))
}

/// Returns the candidates that fit best.
pub(crate) fn best(typed: &str, candidates: Vec<String>, max: usize) -> Vec<String> {
    let mut matcher = Matcher::new(Config::DEFAULT.match_paths());
    let pattern = Pattern::parse(typed, CaseMatching::Smart, Normalization::Smart);
    let matched = pattern.match_list(candidates, &mut matcher);
    matched.into_iter().take(max).map(|(text, _)| text).collect()
}

/// Replaces the text of a field.
pub(crate) fn set_text(field: &mut TextArea<'static>, text: &str) {
    *field = TextArea::new(text.split('\n').map(str::to_owned).collect());
    style_field(field);
    field.move_cursor(CursorMove::Bottom);
    field.move_cursor(CursorMove::End);
}

impl Dialog {
    /// Adds pasted text to the field of a dialog.
    fn paste(&mut self, text: &str) {
        match self {
            Dialog::Palette { field, .. }
            | Dialog::Find { field }
            | Dialog::Filter { field }
            | Dialog::Attach { field, .. } => field.push_str(text),
            Dialog::Rename { field, .. } | Dialog::Merge { field, .. } => field.push_str(text),
            Dialog::Search(search) => search.field.push_str(text),
            Dialog::Queue(queue) => {
                if let Some(edited) = &mut queue.edited {
                    edited.push_str(text);
                }
            }
            Dialog::Budget(budget) => {
                if let Some(field) = budget.fields.get_mut(budget.at) {
                    field.push_str(text);
                }
            }
            Dialog::New(form) => form.insert(text),
            Dialog::Text { .. }
            | Dialog::Keys { .. }
            | Dialog::Confirm { .. }
            | Dialog::Mode { .. }
            | Dialog::Plans(_)
            | Dialog::Usage(_) => {}
        }
    }
}
