//! A person's input while a command runs: typed lines and Ctrl-C. Awaiting either is cancellation-safe. Tests
//! feed both from channels.

use std::io::{BufRead as _, IsTerminal as _, Read as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc;

use crate::limits;
use crate::prompt_line::PromptLine;
use config::exit::Exit;

/// Lines from standard input.
pub struct Input {
    source: InputSource,
    terminal: bool,
}

/// Where lines come from.
enum InputSource {
    /// Standard input, which nobody has read yet.
    Unread,
    Lines(mpsc::Receiver<String>),
    /// The line at the bottom of the terminal.
    Prompt(PromptLine),
}

impl Input {
    /// Takes the standard input of this process. Nothing is read before the first line is requested.
    pub fn of_process() -> Self {
        Self { source: InputSource::Unread, terminal: std::io::stdin().is_terminal() }
    }

    #[cfg(any(test, feature = "test-support"))]
    pub fn of_lines(lines: mpsc::Receiver<String>, terminal: bool) -> Self {
        Self { source: InputSource::Lines(lines), terminal }
    }

    /// Returns whether the input is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Returns the next line without its end, or `None` at the end of input.
    pub async fn line(&mut self) -> Option<String> {
        if let InputSource::Unread = self.source {
            self.source = InputSource::Lines(read_lines());
        }
        match &mut self.source {
            InputSource::Lines(lines) => lines.recv().await,
            InputSource::Prompt(prompt) => prompt.line().await,
            InputSource::Unread => None,
        }
    }

    /// Returns one line of a terminal, before anything else is read from it.
    pub fn single_line(&mut self) -> Option<String> {
        let InputSource::Unread = self.source else { return None };
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        read.is_ok_and(|bytes| bytes > 0).then(|| line.trim_end_matches(['\n', '\r']).to_owned())
    }

    /// Whether a prompt line can be opened: a terminal from which nobody reads yet.
    pub fn is_unread_terminal(&self) -> bool {
        self.terminal && matches!(self.source, InputSource::Unread)
    }

    /// Reads from a prompt line from now on.
    pub fn use_prompt(&mut self, prompt: PromptLine) {
        self.source = InputSource::Prompt(prompt);
    }

    /// Closes the prompt line, if there is one.
    pub fn close_prompt(&mut self) {
        if let InputSource::Prompt(_) = self.source {
            self.source = InputSource::Unread;
        }
    }

    /// The prompt line, if there is one.
    pub fn prompt(&mut self) -> Option<&mut PromptLine> {
        match &mut self.source {
            InputSource::Prompt(prompt) => Some(prompt),
            InputSource::Unread | InputSource::Lines(_) => None,
        }
    }

    /// Reads all input.
    pub fn all(&mut self) -> std::io::Result<String> {
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text)?;
        Ok(text)
    }
}

/// Reads lines in a separate thread: a blocking read cannot be cancelled, and the thread ends with the
/// process.
fn read_lines() -> mpsc::Receiver<String> {
    let (tx, rx) = mpsc::channel(limits::LINES_AHEAD);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if tx.blocking_send(line).is_err() {
                return;
            }
        }
    });
    rx
}

/// Presses of Ctrl-C. Until a command handles them, the first one ends the process.
pub struct Interrupts {
    tx: mpsc::Sender<()>,
    presses: mpsc::Receiver<()>,
    taken: Arc<AtomicBool>,
}

impl Interrupts {
    /// Prepares to receive Ctrl-C; presses are handled once `hear` runs.
    pub fn of_process() -> (Self, SignalListener) {
        // One press may be pending.
        let (tx, presses) = mpsc::channel(1);
        let taken = Arc::new(AtomicBool::new(false));
        (Self { tx: tx.clone(), presses, taken: Arc::clone(&taken) }, SignalListener { tx, taken })
    }

    #[cfg(any(test, feature = "test-support"))]
    pub fn of_presses(presses: mpsc::Receiver<()>) -> Self {
        Self { tx: mpsc::channel(1).0, presses, taken: Arc::default() }
    }

    /// From now on the command handles Ctrl-C.
    pub fn listen(&mut self) {
        self.taken.store(true, Ordering::Relaxed);
    }

    /// Where a terminal without signals reports presses.
    pub fn presses(&self) -> mpsc::Sender<()> {
        self.tx.clone()
    }

    /// Waits for the next press.
    pub async fn next(&mut self) {
        if self.presses.recv().await.is_none() {
            // Signals cannot be received here, so there is never a press.
            std::future::pending::<()>().await;
        }
    }
}

/// Listens for presses of Ctrl-C.
pub struct SignalListener {
    tx: mpsc::Sender<()>,
    taken: Arc<AtomicBool>,
}

impl SignalListener {
    /// Forwards presses for as long as the process runs.
    pub async fn forward(self) {
        while tokio::signal::ctrl_c().await.is_ok() {
            // A full channel means that a press is still pending, as when output blocks on a pipe. The next
            // one then ends the process.
            if !self.taken.load(Ordering::Relaxed) || self.tx.try_send(()).is_err() {
                std::process::exit(Exit::INTERRUPTED.0);
            }
        }
    }
}
