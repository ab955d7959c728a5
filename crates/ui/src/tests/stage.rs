//! A screen of a chosen size, sessions in every state, and a person who presses keys.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use domain::{EventKind, Timestamp};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::Value;
use view::{SessionSummary, SummaryRequest, SummaryState, Transcript};

use crate::app::{App, Effect, UiOptions};
use crate::data::{JournalEvent, Request, Update};
use crate::highlight::Highlights;
use crate::keys::{Key, KeyTable};
use crate::theme::{ColorDepth, Theme};
use crate::{cells, draw};

/// The time at which everything happens: a minute after the journals of the goldens.
pub(crate) const NOW: i64 = 1_771_425_105_000;

pub(crate) const EDGES: &str = include_str!("../../../view/goldens/edges.jsonl");
pub(crate) const CONVERSATION: &str = include_str!("../../../view/goldens/conversation.jsonl");

/// The screen and what it asked for.
pub(crate) struct Stage {
    pub(crate) app: App,
    pub(crate) terminal: Terminal<TestBackend>,
    pub(crate) effects: Vec<Effect>,
    revision: u64,
    seq: u64,
}

impl Stage {
    pub(crate) fn new(columns: u16, lines: u16) -> Self {
        Self::themed(columns, lines, Theme { depth: ColorDepth::True, light: false, ascii: false })
    }

    pub(crate) fn themed(columns: u16, lines: u16, theme: Theme) -> Self {
        let options = UiOptions { theme, notices: true, home: "/home/anna".to_owned(), session: None };
        let app = App::new(options, KeyTable::default(), Highlights::default(), NOW);
        let terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
        Self { app, terminal, effects: Vec::new(), revision: 0, seq: 0 }
    }

    /// With sessions in every state.
    pub(crate) fn with_sessions(columns: u16, lines: u16) -> Self {
        let mut stage = Self::new(columns, lines);
        stage.all_sessions();
        stage
    }

    pub(crate) fn all_sessions(&mut self) {
        self.update(Update::Connected);
        self.overview(sessions());
    }

    /// With one session open, its journal read.
    pub(crate) fn with_journal(columns: u16, lines: u16, journal: &str) -> Self {
        let mut stage = Self::with_sessions(columns, lines);
        stage.app.open_session("sess_cart", None);
        stage.app.focus = crate::app::Focus::Transcript;
        let mut transcript = Transcript::default();
        for event in events(journal) {
            transcript.apply(event.seq, event.at, &event.name, event.kind.as_ref());
        }
        stage.seq = transcript.header().last_seq;
        stage.update(Update::Opened { session: "sess_cart".to_owned(), transcript: Box::new(transcript) });
        stage
    }

    pub(crate) fn update(&mut self, update: Update) {
        self.app.update(update);
        self.effects.extend(self.app.take_effects());
    }

    pub(crate) fn overview(&mut self, sessions: Vec<SessionSummary>) {
        self.revision += 1;
        let snapshot = self.revision == 1;
        let (revision, machine) = (self.revision, "box1".to_owned());
        self.update(Update::Overview { revision, snapshot, sessions, removed: Vec::new(), machine });
    }

    /// Events of the shown session, numbered here.
    pub(crate) fn events(&mut self, kinds: Vec<EventKind>) {
        let event = |kind: EventKind| {
            self.seq += 1;
            JournalEvent {
                seq: self.seq,
                at: Timestamp(NOW * 1_000),
                name: kind.name().to_owned(),
                kind: Some(kind),
            }
        };
        let events = kinds.into_iter().map(event).collect();
        let session = self.app.open.as_ref().unwrap().id.clone();
        self.update(Update::Events { session, events });
    }

    /// Presses a key by its name.
    pub(crate) fn press(&mut self, key: &str) {
        let key = Key::parse(key).unwrap();
        let event = KeyEvent::new(key.code(), key.modifiers());
        self.app.key(&event);
        self.effects.extend(self.app.take_effects());
    }

    /// Types letters.
    pub(crate) fn type_text(&mut self, text: &str) {
        for letter in text.chars() {
            self.app.key(&KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE));
        }
        self.effects.extend(self.app.take_effects());
    }

    /// Lets time pass.
    pub(crate) fn wait(&mut self, ms: i64) {
        let now = self.app.now + ms;
        self.app.tick(now);
    }

    /// Draws and returns the screen's lines. No line is wider than the screen, and none wraps by itself.
    pub(crate) fn screen(&mut self) -> String {
        let Self { app, terminal, .. } = self;
        terminal.draw(|frame| draw::draw(app, frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let width = usize::from(buffer.area.width);
        let mut text = String::new();
        for line in 0..buffer.area.height {
            let mut shown = String::new();
            let mut skip = 0;
            for column in 0..buffer.area.width {
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                let symbol = buffer[(column, line)].symbol();
                skip = cells::width(symbol).saturating_sub(1);
                shown.push_str(symbol);
            }
            assert!(cells::width(&shown) <= width, "{shown:?} is wider than {width}");
            assert!(shown.chars().all(|c| !c.is_control()), "{shown:?}");
            text.push_str(shown.trim_end());
            text.push('\n');
        }
        text
    }

    /// The requests to the daemon so far, and forgets them.
    pub(crate) fn requests(&mut self) -> Vec<Request> {
        let requests = std::mem::take(&mut self.effects).into_iter().filter_map(|effect| match effect {
            Effect::Request(request) => Some(request),
            _ => None,
        });
        requests.collect()
    }

    /// Asserts that the screen shows a text.
    #[track_caller]
    pub(crate) fn shows(&mut self, text: &str) {
        let screen = self.screen();
        assert!(screen.contains(text), "{text:?} is not on the screen:\n{screen}");
    }

    #[track_caller]
    pub(crate) fn shows_not(&mut self, text: &str) {
        let screen = self.screen();
        assert!(!screen.contains(text), "{text:?} is on the screen:\n{screen}");
    }
}

pub(crate) fn events(journal: &str) -> Vec<JournalEvent> {
    let event = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        let at: jiff::Timestamp = value["at"].as_str().unwrap().parse().unwrap();
        JournalEvent {
            seq: value["seq"].as_u64().unwrap(),
            at: Timestamp(at.as_microsecond()),
            name: value["type"].as_str().unwrap().to_owned(),
            kind: serde_json::from_value(value).ok(),
        }
    };
    journal.lines().map(event).collect()
}

pub(crate) fn summary(id: &str, state: SummaryState, seconds: i64) -> SessionSummary {
    SessionSummary {
        session: format!("sess_{id}"),
        name: id.to_owned(),
        campaign: "shop".to_owned(),
        folder: "/home/anna/shop".to_owned(),
        branch: format!("fix/{id}"),
        provider: "claude-code".to_owned(),
        model: "opus".to_owned(),
        mode: "supervised".to_owned(),
        state,
        reason: format!("{} for a reason", state.name()),
        since: NOW - seconds * 1_000,
        requests: Vec::new(),
        last_line: "did something".to_owned(),
        tokens: Some(124_000),
        cost_micro_usd: Some(1_840_000),
        todos_done: 0,
        todos_total: 0,
        machine: "box1".to_owned(),
        last_seq: 10,
        budget: view::SummaryBudget::default(),
        queued: 0,
    }
}

pub(crate) fn waiting(id: &str, subject: &str, text: &str, seconds: i64) -> SummaryRequest {
    SummaryRequest {
        request: id.to_owned(),
        subject: subject.to_owned(),
        text: text.to_owned(),
        at: NOW - seconds * 1_000,
    }
}

/// Twelve sessions in every state.
pub(crate) fn sessions() -> Vec<SessionSummary> {
    use SummaryState::{Done, Ended, Failed, Idle, NeedsYou, Quiet, Working};
    let mut fixer = summary("fixer", NeedsYou, 41);
    fixer.requests = vec![waiting("req_7", "permission", "git push", 41)];
    let mut docs = summary("docs-pass", NeedsYou, 360);
    docs.requests = vec![waiting("req_2", "question", "Which page first?", 360)];
    let mut migrate = summary("migrate-db", Failed, 3_600);
    migrate.reason = "the agent died: signal 9".to_owned();
    let mut bench = summary("bench", Quiet, 180);
    bench.reason = "no output for 3 minutes".to_owned();
    bench.cost_micro_usd = None;
    let mut all = vec![
        fixer,
        docs,
        migrate,
        summary("cart", Working, 12),
        summary("api-types", Working, 2),
        bench,
        summary("release-notes", Done, 600),
        summary("lint", Done, 60),
        summary("old", Ended, 90_000),
    ];
    all.extend(["a", "b", "c"].iter().map(|name| summary(name, Idle, 7_200)));
    all
}
