//! Keys, by the part of the screen that has them.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{App, CardMode, Dialog, Effect, Focus, LentProgram, millis};
use crate::data::Request;
use crate::keys::{Action, KeyContext};
use crate::{limits, rows};

impl App {
    /// Handles a key.
    pub(crate) fn key(&mut self, event: &KeyEvent) {
        self.handle_key(event);
        self.look_closer();
    }

    fn handle_key(&mut self, event: &KeyEvent) {
        self.last_input = self.now;
        // A message is about the key before; it would hide the keys that count now. Errors stay their time.
        if self.message.as_ref().is_some_and(|message| !message.bad) {
            self.message = None;
        }
        if event.code == KeyCode::Char('c') && event.modifiers == KeyModifiers::CONTROL {
            return self.interrupt();
        }
        self.leave_at = None;
        if self.dialog.is_some() {
            return self.dialog_key(event);
        }
        if self.review.is_some() {
            return self.review_key(event);
        }
        match self.focus {
            Focus::Message => return self.message_key(event),
            Focus::Card => {
                if self.card_key(event) {
                    return;
                }
            }
            Focus::List | Focus::Transcript => {}
        }
        if event.code == KeyCode::Char('z') && event.modifiers == KeyModifiers::CONTROL {
            self.effects.push(Effect::Suspend);
            return;
        }
        if let Some(action) = self.keys.action(self.context(), event) {
            self.run_action(action);
        }
    }

    /// `Ctrl+C` closes what is open; pressed again it leaves.
    fn interrupt(&mut self) {
        if self.leave_at.is_some_and(|until| self.now < until) {
            return self.leave();
        }
        self.leave_at = Some(self.now + millis(limits::LEAVE_AGAIN));
        if self.dialog.take().is_some() {
            return;
        }
        if let Some(card) = self.open.as_mut().and_then(|open| open.card.as_mut())
            && self.focus == Focus::Card
            && matches!(card.mode, CardMode::Words { .. } | CardMode::Input { .. })
        {
            card.mode = CardMode::Choose;
            return;
        }
        if self.focus == Focus::Message {
            if let Some(open) = &mut self.open {
                super::writing::set_text(&mut open.message, "");
                open.completion = None;
            }
            self.focus = Focus::Transcript;
        }
        self.say("Ctrl+C again leaves; agents go on", false);
    }

    /// Does what a key or the palette says.
    pub(super) fn run_action(&mut self, action: Action) {
        match action {
            Action::MoveDown
            | Action::MoveUp
            | Action::PageDown
            | Action::PageUp
            | Action::Top
            | Action::End
            | Action::Open => self.movement(action),
            Action::Back => self.back(),
            Action::NextPane => self.next_pane(),
            Action::PaneSessions => self.focus = Focus::List,
            Action::PaneTranscript => self.focus_transcript(),
            Action::NextRequest => self.jump_to_request(1),
            Action::PreviousRequest => self.jump_to_request(-1),
            Action::Write => self.write(),
            Action::NewSession => self.new_session(),
            Action::Review => self.open_review(),
            Action::Search => self.dialog = Some(Dialog::Search(super::SearchDialog::default())),
            Action::Attach => self.open_attach(),
            Action::Find => self.dialog = Some(Dialog::Find { field: String::new() }),
            Action::Usage => self.open_usage(),
            Action::Plans => self.open_plans(),
            Action::Queue => self.open_queue(),
            Action::Rename => self.open_rename(),
            Action::Budget => self.open_budget(),
            Action::Merge => self.open_merge(),
            Action::Palette => self.open_palette(),
            Action::Help => self.dialog = Some(Dialog::Keys { context: self.context(), scroll: 0 }),
            Action::Leave => self.leave(),
            Action::CancelTurn
            | Action::StopSession
            | Action::RestartSession
            | Action::ChangeMode
            | Action::Fork
            | Action::Archive
            | Action::Remove => self.session_action(action),
            Action::OpenFolder | Action::Shell => self.lend_terminal(action),
            Action::ShowEnded => {
                self.show_ended = !self.show_ended;
                self.send(Request::Watch { include_ended: self.show_ended });
                self.refresh_list(true);
            }
            Action::Filter => self.dialog = Some(Dialog::Filter { field: self.filter.clone() }),
            Action::NextMatch => self.find_next(1),
            // Without a search the key means what it means elsewhere.
            Action::PreviousMatch if self.find.is_empty() => self.new_session(),
            Action::PreviousMatch => self.find_next(-1),
            Action::NextPrompt | Action::PreviousPrompt => self.go_to_prompt(action),
            Action::FoldAll => drop(self.with_pane(|pane, _| pane.toggle_all())),
            Action::Copy => self.copy_row(),
            // These belong to the card, the message field and the review.
            Action::Allow
            | Action::AllowSession
            | Action::Deny
            | Action::DenyAndStop
            | Action::EditInput
            | Action::ShowInput
            | Action::Send
            | Action::Newline
            | Action::AddToTurn
            | Action::Editor
            | Action::NextFile
            | Action::PreviousFile
            | Action::Comment
            | Action::SendComments => {}
        }
        self.read_older();
    }

    fn go_to_prompt(&mut self, action: Action) {
        let step = if action == Action::NextPrompt { 1 } else { -1 };
        let is_prompt = |row: &view::Row| matches!(row.body, view::RowBody::Prompt { .. });
        self.with_pane(|pane, look| pane.find(step, look, is_prompt));
    }

    fn copy_row(&mut self) {
        if let Some(Some(text)) = self.with_pane(|pane, look| pane.selected_text(look)) {
            self.effects.push(Effect::Copy(text));
            self.say("copied", false);
        }
    }

    /// Moves in the list or in the transcript.
    fn movement(&mut self, action: Action) {
        let in_list = self.focus == Focus::List;
        match action {
            Action::MoveDown if in_list => self.walk_selection(1),
            Action::MoveUp if in_list => self.walk_selection(-1),
            Action::PageDown if in_list => self.walk_selection(10),
            Action::PageUp if in_list => self.walk_selection(-10),
            Action::Open if in_list => self.open_selected(),
            Action::Top | Action::End => self.go_to_edge(action == Action::Top),
            _ => {
                self.with_pane(|pane, look| match action {
                    Action::MoveDown => pane.select(1, look),
                    Action::MoveUp => pane.select(-1, look),
                    Action::PageDown => pane.page(1, look),
                    Action::PageUp => pane.page(-1, look),
                    _ => {
                        pane.toggle(look);
                    }
                });
            }
        }
    }

    /// Actions on the session that is selected or shown.
    fn session_action(&mut self, action: Action) {
        let Some(session) = self.current_session() else {
            self.say("no session is selected", false);
            return;
        };
        let name =
            self.overview.get(&session).map_or_else(|| session.clone(), |summary| summary.name.clone());
        match action {
            Action::CancelTurn => {
                self.confirm(format!("Cancel the turn of {name}?"), Request::Cancel { session });
            }
            Action::StopSession => {
                let text =
                    format!("Stop {name}? Its agent and everything it started ends; the conversation stays.");
                self.confirm(text, Request::Stop { session });
            }
            Action::RestartSession => {
                self.confirm(
                    format!("Restart {name}? A running turn is lost."),
                    Request::Restart { session },
                );
            }
            Action::Fork => self.send(Request::Fork { session }),
            Action::Archive => {
                let text = format!("Archive {name}? It lives on and is listed with the ended ones.");
                self.confirm(text, Request::Archive { session });
            }
            Action::Remove => {
                let text = format!("Remove {name} for good? Its conversation is deleted; its tree stays.");
                self.confirm(text, Request::Remove { session });
            }
            _ => {
                let mode =
                    self.overview.get(&session).map(|summary| summary.mode.clone()).unwrap_or_default();
                let same = |name: &&str| name.replace('_', "").eq_ignore_ascii_case(&mode.replace('_', ""));
                let selected = super::dialogs::MODES.iter().position(same).unwrap_or(0);
                self.dialog = Some(Dialog::Mode { session, selected });
            }
        }
    }

    /// Opens a session's folder in another program, which has the terminal meanwhile.
    fn lend_terminal(&mut self, action: Action) {
        let Some((session, name)) = self.about_session() else { return };
        let Some(summary) = self.overview.get(&session) else { return };
        if summary.machine != self.machine {
            let text = format!("{name} is on {}; its folder is not on this machine", summary.machine);
            return self.say(text, true);
        }
        let program = if action == Action::Shell { LentProgram::Shell } else { LentProgram::Editor };
        self.effects.push(Effect::Lend { program, folder: summary.folder.clone() });
    }

    fn go_to_edge(&mut self, top: bool) {
        if self.focus == Focus::List {
            let last = isize::try_from(self.entries.len()).unwrap_or(isize::MAX);
            self.walk_selection(if top { -last } else { last });
            return;
        }
        self.with_pane(|pane, _| if top { pane.go_to_top() } else { pane.follow() });
    }

    fn back(&mut self) {
        if !self.find.is_empty() {
            self.find.clear();
            return;
        }
        match self.focus {
            Focus::Card => self.focus = Focus::Transcript,
            Focus::Transcript | Focus::Message => self.focus = Focus::List,
            Focus::List => {
                if !self.filter.is_empty() {
                    self.filter.clear();
                    self.refresh_list(true);
                } else if self.show_idle {
                    self.show_idle = false;
                    self.refresh_list(true);
                }
            }
        }
    }

    pub(super) fn next_pane(&mut self) {
        self.focus = match self.focus {
            Focus::List if self.open.is_some() => Focus::Transcript,
            Focus::Transcript if self.card_request().is_some() => Focus::Card,
            Focus::Transcript | Focus::Card if self.open.is_some() => Focus::Message,
            _ => Focus::List,
        };
    }

    fn focus_transcript(&mut self) {
        if self.open.is_none() {
            self.open_selected();
        }
        if self.open.is_some() {
            self.focus = Focus::Transcript;
        }
    }

    fn write(&mut self) {
        if self.focus == Focus::List
            && let Some(session) = self.current_session()
        {
            self.open_session(&session, None);
        }
        if self.open.is_some() {
            self.focus = Focus::Message;
        }
    }

    /// Shows the next row with the text that is searched.
    pub(super) fn find_next(&mut self, step: isize) {
        let wanted = self.find.to_lowercase();
        if wanted.is_empty() {
            return;
        }
        let matches = |row: &view::Row| rows::plain_text(row).to_lowercase().contains(&wanted);
        if self.with_pane(|pane, look| pane.find(step, look, matches)) == Some(false) {
            self.say(format!("\"{wanted}\" is not further in this transcript"), false);
        }
    }

    /// Reads older events if the place is near the first one that was read.
    pub(super) fn read_older(&mut self) {
        let Some(open) = &mut self.open else { return };
        let Some(pane) = &open.pane else { return };
        if open.loading || !pane.wants_older() {
            return;
        }
        open.loading = true;
        open.tail = open.tail.saturating_mul(limits::TAIL_GROWTH);
        let last_seq = pane.transcript.header().last_seq;
        let request = Request::Open { session: open.id.clone(), last_seq, tail: open.tail };
        self.send(request);
    }

    /// Returns the actions worth a place in the last line now.
    pub(crate) fn useful(&self) -> Vec<Action> {
        match self.context() {
            // A question says itself how it is answered.
            KeyContext::Card if self.card_request().is_some_and(|request| request.subject == "question") => {
                vec![Action::NextRequest, Action::Back]
            }
            KeyContext::Card => {
                vec![
                    Action::Allow,
                    Action::AllowSession,
                    Action::Deny,
                    Action::DenyAndStop,
                    Action::ShowInput,
                    Action::Back,
                ]
            }
            KeyContext::Review => vec![
                Action::NextFile,
                Action::PreviousFile,
                Action::Comment,
                Action::SendComments,
                Action::Merge,
                Action::Back,
                Action::Help,
            ],
            KeyContext::Message => vec![Action::Send, Action::Newline, Action::AddToTurn, Action::Editor],
            KeyContext::Transcript => vec![
                Action::Write,
                Action::NextRequest,
                Action::Open,
                Action::Review,
                Action::Help,
                Action::Leave,
                Action::CancelTurn,
                Action::Queue,
                Action::Search,
                Action::Palette,
            ],
            _ => vec![
                Action::Open,
                Action::NextRequest,
                Action::NewSession,
                Action::Help,
                Action::Leave,
                Action::Search,
                Action::Filter,
                Action::Palette,
            ],
        }
    }
}
