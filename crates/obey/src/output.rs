//! The one way out of the command: results on standard output, everything else on standard error.
//! Knows terminals, colours and the status line; knows nothing of what it prints. A closed pipe comes back as an
//! error that ends the command quietly.

use std::io::{self, IsTerminal as _, Write};

use serde::Serialize;

use crate::args::{ColorWhen, Global};
use crate::failure::Failure;
use crate::vars::Vars;

/// Columns where the width of the terminal is unknown.
const DEFAULT_WIDTH: usize = 100;

/// How a piece of text looks.
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
    /// A status line or a question stands at the cursor and must go before anything else is written.
    status_shown: bool,
    /// The question that waits for a line.
    question: Option<String>,
    /// The last thing written to each stream ended a line. Both share a terminal's cursor, a file or pipe does not.
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

    /// Writes into buffers instead; `terminal` says what both pretend to be.
    #[cfg(test)]
    pub(crate) fn to_buffers(out: test::Buffer, err: test::Buffer, global: &Global, terminal: bool) -> Self {
        Self::new(
            OutputStream { to: Box::new(out), terminal, color: false },
            OutputStream { to: Box::new(err), terminal, color: false },
            global,
        )
    }

    /// Returns whether standard error is a terminal, where a person can be asked.
    pub(crate) fn err_is_terminal(&self) -> bool {
        self.err.terminal
    }

    /// Returns how many columns a line of a listing may have; nothing where lines should stay whole.
    pub(crate) fn columns(&self) -> Option<usize> {
        self.out.terminal.then(|| self.width.unwrap_or(DEFAULT_WIDTH))
    }

    /// Writes a line of the result.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.styled_line(&[(TextStyle::Plain, text)])
    }

    /// Writes a line of the result made of pieces.
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

    /// Writes a piece of running text of the result, as it comes.
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

    /// Writes bytes of somebody else's result, untouched.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.out.to.write_all(bytes)?;
        Ok(self.out.to.flush()?)
    }

    /// Writes bytes of somebody else's standard error, untouched.
    pub(crate) fn err_bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.err.to.write_all(bytes)?;
        Ok(self.err.to.flush()?)
    }

    /// Ends a line of running text that was begun.
    pub(crate) fn end_text(&mut self) -> Result<(), Failure> {
        if !self.out_fresh { self.text("\n") } else { Ok(()) }
    }

    /// Writes a JSON document, or one object of a stream, on a line of its own.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value).map_err(|error| Failure::failed(error.to_string()))?;
        self.begin_out()?;
        self.out.to.write_all(text.as_bytes())?;
        self.out.to.write_all(b"\n")?;
        Ok(self.out.to.flush()?)
    }

    /// Says something beside the result, unless only results are wanted.
    pub(crate) fn note(&mut self, style: TextStyle, text: &str) -> Result<(), Failure> {
        if self.quiet || self.json {
            return Ok(());
        }
        self.say(style, text)
    }

    /// Says something beside the result that must be seen.
    pub(crate) fn say(&mut self, style: TextStyle, text: &str) -> Result<(), Failure> {
        self.begin_err()?;
        let text = clean(text, self.err.terminal);
        self.err.write(style, &text)?;
        self.err.to.write_all(b"\n")?;
        Ok(self.err.to.flush()?)
    }

    /// Says a piece of running text beside the result, as it comes.
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

    /// Shows the question again after something else was written, unless a line of text is begun.
    pub(crate) fn ask_again(&mut self) -> Result<(), Failure> {
        let Some(question) = self.question.clone() else { return Ok(()) };
        if self.status_shown || !self.err.terminal || !self.out_fresh || !self.err_fresh {
            return Ok(());
        }
        self.err.write(TextStyle::Bold, &clean(&question, true))?;
        self.status_shown = true;
        Ok(self.err.to.flush()?)
    }

    /// Takes note that a line was typed: the cursor stands at the beginning of the next one.
    pub(crate) fn answered(&mut self) {
        self.question = None;
        self.status_shown = false;
    }

    /// Takes a question back that nobody needs to answer any more.
    pub(crate) fn withdraw(&mut self) -> Result<(), Failure> {
        self.question = None;
        self.hide_status()
    }

    /// Shows what goes on, on a terminal only, where no line is begun. The next output replaces it.
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

    /// Says why the command ends. Nothing can be done about an error here, so none is returned.
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

    /// Begins a line on standard output: nothing half-written may stand before it.
    fn begin_out(&mut self) -> Result<(), Failure> {
        self.hide_status()?;
        self.share_cursor_with_out()?;
        if !self.out_fresh {
            self.out.to.write_all(b"\n")?;
            self.out_fresh = true;
        }
        Ok(())
    }

    /// On a terminal a note that was begun would be continued by the result.
    fn share_cursor_with_out(&mut self) -> Result<(), Failure> {
        if !self.err_fresh && self.out.terminal && self.err.terminal {
            self.err.to.write_all(b"\n")?;
            self.err.to.flush()?;
            self.err_fresh = true;
        }
        Ok(())
    }

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

/// Takes control characters out of text that goes to a terminal: what an agent or a tool prints must not move the
/// cursor, change the title or answer for the user. Files and pipes get the text as it is.
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

        /// Waits until something was written.
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
