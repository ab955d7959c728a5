//! Printing above the prompt line. The editor prints above the typed text, but it counts the rows of that text by bytes and
//! expects the cursor at its end; where that is wrong it would print over earlier lines. Then the text is put away, the lines
//! are printed, and the text is put back; no key is read meanwhile. Knows nothing of what is printed.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};

use reedline::{ExampleHighlighter, Highlighter, StyledText};
use unicode_width::UnicodeWidthChar as _;

use super::{SharedShown, lock};
use crate::output;

/// Width of the prefix of every line of the typed text.
const INDICATOR_COLUMNS: usize = 2;
/// What the editor adds to the first line when it counts rows.
const ADDED_BY_EDITOR: usize = 3;

/// A typed text and the place of its cursor.
pub(super) struct TypedText {
    pub(super) text: String,
    /// In bytes.
    pub(super) cursor: usize,
}

/// The lines that wait to be printed.
struct Waiting {
    lines: Receiver<String>,
    /// Taken from `lines` and not printed yet.
    next: Option<String>,
}

impl Waiting {
    fn take(&mut self) -> Option<String> {
        self.next.take().or_else(|| self.lines.try_recv().ok())
    }

    fn is_empty(&mut self) -> bool {
        self.next = self.take();
        self.next.is_none()
    }
}

/// Gives waiting lines to the editor whenever it is about to paint a text above which it prints correctly.
pub(super) struct LinesAbove {
    waiting: Mutex<Waiting>,
    printer: SyncSender<String>,
    shown: SharedShown,
    /// Makes the editor let the terminal go.
    release: Arc<AtomicBool>,
}

impl LinesAbove {
    pub(super) fn new(
        lines: Receiver<String>,
        printer: SyncSender<String>,
        shown: SharedShown,
        release: Arc<AtomicBool>,
    ) -> Self {
        Self { waiting: Mutex::new(Waiting { lines, next: None }), printer, shown, release }
    }

    /// Prints what waits, or has the text put away first. `text` is what is painted now.
    fn print_above(&self, text: &str, cursor: usize) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // While the text is put away, what waits now is printed above it once it is back.
        if waiting.is_empty() || lock(&self.shown).is_put_away {
            return;
        }
        let has_rows_above = !lock(&self.shown).painting.is_empty();
        if !has_rows_above && is_counted_right(text, cursor, columns(&self.shown)) {
            self.forward(&mut waiting);
        } else {
            self.release.store(true, Ordering::Relaxed);
        }
    }

    /// Prints what waits, whatever is painted.
    pub(super) fn print_anyway(&self) {
        self.forward(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn forward(&self, waiting: &mut Waiting) {
        while let Some(line) = waiting.take() {
            // The editor takes them before it paints again, so the rest follows then.
            if let Err(TrySendError::Full(line) | TrySendError::Disconnected(line)) =
                self.printer.try_send(line)
            {
                waiting.next = Some(line);
                return;
            }
        }
    }
}

/// Called by the editor with every text that it paints.
pub(super) struct PaintedText(pub(super) Arc<LinesAbove>);

impl Highlighter for PaintedText {
    fn highlight(&self, line: &str, cursor: usize) -> StyledText {
        {
            let mut shown = lock(&self.0.shown);
            shown.has_text = !line.is_empty();
            let is_hidden = shown.is_ending || shown.is_put_away;
            shown.painting = if is_hidden { Vec::new() } else { shown.unfinished.clone() };
        }
        self.0.print_above(line, cursor);
        ExampleHighlighter::default().highlight(line, cursor)
    }
}

fn columns(shown: &SharedShown) -> usize {
    output::terminal_width().unwrap_or_else(|| lock(shown).width).max(1)
}

/// Removes the text from the screen; the cursor is at its beginning then.
pub(super) fn erase(text: &TypedText, shown: &SharedShown) {
    let up = rows_before_cursor(&text.text, text.cursor, columns(shown)) + lock(shown).painted_rows;
    let up = if up > 0 { format!("\x1b[{up}A") } else { String::new() };
    let mut terminal = std::io::stderr();
    // A terminal that is gone shows nothing.
    let _gone = write!(terminal, "\r{up}\x1b[J").and_then(|()| terminal.flush());
}

/// Removes an empty line and the rows above it from the screen; the cursor is in the row below them.
pub(super) fn erase_painted(shown: &SharedShown) {
    let rows = lock(shown).painted_rows;
    if rows > 0 {
        let mut terminal = std::io::stderr();
        // A terminal that is gone shows nothing.
        let _gone = write!(terminal, "\r\x1b[{}A\x1b[J", rows + 1).and_then(|()| terminal.flush());
    }
}

/// Returns to the row of the empty line that the editor has just accepted; the cursor is in the row below it.
pub(super) fn leave_accepted_row() {
    let mut terminal = std::io::stderr();
    // A terminal that is gone shows nothing.
    let _gone = write!(terminal, "\r\x1b[A").and_then(|()| terminal.flush());
}

/// Rows from the first one of the text to that of the cursor.
fn rows_before_cursor(text: &str, cursor: usize, columns: usize) -> usize {
    let (mut row, mut column) = (0, INDICATOR_COLUMNS);
    for c in text.get(..cursor).unwrap_or(text).chars() {
        if c == '\n' {
            (row, column) = (row + 1, INDICATOR_COLUMNS);
            continue;
        }
        let width = c.width().unwrap_or_default();
        if column + width > columns {
            (row, column) = (row + 1, 0);
        }
        column += width;
    }
    // A cursor behind a full row is in the next one.
    if column >= columns { row + 1 } else { row }
}

/// Whether the editor moves up by as many rows as the cursor is below the first one.
fn is_counted_right(text: &str, cursor: usize, columns: usize) -> bool {
    let rows = text.lines().enumerate().map(|(at, line)| {
        let added = if at == 0 { ADDED_BY_EDITOR } else { 0 };
        (line.len() + added) / columns + 1
    });
    rows.sum::<usize>().saturating_sub(1) == rows_before_cursor(text, cursor, columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_as_the_terminal_wraps_them() {
        for (text, cursor, rows) in [
            ("", 0, 0),
            ("12345678", 7, 0),
            ("12345678", 8, 1),
            ("1\n2\n3", 5, 2),
            ("1\n2\n3", 1, 0),
            ("1\n", 2, 1),
            ("äöüäöüäö", "äöüäöüä".len(), 0),
            ("日本語日", "日本語日".len(), 1),
            ("1234567日", "1234567日".len(), 1),
        ] {
            assert_eq!(rows_before_cursor(text, cursor, 10), rows, "{text:?} at {cursor}");
        }
    }

    #[test]
    fn lines_are_printed_only_above_a_text_whose_rows_the_editor_counts_right() {
        for (text, cursor, right) in [
            ("", 0, true),
            ("short", 5, true),
            ("short", 0, true),
            ("1\n2\n3", 5, true),
            // As Up leaves it: at the end of the first line.
            ("1\n2\n3", 1, false),
            ("1\n", 2, false),
            ("äöüäöüä", "äöüäöüä".len(), false),
        ] {
            assert_eq!(is_counted_right(text, cursor, 10), right, "{text:?} at {cursor}");
        }
    }
}
