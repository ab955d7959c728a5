//! Cards: the requests of the shown session, one at a time, and their answers. A card acts only when it has the keys and
//! has been on the screen for a moment; it never takes the keys by itself.

use std::collections::BTreeMap;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use domain::Decision;
use ratatui_textarea::TextArea;
use view::{QuestionRow, RequestRow};

use super::{App, Dialog, Focus, millis, style_field};
use crate::data::{PermissionAnswer, Request};
use crate::keys::{Action, KeyContext};
use crate::limits;

/// What a person does with a card.
#[derive(Clone, Debug)]
pub(crate) enum CardMode {
    /// A key answers.
    Choose,
    /// Words for the agent with a denial.
    Words { stop: bool, field: Box<TextArea<'static>> },
    /// The input, to be changed.
    Input { field: Box<TextArea<'static>>, error: String },
    /// Answers to questions so far.
    Questions(QuestionAnswers),
}

/// Answers to the questions of a request so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct QuestionAnswers {
    /// The question that is asked now.
    pub(crate) at: usize,
    pub(crate) cursor: usize,
    pub(crate) picked: Vec<usize>,
    /// Own words instead of an option.
    pub(crate) field: Option<Box<TextArea<'static>>>,
    answers: BTreeMap<String, String>,
}

/// The card on the screen.
#[derive(Clone, Debug)]
pub(crate) struct CardState {
    pub(crate) request: String,
    pub(crate) shown_at: i64,
    /// It has been on the screen long enough to be answered.
    pub(crate) ready: bool,
    /// An answer is on its way.
    pub(crate) sent: bool,
    /// The allowance that was pressed once, of a call that destroys something, and when.
    pub(crate) armed: Option<(Decision, i64)>,
    pub(crate) mode: CardMode,
}

impl App {
    /// Returns the request on the card.
    pub(crate) fn card_request(&self) -> Option<&RequestRow> {
        let card = self.open.as_ref()?.card.as_ref()?;
        self.open_requests().into_iter().find(|request| request.request == card.request)
    }

    /// Shows the oldest request if none is shown, and takes away one that was answered.
    pub(super) fn update_card(&mut self) {
        let waiting: Vec<(String, bool)> = self
            .open_requests()
            .iter()
            .map(|request| (request.request.clone(), request.subject == "question"))
            .collect();
        let now = self.now;
        let Some(open) = &mut self.open else { return };
        if let Some(card) = &open.card
            && waiting.iter().any(|(request, _)| *request == card.request)
        {
            return;
        }
        let had = open.card.is_some();
        open.card = waiting.first().map(|(request, question)| new_card(request, *question, now));
        let loading = open.loading || self.open_summary().is_some_and(|summary| !summary.requests.is_empty());
        if self.focus == Focus::Card
            && self.open.as_ref().is_some_and(|open| open.card.is_none())
            && (had || !loading)
        {
            self.focus = Focus::Transcript;
        }
    }

    /// Puts one of the waiting requests on the card.
    pub(super) fn show_card(&mut self, request: &str) {
        let found = self
            .open_requests()
            .iter()
            .find(|row| row.request == request)
            .map(|row| row.subject == "question");
        let now = self.now;
        if let (Some(open), Some(question)) = (&mut self.open, found)
            && open.card.as_ref().is_none_or(|card| card.request != request)
        {
            open.card = Some(new_card(request, question, now));
        }
    }

    /// Handles a key while the card has the keys. Returns whether it was for the card.
    pub(super) fn card_key(&mut self, event: &KeyEvent) -> bool {
        let guard = millis(limits::CARD_GUARD);
        let now = self.now;
        let Some(card) = self.open.as_mut().and_then(|open| open.card.as_mut()) else { return false };
        card.ready |= now - card.shown_at >= guard;
        match &mut card.mode {
            CardMode::Choose => self.choose_key(event),
            CardMode::Words { .. } | CardMode::Input { .. } => {
                self.field_key(event);
                true
            }
            CardMode::Questions(_) => self.question_key(event),
        }
    }

    fn choose_key(&mut self, event: &KeyEvent) -> bool {
        let action = self.keys.action(KeyContext::Card, event);
        let Some(action) = action.filter(|action| action.context() == KeyContext::Card) else { return false };
        if action == Action::ShowInput {
            self.show_input();
            return true;
        }
        let Some(card) = self.open.as_mut().and_then(|open| open.card.as_mut()) else { return true };
        if !card.ready || card.sent {
            return true;
        }
        match action {
            Action::Allow => self.allow(Decision::AllowOnce),
            Action::AllowSession => self.allow(Decision::AllowSession),
            Action::Deny | Action::DenyAndStop => {
                let mut field = Box::new(TextArea::default());
                style_field(&mut field);
                card.mode = CardMode::Words { stop: action == Action::DenyAndStop, field };
            }
            Action::EditInput => {
                let Some(text) = self.card_request().map(|request| pretty(&request.input)) else {
                    return true;
                };
                let mut field = Box::new(TextArea::new(text.split('\n').map(str::to_owned).collect()));
                style_field(&mut field);
                if let Some(card) = self.open.as_mut().and_then(|open| open.card.as_mut()) {
                    card.mode = CardMode::Input { field, error: String::new() };
                }
            }
            _ => {}
        }
        true
    }

    fn field_key(&mut self, event: &KeyEvent) {
        let send = matches!(self.keys.action(KeyContext::Message, event), Some(Action::Send));
        let newline = matches!(self.keys.action(KeyContext::Message, event), Some(Action::Newline));
        let Some(card) = self.open.as_mut().and_then(|open| open.card.as_mut()) else { return };
        let (field, is_input) = match &mut card.mode {
            CardMode::Words { field, .. } => (field, false),
            CardMode::Input { field, .. } => (field, true),
            _ => return,
        };
        // In the input a line break is more likely meant than the end.
        let control_s = event.code == KeyCode::Char('s') && event.modifiers == KeyModifiers::CONTROL;
        let sends = if is_input { control_s } else { send };
        if event.code == KeyCode::Esc {
            card.mode = CardMode::Choose;
        } else if sends {
            let text = field.lines().join("\n");
            self.send_words(text);
        } else if newline {
            field.insert_newline();
        } else {
            field.input(*event);
        }
    }

    fn send_words(&mut self, text: String) {
        let Some(card) = self.open.as_mut().and_then(|open| open.card.as_mut()) else { return };
        match &mut card.mode {
            CardMode::Words { stop, .. } => {
                let decision = if *stop { Decision::DenyAndStop } else { Decision::Deny };
                card.mode = CardMode::Choose;
                self.decide(decision, text, String::new());
            }
            CardMode::Input { error, .. } => match serde_json::from_str::<serde_json::Value>(&text) {
                Ok(value) if value.is_object() => {
                    card.mode = CardMode::Choose;
                    self.decide(Decision::AllowOnce, String::new(), value.to_string());
                }
                Ok(_) => *error = "the input must be a JSON object".to_owned(),
                Err(why) => *error = format!("not JSON: {why}"),
            },
            _ => {}
        }
    }

    /// Sends an allowance. What does not come back needs a second press, later than a key that is held repeats.
    fn allow(&mut self, decision: Decision) {
        let destroys = self.card_request().is_some_and(|request| !request.destructive.is_empty());
        let now = self.now;
        let Some(card) = self.open.as_mut().and_then(|open| open.card.as_mut()) else { return };
        let armed = card
            .armed
            .filter(|(armed, at)| *armed == decision && now - at <= millis(limits::SECOND_PRESS_WAIT));
        match armed {
            _ if !destroys => {}
            Some((_, at)) if now - at >= millis(limits::CARD_GUARD) => {}
            Some(_) => return,
            None => {
                card.armed = Some((decision, now));
                return;
            }
        }
        self.decide(decision, String::new(), String::new());
    }

    fn decide(&mut self, decision: Decision, message: String, input: String) {
        let Some(open) = &mut self.open else { return };
        let Some(card) = &mut open.card else { return };
        card.sent = true;
        let answer = PermissionAnswer {
            session: open.id.clone(),
            request: card.request.clone(),
            decision,
            message,
            input,
        };
        self.send(Request::Decide(answer));
    }

    fn show_input(&mut self) {
        let Some(request) = self.card_request() else { return };
        let title = request.text.clone();
        let mut text = pretty(&request.input);
        for proposal in &request.proposals {
            text.push_str(&format!("\n\nfor the session would allow: {}", proposal.text));
        }
        self.dialog = Some(Dialog::Text { title, text, scroll: 0 });
    }

    fn question_key(&mut self, event: &KeyEvent) -> bool {
        let questions = match self.card_request() {
            Some(request) => request.questions.clone(),
            None => return false,
        };
        let newline = matches!(self.keys.action(KeyContext::Message, event), Some(Action::Newline));
        let Some(card) = self.open.as_mut().and_then(|open| open.card.as_mut()) else { return false };
        let (ready, sent) = (card.ready, card.sent);
        let CardMode::Questions(state) = &mut card.mode else { return false };
        let Some(question) = questions.get(state.at) else { return false };
        if let Some(field) = &mut state.field {
            match event.code {
                KeyCode::Esc => state.field = None,
                KeyCode::Enter if !newline => {
                    let text = field.lines().join("\n");
                    if ready && !text.trim().is_empty() {
                        state.answer(question, text);
                        self.finish_questions(&questions);
                    }
                }
                _ if newline => field.insert_newline(),
                _ => {
                    field.input(*event);
                }
            }
            return true;
        }
        if sent {
            return matches!(event.code, KeyCode::Enter | KeyCode::Char('0'..='9' | ' '));
        }
        let options = question.options.len();
        match event.code {
            KeyCode::Down | KeyCode::Char('j') => state.cursor = (state.cursor + 1).min(options),
            KeyCode::Up | KeyCode::Char('k') => state.cursor = state.cursor.saturating_sub(1),
            KeyCode::Char(digit @ '1'..='9') => {
                let picked = digit as usize - '1' as usize;
                if !ready || picked > options {
                    return true;
                }
                state.cursor = picked;
                if !question.multi_select || picked == options {
                    self.pick(&questions);
                } else {
                    state.toggle(picked);
                }
            }
            KeyCode::Char(' ') if question.multi_select && state.cursor < options => {
                state.toggle(state.cursor)
            }
            KeyCode::Enter if ready => self.pick(&questions),
            KeyCode::Enter => {}
            _ => return false,
        }
        true
    }

    /// Answers the question with what is under the cursor or was picked.
    fn pick(&mut self, questions: &[QuestionRow]) {
        let Some(card) = self.open.as_mut().and_then(|open| open.card.as_mut()) else { return };
        let CardMode::Questions(state) = &mut card.mode else { return };
        let Some(question) = questions.get(state.at) else { return };
        if state.cursor >= question.options.len() {
            let mut field = Box::new(TextArea::default());
            style_field(&mut field);
            state.field = Some(field);
            return;
        }
        if !question.multi_select || state.picked.is_empty() {
            state.picked = vec![state.cursor];
        }
        state.picked.sort_unstable();
        let labels = state.picked.iter().filter_map(|at| question.options.get(*at));
        let text = labels.map(|option| option.label.as_str()).collect::<Vec<_>>().join(", ");
        state.answer(question, text);
        self.finish_questions(questions);
    }

    fn finish_questions(&mut self, questions: &[QuestionRow]) {
        let Some(open) = &mut self.open else { return };
        let Some(card) = &mut open.card else { return };
        let CardMode::Questions(state) = &mut card.mode else { return };
        if state.at < questions.len() {
            return;
        }
        // Kept at the last question, which is shown until the answer is recorded.
        state.at = questions.len().saturating_sub(1);
        card.sent = true;
        let (session, request) = (open.id.clone(), card.request.clone());
        let answers = std::mem::take(&mut state.answers);
        self.send(Request::Answer { session, request, answers });
    }
}

impl QuestionAnswers {
    fn toggle(&mut self, option: usize) {
        if self.picked.contains(&option) {
            self.picked.retain(|picked| *picked != option);
        } else {
            self.picked.push(option);
        }
    }

    fn answer(&mut self, question: &QuestionRow, text: String) {
        self.answers.insert(question.id.clone(), text);
        self.at += 1;
        self.cursor = 0;
        self.picked.clear();
        self.field = None;
    }
}

fn new_card(request: &str, question: bool, now: i64) -> CardState {
    let mode = if question { CardMode::Questions(QuestionAnswers::default()) } else { CardMode::Choose };
    CardState { request: request.to_owned(), shown_at: now, ready: false, sent: false, armed: None, mode }
}

/// Prints an input so that a person can read it.
pub(crate) fn pretty(input: &serde_json::Value) -> String {
    serde_json::to_string_pretty(input).unwrap_or_default()
}
