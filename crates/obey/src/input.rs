//! A person's input while a command runs: typed lines and Ctrl-C. Awaiting either is cancellation-safe. Tests
//! feed both from channels.

use std::io::{BufRead as _, IsTerminal as _, Read as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc;

use crate::exit::Exit;
use crate::limits;

/// Lines from standard input.
pub(crate) struct Input {
    lines: Option<mpsc::Receiver<String>>,
    terminal: bool,
}

impl Input {
    /// Takes the standard input of this process. Nothing is read before the first line is requested.
    pub(crate) fn of_process() -> Self {
        Self { lines: None, terminal: std::io::stdin().is_terminal() }
    }

    #[cfg(test)]
    pub(crate) fn of_lines(lines: mpsc::Receiver<String>, terminal: bool) -> Self {
        Self { lines: Some(lines), terminal }
    }

    /// Returns whether the input is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Returns the next line without its end, or `None` at the end of input.
    pub(crate) async fn line(&mut self) -> Option<String> {
        self.lines.get_or_insert_with(read_lines).recv().await
    }

    /// Reads all input.
    pub(crate) fn all(&mut self) -> std::io::Result<String> {
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
pub(crate) struct Interrupts {
    presses: mpsc::Receiver<()>,
    taken: Arc<AtomicBool>,
}

impl Interrupts {
    /// Prepares to receive Ctrl-C; presses are handled once `hear` runs.
    pub(crate) fn of_process() -> (Self, SignalListener) {
        // One press may be pending.
        let (tx, presses) = mpsc::channel(1);
        let taken = Arc::new(AtomicBool::new(false));
        (Self { presses, taken: Arc::clone(&taken) }, SignalListener { tx, taken })
    }

    #[cfg(test)]
    pub(crate) fn of_presses(presses: mpsc::Receiver<()>) -> Self {
        Self { presses, taken: Arc::default() }
    }

    /// From now on the command handles Ctrl-C.
    pub(crate) fn listen(&mut self) {
        self.taken.store(true, Ordering::Relaxed);
    }

    /// Waits for the next press.
    pub(crate) async fn next(&mut self) {
        if self.presses.recv().await.is_none() {
            // Signals cannot be received here, so there is never a press.
            std::future::pending::<()>().await;
        }
    }
}

/// Listens for presses of Ctrl-C.
pub(crate) struct SignalListener {
    tx: mpsc::Sender<()>,
    taken: Arc<AtomicBool>,
}

impl SignalListener {
    /// Forwards presses for as long as the process runs.
    pub(crate) async fn forward(self) {
        while tokio::signal::ctrl_c().await.is_ok() {
            // A full channel means that a press is still pending, as when output blocks on a pipe. The next
            // one then ends the process.
            if !self.taken.load(Ordering::Relaxed) || self.tx.try_send(()).is_err() {
                std::process::exit(Exit::INTERRUPTED.0);
            }
        }
    }
}
