//! The state of the screen and what changes it: keys, clicks, time and updates of the daemon go in, effects come out.
//! Does no I/O and reads no clock, so that every rule here is tested without a terminal.

mod answering;
mod attaching;
mod dialogs;
mod keyboard;
mod listing;
mod mouse;
mod new_session;
mod plans;
mod review;
mod updates;
mod work;
mod writing;

use std::collections::{BTreeMap, HashMap};

use ratatui::layout::Rect;
use ratatui_textarea::TextArea;
use view::{Overview, RequestRow, RowBody, SessionSummary};

use crate::data::{AttachedFile, Request};
use crate::highlight::Highlights;
use crate::keys::{KeyContext, KeyTable};
use crate::limits;
use crate::theme::Theme;
use crate::transcript_pane::{Look, ReadingState, TranscriptPane};

pub(crate) use answering::pretty;
pub(crate) use answering::{CardMode, CardState, QuestionAnswers};
pub(crate) use dialogs::{Dialog, MODES, PaletteEntry};
pub(crate) use listing::ListEntry;
pub(crate) use new_session::{FORM_FIELDS, NewSessionForm};
pub(crate) use plans::PlansDialog;
pub(crate) use review::Review;
pub(crate) use work::{BUDGET_FIELDS, BudgetDialog, QueueDialog, SearchDialog, UsageDialog};
pub(crate) use writing::Completion;

/// Which part of the screen gets the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Focus {
    List,
    Transcript,
    Card,
    Message,
}

/// What the program around the screen must do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Effect {
    Request(Request),
    Quit,
    /// Ring, and show a notice where the terminal can.
    Notify(String),
    /// Put a text on the terminal's clipboard.
    Copy(String),
    Suspend,
    /// Write a message in the person's editor.
    Editor(String),
    /// Lend the terminal to a program in a folder.
    Lend {
        program: LentProgram,
        folder: String,
    },
}

/// A program of the person's that has the terminal for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LentProgram {
    Editor,
    Shell,
}

/// Whether the daemon answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connection {
    Connecting,
    Live,
    /// Lost at this time.
    Lost(i64),
}

/// What a person chose when starting.
#[derive(Clone, Debug)]
pub(crate) struct UiOptions {
    pub(crate) theme: Theme,
    pub(crate) notices: bool,
    pub(crate) home: String,
    pub(crate) session: Option<String>,
}

/// The session that is shown.
pub(crate) struct OpenSession {
    pub(crate) id: String,
    /// `None` until it is read.
    pub(crate) pane: Option<TranscriptPane>,
    pub(crate) tail: u64,
    pub(crate) loading: bool,
    pub(crate) failure: Option<String>,
    pub(crate) message: TextArea<'static>,
    pub(crate) card: Option<CardState>,
    /// Requests that are older than what was read.
    pub(crate) fetched: Vec<RequestRow>,
    /// Messages on their way to the daemon.
    pub(crate) sending: Vec<String>,
    /// Files that go with the message.
    pub(crate) attachments: Vec<AttachedFile>,
    /// Files of messages on their way, by the message.
    pub(crate) sent_attachments: Vec<(String, Vec<AttachedFile>)>,
    /// Place in the history of one's own messages, from the newest.
    pub(crate) history: Option<usize>,
    pub(crate) completion: Option<Completion>,
    /// A row to show once it is read.
    pub(crate) wanted: Option<u64>,
    /// Shown beside the list while somebody moves in it, which is no look at it.
    pub(crate) preview: bool,
}

/// A message in the last line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StatusMessage {
    pub(crate) text: String,
    pub(crate) bad: bool,
    pub(crate) until: i64,
}

/// Where things were drawn, for the mouse.
#[derive(Clone, Debug, Default)]
pub(crate) struct Areas {
    /// A session has room beside the list.
    pub(crate) is_beside: bool,
    pub(crate) list: Rect,
    pub(crate) transcript: Rect,
    pub(crate) card: Rect,
    pub(crate) message: Rect,
    /// Entries of the list by line.
    pub(crate) entries: Vec<(u16, usize)>,
    /// Rows of the transcript by line.
    pub(crate) rows: Vec<(u16, u64)>,
    /// Buttons of the card: line, first and last column, and their key.
    pub(crate) buttons: Vec<(u16, u16, u16, char)>,
}

/// The state of the screen.
pub(crate) struct App {
    pub(crate) options: UiOptions,
    pub(crate) keys: KeyTable,
    pub(crate) highlights: Highlights,
    pub(crate) now: i64,
    pub(crate) connection: Connection,
    pub(crate) machine: String,
    /// The other machines, and why one is not reached; empty: it is.
    pub(crate) machines: BTreeMap<String, String>,
    pub(crate) overview: Overview,
    pub(crate) entries: Vec<ListEntry>,
    pub(crate) selected: usize,
    pub(crate) show_idle: bool,
    pub(crate) show_ended: bool,
    pub(crate) filter: String,
    pub(crate) open: Option<OpenSession>,
    pub(crate) focus: Focus,
    pub(crate) dialog: Option<Dialog>,
    pub(crate) message: Option<StatusMessage>,
    pub(crate) find: String,
    pub(crate) review: Option<Review>,
    pub(crate) read_only: bool,
    pub(crate) areas: Areas,
    pub(crate) files: HashMap<String, Vec<String>>,
    reading: HashMap<String, ReadingState>,
    drafts: HashMap<String, Vec<String>>,
    last_input: i64,
    order_waits: bool,
    leave_at: Option<i64>,
    /// When the selected session is shown beside the list.
    preview_at: Option<i64>,
    last_form: Option<NewSessionForm>,
    /// Comments that were not sent, by session.
    comments: HashMap<String, review::Comments>,
    known: HashMap<String, KnownState>,
    effects: Vec<Effect>,
}

/// What was known of a session when its summary came last, for notices.
#[derive(Clone, Debug)]
struct KnownState {
    state: view::SummaryState,
    since: i64,
    requests: Vec<String>,
}

impl App {
    /// Makes an empty screen.
    pub(crate) fn new(options: UiOptions, keys: KeyTable, highlights: Highlights, now: i64) -> Self {
        Self {
            options,
            keys,
            highlights,
            now,
            connection: Connection::Connecting,
            machine: String::new(),
            machines: BTreeMap::new(),
            overview: Overview::default(),
            entries: Vec::new(),
            selected: 0,
            show_idle: false,
            show_ended: false,
            filter: String::new(),
            open: None,
            focus: Focus::List,
            dialog: None,
            message: None,
            find: String::new(),
            review: None,
            comments: HashMap::new(),
            read_only: false,
            areas: Areas::default(),
            files: HashMap::new(),
            reading: HashMap::new(),
            drafts: HashMap::new(),
            last_input: i64::MIN / 2,
            order_waits: false,
            leave_at: None,
            preview_at: None,
            last_form: None,
            known: HashMap::new(),
            effects: Vec::new(),
        }
    }

    /// Returns what must be done, once.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    fn send(&mut self, request: Request) {
        self.effects.push(Effect::Request(request));
    }

    /// Shows a message in the last line for a while.
    pub(crate) fn say(&mut self, text: impl Into<String>, bad: bool) {
        let until = self.now + millis(limits::MESSAGE_SHOWN);
        self.message = Some(StatusMessage { text: text.into(), bad, until });
    }

    /// Lets time pass. Returns whether something on the screen changes by it.
    pub(crate) fn tick(&mut self, now: i64) -> bool {
        let second = now / 1_000 != self.now / 1_000;
        self.now = now;
        let mut changed = false;
        if self.message.as_ref().is_some_and(|message| message.until <= now) {
            self.message = None;
            changed = true;
        }
        if self.order_waits && now - self.last_input >= millis(limits::ORDER_REST) {
            self.refresh_list(true);
            changed = true;
        }
        if self.preview_at.is_some_and(|at| at <= now) {
            self.preview_at = None;
            changed |= self.preview();
        }
        let guard = millis(limits::CARD_GUARD);
        if let Some(card) = self.open.as_mut().and_then(|open| open.card.as_mut())
            && !card.ready
            && now - card.shown_at >= guard
        {
            card.ready = true;
            changed = true;
        }
        let ages = !self.overview.is_empty() || matches!(self.connection, Connection::Lost(_));
        changed || (second && ages)
    }

    /// Whether something happens within the next second without a key.
    pub(crate) fn is_about_to_change(&self) -> bool {
        let card = self.open.as_ref().and_then(|open| open.card.as_ref());
        self.preview_at.is_some() || card.is_some_and(|card| !card.ready)
    }

    /// Returns the summary of the session that is shown.
    pub(crate) fn open_summary(&self) -> Option<&SessionSummary> {
        self.overview.get(&self.open.as_ref()?.id)
    }

    /// Returns the requests of the shown session that wait, oldest first.
    pub(crate) fn open_requests(&self) -> Vec<&RequestRow> {
        let Some(open) = &self.open else { return Vec::new() };
        let mut all: Vec<&RequestRow> = Vec::new();
        let known = open.pane.as_ref().map(|pane| &pane.transcript);
        let settled = |id: &str| {
            known.is_some_and(|transcript| {
                transcript.rows().iter().rev().any(|row| match &row.body {
                    RowBody::Request(request) => request.request == id && !request.open,
                    _ => false,
                })
            })
        };
        for request in &open.fetched {
            let waits = self.overview.get(&open.id).is_none_or(|summary| {
                summary.requests.iter().any(|waiting| waiting.request == request.request)
            });
            if waits && !settled(&request.request) {
                all.push(request);
            }
        }
        if let Some(transcript) = known {
            for row in transcript.rows() {
                if let RowBody::Request(request) = &row.body
                    && request.open
                    && request.subject != "client_tool"
                    && !all.iter().any(|known| known.request == request.request)
                {
                    all.push(request);
                }
            }
        }
        all
    }

    /// Returns whether the shown session has a turn running.
    pub(crate) fn is_working(&self) -> bool {
        let by_events = self.open.as_ref().and_then(|open| open.pane.as_ref()).map(|pane| {
            let header = pane.transcript.header();
            header.turn.is_some() || header.status == "WORKING"
        });
        let by_summary = self.open_summary().is_some_and(|summary| {
            use view::SummaryState::{NeedsYou, Quiet, Working};
            matches!(summary.state, Working | Quiet | NeedsYou)
        });
        by_events.unwrap_or(by_summary)
    }

    /// Where keys go now.
    pub(crate) fn context(&self) -> KeyContext {
        if self.review.is_some() {
            return KeyContext::Review;
        }
        match self.focus {
            Focus::List => KeyContext::List,
            Focus::Transcript => KeyContext::Transcript,
            Focus::Card => KeyContext::Card,
            Focus::Message => KeyContext::Message,
        }
    }

    /// Runs something with the pane that is shown.
    fn with_pane<T>(&mut self, act: impl FnOnce(&mut TranscriptPane, &Look<'_>) -> T) -> Option<T> {
        let look = Look { theme: &self.options.theme, highlights: &self.highlights };
        let pane = self.open.as_mut()?.pane.as_mut()?;
        Some(act(pane, &look))
    }

    /// Shows a session; a row of it if one is given.
    pub(crate) fn open_session(&mut self, id: &str, row: Option<u64>) {
        if let Some(open) = &mut self.open
            && open.id == id
        {
            open.wanted = row;
            self.show_wanted();
            return;
        }
        self.put_away();
        let last_seq = self.overview.get(id).map_or(0, |summary| summary.last_seq);
        let mut tail = limits::TAIL_EVENTS;
        if let Some(row) = row {
            tail = tail.max(last_seq.saturating_sub(row) + 200);
        }
        let mut message = TextArea::new(self.drafts.get(id).cloned().unwrap_or_default());
        style_field(&mut message);
        message.move_cursor(ratatui_textarea::CursorMove::Bottom);
        message.move_cursor(ratatui_textarea::CursorMove::End);
        self.open = Some(OpenSession {
            id: id.to_owned(),
            pane: None,
            tail,
            loading: true,
            failure: None,
            message,
            card: None,
            fetched: Vec::new(),
            sending: Vec::new(),
            attachments: Vec::new(),
            sent_attachments: Vec::new(),
            history: None,
            completion: None,
            wanted: row,
            preview: false,
        });
        self.send(Request::Open { session: id.to_owned(), last_seq, tail });
        if self.overview.get(id).is_some_and(|summary| !summary.requests.is_empty()) {
            self.send(Request::ListRequests { session: id.to_owned() });
        }
        self.update_card();
    }

    /// Keeps what a person did with the session that is shown, and shows none.
    fn put_away(&mut self) {
        let Some(open) = self.open.take() else { return };
        let text = open.message.lines().to_vec();
        if text.iter().all(String::is_empty) {
            self.drafts.remove(&open.id);
        } else {
            self.drafts.insert(open.id.clone(), text);
        }
        if let Some(pane) = open.pane {
            self.reading.insert(open.id, pane.reading);
        }
    }

    fn show_wanted(&mut self) {
        let Some(open) = &mut self.open else { return };
        if let Some(pane) = &mut open.pane
            && let Some(key) = open.wanted
            && key <= pane.transcript.header().last_seq
        {
            open.wanted = None;
            pane.show(key);
        }
    }
}

/// Returns a duration in milliseconds.
pub(crate) fn millis(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Text fields have no line of their own colour; their cursor is a reversed cell.
pub(crate) fn style_field(field: &mut TextArea<'static>) {
    field.set_cursor_line_style(ratatui::style::Style::default());
    field.set_wrap_mode(ratatui_textarea::WrapMode::WordOrGlyph);
    field.set_max_histories(200);
}
