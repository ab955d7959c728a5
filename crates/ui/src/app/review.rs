//! Reviewing what a session changed: files, their changes, and comments on lines that are sent as one message.

use std::collections::{BTreeMap, HashMap};

use crossterm::event::{KeyCode, KeyEvent};

use super::App;
use super::dialogs::edit;
use crate::data::{ChangedFile, PromptDelivery, Request, ReviewLine};
use crate::keys::{Action, KeyContext};

/// Comments by file and line of its change.
pub(crate) type Comments = BTreeMap<(String, usize), String>;

/// The review on the screen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Review {
    pub(crate) session: String,
    pub(crate) against: String,
    /// `None` until they are known.
    pub(crate) files: Option<Vec<ChangedFile>>,
    pub(crate) more: u64,
    pub(crate) at: usize,
    pub(crate) lines: HashMap<String, Vec<ReviewLine>>,
    pub(crate) cursor: usize,
    pub(crate) comments: Comments,
    /// A comment that is being written.
    pub(crate) field: Option<String>,
    pub(crate) failure: Option<String>,
}

impl Review {
    /// Returns the file that is shown.
    pub(crate) fn file(&self) -> Option<&ChangedFile> {
        self.files.as_ref()?.get(self.at)
    }

    /// Returns the lines of the file that is shown; `None` until they are known.
    pub(crate) fn shown(&self) -> Option<&[ReviewLine]> {
        self.lines.get(&self.file()?.path).map(Vec::as_slice)
    }

    fn move_cursor(&mut self, step: isize) {
        let last = self.shown().map_or(0, |lines| lines.len().saturating_sub(1));
        self.cursor = self.cursor.saturating_add_signed(step).min(last);
    }

    /// The message that carries every comment, with file, line and text.
    fn message(&self) -> String {
        let mut text = String::from("Comments on your changes:\n");
        for ((path, at), comment) in &self.comments {
            let line = self.lines.get(path).and_then(|lines| lines.get(*at));
            let (number, shown) =
                line.map_or((0, String::new()), |line| (line.number, format!("{}{}", line.mark, line.text)));
            text.push_str(&format!("\n{path}:{number}\n> {shown}\n{comment}\n"));
        }
        text
    }
}

impl App {
    /// Opens the review of the session that is selected or shown.
    pub(super) fn open_review(&mut self) {
        let Some(session) = self.current_session() else {
            self.say("no session is selected", false);
            return;
        };
        let comments = self.comments.remove(&session).unwrap_or_default();
        self.review = Some(Review { session: session.clone(), comments, ..Review::default() });
        self.send(Request::Diff { session });
    }

    /// Takes what the daemon says of the changes.
    pub(super) fn review_files(
        &mut self,
        session: &str,
        against: String,
        files: Vec<ChangedFile>,
        more: u64,
    ) {
        let Some(review) = self.review.as_mut().filter(|review| review.session == session) else { return };
        review.against = against;
        review.more = more;
        review.files = Some(files);
        self.want_file();
    }

    pub(super) fn review_lines(&mut self, session: &str, path: String, lines: Vec<ReviewLine>) {
        if let Some(review) = self.review.as_mut().filter(|review| review.session == session) {
            review.lines.insert(path, lines);
        }
    }

    pub(super) fn review_failed(&mut self, session: &str, why: String) {
        match self.review.as_mut().filter(|review| review.session == session) {
            Some(review) => review.failure = Some(why),
            None => self.say(why, true),
        }
    }

    /// Asks for the changes of the file that is shown.
    fn want_file(&mut self) {
        let Some(review) = &self.review else { return };
        let Some(file) = review.file().filter(|file| !review.lines.contains_key(&file.path)) else { return };
        let request = Request::DiffFile { session: review.session.clone(), path: file.path.clone() };
        self.send(request);
    }

    /// Handles a key of the review.
    pub(super) fn review_key(&mut self, event: &KeyEvent) {
        let action = self.keys.action(KeyContext::Review, event);
        let Some(review) = &mut self.review else { return };
        if review.field.is_some() {
            return self.comment_key(event);
        }
        match action {
            Some(Action::Back | Action::Leave | Action::Review) => self.close_review(),
            Some(Action::Merge) => self.open_merge(),
            Some(Action::NextFile | Action::PreviousFile) => {
                let last = review.files.as_ref().map_or(0, |files| files.len().saturating_sub(1));
                let step = if action == Some(Action::NextFile) { 1 } else { -1 };
                review.at = review.at.saturating_add_signed(step).min(last);
                review.cursor = 0;
                self.want_file();
            }
            Some(Action::MoveDown) => review.move_cursor(1),
            Some(Action::MoveUp) => review.move_cursor(-1),
            Some(Action::PageDown) => review.move_cursor(20),
            Some(Action::PageUp) => review.move_cursor(-20),
            Some(Action::Top) => review.cursor = 0,
            Some(Action::End) => review.move_cursor(isize::MAX),
            Some(Action::Comment | Action::Open) => {
                if let Some(file) = review.file()
                    && review.shown().is_some_and(|lines| !lines.is_empty())
                {
                    let key = (file.path.clone(), review.cursor);
                    review.field = Some(review.comments.get(&key).cloned().unwrap_or_default());
                }
            }
            Some(Action::SendComments) => self.send_comments(),
            Some(action @ (Action::Help | Action::Palette)) => self.run_action(action),
            _ => {}
        }
    }

    fn comment_key(&mut self, event: &KeyEvent) {
        let Some(review) = &mut self.review else { return };
        let Some(field) = &mut review.field else { return };
        match event.code {
            KeyCode::Esc => review.field = None,
            KeyCode::Enter => {
                let text = field.trim().to_owned();
                review.field = None;
                let Some(path) = review.file().map(|file| file.path.clone()) else { return };
                let key = (path, review.cursor);
                if text.is_empty() {
                    review.comments.remove(&key);
                } else {
                    review.comments.insert(key, text);
                }
            }
            _ => {
                edit(field, event);
            }
        }
    }

    /// Sends all comments as one message.
    fn send_comments(&mut self) {
        let Some(review) = &mut self.review else { return };
        if review.comments.is_empty() {
            self.say("there is no comment yet", false);
            return;
        }
        let (session, text) = (review.session.clone(), review.message());
        review.comments.clear();
        self.close_review();
        self.open_session(&session, None);
        let delivery = if self.is_working() { PromptDelivery::Queue } else { PromptDelivery::Now };
        if let Some(open) = &mut self.open {
            open.sending.push(text.clone());
        }
        self.send(Request::Prompt { attachments: Vec::new(), session, text, delivery });
    }

    /// Closes the review; comments are kept.
    pub(super) fn close_review(&mut self) {
        if let Some(review) = self.review.take()
            && !review.comments.is_empty()
        {
            self.comments.insert(review.session, review.comments);
        }
    }
}
