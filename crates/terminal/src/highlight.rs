//! Colours of code, in the terminal's own palette. Loads the syntaxes with the first code that is shown.

use std::sync::{OnceLock, mpsc};

use syntect::easy::HighlightLines;
use syntect::highlighting::{Color, Theme};
use syntect::parsing::SyntaxSet;

use crate::limits;
use crate::output::TextStyle;

/// Everything that is known about languages and their colours.
struct Knowledge {
    syntaxes: SyntaxSet,
    theme: Theme,
}

fn knowledge() -> &'static Knowledge {
    static KNOWLEDGE: OnceLock<Knowledge> = OnceLock::new();
    KNOWLEDGE.get_or_init(|| Knowledge {
        syntaxes: two_face::syntax::extra_newlines(),
        theme: two_face::theme::extra().get(two_face::theme::EmbeddedThemeName::Ansi).clone(),
    })
}

/// Highlights the lines of one block of code. The state of the highlighter cannot be moved between threads, as commands
/// are, so it lives in a thread of its own that ends with this.
pub(crate) struct CodeHighlighter {
    worker: Option<HighlightWorker>,
    seen: usize,
}

struct HighlightWorker {
    lines: mpsc::Sender<String>,
    styled: mpsc::Receiver<Vec<(TextStyle, String)>>,
}

impl CodeHighlighter {
    /// Begins a block; `language` is the word after its fence, or a file's extension.
    pub(crate) fn new(language: &str) -> Self {
        let token = language.split([' ', ',', '{', ':']).next().unwrap_or_default().to_owned();
        Self { worker: (!token.is_empty()).then(|| HighlightWorker::start(token)), seen: 0 }
    }

    /// Returns the pieces of a line. Long blocks and long lines stay plain: colours are not worth a wait.
    pub(crate) fn line(&mut self, line: &str) -> Vec<(TextStyle, String)> {
        self.seen += 1;
        if self.seen > limits::HIGHLIGHTED_LINES_MAX || line.len() > limits::HIGHLIGHTED_LINE_MAX_BYTES {
            self.worker = None;
        }
        let styled = self.worker.as_ref().and_then(|worker| worker.line(line));
        styled.unwrap_or_else(|| vec![(TextStyle::Plain, line.to_owned())])
    }
}

impl HighlightWorker {
    fn start(language: String) -> Self {
        let (lines, received) = mpsc::channel::<String>();
        let (done, styled) = mpsc::channel();
        std::thread::spawn(move || {
            let known = knowledge();
            let Some(syntax) = known.syntaxes.find_syntax_by_token(&language) else { return };
            let mut highlighter = HighlightLines::new(syntax, &known.theme);
            for line in received {
                // A broken syntax definition ends the thread, and the rest stays plain.
                let Ok(pieces) = highlighter.highlight_line(&line, &known.syntaxes) else { return };
                let pieces = pieces
                    .into_iter()
                    .map(|(style, text)| (style_of(style.foreground), text.trim_end_matches('\n').to_owned()))
                    .filter(|(_, text)| !text.is_empty())
                    .collect();
                if done.send(pieces).is_err() {
                    return;
                }
            }
        });
        Self { lines, styled }
    }

    /// Returns `None` if the language is not known.
    fn line(&self, line: &str) -> Option<Vec<(TextStyle, String)>> {
        self.lines.send(format!("{line}\n")).ok()?;
        self.styled.recv().ok()
    }
}

/// The theme writes numbers of the terminal's palette into the colours: with no alpha, red is the number.
fn style_of(color: Color) -> TextStyle {
    if color.a == 0 { TextStyle::Palette(color.r) } else { TextStyle::Plain }
}
