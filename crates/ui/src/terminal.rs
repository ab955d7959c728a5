//! The terminal itself: raw mode, the other screen, and putting everything back, whatever ends the program. The only file
//! that writes to the terminal past the drawn screen; what it writes is clean.

use std::io::{self, BufWriter, Stdout, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
    KeyboardEnhancementFlags, PopKeyboardEnhancementFlags, PushKeyboardEnhancementFlags,
};
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute, queue};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

use crate::app::App;
use crate::{draw, limits, sanitize};

/// A frame is written at once; the largest takes some tens of kilobytes.
const FRAME_BYTES: usize = 256 * 1024;

/// Whether the terminal is ours now.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// Whether keys are reported in the newer way.
static ENHANCED: AtomicBool = AtomicBool::new(false);

/// The terminal while it is ours.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
    mouse: bool,
    tmux: bool,
    title: String,
}

impl Screen {
    /// Takes the terminal. It is given back when this value is dropped, and when the program panics.
    pub(crate) fn take(mouse: bool, var: impl Fn(&str) -> Option<String>) -> io::Result<Self> {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            hook(panic);
        }));
        let writer = BufWriter::with_capacity(FRAME_BYTES, io::stdout());
        let terminal = Terminal::new(CrosstermBackend::new(writer))?;
        let screen = Self { terminal, mouse, tmux: var("TMUX").is_some(), title: String::new() };
        ENHANCED.store(tells_shift_enter(&var), Ordering::Relaxed);
        screen.enter()?;
        Ok(screen)
    }

    fn enter(&self) -> io::Result<()> {
        enable_raw_mode()?;
        TAKEN.store(true, Ordering::SeqCst);
        let mut out = io::stdout();
        // The title of before is put on the terminal's own stack.
        out.write_all(b"\x1b[22;2t")?;
        execute!(out, EnterAlternateScreen, EnableBracketedPaste, cursor::Hide)?;
        if self.mouse {
            execute!(out, EnableMouseCapture)?;
        }
        if ENHANCED.load(Ordering::Relaxed) {
            let flags = KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES;
            execute!(out, PushKeyboardEnhancementFlags(flags))?;
        }
        Ok(())
    }

    /// Takes the terminal again after it was given back, and draws everything anew.
    pub(crate) fn take_again(&mut self) -> io::Result<()> {
        self.enter()?;
        self.title.clear();
        // Not `clear`: it asks the terminal where the cursor is, and the reader of keys may take the answer.
        let size = self.terminal.size()?;
        self.terminal.resize(ratatui::layout::Rect::from((ratatui::layout::Position::ORIGIN, size)))
    }

    /// Draws the screen in one write.
    pub(crate) fn draw(&mut self, app: &mut App) -> io::Result<()> {
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        let title = draw::title(app);
        if title != self.title {
            write!(self.terminal.backend_mut(), "\x1b]2;{}\x07", sanitize::clean_line(&title))?;
            self.title = title;
        }
        self.terminal.draw(|frame| draw::draw(app, frame))?;
        queue!(self.terminal.backend_mut(), EndSynchronizedUpdate)?;
        self.terminal.backend_mut().flush()
    }

    /// Rings, and shows a notice where the terminal can.
    pub(crate) fn notify(&mut self, text: &str) -> io::Result<()> {
        let text: String = sanitize::clean_line(text).chars().filter(|c| *c != ';').take(100).collect();
        self.sequence(&format!("\x1b]9;{text}\x07"))?;
        let out = self.terminal.backend_mut();
        out.write_all(b"\x07")?;
        out.flush()
    }

    /// Puts a text on the terminal's clipboard.
    pub(crate) fn copy(&mut self, text: &str) -> io::Result<()> {
        let mut end = text.len().min(limits::COPY_MAX_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let coded = base64::engine::general_purpose::STANDARD.encode(&text[..end]);
        self.sequence(&format!("\x1b]52;c;{coded}\x07"))?;
        self.terminal.backend_mut().flush()
    }

    /// Writes a sequence, inside tmux also for the terminal around it.
    fn sequence(&mut self, sequence: &str) -> io::Result<()> {
        let tmux = self.tmux;
        let out = self.terminal.backend_mut();
        out.write_all(sequence.as_bytes())?;
        if tmux {
            let wrapped = sequence.replace('\x1b', "\x1b\x1b");
            write!(out, "\x1bPtmux;{wrapped}\x1b\\")?;
        }
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back as it was. May be called at any time and more than once.
pub(crate) fn give_back() {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut out = io::stdout();
    // The terminal may be gone; there is nobody left to tell.
    if ENHANCED.load(Ordering::Relaxed) {
        let _gone = execute!(out, PopKeyboardEnhancementFlags);
    }
    let _gone = execute!(out, DisableMouseCapture, DisableBracketedPaste, cursor::Show, LeaveAlternateScreen);
    let _gone = out.write_all(b"\x1b[23;2t").and_then(|()| out.flush());
    let _gone = disable_raw_mode();
}

/// Terminals that tell Shift+Enter from Enter when asked to; others ignore the question at best, so it is not put.
fn tells_shift_enter(var: &impl Fn(&str) -> Option<String>) -> bool {
    if var("TMUX").is_some() || var("STY").is_some() {
        return false;
    }
    let term = var("TERM").unwrap_or_default();
    let program = var("TERM_PROGRAM").unwrap_or_default();
    ["kitty", "ghostty", "foot", "alacritty"].iter().any(|name| term.contains(name))
        || ["WezTerm", "ghostty", "iTerm.app"].contains(&program.as_str())
}
