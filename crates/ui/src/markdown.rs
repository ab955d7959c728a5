//! Markdown as lines of a width: headings, lists, quotes, tables, code. Raw HTML and images are shown as the text they
//! are; links show where they lead. The text must be clean already.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use crate::cells;
use crate::highlight::Highlights;
use crate::theme::{Glyph, Role, Theme};

/// Returns the lines of a text.
pub(crate) fn lines(text: &str, cells: usize, theme: &Theme, highlights: &Highlights) -> Vec<Line<'static>> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer = Writer {
        theme,
        highlights,
        cells: cells.max(4),
        lines: Vec::new(),
        inline: Vec::new(),
        style: vec![theme.style(Role::Text)],
        lists: Vec::new(),
        quotes: 0,
        code: None,
        table: None,
        link: None,
        marker: None,
    };
    for event in Parser::new_ext(text, options) {
        writer.event(event);
    }
    writer.flush();
    while writer.lines.last().is_some_and(|line| line.width() == 0) {
        writer.lines.pop();
    }
    writer.lines
}

/// Rows of a table, each with its cells.
type Rows = Vec<Vec<String>>;

struct Writer<'a> {
    theme: &'a Theme,
    highlights: &'a Highlights,
    cells: usize,
    lines: Vec<Line<'static>>,
    inline: Vec<Span<'static>>,
    style: Vec<Style>,
    /// The next number of each list; `None` for bullets.
    lists: Vec<Option<u64>>,
    quotes: usize,
    /// The language and the text of the code block.
    code: Option<(String, String)>,
    table: Option<Rows>,
    link: Option<String>,
    /// What begins the item that follows.
    marker: Option<String>,
}

impl Writer<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(text) => {
                let style = self.style().patch(self.theme.style(Role::Code));
                self.span(&text, style);
            }
            Event::SoftBreak => self.text(" "),
            Event::HardBreak => self.text("\n"),
            Event::Rule => {
                self.flush();
                let rule = self.theme.glyph(Glyph::Rule).repeat(self.cells.min(40));
                self.lines.push(Line::styled(rule, self.theme.style(Role::Dim)));
                self.gap();
            }
            Event::TaskListMarker(done) => self.text(if done { "[x] " } else { "[ ] " }),
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.text(&text)
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => {
                self.flush();
                let style = self.theme.style(Role::Heading);
                self.style.push(style);
                if level >= HeadingLevel::H3 {
                    self.span("", style);
                }
            }
            Tag::BlockQuote(_) => {
                self.flush();
                self.quotes += 1;
            }
            Tag::CodeBlock(kind) => {
                self.flush();
                let language = match kind {
                    CodeBlockKind::Fenced(info) => {
                        info.split([' ', ',']).next().unwrap_or_default().to_owned()
                    }
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::List(first) => {
                self.flush();
                self.lists.push(first);
            }
            Tag::Item => {
                self.flush();
                self.marker = Some(match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let marker = format!("{number}. ");
                        *number += 1;
                        marker
                    }
                    _ => format!("{} ", self.theme.glyph(Glyph::Bullet)),
                });
            }
            Tag::Emphasis => self.push_style(Modifier::ITALIC),
            Tag::Strong => self.push_style(Modifier::BOLD),
            Tag::Strikethrough => self.push_style(Modifier::CROSSED_OUT),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.link = Some(dest_url.to_string());
                self.push_style(Modifier::UNDERLINED);
            }
            Tag::Table(_) => {
                self.flush();
                self.table = Some(Vec::new());
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(rows) = &mut self.table {
                    rows.push(Vec::new());
                }
            }
            Tag::TableCell => {
                if let Some(row) = self.table.as_mut().and_then(|rows| rows.last_mut()) {
                    row.push(String::new());
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => {
                self.flush();
                if self.lists.is_empty() {
                    self.gap();
                }
            }
            TagEnd::Heading(_) => {
                self.flush();
                self.style.pop();
                self.gap();
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.quotes = self.quotes.saturating_sub(1);
                self.gap();
            }
            TagEnd::CodeBlock => self.code_block(),
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
                if self.lists.is_empty() {
                    self.gap();
                }
            }
            TagEnd::Item => {
                self.flush();
                self.marker = None;
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.style.pop();
            }
            TagEnd::Link | TagEnd::Image => {
                self.style.pop();
                self.link_target();
            }
            TagEnd::Table => self.write_table(),
            TagEnd::HtmlBlock => self.flush(),
            _ => {}
        }
    }

    fn style(&self) -> Style {
        self.style.last().copied().unwrap_or_default()
    }

    fn push_style(&mut self, modifier: Modifier) {
        let style = self.style().add_modifier(modifier);
        self.style.push(style);
    }

    fn text(&mut self, text: &str) {
        if let Some((_, code)) = &mut self.code {
            code.push_str(text);
            return;
        }
        let style = self.style();
        self.span(text, style);
    }

    fn span(&mut self, text: &str, style: Style) {
        if let Some(cell) =
            self.table.as_mut().and_then(|rows| rows.last_mut()).and_then(|row| row.last_mut())
        {
            cell.push_str(&text.replace('\n', " "));
            return;
        }
        self.inline.push(Span::styled(text.to_owned(), style));
    }

    /// Shows where a link leads, unless its text says so.
    fn link_target(&mut self) {
        let Some(target) = self.link.take() else { return };
        let shown = self.inline.last().is_some_and(|span| target.ends_with(span.content.as_ref()));
        if !shown && !target.is_empty() && !target.starts_with('#') {
            let style = self.theme.style(Role::Dim);
            self.span(&format!(" ({target})"), style);
        }
    }

    /// What every line of the block begins with, and the first line of it.
    fn prefixes(&mut self) -> (String, String) {
        let quote = format!("{} ", self.theme.glyph(Glyph::Quote)).repeat(self.quotes);
        let indent = "  ".repeat(self.lists.len().saturating_sub(1));
        let hang = if self.lists.is_empty() { "" } else { "  " };
        let rest = format!("{quote}{indent}{hang}");
        let first = match self.marker.take() {
            Some(marker) => format!("{quote}{indent}{marker}"),
            None => rest.clone(),
        };
        (first, rest)
    }

    /// Writes the text that was collected.
    fn flush(&mut self) {
        if self.inline.is_empty() {
            return;
        }
        let mut spans = std::mem::take(&mut self.inline);
        let (first, rest) = self.prefixes();
        if !first.is_empty() {
            spans.insert(0, Span::styled(first, self.theme.style(Role::Dim)));
        }
        self.lines.extend(cells::wrap(&spans, self.cells, &rest));
    }

    fn gap(&mut self) {
        if self.lines.last().is_some_and(|line| line.width() > 0) {
            self.lines.push(Line::default());
        }
    }

    fn code_block(&mut self) {
        let Some((language, code)) = self.code.take() else { return };
        let (first, rest) = self.prefixes();
        let code = code.strip_suffix('\n').unwrap_or(&code);
        let colored = self.highlights.get(&language, code);
        let plain = self.theme.style(Role::Code);
        for (at, line) in code.split('\n').enumerate() {
            let prefix = if at == 0 { &first } else { &rest };
            let mut spans = vec![Span::raw(format!("{prefix}  "))];
            match colored.as_ref().and_then(|lines| lines.get(at)) {
                Some(parts) => {
                    spans.extend(
                        parts.iter().map(|(role, text)| Span::styled(text.clone(), self.theme.style(*role))),
                    );
                }
                None => spans.push(Span::styled(line.to_owned(), plain)),
            }
            self.lines.extend(cells::wrap(&spans, self.cells, &format!("{rest}  ")));
        }
        self.gap();
    }

    fn write_table(&mut self) {
        let Some(rows) = self.table.take() else { return };
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        if columns == 0 {
            return;
        }
        let room = (self.cells.saturating_sub(columns.saturating_sub(1) * 3) / columns).max(3);
        let widest = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cells::width(cell));
            cells.max().unwrap_or(0).min(room).max(1)
        };
        let widths: Vec<usize> = (0..columns).map(widest).collect();
        let separator = format!(" {} ", self.theme.glyph(Glyph::Quote));
        for (at, row) in rows.iter().enumerate() {
            let cell = |(column, width): (usize, &usize)| {
                cells::fit(row.get(column).map_or("", String::as_str), *width)
            };
            let text = widths.iter().enumerate().map(cell).collect::<Vec<_>>().join(&separator);
            let role = if at == 0 { Role::Strong } else { Role::Text };
            self.lines.push(Line::styled(cells::cut(text.trim_end(), self.cells), self.theme.style(role)));
        }
        self.gap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::ColorDepth;

    const THEME: Theme = Theme { depth: ColorDepth::True, light: false, ascii: false };

    fn shown(text: &str, cells: usize) -> Vec<String> {
        lines(text, cells, &THEME, &Highlights::default()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn blocks_are_laid_out() {
        let text = "# Title\n\nSome **bold** and `code`.\n\n- one\n- two\n  - deep\n1. first\n\n> quoted\n\n```rust\nfn main() {}\n```\n\n| a | bb |\n|---|---|\n| 1 | 2 |\n";
        let expected = [
            "Title",
            "",
            "Some bold and code.",
            "",
            "• one",
            "• two",
            "  • deep",
            "",
            "1. first",
            "",
            "│ quoted",
            "",
            "  fn main() {}",
            "",
            "a │ bb",
            "1 │ 2",
        ];
        assert_eq!(shown(text, 40), expected);
    }

    #[test]
    fn html_and_images_are_only_text() {
        let text = "Text <script>alert(1)</script> ![x](http://e/x.png) [here](https://e/y)";
        let all = shown(text, 200).join("\n");
        assert!(all.contains("<script>alert(1)</script>"), "{all}");
        assert!(all.contains("x (http://e/x.png)") && all.contains("here (https://e/y)"), "{all}");
    }

    #[test]
    fn no_line_is_wider_than_its_place() {
        let text = "## A long heading that wraps around\n\n* item with many words in it\n\n```\nlet x = 1234567890123456789012345678901234567890;\n```\n\n| col | another column |\n|--|--|\n| much text in a cell | more |\n\nunclosed ```\nfence";
        for width in 4..60 {
            for line in shown(text, width) {
                assert!(cells::width(&line) <= width, "{line:?} at {width}");
            }
        }
    }
}
