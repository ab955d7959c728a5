//! The transcript of one session on the screen: which row is at the top or whether the end is followed, which rows are
//! open, which is selected. Lays out only what is visible and what was visible before, so that drawing does not depend
//! on the length of the transcript.

use std::collections::HashMap;
use std::sync::Arc;

use ratatui::text::Line;
use view::{Row, RowBody, Transcript};

use crate::highlight::Highlights;
use crate::limits;
use crate::rows::{self, RowLayout};
use crate::theme::Theme;

/// The row at the top of the screen, and how many of its lines are above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Anchor {
    pub(crate) key: u64,
    pub(crate) line: usize,
}

/// What a person did with a transcript; kept when another session is shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadingState {
    /// `None` follows the end.
    pub(crate) anchor: Option<Anchor>,
    /// Rows that were folded or opened by hand.
    pub(crate) opened: HashMap<u64, bool>,
    pub(crate) all_open: Option<bool>,
    pub(crate) selected: Option<u64>,
    /// The last row that was there when following stopped.
    pub(crate) seen: u64,
}

/// A laid-out row, valid for a version, a width and a fold state of it.
#[derive(Clone)]
struct LaidOut {
    last: u64,
    cells: usize,
    open: bool,
    lines: Arc<Vec<Line<'static>>>,
}

/// A line on the screen: its row, and its number within the row.
pub(crate) struct ScreenLine {
    pub(crate) key: u64,
    pub(crate) at: usize,
    pub(crate) line: Line<'static>,
}

/// A transcript on the screen.
pub(crate) struct TranscriptPane {
    pub(crate) transcript: Transcript,
    pub(crate) reading: ReadingState,
    cache: HashMap<u64, LaidOut>,
    cells: usize,
    height: usize,
}

/// What laying out needs of the program.
pub(crate) struct Look<'a> {
    pub(crate) theme: &'a Theme,
    pub(crate) highlights: &'a Highlights,
}

impl TranscriptPane {
    /// Shows a transcript, as it was read before.
    pub(crate) fn new(transcript: Transcript, reading: ReadingState) -> Self {
        Self { transcript, reading, cache: HashMap::new(), cells: 80, height: 20 }
    }

    /// Replaces the transcript by one that begins earlier; the place stays.
    pub(crate) fn replace(&mut self, transcript: Transcript) {
        self.transcript = transcript;
        self.cache.clear();
    }

    /// Forgets what was laid out, as when colours of code arrived.
    pub(crate) fn forget_layout(&mut self) {
        self.cache.clear();
    }

    /// Sets the size it is drawn in. The row at the top stays there.
    pub(crate) fn resize(&mut self, cells: usize, height: usize) {
        if self.cells != cells {
            self.cache.clear();
            if let Some(anchor) = &mut self.reading.anchor {
                anchor.line = 0;
            }
        }
        self.cells = cells;
        self.height = height.max(1);
    }

    /// Returns whether the end is followed.
    pub(crate) fn follows(&self) -> bool {
        self.reading.anchor.is_none()
    }

    /// Returns how many rows came since following stopped.
    pub(crate) fn new_rows(&self) -> usize {
        if self.follows() {
            return 0;
        }
        let rows = self.transcript.rows();
        rows.len() - rows.partition_point(|row| row.key <= self.reading.seen)
    }

    /// Returns whether the place is near the first row, so that older ones are wanted.
    pub(crate) fn wants_older(&self) -> bool {
        let rows = self.transcript.rows();
        let begins_later = rows.front().is_some_and(|row| matches!(row.body, RowBody::Gap { from: 1, .. }))
            || self.transcript.dropped_through() > 0;
        let index = self.reading.anchor.and_then(|anchor| self.transcript.index_of(anchor.key));
        begins_later && index.is_some_and(|index| index < 20)
    }

    /// Returns how many rows are laid out.
    #[cfg(test)]
    pub(crate) fn laid_out(&self) -> usize {
        self.cache.len()
    }

    fn row(&self, index: usize) -> Option<&Row> {
        self.transcript.rows().get(index)
    }

    /// Returns whether a row is shown open.
    pub(crate) fn is_open(&self, row: &Row) -> bool {
        let by_hand = self.reading.opened.get(&row.key).copied();
        by_hand.or(self.reading.all_open).unwrap_or_else(|| rows::is_open_at_first(row))
    }

    fn lines_of(&mut self, index: usize, look: &Look<'_>) -> Arc<Vec<Line<'static>>> {
        let Some(row) = self.row(index) else { return Arc::default() };
        let (key, last, cells, open) = (row.key, row.last, self.cells, self.is_open(row));
        if let Some(known) = self.cache.get(&key)
            && (known.last, known.cells, known.open) == (last, cells, open)
        {
            return Arc::clone(&known.lines);
        }
        let layout = RowLayout { theme: look.theme, highlights: look.highlights, cells };
        let lines = Arc::new(layout.lines(row, open));
        if self.cache.len() > limits::LAYOUT_ROWS_MAX {
            self.cache.clear();
        }
        self.cache.insert(key, LaidOut { last, cells, open, lines: Arc::clone(&lines) });
        lines
    }

    /// Returns the place at which the last screen begins.
    fn end_place(&mut self, look: &Look<'_>) -> (usize, usize) {
        let mut room = self.height;
        let mut index = self.transcript.rows().len();
        while index > 0 {
            index -= 1;
            let height = self.lines_of(index, look).len();
            if height >= room {
                return (index, height - room);
            }
            room -= height;
        }
        (0, 0)
    }

    /// Returns the place at the top of the screen: the index of a row and a line of it.
    fn top_place(&mut self, look: &Look<'_>) -> (usize, usize) {
        match self.reading.anchor {
            None => self.end_place(look),
            Some(anchor) => {
                let index = self.transcript.index_of(anchor.key).unwrap_or(0);
                let height = self.lines_of(index, look).len();
                (index, anchor.line.min(height.saturating_sub(1)))
            }
        }
    }

    /// Returns the lines that are visible.
    pub(crate) fn visible(&mut self, look: &Look<'_>) -> Vec<ScreenLine> {
        let (mut index, mut from) = self.top_place(look);
        let mut out = Vec::with_capacity(self.height);
        while out.len() < self.height && index < self.transcript.rows().len() {
            let lines = self.lines_of(index, look);
            let key = self.row(index).map_or(0, |row| row.key);
            for (at, line) in lines.iter().enumerate().skip(from) {
                if out.len() == self.height {
                    break;
                }
                out.push(ScreenLine { key, at, line: line.clone() });
            }
            from = 0;
            index += 1;
        }
        out
    }

    fn hold(&mut self, index: usize, line: usize) {
        if self.follows() {
            self.reading.seen = self.transcript.rows().back().map_or(0, |row| row.key);
        }
        let key = self.row(index).map_or(0, |row| row.key);
        self.reading.anchor = Some(Anchor { key, line });
    }

    /// Moves the text by lines; negative numbers show older ones.
    pub(crate) fn scroll(&mut self, lines: isize, look: &Look<'_>) {
        let (mut index, mut line) = self.top_place(look);
        let mut left = lines.unsigned_abs();
        if lines < 0 {
            while left > 0 {
                if line >= left {
                    line -= left;
                    break;
                }
                left -= line + 1;
                if index == 0 {
                    line = 0;
                    break;
                }
                index -= 1;
                // The line above is the last one of the row before.
                let mut height = self.lines_of(index, look).len();
                while height == 0 && index > 0 {
                    index -= 1;
                    height = self.lines_of(index, look).len();
                }
                line = height.saturating_sub(1);
            }
            self.hold(index, line);
            return;
        }
        let end = self.end_place(look);
        while left > 0 && (index, line) < end {
            let height = self.lines_of(index, look).len();
            let step = left.min(height.saturating_sub(line));
            line += step;
            left -= step;
            if line >= height {
                index += 1;
                line = 0;
            }
            if step == 0 && height == 0 {
                continue;
            }
        }
        if (index, line) >= end {
            self.follow();
        } else {
            self.hold(index, line);
        }
    }

    /// Moves by pages.
    pub(crate) fn page(&mut self, pages: isize, look: &Look<'_>) {
        let lines = isize::try_from(self.height.saturating_sub(2).max(1)).unwrap_or(1);
        self.scroll(pages * lines, look);
    }

    /// Follows the end.
    pub(crate) fn follow(&mut self) {
        self.reading.anchor = None;
    }

    /// Shows the first row.
    pub(crate) fn go_to_top(&mut self) {
        self.hold(0, 0);
    }

    /// Shows a row at the top and selects it.
    pub(crate) fn show(&mut self, key: u64) {
        if let Some(index) = self.transcript.index_of(key) {
            self.hold(index, 0);
            self.reading.selected = self.row(index).map(|row| row.key);
        }
    }

    /// Returns the index of the selected row, or of the first visible one.
    fn selected_index(&mut self, look: &Look<'_>) -> usize {
        let selected = self.reading.selected.and_then(|key| self.transcript.index_of(key));
        selected.unwrap_or_else(|| self.top_place(look).0)
    }

    /// Selects the next or the previous row that shows something, and keeps it on the screen.
    pub(crate) fn select(&mut self, step: isize, look: &Look<'_>) {
        let count = self.transcript.rows().len();
        if count == 0 {
            return;
        }
        let mut index = match self.reading.selected {
            Some(_) => self.selected_index(look),
            None => {
                // The first selection is the last visible row.
                let last = self.visible(look).last().map(|line| line.key);
                let last = last.and_then(|key| self.transcript.index_of(key)).unwrap_or(count - 1);
                if step < 0 { last + 1 } else { last }
            }
        };
        loop {
            match index.checked_add_signed(step.signum()) {
                Some(next) if next < count => index = next,
                _ => return,
            }
            if !self.lines_of(index, look).is_empty() {
                break;
            }
        }
        let key = self.row(index).map_or(0, |row| row.key);
        self.reading.selected = Some(key);
        self.reveal(key, step, look);
    }

    /// Scrolls until a row is visible.
    fn reveal(&mut self, key: u64, step: isize, look: &Look<'_>) {
        for _ in 0..limits::LAYOUT_ROWS_MAX {
            let visible = self.visible(look);
            let lines: Vec<&ScreenLine> = visible.iter().filter(|line| line.key == key).collect();
            let whole = self.transcript.index_of(key).map_or(0, |index| self.lines_of(index, look).len());
            let enough = lines.len() >= whole.min(self.height);
            if enough {
                return;
            }
            let before = self.top_place(look);
            self.scroll(step.signum(), look);
            if self.top_place(look) == before {
                return;
            }
        }
    }

    /// Folds or opens the selected row. Returns whether there was one to fold.
    pub(crate) fn toggle(&mut self, look: &Look<'_>) -> bool {
        let index = self.selected_index(look);
        let Some(row) = self.row(index).filter(|row| rows::can_fold(row)) else { return false };
        let (key, open) = (row.key, self.is_open(row));
        self.reading.opened.insert(key, !open);
        true
    }

    /// Folds or opens a row that was clicked.
    pub(crate) fn toggle_key(&mut self, key: u64) {
        self.reading.selected = Some(key);
        let Some(row) = self.transcript.index_of(key).and_then(|index| self.row(index)) else { return };
        if rows::can_fold(row) {
            let open = self.is_open(row);
            self.reading.opened.insert(key, !open);
        }
    }

    /// Folds or opens all rows.
    pub(crate) fn toggle_all(&mut self) {
        self.reading.all_open = Some(self.reading.all_open != Some(true));
        self.reading.opened.clear();
    }

    /// Shows the next or the previous row for which something holds.
    pub(crate) fn find(&mut self, step: isize, look: &Look<'_>, wanted: impl Fn(&Row) -> bool) -> bool {
        let rows = self.transcript.rows();
        let from = match self.reading.selected.and_then(|key| self.transcript.index_of(key)) {
            Some(index) => index,
            None if step < 0 => rows.len(),
            None => 0,
        };
        let found = if step < 0 {
            rows.iter().take(from).rev().find(|row| wanted(row))
        } else {
            rows.iter().skip(from + 1).find(|row| wanted(row))
        };
        let Some(key) = found.map(|row| row.key) else { return false };
        self.show(key);
        let _top = self.top_place(look);
        true
    }

    /// Returns the text of the selected row.
    pub(crate) fn selected_text(&mut self, look: &Look<'_>) -> Option<String> {
        let index = self.selected_index(look);
        self.row(index).map(rows::plain_text)
    }
}
