//! The only output of the command: results on standard output, everything else on standard error. Knows
//! terminals, colours and the status line; knows nothing of what it prints. A closed pipe becomes an error
//! that ends the command silently.

use std::io::{self, IsTerminal as _, Write};

use serde::Serialize;

use crate::args::{ColorWhen, Global};
use crate::failure::Failure;
use crate::vars::Vars;

/// Columns if the width of the terminal is unknown.
const DEFAULT_WIDTH: usize = 100;

/// The style of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextStyle {
    Plain,
    Dim,
    Bold,
    Good,
    Bad,
    Warn,
    Accent,
}

impl TextStyle {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Dim => "\x1b[2m",
            Self::Bold => "\x1b[1m",
            Self::Good => "\x1b[32m",
            Self::Bad => "\x1b[31m",
            Self::Warn => "\x1b[33m",
            Self::Accent => "\x1b[36m",
        }
    }
}

/// One of the two streams.
struct OutputStream {
    to: Box<dyn Write + Send + Sync>,
    terminal: bool,
    color: bool,
}

impl OutputStream {
    fn write(&mut self, style: TextStyle, text: &str) -> io::Result<()> {
        if self.color && style != TextStyle::Plain {
            write!(self.to, "{}{text}\x1b[0m", style.code())
        } else {
            self.to.write_all(text.as_bytes())
        }
    }
}

/// Both streams of the command.
pub(crate) struct Output {
    out: OutputStream,
    err: OutputStream,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    width: Option<usize>,
    /// A status line or a question is at the cursor and must be removed before anything else is written.
    status_shown: bool,
    /// The question that waits for a line.
    question: Option<String>,
    /// Whether the last output on each stream ended a line. On a terminal both share the cursor; files and
    /// pipes do not.
    out_fresh: bool,
    err_fresh: bool,
}

impl Output {
    /// Takes the standard streams of this process.
    pub(crate) fn of_process(global: &Global, vars: &Vars) -> Self {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let terminals = (stdout.is_terminal(), stderr.is_terminal());
        let dumb = vars.get("TERM").is_some_and(|term| term == "dumb");
        let color = |terminal: bool| match global.color {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => terminal && !dumb && vars.get("NO_COLOR").is_none(),
        };
        Self {
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
        }
    }

    /// Writes into buffers instead; `terminal` says whether both pretend to be terminals.
    #[cfg(test)]
    pub(crate) fn to_buffers(out: test::Buffer, err: test::Buffer, global: &Global, terminal: bool) -> Self {
        Self::new(
            OutputStream { to: Box::new(out), terminal, color: false },
            OutputStream { to: Box::new(err), terminal, color: false },
            global,
        )
    }

    /// Returns whether standard error is a terminal, so that a person can be asked.
    pub(crate) fn err_is_terminal(&self) -> bool {
        self.err.terminal
    }

    /// Returns the maximum columns of a line in a listing; `None` if lines should not be cut.
    pub(crate) fn columns(&self) -> Option<usize> {
        self.out.terminal.then(|| self.width.unwrap_or(DEFAULT_WIDTH))
    }

    /// Writes a line of the result.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.styled_line(&[(TextStyle::Plain, text)])
    }

    /// Writes a line of the result made of styled pieces.
    pub(crate) fn styled_line(&mut self, pieces: &[(TextStyle, &str)]) -> Result<(), Failure> {
        self.begin_out()?;
        for (style, text) in pieces {
            let text = clean(text, self.out.terminal);
            self.out.write(*style, &text)?;
        }
        self.out.to.write_all(b"\n")?;
        self.out.to.flush()?;
        self.out_fresh = true;
        Ok(())
    }

    /// Writes streaming text of the result.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        let text = clean(text, self.out.terminal);
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
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.out.to.write_all(bytes)?;
        Ok(self.out.to.flush()?)
    }

    /// Writes another program's standard error unchanged.
    pub(crate) fn err_bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.err.to.write_all(bytes)?;
        Ok(self.err.to.flush()?)
    }

    /// Ends an incomplete line of streaming text.
    pub(crate) fn end_text(&mut self) -> Result<(), Failure> {
        if !self.out_fresh { self.text("\n") } else { Ok(()) }
    }

    /// Writes a JSON document, or one object of a stream, on its own line.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value).map_err(|error| Failure::failed(error.to_string()))?;
        self.begin_out()?;
        self.out.to.write_all(text.as_bytes())?;
        self.out.to.write_all(b"\n")?;
        Ok(self.out.to.flush()?)
    }

    /// Prints a note, unless only results are wanted.
    pub(crate) fn note(&mut self, style: TextStyle, text: &str) -> Result<(), Failure> {
        if self.quiet || self.json {
            return Ok(());
        }
        self.say(style, text)
    }

    /// Prints a message that must be seen.
    pub(crate) fn say(&mut self, style: TextStyle, text: &str) -> Result<(), Failure> {
        self.begin_err()?;
        let text = clean(text, self.err.terminal);
        self.err.write(style, &text)?;
        self.err.to.write_all(b"\n")?;
        Ok(self.err.to.flush()?)
    }

    /// Prints streaming text as a note.
    pub(crate) fn note_text(&mut self, style: TextStyle, text: &str) -> Result<(), Failure> {
        if self.quiet || self.json {
            return Ok(());
        }
        self.hide_status()?;
        if self.err_fresh {
            self.begin_err()?;
        }
        let text = clean(text, self.err.terminal);
        self.err.write(style, &text)?;
        self.err.to.flush()?;
        if !text.is_empty() {
            self.err_fresh = text.ends_with('\n');
        }
        Ok(())
    }

    /// Asks for a line. The question stays before the cursor until it is answered or withdrawn.
    pub(crate) fn ask(&mut self, question: &str) -> Result<(), Failure> {
        self.hide_status()?;
        self.question = Some(question.to_owned());
        self.ask_again()
    }

    /// Shows the question again after other output, unless a line of text is incomplete.
    pub(crate) fn ask_again(&mut self) -> Result<(), Failure> {
        let Some(question) = self.question.clone() else { return Ok(()) };
        if self.status_shown || !self.err.terminal || !self.out_fresh || !self.err_fresh {
            return Ok(());
        }
        self.err.write(TextStyle::Bold, &clean(&question, true))?;
        self.status_shown = true;
        Ok(self.err.to.flush()?)
    }

    /// Records that a line was typed: the cursor is at the beginning of the next one.
    pub(crate) fn answered(&mut self) {
        self.question = None;
        self.status_shown = false;
    }

    /// Withdraws a question that no longer needs an answer.
    pub(crate) fn withdraw(&mut self) -> Result<(), Failure> {
        self.question = None;
        self.hide_status()
    }

    /// Shows the status line, only on a terminal and only if no line is incomplete. The next output replaces
    /// it.
    pub(crate) fn status(&mut self, text: &str) -> Result<(), Failure> {
        let busy = !self.err_fresh || (self.out.terminal && !self.out_fresh);
        if !self.err.terminal || self.quiet || self.json || busy || self.question.is_some() {
            return Ok(());
        }
        let room = self.width.unwrap_or(DEFAULT_WIDTH).saturating_sub(1);
        let text = crate::format::shorten(&clean(text, true), room);
        self.err.to.write_all(b"\r\x1b[2K")?;
        self.err.write(TextStyle::Dim, &text)?;
        self.status_shown = true;
        Ok(self.err.to.flush()?)
    }

    /// Removes the status line.
    pub(crate) fn hide_status(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.status_shown) {
            self.err.to.write_all(b"\r\x1b[2K")?;
            self.err.to.flush()?;
        }
        Ok(())
    }

    /// Prints the error that ends the command. Write errors are ignored: nothing can be done about them here.
    pub(crate) fn failure(&mut self, failure: &Failure) {
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

/// Removes control characters from text for a terminal: output of an agent or a tool must not move the
/// cursor, change the title or answer for the user. Files and pipes get the text unchanged.
fn clean(text: &str, terminal: bool) -> std::borrow::Cow<'_, str> {
    // The second range reverses the direction of text, which can make a command look like another one.
    let harmful = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !terminal || !text.contains(harmful) {
        return text.into();
    }
    text.chars().filter(|c| !harmful(*c)).collect::<String>().into()
}

fn terminal_width() -> Option<usize> {
    let size =
        rustix::termios::tcgetwinsize(io::stdout()).or_else(|_| rustix::termios::tcgetwinsize(io::stderr()));
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

#[cfg(test)]
pub(crate) mod test {
    use tokio::sync::watch;

    use super::*;

    /// A stream that tests can read and wait for.
    #[derive(Clone)]
    pub(crate) struct Buffer(watch::Sender<Vec<u8>>);

    impl Default for Buffer {
        fn default() -> Self {
            Self(watch::channel(Vec::new()).0)
        }
    }

    impl Buffer {
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.borrow().clone()).unwrap()
        }

        /// Waits until a text was written.
        pub(crate) async fn until(&self, part: &str) {
            let has_it = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).contains(part);
            let waiting = tokio::time::timeout(std::time::Duration::from_secs(20), async {
                self.0.subscribe().wait_for(has_it).await.map(drop)
            });
            waiting.await.unwrap_or_else(|_| panic!("{part:?} is missing in {}", self.text())).unwrap();
        }
    }

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send_modify(|all| all.extend_from_slice(bytes));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn on_terminal() -> (Output, Buffer) {
        let both = Buffer::default();
        (Output::to_buffers(both.clone(), both.clone(), &Global::default(), true), both)
    }

    #[test]
    fn text_and_notes_do_not_share_a_line_on_a_terminal() {
        let (mut output, both) = on_terminal();
        output.text("half").unwrap();
        output.note(TextStyle::Dim, "note").unwrap();
        output.text("more").unwrap();
        output.end_text().unwrap();
        assert_eq!(both.text(), "half\nnote\nmore\n");
    }

    #[test]
    fn in_a_pipe_notes_do_not_break_the_text() {
        let (out, err) = (Buffer::default(), Buffer::default());
        let mut output = Output::to_buffers(out.clone(), err.clone(), &Global::default(), false);
        output.text("half ").unwrap();
        output.note(TextStyle::Dim, "note").unwrap();
        output.text("and half").unwrap();
        output.end_text().unwrap();
        assert_eq!((out.text().as_str(), err.text().as_str()), ("half and half\n", "note\n"));
    }

    #[test]
    fn the_status_line_gives_way() {
        let (mut output, both) = on_terminal();
        output.status("working").unwrap();
        output.line("result").unwrap();
        output.text("half").unwrap();
        output.status("never shown over a begun line").unwrap();
        assert_eq!(both.text(), "\r\x1b[2Kworking\r\x1b[2Kresult\nhalf");
    }

    #[test]
    fn a_terminal_gets_no_control_characters_and_a_pipe_gets_all() {
        let (mut output, both) = on_terminal();
        output.line("a\x1b]0;title\x07b\tc").unwrap();
        assert_eq!(both.text(), "a]0;titleb\tc\n");
        let out = Buffer::default();
        let mut output = Output::to_buffers(out.clone(), Buffer::default(), &Global::default(), false);
        output.text("a\x1b[1mb").unwrap();
        assert_eq!(out.text(), "a\x1b[1mb");
    }

    #[test]
    fn quiet_keeps_results_and_errors() {
        let (out, err) = (Buffer::default(), Buffer::default());
        let global = Global { quiet: true, ..Global::default() };
        let mut output = Output::to_buffers(out.clone(), err.clone(), &global, true);
        output.note(TextStyle::Plain, "note").unwrap();
        output.status("working").unwrap();
        output.line("result").unwrap();
        output.failure(&Failure::failed("broken"));
        assert_eq!((out.text().as_str(), err.text().as_str()), ("result\n", "error: broken\n"));
    }
}
