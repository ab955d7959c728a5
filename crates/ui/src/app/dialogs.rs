//! Dialogs: the palette, the keys, a new session, a question before something is lost. One at a time; `Esc` closes it.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{App, Effect, Focus, NewSessionForm};
use crate::data::Request;
use crate::keys::{Action, KeyContext};

/// What is over the panes.
#[derive(Clone, Debug)]
pub(crate) enum Dialog {
    /// A text to be read.
    Text {
        title: String,
        text: String,
        scroll: usize,
    },
    /// The keys of the part of the screen that had them.
    Keys {
        context: KeyContext,
        scroll: usize,
    },
    Palette {
        field: String,
        found: Vec<PaletteEntry>,
        selected: usize,
    },
    Find {
        field: String,
    },
    Filter {
        field: String,
    },
    /// The path of a file for the message.
    Attach {
        session: String,
        field: String,
    },
    Mode {
        session: String,
        selected: usize,
    },
    /// Something that cannot be undone.
    Confirm {
        text: String,
        request: Request,
    },
    New(NewSessionForm),
    Usage(super::UsageDialog),
    /// The plans of a session.
    Plans(super::PlansDialog),
    /// The prompts of a session that wait.
    Queue(super::QueueDialog),
    /// The search over all sessions.
    Search(super::SearchDialog),
    Budget(super::BudgetDialog),
    Rename {
        session: String,
        field: String,
    },
    Merge {
        session: String,
        branch: String,
        /// The message of the commit that is made of what is not committed.
        field: String,
        failure: String,
    },
}

impl Dialog {
    /// Whether there is nothing to choose or to type.
    pub(crate) fn is_only_read(&self) -> bool {
        matches!(self, Dialog::Text { .. } | Dialog::Keys { .. } | Dialog::Usage(_))
    }
}

/// A line of the palette.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PaletteEntry {
    Action(Action),
    Session { id: String, name: String },
}

/// The modes of a session, the most careful first.
pub(crate) const MODES: [&str; 4] = ["plan", "supervised", "acceptEdits", "autonomous"];

impl App {
    /// Handles a key while a dialog is open.
    pub(super) fn dialog_key(&mut self, event: &KeyEvent) {
        let Some(mut dialog) = self.dialog.take() else { return };
        if event.code == KeyCode::Esc {
            return self.close_dialog(dialog);
        }
        if let Some(keep) = self.work_key(&mut dialog, event) {
            if keep && self.dialog.is_none() {
                self.dialog = Some(dialog);
            }
            return;
        }
        let keep = match &mut dialog {
            Dialog::Text { scroll, .. } | Dialog::Keys { scroll, .. } => {
                scroll_key(scroll, event);
                !matches!(event.code, KeyCode::Char('q' | '?') | KeyCode::Enter)
            }
            Dialog::Palette { .. } => match self.palette_key(&mut dialog, event) {
                Some(chosen) => return self.run_palette(chosen),
                None => true,
            },
            Dialog::Find { field } => {
                if event.code == KeyCode::Enter {
                    self.find.clone_from(field);
                    self.focus = Focus::Transcript;
                    self.find_next(-1);
                    false
                } else {
                    edit(field, event);
                    true
                }
            }
            Dialog::Attach { session, field } => self.attach_key(session, field, event),
            Dialog::Filter { field } => type_into(field, event),
            Dialog::Mode { session, selected } => {
                step(selected, MODES.len(), event);
                if event.code == KeyCode::Enter {
                    let mode = MODES.get(*selected).copied().unwrap_or_default().to_owned();
                    let session = session.clone();
                    self.send(Request::SetMode { session, mode });
                }
                event.code != KeyCode::Enter
            }
            Dialog::Confirm { request, .. } => {
                if matches!(event.code, KeyCode::Char('y') | KeyCode::Enter) {
                    let request = request.clone();
                    self.send(request);
                }
                !matches!(event.code, KeyCode::Char('y' | 'n' | 'q') | KeyCode::Enter)
            }
            Dialog::New(form) => {
                self.form_key(form, event);
                true
            }
            // They have their own keys.
            Dialog::Usage(_)
            | Dialog::Plans(_)
            | Dialog::Queue(_)
            | Dialog::Search(_)
            | Dialog::Budget(_)
            | Dialog::Rename { .. }
            | Dialog::Merge { .. } => true,
        };
        if keep {
            self.dialog = Some(dialog);
            self.dialog_changed();
        }
    }

    /// Closes a dialog; what is only half done in it is left first.
    fn close_dialog(&mut self, dialog: Dialog) {
        match dialog {
            Dialog::New(form) => self.last_form = Some(form),
            Dialog::Plans(_) => self.send(Request::Plans { session: None }),
            Dialog::Queue(queue) if queue.edited.is_some() => {
                self.dialog = Some(Dialog::Queue(super::QueueDialog { edited: None, ..queue }));
            }
            _ => {}
        }
    }

    /// Handles a key in the palette. Returns what was chosen, if something was.
    fn palette_key(&self, dialog: &mut Dialog, event: &KeyEvent) -> Option<Option<PaletteEntry>> {
        let Dialog::Palette { field, selected, found } = dialog else { return None };
        match event.code {
            KeyCode::Enter => return Some(found.get(*selected).cloned()),
            KeyCode::Down | KeyCode::Up => step(selected, found.len(), event),
            _ => {
                if edit(field, event) {
                    *selected = 0;
                }
            }
        }
        None
    }

    /// Brings a dialog up to date with its field.
    pub(super) fn dialog_changed(&mut self) {
        match &self.dialog {
            Some(Dialog::Palette { field, .. }) => {
                let entries = self.palette_entries(&field.clone());
                if let Some(Dialog::Palette { found, selected, .. }) = &mut self.dialog {
                    *selected = (*selected).min(entries.len().saturating_sub(1));
                    *found = entries;
                }
            }
            Some(Dialog::Filter { field }) => {
                self.filter.clone_from(field);
                self.refresh_list(true);
            }
            Some(Dialog::Search(_)) => self.search_again(),
            _ => {}
        }
    }

    pub(super) fn open_palette(&mut self) {
        let found = self.palette_entries("");
        self.dialog = Some(Dialog::Palette { field: String::new(), found, selected: 0 });
    }

    fn palette_entries(&self, typed: &str) -> Vec<PaletteEntry> {
        let mut named: Vec<(String, PaletteEntry)> = Vec::new();
        for action in Action::all().filter(|action| action.context() != KeyContext::Message) {
            named.push((action.words().to_owned(), PaletteEntry::Action(action)));
        }
        for summary in self.overview.sessions() {
            let (id, name) = (summary.session.clone(), summary.name.clone());
            named.push((format!("go to {name}"), PaletteEntry::Session { id, name }));
        }
        if typed.is_empty() {
            // Keys that move are known; what a person looks for comes first.
            named.sort_by_key(
                |(_, entry)| matches!(entry, PaletteEntry::Action(action) if action.is_movement()),
            );
            return named.into_iter().map(|(_, entry)| entry).collect();
        }
        let names = named.iter().map(|(name, _)| name.clone()).collect();
        let best = super::writing::best(typed, names, named.len());
        let entry = |name: String| named.iter().find(|(own, _)| *own == name).map(|(_, entry)| entry.clone());
        best.into_iter().filter_map(entry).collect()
    }

    fn run_palette(&mut self, chosen: Option<PaletteEntry>) {
        match chosen {
            None => {}
            Some(PaletteEntry::Session { id, .. }) => {
                self.select_session(&id);
                self.open_session(&id, None);
                self.focus = Focus::Transcript;
            }
            Some(PaletteEntry::Action(action)) => {
                // A card's action is pressed on the card, after a look at it.
                if action.context() == KeyContext::Card {
                    if self.card_request().is_some() {
                        self.focus = Focus::Card;
                    } else {
                        self.say("no request is shown", false);
                    }
                    return;
                }
                match action.context() {
                    KeyContext::List => self.focus = Focus::List,
                    KeyContext::Transcript if self.open.is_some() => self.focus = Focus::Transcript,
                    _ => {}
                }
                self.run_action(action);
            }
        }
    }

    /// Asks before something that cannot be undone.
    pub(super) fn confirm(&mut self, text: String, request: Request) {
        self.dialog = Some(Dialog::Confirm { text, request });
    }

    /// Leaves; agents go on.
    pub(super) fn leave(&mut self) {
        self.put_away();
        self.effects.push(Effect::Quit);
    }
}

/// Moves a selection.
pub(super) fn step(selected: &mut usize, count: usize, event: &KeyEvent) {
    match event.code {
        KeyCode::Down | KeyCode::Char('j') => *selected = (*selected + 1).min(count.saturating_sub(1)),
        KeyCode::Up | KeyCode::Char('k') => *selected = selected.saturating_sub(1),
        _ => {}
    }
}

fn scroll_key(scroll: &mut usize, event: &KeyEvent) {
    match event.code {
        KeyCode::Down | KeyCode::Char('j') => *scroll += 1,
        KeyCode::Up | KeyCode::Char('k') => *scroll = scroll.saturating_sub(1),
        KeyCode::PageDown | KeyCode::Char(' ') => *scroll += 10,
        KeyCode::PageUp | KeyCode::Char('b') => *scroll = scroll.saturating_sub(10),
        _ => {}
    }
}

/// Edits a field. Returns whether the dialog stays: Enter closes it.
pub(super) fn type_into(field: &mut String, event: &KeyEvent) -> bool {
    let stays = event.code != KeyCode::Enter;
    if stays {
        edit(field, event);
    }
    stays
}

/// Edits a text of one line. Returns whether it changed.
pub(super) fn edit(field: &mut String, event: &KeyEvent) -> bool {
    let control = event.modifiers.contains(KeyModifiers::CONTROL);
    match event.code {
        KeyCode::Char('u') if control => field.clear(),
        KeyCode::Char('w') if control => {
            let kept = field.trim_end().rfind(' ').map_or(0, |at| at + 1);
            field.truncate(kept);
        }
        KeyCode::Char(letter) if !control => field.push(letter),
        KeyCode::Backspace => {
            field.pop();
        }
        _ => return false,
    }
    true
}
