//! Text measured in cells of the terminal: cutting, wrapping and joining. The only place that measures.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// Returns the cells a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.graphemes(true).map(grapheme_width).sum()
}

/// Terminals differ about joined emoji; two cells is what most of them and ratatui use.
fn grapheme_width(grapheme: &str) -> usize {
    grapheme.width().min(2)
}

/// Cuts a text to a width, with an ellipsis if something is missing.
pub(crate) fn cut(text: &str, max: usize) -> String {
    if width(text) <= max {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for grapheme in text.graphemes(true) {
        let cells = grapheme_width(grapheme);
        if used + cells + 1 > max {
            break;
        }
        used += cells;
        out.push_str(grapheme);
    }
    if max > 0 {
        out.push('…');
    }
    out
}

/// Returns the end of a text that fits a width.
pub(crate) fn end(text: &str, max: usize) -> String {
    let mut used = 0;
    let mut from = text.len();
    for (at, grapheme) in text.grapheme_indices(true).rev() {
        used += grapheme_width(grapheme);
        if used > max {
            break;
        }
        from = at;
    }
    text[from..].to_owned()
}

/// Pads or cuts a text to exactly a width.
pub(crate) fn fit(text: &str, cells: usize) -> String {
    let mut out = cut(text, cells);
    let used = width(&out);
    out.extend(std::iter::repeat_n(' ', cells.saturating_sub(used)));
    out
}

/// A text on the left and one on the right, in exactly a width; the left one gives way.
pub(crate) fn ends(left: &str, right: &str, cells: usize) -> String {
    let right = cut(right, cells);
    let room = cells.saturating_sub(width(&right));
    if room == 0 {
        return fit(&right, cells);
    }
    let left = fit(left, room.saturating_sub(1));
    format!("{left} {right}")
}

/// Wraps styled text at words to lines of at most a width; longer words are broken. `hang` begins every line after the
/// first.
pub(crate) fn wrap(spans: &[Span<'_>], cells: usize, hang: &str) -> Vec<Line<'static>> {
    let mut wrapper = Wrapper::new(cells.max(1), hang);
    for span in spans {
        for (at, part) in span.content.split('\n').enumerate() {
            if at > 0 {
                wrapper.end_line();
            }
            for word in part.split_word_bounds() {
                wrapper.push(word, span.style);
            }
        }
    }
    wrapper.finish()
}

/// Wraps plain text.
pub(crate) fn wrap_text(text: &str, style: Style, cells: usize, hang: &str) -> Vec<Line<'static>> {
    wrap(&[Span::styled(text, style)], cells, hang)
}

struct Wrapper {
    max: usize,
    hang: String,
    lines: Vec<Line<'static>>,
    line: Vec<Span<'static>>,
    used: usize,
    /// Only the indentation is in the line.
    fresh: bool,
}

impl Wrapper {
    fn new(max: usize, hang: &str) -> Self {
        let hang = if width(hang) < max { hang.to_owned() } else { String::new() };
        Self { max, hang, lines: Vec::new(), line: Vec::new(), used: 0, fresh: true }
    }

    fn end_line(&mut self) {
        self.lines.push(Line::from(std::mem::take(&mut self.line)));
        self.used = 0;
        self.fresh = true;
        if !self.hang.is_empty() {
            self.used = width(&self.hang);
            self.line.push(Span::raw(self.hang.clone()));
        }
    }

    fn push(&mut self, word: &str, style: Style) {
        let cells = width(word);
        if self.used + cells <= self.max {
            self.append(word, cells, style);
            return;
        }
        // The space at which a line is broken is not needed.
        if word.chars().all(char::is_whitespace) {
            self.end_line();
            return;
        }
        if !self.fresh {
            self.end_line();
        }
        if self.used + cells <= self.max {
            self.append(word, cells, style);
            return;
        }
        for grapheme in word.graphemes(true) {
            let cells = grapheme_width(grapheme);
            if self.used + cells > self.max && !self.fresh {
                self.end_line();
            }
            if self.used + cells > self.max {
                // Too narrow for the indentation.
                self.line.clear();
                self.used = 0;
            }
            self.append(grapheme, cells, style);
        }
    }

    fn append(&mut self, text: &str, cells: usize, style: Style) {
        self.used += cells;
        self.fresh = false;
        match self.line.last_mut() {
            Some(last) if last.style == style => last.content.to_mut().push_str(text),
            _ => self.line.push(Span::styled(text.to_owned(), style)),
        }
    }

    fn finish(mut self) -> Vec<Line<'static>> {
        self.lines.push(Line::from(self.line));
        self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(text: &str, cells: usize, hang: &str) -> Vec<String> {
        wrap_text(text, Style::default(), cells, hang).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn lines_never_exceed_their_width() {
        let text = "The quick 日本語テキスト brown\nfox 👩‍👩‍👧‍👦 jumpsoverthelazydog e\u{301}e\u{301}";
        for cells in 1..40 {
            for line in wrapped(text, cells, "  ") {
                assert!(width(&line) <= cells.max(2), "{line:?} in {cells}");
            }
        }
    }

    #[test]
    fn words_are_kept_together() {
        assert_eq!(wrapped("one two three", 8, ""), ["one two ", "three"]);
        assert_eq!(wrapped("one two three", 8, "  "), ["one two ", "  three"]);
        assert_eq!(wrapped("a\n\nb", 8, ""), ["a", "", "b"]);
        assert_eq!(wrapped("abcdefghij", 4, ""), ["abcd", "efgh", "ij"]);
    }

    #[test]
    fn texts_are_cut_and_padded_by_cells() {
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(fit("ab", 4), "ab  ");
        assert_eq!(ends("left side", "12s", 10), "left … 12s");
        assert_eq!(ends("left", "right side", 4), "rig…");
    }
}
