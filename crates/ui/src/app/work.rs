//! Dialogs about the work of sessions: prompts that wait, the search over all sessions, usage, budgets, names, and merging a
//! tree. Rules only; drawing and calls are elsewhere.

use crossterm::event::{KeyCode, KeyEvent};
use domain::budget::Budget;
use view::SummaryBudget;

use super::dialogs::{edit, step};
use super::{App, Dialog, Focus};
use crate::data::{QueueChange, QueuedPrompt, Request, SearchHit, Update, UsageBy, UsageRow, UsageSpan};

/// The prompts of a session that wait for their turn.
#[derive(Clone, Debug)]
pub(crate) struct QueueDialog {
    pub(crate) session: String,
    pub(crate) name: String,
    /// `None` until they are read.
    pub(crate) entries: Option<Vec<QueuedPrompt>>,
    /// Why nothing is sent; empty: the queue is not paused.
    pub(crate) paused: String,
    pub(crate) selected: usize,
    /// The text of the selected prompt while it is edited.
    pub(crate) edited: Option<String>,
}

/// The search over all sessions.
#[derive(Clone, Debug, Default)]
pub(crate) struct SearchDialog {
    pub(crate) field: String,
    /// What the hits are of.
    pub(crate) searched: String,
    pub(crate) hits: Vec<SearchHit>,
    pub(crate) more: bool,
    pub(crate) failure: String,
    pub(crate) selected: usize,
}

/// Tokens and money over time.
#[derive(Clone, Debug)]
pub(crate) struct UsageDialog {
    pub(crate) by: UsageBy,
    pub(crate) span: UsageSpan,
    /// `None` until they are read.
    pub(crate) rows: Option<Vec<UsageRow>>,
    /// Budgets that sessions share, by title.
    pub(crate) shared: Vec<(String, SummaryBudget)>,
    /// Machines that did not answer.
    pub(crate) uncounted: Vec<String>,
    pub(crate) scroll: usize,
}

/// What a session may spend.
#[derive(Clone, Debug)]
pub(crate) struct BudgetDialog {
    pub(crate) session: String,
    pub(crate) name: String,
    pub(crate) at: usize,
    /// As typed: dollars, tokens, minutes, calls; empty: no limit.
    pub(crate) fields: [String; 4],
    pub(crate) error: String,
}

/// The parts of a budget, in the order of the fields.
pub(crate) const BUDGET_FIELDS: [&str; 4] = ["US dollars", "tokens", "minutes", "calls"];

impl BudgetDialog {
    /// Returns what is to be set, or which field is wrong. A field that was emptied removes its limit.
    fn checked(&self) -> Result<Budget, (usize, String)> {
        let amount = |at: usize, unit: f64| -> Result<Option<u64>, (usize, String)> {
            let text =
                self.fields.get(at).map(|text| text.trim().trim_start_matches('$')).unwrap_or_default();
            if text.is_empty() {
                return Ok(Some(0));
            }
            let amount = text.parse::<f64>().ok().filter(|amount| amount.is_finite() && *amount >= 0.0);
            let wrong = || {
                let what = BUDGET_FIELDS.get(at).copied().unwrap_or_default();
                (at, format!("{what}: {text:?} is no amount; write it like 5 or 0.5"))
            };
            amount.map(|amount| Some((amount * unit).ceil() as u64)).ok_or_else(wrong)
        };
        Ok(Budget {
            cost_micro_usd: amount(0, 1_000_000.0)?,
            tokens: amount(1, 1.0)?,
            work_ms: amount(2, 60_000.0)?,
            calls: amount(3, 1.0)?,
        })
    }
}

impl App {
    /// Opens a dialog about the session that is selected or shown.
    pub(super) fn about_session(&mut self) -> Option<(String, String)> {
        let Some(session) = self.current_session() else {
            self.say("no session is selected", false);
            return None;
        };
        let name = self.overview.get(&session).map_or_else(|| session.clone(), |known| known.name.clone());
        Some((session, name))
    }

    pub(super) fn open_queue(&mut self) {
        let Some((session, name)) = self.about_session() else { return };
        self.send(Request::Queue { session: session.clone() });
        self.dialog = Some(Dialog::Queue(QueueDialog {
            session,
            name,
            entries: None,
            paused: String::new(),
            selected: 0,
            edited: None,
        }));
    }

    pub(super) fn open_usage(&mut self) {
        let (by, span) = (UsageBy::Campaign, UsageSpan::Day);
        self.send(Request::Usage { by, span });
        let (shared, uncounted) = (Vec::new(), Vec::new());
        self.dialog = Some(Dialog::Usage(UsageDialog { by, span, rows: None, shared, uncounted, scroll: 0 }));
    }

    pub(super) fn open_rename(&mut self) {
        let Some((session, name)) = self.about_session() else { return };
        self.dialog = Some(Dialog::Rename { session, field: name });
    }

    pub(super) fn open_budget(&mut self) {
        let Some((session, name)) = self.about_session() else { return };
        let budget = self.overview.get(&session).map(|known| known.budget).unwrap_or_default();
        let text = |amount: Option<u64>, unit: f64| {
            amount.map_or_else(String::new, |amount| format!("{}", amount as f64 / unit))
        };
        let fields = [
            text(budget.limit.cost_micro_usd, 1_000_000.0),
            text(budget.limit.tokens, 1.0),
            text(budget.limit.work_ms, 60_000.0),
            text(budget.limit.calls, 1.0),
        ];
        self.dialog =
            Some(Dialog::Budget(BudgetDialog { session, name, at: 0, fields, error: String::new() }));
    }

    /// Asks how to merge the tree of the session, with what will happen.
    pub(super) fn open_merge(&mut self) {
        let reviewed = self.review.as_ref().map(|review| review.session.clone());
        let Some(session) = reviewed.or_else(|| self.current_session()) else {
            self.say("no session is selected", false);
            return;
        };
        let known = self.overview.get(&session);
        let name = known.map_or_else(|| session.clone(), |known| known.name.clone());
        let branch = known.map(|known| known.branch.clone()).unwrap_or_default();
        let field = format!("{name}: what the agent changed");
        self.dialog = Some(Dialog::Merge { session, branch, field, failure: String::new() });
    }

    /// Handles a key of one of these dialogs. Returns whether the dialog stays; `None`: it is another one.
    pub(super) fn work_key(&mut self, dialog: &mut Dialog, event: &KeyEvent) -> Option<bool> {
        Some(match dialog {
            Dialog::Queue(queue) => self.queue_key(queue, event),
            Dialog::Search(search) => self.search_key(search, event),
            Dialog::Usage(usage) => self.usage_key(usage, event),
            Dialog::Plans(plans) => self.plans_key(plans, event),
            Dialog::Budget(budget) => self.budget_key(budget, event),
            Dialog::Rename { session, field } => {
                if event.code == KeyCode::Enter {
                    let (session, name) = (session.clone(), field.trim().to_owned());
                    self.send(Request::Rename { session, name });
                }
                edit(field, event);
                event.code != KeyCode::Enter
            }
            Dialog::Merge { session, field, failure, .. } => {
                if event.code == KeyCode::Enter {
                    failure.clear();
                    let (session, commit) = (session.clone(), field.trim().to_owned());
                    self.send(Request::Merge { session, commit });
                }
                edit(field, event);
                true
            }
            _ => return None,
        })
    }

    fn queue_key(&mut self, queue: &mut QueueDialog, event: &KeyEvent) -> bool {
        let entries = queue.entries.clone().unwrap_or_default();
        let chosen = entries.get(queue.selected).cloned();
        let change = |change: QueueChange| Request::QueueChange { session: queue.session.clone(), change };
        if let (Some(text), Some(entry)) = (&mut queue.edited, &chosen) {
            match event.code {
                KeyCode::Enter => {
                    let request = change(QueueChange::Edit { entry: entry.id.clone(), text: text.clone() });
                    queue.edited = None;
                    self.send(request);
                }
                _ => {
                    edit(text, event);
                }
            }
            return true;
        }
        let place = u32::try_from(queue.selected + 1).unwrap_or(u32::MAX);
        match (event.code, chosen) {
            (KeyCode::Char('q') | KeyCode::Char('Q'), _) => return false,
            (KeyCode::Char('p'), _) => {
                let request =
                    change(if queue.paused.is_empty() { QueueChange::Pause } else { QueueChange::Resume });
                self.send(request);
            }
            (KeyCode::Char('e') | KeyCode::Enter, Some(entry)) => queue.edited = Some(entry.text),
            (KeyCode::Char('x') | KeyCode::Delete, Some(entry)) => {
                self.send(change(QueueChange::Drop { entry: entry.id }));
            }
            (KeyCode::Char('K'), Some(entry)) if queue.selected > 0 => {
                self.send(change(QueueChange::Move { entry: entry.id, place: place - 1 }));
                queue.selected -= 1;
            }
            (KeyCode::Char('J'), Some(entry)) if queue.selected + 1 < entries.len() => {
                self.send(change(QueueChange::Move { entry: entry.id, place: place + 1 }));
                queue.selected += 1;
            }
            _ => step(&mut queue.selected, entries.len(), event),
        }
        true
    }

    fn search_key(&mut self, search: &mut SearchDialog, event: &KeyEvent) -> bool {
        match event.code {
            KeyCode::Enter => {
                let Some(hit) = search.hits.get(search.selected).cloned() else { return true };
                // From here `n` and `N` go through the transcript.
                self.find = plain_word(&search.field);
                self.select_session(&hit.session);
                self.open_session(&hit.session, Some(hit.seq));
                self.focus = Focus::Transcript;
                false
            }
            KeyCode::Down | KeyCode::Up => {
                step(&mut search.selected, search.hits.len(), event);
                true
            }
            _ => {
                if edit(&mut search.field, event) {
                    self.search(search);
                }
                true
            }
        }
    }

    /// Searches for what is typed.
    fn search(&mut self, search: &mut SearchDialog) {
        let text = search.field.trim().to_owned();
        if text.is_empty() {
            *search = SearchDialog { field: std::mem::take(&mut search.field), ..SearchDialog::default() };
        } else if text != search.searched {
            self.send(Request::Search { text });
        }
    }

    /// Brings the search up to date with a text that was pasted.
    pub(super) fn search_again(&mut self) {
        if let Some(Dialog::Search(mut search)) = self.dialog.take() {
            self.search(&mut search);
            self.dialog = Some(Dialog::Search(search));
        }
    }

    fn usage_key(&mut self, usage: &mut UsageDialog, event: &KeyEvent) -> bool {
        match event.code {
            KeyCode::Char('q' | 'u') | KeyCode::Enter => return false,
            KeyCode::Tab | KeyCode::Right | KeyCode::Char('l') => usage.by = usage.by.next(),
            KeyCode::Char('r' | 't') => usage.span = usage.span.next(),
            KeyCode::Down | KeyCode::Char('j') => {
                usage.scroll += 1;
                return true;
            }
            KeyCode::Up | KeyCode::Char('k') => {
                usage.scroll = usage.scroll.saturating_sub(1);
                return true;
            }
            _ => return true,
        }
        usage.rows = None;
        self.send(Request::Usage { by: usage.by, span: usage.span });
        true
    }

    fn budget_key(&mut self, budget: &mut BudgetDialog, event: &KeyEvent) -> bool {
        let count = BUDGET_FIELDS.len();
        match event.code {
            KeyCode::Enter => match budget.checked() {
                Ok(change) => {
                    self.send(Request::SetBudget { session: budget.session.clone(), change });
                    return false;
                }
                Err((at, error)) => (budget.at, budget.error) = (at, error),
            },
            KeyCode::Down | KeyCode::Tab => budget.at = (budget.at + 1) % count,
            KeyCode::Up | KeyCode::BackTab => budget.at = (budget.at + count - 1) % count,
            _ => {
                if let Some(field) = budget.fields.get_mut(budget.at) {
                    edit(field, event);
                }
            }
        }
        true
    }

    /// Takes the prompts that wait.
    pub(super) fn queue_read(&mut self, session: &str, entries: Vec<QueuedPrompt>, paused: String) {
        let Some(Dialog::Queue(queue)) = &mut self.dialog else { return };
        if queue.session != session {
            return;
        }
        // What is edited may have been sent or moved meanwhile.
        let chosen =
            queue.entries.as_ref().and_then(|known| known.get(queue.selected)).map(|known| &known.id);
        let place = chosen.and_then(|id| entries.iter().position(|entry| entry.id == *id));
        if place.is_none() && queue.edited.is_some() {
            queue.edited = None;
        }
        if queue.edited.is_some() {
            queue.selected = place.unwrap_or(queue.selected);
        }
        queue.selected = queue.selected.min(entries.len().saturating_sub(1));
        queue.entries = Some(entries);
        queue.paused = paused;
    }

    /// Reads the queue again when the list says that it changed.
    pub(super) fn refresh_queue(&mut self) {
        let Some(Dialog::Queue(queue)) = &self.dialog else { return };
        let known = queue.entries.as_ref().map(|entries| entries.len() as u64);
        let now = self.overview.get(&queue.session).map(|summary| summary.queued);
        if known.is_some() && known != now {
            let session = queue.session.clone();
            self.send(Request::Queue { session });
        }
    }

    /// Takes the hits of a search.
    pub(super) fn search_found(&mut self, text: String, found: Result<(Vec<SearchHit>, bool), String>) {
        let Some(Dialog::Search(search)) = &mut self.dialog else { return };
        // Hits of what was typed before say nothing any more.
        if search.field.trim() != text {
            return;
        }
        search.searched = text;
        match found {
            Ok((hits, more)) => {
                (search.hits, search.more) = (hits, more);
                search.failure.clear();
            }
            Err(why) => {
                (search.hits, search.more) = (Vec::new(), false);
                search.failure = why;
            }
        }
        search.selected = search.selected.min(search.hits.len().saturating_sub(1));
    }

    /// Takes what was used.
    pub(super) fn usage_read(&mut self, update: Update) {
        if let Update::Usage { by, span, rows, shared, uncounted } = update
            && let Some(Dialog::Usage(usage)) = &mut self.dialog
            && (usage.by, usage.span) == (by, span)
        {
            (usage.rows, usage.shared, usage.uncounted) = (Some(rows), shared, uncounted);
        }
    }

    /// Takes how a merge went.
    pub(super) fn merged(&mut self, session: &str, result: Result<String, String>) {
        let is_open = matches!(&self.dialog, Some(Dialog::Merge { session: own, .. }) if own == session);
        match result {
            Ok(text) => {
                if is_open {
                    self.dialog = None;
                }
                self.say(text, false);
                if self.review.as_ref().is_some_and(|review| review.session == session) {
                    self.send(Request::Diff { session: session.to_owned() });
                }
            }
            Err(why) => match &mut self.dialog {
                Some(Dialog::Merge { session: own, failure, .. }) if own == session => *failure = why,
                _ => self.say(why, true),
            },
        }
    }
}

/// Returns a word of a search that occurs in the text as it is.
fn plain_word(search: &str) -> String {
    let words = search.split_whitespace().map(|word| word.trim_matches(|c: char| c == '"' || c == '*'));
    words.max_by_key(|word| word.chars().count()).unwrap_or_default().to_owned()
}
