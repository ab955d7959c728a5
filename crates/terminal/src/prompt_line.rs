//! The line at the bottom of a terminal in which a person types while an agent works. Everything that is printed appears
//! above it. The editing itself is reedline's: history, several lines, paste, completion. Runs in a thread of its own,
//! because reading keys blocks.

mod above;
mod completer;
mod writer;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use reedline::{
    ColumnarMenu, EditCommand, Emacs, ExternalPrinter, FileBackedHistory, Hinter, History, KeyCode,
    KeyModifiers, MenuBuilder as _, Prompt, PromptEditMode, PromptHistorySearch, Reedline, ReedlineEvent,
    ReedlineMenu, Signal, default_emacs_keybindings,
};
use tokio::sync::mpsc;

use crate::limits;
use above::{LinesAbove, PaintedText, TypedText};
use completer::PromptCompleter;
pub use writer::LineWriter;

/// What the line shows besides the typed text; shared with its thread.
#[derive(Default)]
struct Shown {
    /// What goes on, such as how long a turn has been running.
    status: String,
    /// What can be answered now; empty: a message is expected.
    question: String,
    /// Rows of text that is not complete yet; each fits into one row of the terminal.
    unfinished: Vec<String>,
    /// Those that the next paint shows: the same for all of one paint.
    painting: Vec<String>,
    /// How many of them are on the screen.
    painted_rows: usize,
    /// The slash commands that can be completed.
    commands: Vec<String>,
    /// Whether something is typed.
    has_text: bool,
    /// The typed text is off the screen while lines are printed in its place.
    is_put_away: bool,
    /// Something else wants the terminal.
    is_released: bool,
    /// The line is being removed.
    is_ending: bool,
    width: usize,
}

type SharedShown = Arc<Mutex<Shown>>;

fn lock(shown: &Mutex<Shown>) -> MutexGuard<'_, Shown> {
    // A panic elsewhere leaves texts that are still right.
    shown.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why the thread let the terminal go.
enum Resume {
    Read,
    End,
}

/// Where the line keeps its history, and where names of files begin.
pub struct PromptPlace {
    pub history: PathBuf,
    pub folder: PathBuf,
    pub width: usize,
    pub color: bool,
}

/// The line of a terminal.
pub struct PromptLine {
    lines: mpsc::Receiver<String>,
    handle: PromptHandle,
    released: mpsc::Receiver<()>,
    resume: std::sync::mpsc::Sender<Resume>,
    release: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Changes what the line shows, from any thread.
#[derive(Clone)]
pub struct PromptHandle {
    shown: SharedShown,
    repaint: Arc<dyn Fn() + Send + Sync>,
    printer: std::sync::mpsc::SyncSender<String>,
}

impl PromptHandle {
    /// Shows what goes on; empty: nothing.
    pub fn set_status(&self, text: &str) {
        let mut shown = lock(&self.shown);
        if shown.status != text {
            text.clone_into(&mut shown.status);
            drop(shown);
            (self.repaint)();
        }
    }

    /// Shows what can be answered; empty: a message is expected.
    pub fn set_question(&self, text: &str) {
        let mut shown = lock(&self.shown);
        if shown.question != text {
            text.clone_into(&mut shown.question);
            drop(shown);
            (self.repaint)();
        }
    }

    /// Shows rows of text that is not complete yet above the typed text; none: all is complete.
    pub fn set_unfinished(&self, rows: Vec<String>) {
        let mut shown = lock(&self.shown);
        if shown.unfinished != rows {
            shown.unfinished = rows;
            drop(shown);
            (self.repaint)();
        }
    }

    /// Sets the slash commands that are completed.
    pub fn set_commands(&self, commands: Vec<String>) {
        lock(&self.shown).commands = commands;
    }

    /// Prints a line above. False: the line at the bottom is gone.
    fn print(&self, line: &str) -> bool {
        // An empty text would be no line at all.
        let is_there = self.printer.send(format!("{line}\n")).is_ok();
        (self.repaint)();
        is_there
    }
}

impl PromptLine {
    /// Opens the line. `presses` receives Ctrl-C.
    pub fn open(place: &PromptPlace, presses: mpsc::Sender<()>) -> Self {
        let shown: SharedShown = Arc::new(Mutex::new(Shown { width: place.width, ..Shown::default() }));
        let printer = ExternalPrinter::new(limits::PRINTED_AHEAD);
        let release = Arc::new(AtomicBool::new(false));
        let (sender, waiting) = std::sync::mpsc::sync_channel(limits::PRINTED_AHEAD);
        let above = LinesAbove::new(waiting, printer.sender(), shown.clone(), release.clone());
        let above = Arc::new(above);
        let mut editor = editor(place, &shown)
            .with_highlighter(Box::new(PaintedText(above.clone())))
            .with_transient_prompt(Box::new(SentPrompt(shown.clone())))
            .with_external_printer(printer)
            .with_break_signal(release.clone());
        let signal = editor.repaint_signal();
        let repaint: Arc<dyn Fn() + Send + Sync> = Arc::new(move || signal.request_repaint());
        let (typed, lines) = mpsc::channel(limits::LINES_AHEAD);
        let (letting_go, released) = mpsc::channel(1);
        let (resume, resumed) = std::sync::mpsc::channel();
        let prompt = ShownPrompt { shown: shown.clone(), above };
        let thread = PromptThread {
            prompt,
            shown: shown.clone(),
            release: release.clone(),
            typed,
            presses,
            letting_go,
            resumed,
        };
        let thread = std::thread::spawn(move || thread.run(editor));
        let handle = PromptHandle { shown, repaint, printer: sender };
        Self { lines, handle, released, resume, release, thread: Some(thread) }
    }

    pub fn handle(&self) -> PromptHandle {
        self.handle.clone()
    }

    /// Returns the next text, or `None` when the person closed the line.
    pub async fn line(&mut self) -> Option<String> {
        self.lines.recv().await
    }

    /// Lets the terminal go until `take_terminal`; what was typed stays.
    pub async fn release_terminal(&mut self) {
        lock(&self.handle.shown).is_released = true;
        self.release.store(true, Ordering::Relaxed);
        // Closed: the line has ended, and the terminal is free.
        let _ended = self.released.recv().await;
    }

    /// Takes the terminal again.
    pub fn take_terminal(&mut self) {
        // An error means that the line has ended.
        let _ended = self.resume.send(Resume::Read);
    }
}

impl Drop for PromptLine {
    fn drop(&mut self) {
        {
            let mut shown = lock(&self.handle.shown);
            (shown.is_ending, shown.is_released) = (true, true);
        }
        let _ended = self.resume.send(Resume::End);
        self.release.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// The thread that reads keys.
struct PromptThread {
    prompt: ShownPrompt,
    shown: SharedShown,
    release: Arc<AtomicBool>,
    typed: mpsc::Sender<String>,
    presses: mpsc::Sender<()>,
    letting_go: mpsc::Sender<()>,
    resumed: std::sync::mpsc::Receiver<Resume>,
}

impl PromptThread {
    fn run(self, mut editor: Reedline) {
        loop {
            match editor.read_line(&self.prompt) {
                Ok(Signal::Success(text)) => {
                    lock(&self.shown).has_text = false;
                    if self.typed.blocking_send(text).is_err() {
                        break;
                    }
                }
                Ok(Signal::CtrlC) => {
                    // The first press with a text removes the text, as in a shell.
                    let had_text = std::mem::take(&mut lock(&self.shown).has_text);
                    if !had_text {
                        // Full: a press is pending already.
                        let _pending = self.presses.try_send(());
                        // The editor leaves what it has painted, and paints all of it again below.
                        above::erase_painted(&self.shown);
                    }
                }
                Ok(Signal::ExternalBreak(_)) if !std::mem::take(&mut lock(&self.shown).is_released) => {
                    editor = self.print_in_place_of_text(editor);
                }
                Ok(Signal::ExternalBreak(_)) => {
                    // Nobody waits for this when the line ends.
                    let _nobody = self.letting_go.try_send(());
                    match self.resumed.recv() {
                        Ok(Resume::Read) => {}
                        Ok(Resume::End) | Err(_) => break,
                    }
                }
                Ok(_) | Err(_) => break,
            }
        }
        // What was printed last is still to be shown: the editor prints it before it accepts the empty text.
        lock(&self.shown).is_ending = true;
        editor.run_edit_commands(&[EditCommand::Clear]);
        let mut last = editor.with_immediately_accept(true);
        let _terminal_gone = last.read_line(&self.prompt);
    }

    /// Takes the typed text from the screen, prints what waits and shows the text again. The editor reads no key meanwhile, so
    /// none can act on the emptied line.
    fn print_in_place_of_text(&self, mut editor: Reedline) -> Reedline {
        let typed = TypedText {
            text: editor.current_buffer_contents().to_owned(),
            cursor: editor.current_insertion_point(),
        };
        above::erase(&typed, &self.shown);
        editor.run_edit_commands(&[EditCommand::Clear]);
        lock(&self.shown).is_put_away = true;
        self.prompt.above.print_anyway();
        let mut editor = editor.with_immediately_accept(true);
        // Somebody who wants the terminal gets it once the text is back.
        let mut is_wanted = false;
        while let Ok(Signal::ExternalBreak(_)) = editor.read_line(&self.prompt) {
            is_wanted = true;
        }
        if is_wanted {
            self.release.store(true, Ordering::Relaxed);
        }
        above::leave_accepted_row();
        lock(&self.shown).is_put_away = false;
        let back = EditCommand::MoveToPosition { position: typed.cursor, select: false };
        editor.run_edit_commands(&[EditCommand::InsertString(typed.text), back]);
        editor.with_immediately_accept(false)
    }
}

/// Builds the editor: keys, history, completion.
fn editor(place: &PromptPlace, shown: &SharedShown) -> Reedline {
    let mut keys = default_emacs_keybindings();
    let new_line = || ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
    keys.add_binding(KeyModifiers::ALT, KeyCode::Enter, new_line());
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::Enter, new_line());
    keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('j'), new_line());
    keys.add_binding(
        KeyModifiers::NONE,
        KeyCode::Tab,
        ReedlineEvent::UntilFound(vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext]),
    );
    let menu = ColumnarMenu::default().with_name(MENU);
    let editor = Reedline::create()
        .use_bracketed_paste(true)
        .with_poll_interval(limits::PROMPT_POLL)
        .with_ansi_colors(place.color)
        .with_completer(Box::new(PromptCompleter::new(place.folder.clone(), shown.clone())))
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .with_hinter(Box::new(StatusHint(shown.clone())))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_edit_mode(Box::new(Emacs::new(keys)));
    match history(&place.history) {
        Some(history) => editor.with_history(history),
        // Without a file the history lasts as long as the command.
        None => editor,
    }
}

const MENU: &str = "completions";

fn history(path: &Path) -> Option<Box<dyn History>> {
    let history = FileBackedHistory::with_file(limits::HISTORY_MAX, path.to_owned()).ok()?;
    Some(Box::new(history))
}

/// What stands before the typed text. Kept short: the editor counts on it when it prints above a wrapped text.
struct ShownPrompt {
    shown: SharedShown,
    above: Arc<LinesAbove>,
}

impl Prompt for ShownPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        let mut shown = lock(&self.shown);
        let rows = std::mem::take(&mut shown.painting);
        shown.painted_rows = rows.len();
        rows.iter().map(|row| format!("{row}\n")).collect::<String>().into()
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        "".into()
    }

    fn get_prompt_color(&self) -> reedline::Color {
        reedline::Color::Default
    }

    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        indicator(&lock(&self.shown)).into()
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        "  ".into()
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        // A search paints no text of ours, and must not be interrupted.
        self.above.print_anyway();
        format!("(search {}) ", search.term).into()
    }
}

/// What stands before a text once it is sent: nothing that is still being written.
struct SentPrompt(SharedShown);

impl Prompt for SentPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        let mut shown = lock(&self.0);
        shown.painting.clear();
        shown.painted_rows = 0;
        "".into()
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        "".into()
    }

    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        indicator(&lock(&self.0)).into()
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        "  ".into()
    }

    fn render_prompt_history_search_indicator(&self, _search: PromptHistorySearch) -> Cow<'_, str> {
        "".into()
    }
}

/// What stands directly before the typed text.
fn indicator(shown: &Shown) -> &'static str {
    match (shown.is_ending || shown.is_put_away, shown.question.is_empty()) {
        (true, _) => "",
        (false, true) => "> ",
        (false, false) => "? ",
    }
}

/// Shows the status, or what can be answered, behind the typed text.
struct StatusHint(SharedShown);

impl Hinter for StatusHint {
    fn handle(&mut self, line: &str, _pos: usize, _: &dyn History, color: bool, _cwd: &str) -> String {
        let shown = lock(&self.0);
        if shown.is_ending || shown.is_put_away || line.contains('\n') {
            return String::new();
        }
        let text = if shown.question.is_empty() { &shown.status } else { &shown.question };
        // It must not wrap: the editor counts the typed text only.
        let room = shown.width.saturating_sub(line.chars().count() * 2 + 6);
        if text.is_empty() || room < limits::HINT_MIN_CHARS {
            return String::new();
        }
        let gap = if line.is_empty() { "" } else { "   " };
        let text = client::format::shorten(&client::format::one_line(text), room);
        if color { format!("{gap}\x1b[2m{text}\x1b[0m") } else { format!("{gap}{text}") }
    }

    fn complete_hint(&self) -> String {
        String::new()
    }

    fn next_hint_token(&self) -> String {
        String::new()
    }
}
