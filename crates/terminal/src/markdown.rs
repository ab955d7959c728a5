//! Markdown as a terminal shows it: styled lines, wrapped, with highlighted code. Takes text in pieces and returns lines
//! as soon as they can no longer change. Pure; writes nothing.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use unicode_width::UnicodeWidthStr as _;

use crate::highlight::CodeHighlighter;
use crate::limits;
use crate::output::TextStyle;

/// A line of styled pieces.
pub type StyledLine = Vec<(TextStyle, String)>;

/// Narrower terminals wrap lines themselves.
const WIDTH_MIN: usize = 20;

/// Renders a whole text.
pub fn render(text: &str, width: usize) -> Vec<StyledLine> {
    let mut stream = MarkdownStream::new(width);
    let mut lines = stream.push(text);
    lines.extend(stream.finish());
    lines
}

/// A text that comes in pieces. Paragraphs and items become lines when they are complete, code line by line.
pub struct MarkdownStream {
    width: usize,
    /// The line that has no end yet.
    partial: String,
    /// The lines of the block that is not complete yet.
    block: String,
    code: Option<OpenCode>,
    /// Whether the last line is blank, so that no second one follows.
    after_blank: bool,
}

/// A block of code between fences.
struct OpenCode {
    fence: String,
    highlighter: CodeHighlighter,
}

impl MarkdownStream {
    pub fn new(width: usize) -> Self {
        let width = width.max(WIDTH_MIN);
        Self { width, partial: String::new(), block: String::new(), code: None, after_blank: true }
    }

    /// Adds text; returns the lines that are complete.
    pub fn push(&mut self, text: &str) -> Vec<StyledLine> {
        let mut lines = Vec::new();
        self.partial.push_str(text);
        while let Some(end) = self.partial.find('\n') {
            let rest = self.partial.split_off(end + 1);
            let line = std::mem::replace(&mut self.partial, rest);
            self.line(line.trim_end_matches(['\n', '\r']), &mut lines);
        }
        lines
    }

    /// Ends the text; returns the lines that were left.
    pub fn finish(&mut self) -> Vec<StyledLine> {
        let mut lines = Vec::new();
        let partial = std::mem::take(&mut self.partial);
        if !partial.is_empty() {
            self.line(&partial, &mut lines);
        }
        self.flush(&mut lines);
        self.code = None;
        while lines.last().is_some_and(Vec::is_empty) {
            lines.pop();
        }
        self.after_blank = true;
        lines
    }

    /// Returns the end of the text that is not complete yet, as it looks so far.
    pub fn unfinished(&self) -> Vec<StyledLine> {
        let partial = tail(&self.partial, limits::UNFINISHED_MAX_BYTES);
        // What may become a fence is no text.
        let is_fence = partial.trim_start().starts_with("``") || partial.trim_start().starts_with("~~~");
        let partial = if is_fence { "" } else { partial };
        if self.code.is_some() {
            let line = || vec![(TextStyle::Plain, format!("  {partial}"))];
            return if partial.trim().is_empty() { Vec::new() } else { vec![line()] };
        }
        let block = format!("{}{partial}", tail(&self.block, limits::UNFINISHED_MAX_BYTES));
        if block.trim().is_empty() { Vec::new() } else { render_block(&block, self.width) }
    }

    fn line(&mut self, line: &str, lines: &mut Vec<StyledLine>) {
        if let Some(open) = &mut self.code {
            if line.trim().starts_with(&open.fence) && line.trim().trim_start_matches(&open.fence).is_empty()
            {
                self.code = None;
                return;
            }
            let mut styled = vec![(TextStyle::Plain, "  ".to_owned())];
            styled.extend(open.highlighter.line(line));
            lines.push(styled);
            self.after_blank = false;
            return;
        }
        if let Some((fence, language)) = fence_of(line) {
            self.flush(lines);
            self.code =
                Some(OpenCode { fence: fence.to_owned(), highlighter: CodeHighlighter::new(language) });
            return;
        }
        if line.trim().is_empty() {
            self.flush(lines);
            if !std::mem::replace(&mut self.after_blank, true) {
                lines.push(Vec::new());
            }
            return;
        }
        // Each item and each heading stands alone, so that a long list grows while it is written.
        if starts_block(line) {
            self.flush(lines);
        }
        self.block.push_str(line);
        self.block.push('\n');
        if line.starts_with('#') {
            self.flush(lines);
        }
    }

    /// Renders the block that is complete.
    fn flush(&mut self, lines: &mut Vec<StyledLine>) {
        if self.block.is_empty() {
            return;
        }
        let block = std::mem::take(&mut self.block);
        self.after_blank = false;
        lines.extend(render_block(&block, self.width));
    }
}

fn render_block(block: &str, width: usize) -> Vec<StyledLine> {
    // A table is aligned by whoever wrote it.
    if block.trim_start().starts_with('|') {
        return block.lines().map(|line| vec![(TextStyle::Plain, line.to_owned())]).collect();
    }
    BlockRenderer::new(width, indent_of(block)).render(block)
}

/// Returns the last bytes of a text, from the beginning of a character on.
pub fn tail(text: &str, max_bytes: usize) -> &str {
    let start = (text.len().saturating_sub(max_bytes)..=text.len()).find(|at| text.is_char_boundary(*at));
    &text[start.unwrap_or(text.len())..]
}

/// Returns the fence and the language of a line that begins code.
fn fence_of(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let length = line.chars().take_while(|c| *c == mark).count();
    let (fence, language) = line.split_at(length);
    (length >= 3 && !language.contains('`')).then(|| (fence, language.trim()))
}

/// Whether a line begins an item of a list.
fn starts_block(line: &str) -> bool {
    let line = line.trim_start();
    let digits = line.chars().take_while(char::is_ascii_digit).count();
    let is_number =
        (1..=9).contains(&digits) && [". ", ") "].iter().any(|end| line[digits..].starts_with(end));
    is_number || ["- ", "* ", "+ "].iter().any(|mark| line.starts_with(mark))
}

/// Returns the leading spaces of a block. The parser sees the block alone, so they would mean code to it.
fn indent_of(block: &str) -> usize {
    block.chars().take_while(|c| *c == ' ').count()
}

/// Renders one block: a paragraph, a heading, an item, a quote.
struct BlockRenderer {
    width: usize,
    lines: Vec<StyledLine>,
    /// The words of the paragraph that is being read.
    words: Vec<(TextStyle, String)>,
    styles: Vec<TextStyle>,
    /// What stands before the first and before the other lines.
    first: String,
    rest: String,
    lists: Vec<Option<u64>>,
    link: String,
}

impl BlockRenderer {
    fn new(width: usize, indent: usize) -> Self {
        let indent = " ".repeat(indent.min(width / 2));
        Self {
            width,
            lines: Vec::new(),
            words: Vec::new(),
            styles: Vec::new(),
            first: indent.clone(),
            rest: indent,
            lists: Vec::new(),
            link: String::new(),
        }
    }

    fn render(mut self, block: &str) -> Vec<StyledLine> {
        let dedented: String = block.lines().map(|line| format!("{}\n", line.trim_start())).collect();
        for event in Parser::new_ext(&dedented, Options::ENABLE_STRIKETHROUGH) {
            self.event(event);
        }
        self.end_paragraph();
        self.lines
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text),
            Event::Code(text) => self.words.push((TextStyle::Code, text.into_string())),
            Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::SoftBreak => self.text(" "),
            Event::HardBreak => self.break_line(),
            Event::Rule => self.lines.push(vec![(TextStyle::Dim, "─".repeat(self.width.min(40)))]),
            Event::TaskListMarker(_)
            | Event::FootnoteReference(_)
            | Event::InlineMath(_)
            | Event::DisplayMath(_) => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { .. } => self.styles.push(TextStyle::Heading),
            Tag::Strong => self.styles.push(TextStyle::Bold),
            Tag::Emphasis => self.styles.push(TextStyle::Italic),
            Tag::Strikethrough => self.styles.push(TextStyle::Dim),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => self.link = dest_url.into_string(),
            Tag::List(start) => self.lists.push(start),
            Tag::Item => {
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    _ => "• ".to_owned(),
                };
                self.rest = format!("{}{}", self.rest, " ".repeat(mark.width()));
                self.first.push_str(&mark);
            }
            Tag::BlockQuote(_) => {
                self.first.push_str("│ ");
                self.rest.push_str("│ ");
                self.styles.push(TextStyle::Dim);
            }
            Tag::CodeBlock(CodeBlockKind::Indented | CodeBlockKind::Fenced(_)) => {
                self.styles.push(TextStyle::Code);
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => {
                self.end_paragraph();
                self.styles.pop();
            }
            TagEnd::Strong | TagEnd::Emphasis | TagEnd::Strikethrough | TagEnd::CodeBlock => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => {
                let link = std::mem::take(&mut self.link);
                let is_said = self.words.last().is_some_and(|(_, text)| link.ends_with(text.trim()));
                if !link.is_empty() && !is_said {
                    self.words.push((TextStyle::Dim, format!(" ({link})")));
                }
            }
            TagEnd::Paragraph | TagEnd::Item => self.end_paragraph(),
            TagEnd::List(_) => {
                self.lists.pop();
            }
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        let style = self.styles.last().copied().unwrap_or(TextStyle::Plain);
        self.words.push((style, text.replace('\n', " ")));
    }

    fn break_line(&mut self) {
        self.end_paragraph();
    }

    /// Wraps what was read into lines.
    fn end_paragraph(&mut self) {
        let words = std::mem::take(&mut self.words);
        if words.iter().all(|(_, text)| text.trim().is_empty()) {
            return;
        }
        let first = std::mem::replace(&mut self.first, self.rest.clone());
        let mut line: StyledLine = vec![(TextStyle::Plain, first.clone())];
        let mut used = first.width();
        let mut is_empty = true;
        for (style, text) in words {
            for word in text.split_inclusive(' ') {
                let needed = word.trim_end().width();
                if !is_empty && used + needed > self.width {
                    trim_end(&mut line);
                    self.lines
                        .push(std::mem::replace(&mut line, vec![(TextStyle::Plain, self.rest.clone())]));
                    used = self.rest.width();
                    is_empty = true;
                }
                if is_empty && word.trim().is_empty() {
                    continue;
                }
                used += word.width();
                is_empty = false;
                match line.last_mut() {
                    Some((last, text)) if *last == style => text.push_str(word),
                    _ => line.push((style, word.to_owned())),
                }
            }
        }
        trim_end(&mut line);
        self.lines.push(line);
    }
}

fn trim_end(line: &mut StyledLine) {
    if let Some((_, text)) = line.last_mut() {
        text.truncate(text.trim_end().len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(lines: &[StyledLine]) -> Vec<String> {
        lines.iter().map(|line| line.iter().map(|(_, text)| text.as_str()).collect()).collect()
    }

    const SAMPLE: &str = "# Title\n\nSome **bold** and `code` in a paragraph that is long enough to be wrapped.\n\n- one\n- \
                          two with *words*\n  and more\n\n1. first\n2. second\n\n```rust\nfn main() {}\n\nlet x;\n```\nEnd.";

    #[test]
    fn text_is_rendered_and_wrapped() {
        let lines = render(SAMPLE, 40);
        assert_eq!(
            plain(&lines),
            [
                "Title",
                "",
                "Some bold and code in a paragraph that",
                "is long enough to be wrapped.",
                "",
                "• one",
                "• two with words and more",
                "",
                "1. first",
                "2. second",
                "",
                "  fn main() {}",
                "  ",
                "  let x;",
                "End.",
            ]
        );
        assert!(lines[2].contains(&(TextStyle::Bold, "bold".to_owned())), "{:?}", lines[2]);
        assert!(lines[2].contains(&(TextStyle::Code, "code".to_owned())), "{:?}", lines[2]);
        assert_eq!(lines[0].last().map(|(style, _)| *style), Some(TextStyle::Heading));
        assert!(lines[11].len() > 2, "code is highlighted: {:?}", lines[11]);
    }

    #[test]
    fn pieces_give_the_same_lines_as_the_whole() {
        let whole = render(SAMPLE, 40);
        for size in [1, 2, 3, 7, 19] {
            let mut stream = MarkdownStream::new(40);
            let mut lines = Vec::new();
            let letters: Vec<char> = SAMPLE.chars().collect();
            for piece in letters.chunks(size) {
                lines.extend(stream.push(&piece.iter().collect::<String>()));
            }
            lines.extend(stream.finish());
            assert_eq!(lines, whole, "pieces of {size}");
        }
    }

    #[test]
    fn code_comes_line_by_line_and_an_item_before_the_next() {
        let mut stream = MarkdownStream::new(80);
        assert!(stream.push("```\n").is_empty());
        assert_eq!(plain(&stream.push("a = 1\nb")), ["  a = 1"]);
        assert_eq!(plain(&stream.push("\n```\n- one\n")), ["  b"]);
        assert_eq!(plain(&stream.push("- two\n")), ["• one"]);
    }

    #[test]
    fn nested_items_keep_their_indentation_and_tables_stay() {
        assert_eq!(plain(&render("- a\n  - b\n    - c", 40)), ["• a", "  • b", "    • c"]);
        let table = "| a | b |\n|---|---|\n| 1 | 2 |";
        assert_eq!(plain(&render(table, 40)), table.lines().collect::<Vec<_>>());
    }

    #[test]
    fn what_is_not_complete_is_shown_as_it_looks_so_far() {
        let plain = |stream: &MarkdownStream| -> Vec<String> {
            let text = |line: StyledLine| line.into_iter().map(|(_, text)| text).collect();
            stream.unfinished().into_iter().map(text).collect()
        };
        let mut stream = MarkdownStream::new(30);
        assert!(plain(&stream).is_empty());
        assert!(stream.push("The **answer").is_empty());
        assert_eq!(plain(&stream), ["The **answer"]);
        assert!(stream.push("** is forty-two, and\nmore").is_empty());
        assert_eq!(plain(&stream), ["The answer is forty-two, and", "more"]);
        assert_eq!(stream.push(".\n\n``").len(), 3, "the paragraph and the blank line after it");
        assert!(plain(&stream).is_empty(), "what may become a fence is no text");
        stream.push("`rust\nlet x");
        assert_eq!(plain(&stream), ["  let x"]);
        stream.push(" = 1;\n```\n");
        assert!(plain(&stream).is_empty());
        stream.push(&"ö".repeat(100_000));
        assert!(stream.unfinished().len() < 200, "only the end of a long text is rendered");
    }
}
