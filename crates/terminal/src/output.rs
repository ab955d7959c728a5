//! The only output of the command: results on standard output, everything else on standard error. Knows
//! terminals, colours and the status line; knows nothing of what it prints. A closed pipe becomes an error
//! that ends the command silently.

mod style;
mod unfinished;

use std::io::{self, IsTerminal as _, Write};

use serde::Serialize;

use crate::markdown::{self, StyledLine};
use crate::prompt_line::{LineWriter, PromptHandle};
use cli_args::{ColorWhen, Global};
use config::failure::Failure;
use config::vars::Vars;

pub use style::TextStyle;

/// Columns if the width of the terminal is unknown.
const DEFAULT_WIDTH: usize = 100;
/// A notice of a terminal is one line.
const NOTICE_MAX_CHARS: usize = 120;
/// Longer lines of running text are hard to read.
const TEXT_WIDTH_MAX: usize = 100;

/// One of the two streams.
struct OutputStream {
    to: Box<dyn Write + Send + Sync>,
    terminal: bool,
    color: bool,
}

impl OutputStream {
    fn write(&mut self, style: TextStyle, text: &str) -> io::Result<()> {
        if !self.color || style == TextStyle::Plain {
            return self.to.write_all(text.as_bytes());
        }
        // Each line ends its own style: lines may be printed apart from each other.
        for (at, line) in text.split('\n').enumerate() {
            if at > 0 {
                self.to.write_all(b"\n")?;
            }
            if !line.is_empty() {
                write!(self.to, "{}{line}\x1b[0m", style.code())?;
            }
        }
        Ok(())
    }
}

/// Both streams of the command.
pub struct Output {
    out: OutputStream,
    err: OutputStream,
    pub json: bool,
    pub quiet: bool,
    width: Option<usize>,
    /// A status line or a question is at the cursor and must be removed before anything else is written.
    status_shown: bool,
    /// The question that waits for a line.
    question: Option<String>,
    /// Whether the last output on each stream ended a line. On a terminal both share the cursor; files and
    /// pipes do not.
    out_fresh: bool,
    err_fresh: bool,
    /// The line at the bottom of the terminal, while there is one.
    prompt: Option<PromptHandle>,
    in_tmux: bool,
}

impl Output {
    /// Takes the standard streams of this process.
    pub fn of_process(global: &Global, vars: &Vars) -> Self {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let terminals = (stdout.is_terminal(), stderr.is_terminal());
        let dumb = vars.get("TERM").is_some_and(|term| term == "dumb");
        let color = |terminal: bool| match global.color {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => terminal && !dumb && vars.get("NO_COLOR").is_none(),
        };
        Self {
            in_tmux: vars.get("TMUX").is_some(),
            width: vars.get("COLUMNS").and_then(|text| text.to_str()?.parse().ok()).or_else(terminal_width),
            ..Self::new(
                OutputStream { to: Box::new(stdout), terminal: terminals.0, color: color(terminals.0) },
                OutputStream {
                    to: Box::new(stderr),
                    terminal: terminals.1 && !dumb,
                    color: color(terminals.1),
                },
                global,
            )
        }
    }

    fn new(out: OutputStream, err: OutputStream, global: &Global) -> Self {
        Self {
            out,
            err,
            json: global.json,
            quiet: global.quiet,
            width: None,
            status_shown: false,
            question: None,
            out_fresh: true,
            err_fresh: true,
            prompt: None,
            in_tmux: false,
        }
    }

    /// Prints above a prompt line from now on.
    pub fn use_prompt(&mut self, handle: PromptHandle) {
        for stream in [&mut self.out, &mut self.err] {
            let own = std::mem::replace(&mut stream.to, Box::new(io::sink()));
            stream.to = if stream.terminal { Box::new(LineWriter::new(handle.clone(), own)) } else { own };
        }
        self.prompt = Some(handle);
    }

    /// Prints directly again. The prompt line must be closed after this, so that it can print what is left.
    pub fn leave_prompt(&mut self) {
        if self.prompt.take().is_none() {
            return;
        }
        // An incomplete line is ended, so that it is printed above.
        let _shown_or_gone = self.end_text();
        if !self.err_fresh {
            let _shown_or_gone = self.err.to.write_all(b"\n");
            self.err_fresh = true;
        }
        self.out.to = Box::new(io::stdout());
        self.err.to = Box::new(io::stderr());
    }

    /// The prompt line, while there is one.
    pub fn prompt(&self) -> Option<&PromptHandle> {
        self.prompt.as_ref()
    }

    /// Whether colours are used on the terminal.
    pub fn has_color(&self) -> bool {
        self.err.color
    }

    /// Writes into buffers instead; `terminal` says whether both pretend to be terminals.
    #[cfg(any(test, feature = "test-support"))]
    pub fn to_buffers(out: test::Buffer, err: test::Buffer, global: &Global, terminal: bool) -> Self {
        Self::new(
            OutputStream { to: Box::new(out), terminal, color: false },
            OutputStream { to: Box::new(err), terminal, color: false },
            global,
        )
    }

    /// Returns whether standard error is a terminal, so that a person can be asked.
    pub fn err_is_terminal(&self) -> bool {
        self.err.terminal
    }

    /// Returns the maximum columns of a line in a listing; `None` if lines should not be cut.
    pub fn columns(&self) -> Option<usize> {
        self.out.terminal.then(|| self.width.unwrap_or(DEFAULT_WIDTH))
    }

    /// Writes a line of the result.
    pub fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.styled_line(&[(TextStyle::Plain, text)])
    }

    /// Writes a line of the result made of styled pieces.
    pub fn styled_line(&mut self, pieces: &[(TextStyle, &str)]) -> Result<(), Failure> {
        self.begin_out()?;
        for (style, text) in pieces {
            let text = clean(text);
            self.out.write(*style, &text)?;
        }
        // A line of a file that ends like this stays as it is: a patch is applied from a pipe.
        if !self.out.terminal && pieces.last().is_some_and(|(_, text)| text.ends_with('\r')) {
            self.out.to.write_all(b"\r")?;
        }
        self.out.to.write_all(b"\n")?;
        self.out.to.flush()?;
        self.out_fresh = true;
        Ok(())
    }

    /// Writes Markdown: rendered on a terminal, else as it is.
    pub fn markdown(&mut self, text: &str) -> Result<(), Failure> {
        if !self.out.terminal {
            self.text(text)?;
            return self.end_text();
        }
        let lines = markdown::render(text, self.text_width());
        lines.iter().try_for_each(|line| self.rendered(line))
    }

    /// Writes a rendered line of the result.
    pub fn rendered(&mut self, line: &StyledLine) -> Result<(), Failure> {
        let pieces: Vec<(TextStyle, &str)> =
            line.iter().map(|(style, text)| (*style, text.as_str())).collect();
        self.styled_line(&pieces)
    }

    /// Prints a rendered line that must be seen, such as of a request.
    pub fn say_rendered(&mut self, line: &StyledLine) -> Result<(), Failure> {
        self.begin_err()?;
        for (style, text) in line {
            let text = clean(text);
            self.err.write(*style, &text)?;
        }
        self.err.to.write_all(b"\n")?;
        Ok(self.err.to.flush()?)
    }

    /// Prints a rendered line as a note.
    pub fn note_rendered(&mut self, line: &StyledLine) -> Result<(), Failure> {
        if self.quiet || self.json { Ok(()) } else { self.say_rendered(line) }
    }

    /// Returns whether results are read on a terminal.
    pub fn out_is_terminal(&self) -> bool {
        self.out.terminal
    }

    /// Returns the columns of the terminal.
    pub fn width(&self) -> usize {
        self.width.unwrap_or(DEFAULT_WIDTH)
    }

    /// Returns the columns that running text should use.
    pub fn text_width(&self) -> usize {
        self.width.unwrap_or(DEFAULT_WIDTH).min(TEXT_WIDTH_MAX)
    }

    /// Writes streaming text of the result.
    pub fn text(&mut self, text: &str) -> Result<(), Failure> {
        let text = clean(text);
        self.hide_status()?;
        self.share_cursor_with_out()?;
        self.out.write(TextStyle::Plain, &text)?;
        self.out.to.flush()?;
        if !text.is_empty() {
            self.out_fresh = text.ends_with('\n');
        }
        Ok(())
    }

    /// Writes another program's output unchanged.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.out.to.write_all(bytes)?;
        Ok(self.out.to.flush()?)
    }

    /// Writes another program's standard error unchanged.
    pub fn err_bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.err.to.write_all(bytes)?;
        Ok(self.err.to.flush()?)
    }

    /// Ends an incomplete line of streaming text.
    pub fn end_text(&mut self) -> Result<(), Failure> {
        if !self.out_fresh { self.text("\n") } else { Ok(()) }
    }

    /// Writes a JSON document, or one object of a stream, on its own line.
    pub fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value).map_err(|error| Failure::failed(error.to_string()))?;
        self.begin_out()?;
        self.out.to.write_all(text.as_bytes())?;
        self.out.to.write_all(b"\n")?;
        Ok(self.out.to.flush()?)
    }

    /// Prints a note, unless only results are wanted.
    pub fn note(&mut self, style: TextStyle, text: &str) -> Result<(), Failure> {
        if self.quiet || self.json {
            return Ok(());
        }
        self.say(style, text)
    }

    /// Prints a message that must be seen.
    pub fn say(&mut self, style: TextStyle, text: &str) -> Result<(), Failure> {
        self.begin_err()?;
        let text = clean(text);
        self.err.write(style, &text)?;
        self.err.to.write_all(b"\n")?;
        Ok(self.err.to.flush()?)
    }

    /// Prints streaming text as a note.
    pub fn note_text(&mut self, style: TextStyle, text: &str) -> Result<(), Failure> {
        if self.quiet || self.json {
            return Ok(());
        }
        self.hide_status()?;
        if self.err_fresh {
            self.begin_err()?;
        }
        let text = clean(text);
        self.err.write(style, &text)?;
        self.err.to.flush()?;
        if !text.is_empty() {
            self.err_fresh = text.ends_with('\n');
        }
        Ok(())
    }

    /// Asks for a line. The question stays before the cursor until it is answered or withdrawn.
    pub fn ask(&mut self, question: &str) -> Result<(), Failure> {
        self.hide_status()?;
        if let Some(prompt) = &self.prompt {
            prompt.set_question(question.trim().trim_end_matches('>').trim());
            return Ok(());
        }
        self.question = Some(question.to_owned());
        self.ask_again()
    }

    /// Shows the question again after other output, unless a line of text is incomplete.
    pub fn ask_again(&mut self) -> Result<(), Failure> {
        let Some(question) = self.question.clone() else { return Ok(()) };
        if self.status_shown || !self.err.terminal || !self.out_fresh || !self.err_fresh {
            return Ok(());
        }
        self.err.write(TextStyle::Bold, &clean(&question))?;
        self.status_shown = true;
        Ok(self.err.to.flush()?)
    }

    /// Records that a line was typed: the cursor is at the beginning of the next one.
    pub fn answered(&mut self) {
        if let Some(prompt) = &self.prompt {
            prompt.set_question("");
        }
        self.question = None;
        self.status_shown = false;
    }

    /// Withdraws a question that no longer needs an answer.
    pub fn withdraw(&mut self) -> Result<(), Failure> {
        if let Some(prompt) = &self.prompt {
            prompt.set_question("");
        }
        self.question = None;
        self.hide_status()
    }

    /// Rings the terminal and tells it why, for terminals that show notices (OSC 9). Moves no cursor.
    pub fn ring(&mut self, text: &str) -> Result<(), Failure> {
        if !self.err.terminal || self.quiet || self.json {
            return Ok(());
        }
        let text = client::format::shorten(&client::format::one_line(&clean(text)), NOTICE_MAX_CHARS);
        let notice = format!("\x1b]9;{text}\x07");
        // tmux passes on what is wrapped for it, where it is allowed to, and ignores it otherwise.
        let notice = if self.in_tmux { format!("\x1bPtmux;\x1b{notice}\x1b\\") } else { notice };
        let mut stderr = io::stderr();
        stderr.write_all(format!("{notice}\x07").as_bytes())?;
        Ok(stderr.flush()?)
    }

    /// Shows the status line, only on a terminal and only if no line is incomplete. The next output replaces
    /// it.
    pub fn status(&mut self, text: &str) -> Result<(), Failure> {
        self.status_in(TextStyle::Dim, text)
    }

    fn status_in(&mut self, style: TextStyle, text: &str) -> Result<(), Failure> {
        if let Some(prompt) = &self.prompt {
            prompt.set_status(&clean(text));
            return Ok(());
        }
        let busy = !self.err_fresh || (self.out.terminal && !self.out_fresh);
        if !self.err.terminal || self.quiet || self.json || busy || self.question.is_some() {
            return Ok(());
        }
        let room = self.width.unwrap_or(DEFAULT_WIDTH).saturating_sub(1);
        let text = client::format::shorten(&clean(text), room);
        self.err.to.write_all(b"\r\x1b[2K")?;
        self.err.write(style, &text)?;
        self.status_shown = true;
        Ok(self.err.to.flush()?)
    }

    /// Removes the status line.
    pub fn hide_status(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.status_shown) {
            self.err.to.write_all(b"\r\x1b[2K")?;
            self.err.to.flush()?;
        }
        Ok(())
    }

    /// Prints the error that ends the command. Write errors are ignored: nothing can be done about them here.
    pub fn failure(&mut self, failure: &Failure) {
        if failure.is_silent() {
            return;
        }
        let _stderr_is_gone = if self.json {
            self.say(TextStyle::Plain, &failure.for_programs().to_string())
        } else {
            self.say(TextStyle::Bad, &failure.for_people())
        };
    }

    /// Starts a line on standard output: ends an incomplete one first.
    fn begin_out(&mut self) -> Result<(), Failure> {
        self.hide_status()?;
        self.share_cursor_with_out()?;
        if !self.out_fresh {
            self.out.to.write_all(b"\n")?;
            self.out_fresh = true;
        }
        Ok(())
    }

    /// Ends an incomplete note; on a terminal the result would continue its line.
    fn share_cursor_with_out(&mut self) -> Result<(), Failure> {
        if !self.err_fresh && self.out.terminal && self.err.terminal {
            self.err.to.write_all(b"\n")?;
            self.err.to.flush()?;
            self.err_fresh = true;
        }
        Ok(())
    }

    /// Prepares standard error for a new line: hides the status and ends an unfinished line.
    fn begin_err(&mut self) -> Result<(), Failure> {
        self.hide_status()?;
        if !self.out_fresh && self.out.terminal && self.err.terminal {
            self.out.to.write_all(b"\n")?;
            self.out.to.flush()?;
            self.out_fresh = true;
        }
        if !self.err_fresh {
            self.err.to.write_all(b"\n")?;
            self.err_fresh = true;
        }
        Ok(())
    }
}

/// Removes control characters: output of an agent or a tool must not move the cursor, change the title or answer for the
/// user. From files and pipes too: they are shown on terminals later. JSON, and what is passed on as bytes, is not text.
fn clean(text: &str) -> std::borrow::Cow<'_, str> {
    // The second range reverses the direction of text, which can make a command look like another one.
    let harmful = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(harmful) {
        return text.into();
    }
    text.chars().filter(|c| !harmful(*c)).collect::<String>().into()
}

/// The columns of the terminal now, if there is one.
pub fn terminal_width() -> Option<usize> {
    let size =
        rustix::termios::tcgetwinsize(io::stdout()).or_else(|_| rustix::termios::tcgetwinsize(io::stderr()));
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

#[cfg(any(test, feature = "test-support"))]
pub mod test;
