//! The list of sessions: its groups, its order that rests while a person moves in it, and the selection.

use view::{SessionSummary, SummaryState};

use super::{App, Focus, millis};
use crate::data::Request;
use crate::limits;

/// One line of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListEntry {
    Heading(SummaryState, usize),
    Session(String),
    /// Sessions of a state behind one line, which opens them.
    Collapsed(SummaryState, usize),
}

impl App {
    /// Brings the list up to date. While a person moves in it, sessions keep their places.
    pub(super) fn refresh_list(&mut self, now: bool) {
        let resting = self.now - self.last_input >= millis(limits::ORDER_REST);
        if !now && !resting && !self.entries.is_empty() {
            self.order_waits = true;
            // What is gone cannot stay.
            let gone = |entry: &ListEntry| match entry {
                ListEntry::Session(id) => self.overview.get(id).is_none(),
                _ => false,
            };
            if !self.entries.iter().any(gone) {
                return;
            }
        }
        self.order_waits = false;
        let selected = self.selected_entry().cloned();
        self.entries = self.built_entries();
        let place = selected.and_then(|wanted| self.entries.iter().position(|entry| *entry == wanted));
        self.selected = place.unwrap_or(self.selected.min(self.entries.len().saturating_sub(1)));
        self.leave_heading(1);
    }

    fn built_entries(&self) -> Vec<ListEntry> {
        let mut entries = Vec::new();
        for group in self.overview.groups() {
            let sessions: Vec<&SessionSummary> =
                group.sessions.iter().filter(|summary| self.matches_filter(summary)).collect();
            if sessions.is_empty() || (group.state == SummaryState::Ended && !self.show_ended) {
                continue;
            }
            // Idle sessions stand back behind others, not behind an empty list.
            let stands_back = group.state == SummaryState::Idle && !entries.is_empty();
            if stands_back && !self.show_idle && self.filter.is_empty() {
                entries.push(ListEntry::Collapsed(group.state, sessions.len()));
                continue;
            }
            entries.push(ListEntry::Heading(group.state, sessions.len()));
            entries.extend(sessions.iter().map(|summary| ListEntry::Session(summary.session.clone())));
        }
        entries
    }

    fn matches_filter(&self, summary: &SessionSummary) -> bool {
        let wanted = self.filter.to_lowercase();
        let fields = [
            &summary.name,
            &summary.campaign,
            &summary.provider,
            &summary.machine,
            &summary.branch,
            &summary.model,
        ];
        wanted.is_empty()
            || fields.iter().any(|field| field.to_lowercase().contains(&wanted))
            || summary.state.name().contains(&wanted)
    }

    /// Returns the selected line.
    pub(crate) fn selected_entry(&self) -> Option<&ListEntry> {
        self.entries.get(self.selected)
    }

    /// Returns the session that actions are about: the shown one, or the selected one while the list has the keys.
    pub(crate) fn current_session(&self) -> Option<String> {
        if self.focus == Focus::List
            && let Some(ListEntry::Session(id)) = self.selected_entry()
        {
            return Some(id.clone());
        }
        self.open.as_ref().map(|open| open.id.clone())
    }

    pub(super) fn move_selection(&mut self, step: isize) {
        let last = self.entries.len().saturating_sub(1);
        let moved = self.selected.saturating_add_signed(step).min(last);
        self.selected = moved;
        self.leave_heading(if step < 0 { -1 } else { 1 });
    }

    /// The same by a person, who sees the session beside the list once they rest on it.
    pub(super) fn walk_selection(&mut self, step: isize) {
        self.move_selection(step);
        self.preview_at = Some(self.now + millis(limits::PREVIEW_REST));
    }

    /// Shows the selected session beside the list. Nobody has looked at it yet: it stays done until it gets the keys.
    pub(super) fn preview(&mut self) -> bool {
        let is_beside = self.areas.is_beside;
        if self.focus != Focus::List || !is_beside || self.dialog.is_some() || self.review.is_some() {
            return false;
        }
        let Some(ListEntry::Session(id)) = self.selected_entry().cloned() else { return false };
        if self.open.as_ref().is_some_and(|open| open.id == id) {
            return false;
        }
        self.open_session(&id, None);
        if let Some(open) = &mut self.open {
            open.preview = true;
        }
        true
    }

    /// A session that was shown beside the list and has the keys now is looked at.
    pub(super) fn look_closer(&mut self) {
        if self.focus == Focus::List {
            return;
        }
        let Some(open) = self.open.as_mut().filter(|open| open.preview) else { return };
        open.preview = false;
        let read = open.pane.as_ref().map(|pane| pane.transcript.header().last_seq);
        if let Some(seq) = read {
            let session = open.id.clone();
            self.send(Request::MarkSeen { session, seq });
        }
    }

    /// Headings are not selected.
    fn leave_heading(&mut self, step: isize) {
        let is_heading = |entry: Option<&ListEntry>| matches!(entry, Some(ListEntry::Heading(..)));
        let from = self.selected;
        while is_heading(self.entries.get(self.selected)) {
            match self.selected.checked_add_signed(step) {
                Some(next) if next < self.entries.len() => self.selected = next,
                _ => {
                    self.selected = from;
                    break;
                }
            }
        }
        if is_heading(self.entries.get(self.selected)) {
            self.selected = (self.selected + 1).min(self.entries.len().saturating_sub(1));
        }
    }

    pub(super) fn select_session(&mut self, id: &str) {
        let wanted = ListEntry::Session(id.to_owned());
        if self.is_idle(id) && !self.entries.contains(&wanted) {
            self.show_idle = true;
            self.refresh_list(true);
        }
        if let Some(place) = self.entries.iter().position(|entry| *entry == wanted) {
            self.selected = place;
        }
    }

    fn is_idle(&self, id: &str) -> bool {
        self.overview.get(id).is_some_and(|summary| summary.state == SummaryState::Idle)
    }

    /// Opens what is selected.
    pub(super) fn open_selected(&mut self) {
        match self.selected_entry().cloned() {
            Some(ListEntry::Session(id)) => {
                // One that was opened stays listed when others begin to work.
                self.show_idle |= self.is_idle(&id);
                self.open_session(&id, None);
                self.focus = if self.card_request().is_some() { Focus::Card } else { Focus::Transcript };
                if self.overview.get(&id).is_some_and(|summary| !summary.requests.is_empty()) {
                    self.focus = Focus::Card;
                }
            }
            Some(ListEntry::Collapsed(SummaryState::Idle, _)) => {
                self.show_idle = true;
                self.refresh_list(true);
            }
            _ => {}
        }
    }

    /// Shows the next or the previous request of any session, and gives it the keys.
    pub(super) fn jump_to_request(&mut self, step: isize) {
        let all: Vec<(String, String)> = self
            .overview
            .open_requests()
            .iter()
            .map(|(summary, request)| (summary.session.clone(), request.request.clone()))
            .collect();
        if all.is_empty() {
            // A heading that says otherwise, because the order rests, would contradict it.
            self.refresh_list(true);
            self.say("nothing needs you", false);
            return;
        }
        let shown = self.open.as_ref().map(|open| open.id.clone());
        let card = self.card_request().map(|request| request.request.clone());
        let at = all.iter().position(|(session, request)| {
            Some(session) == shown.as_ref() && Some(request) == card.as_ref() && self.focus == Focus::Card
        });
        let count = all.len();
        let next = match at {
            None => 0,
            Some(at) if step > 0 => (at + 1) % count,
            Some(at) => (at + count - 1) % count,
        };
        let Some((session, request)) = all.get(next).cloned() else { return };
        self.select_session(&session);
        self.open_session(&session, None);
        self.show_card(&request);
        self.focus = Focus::Card;
    }
}
