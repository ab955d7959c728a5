//! The port through which agents reach a session's folder when the daemon works for them: agents that run
//! inside it, and programs that ask their client for files and commands. Defines what can be asked; how it is
//! done, and in which sandbox, is decided where the daemon is assembled.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use domain::{Error, SessionSpec};
use serde_json::Value;

/// Work in progress. Dropping it cancels it, commands included.
pub type Work<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// Provides the tools of sessions.
pub trait SessionToolbox: Send + Sync {
    /// Returns the tools of one session; they never touch anything outside its root.
    fn open(&self, spec: &SessionSpec) -> Arc<dyn SessionTools>;
}

/// The tools of one session.
pub trait SessionTools: Send + Sync {
    /// Performs a task. An error explains to the agent why it failed.
    fn perform(&self, task: ToolTask) -> Work<ToolOutput>;

    /// Performs a task that may be stopped: a command then ends with the output it has printed, anything else
    /// with nothing.
    fn perform_until(&self, task: ToolTask, stop: StopSignal) -> Work<ToolOutput> {
        let work = self.perform(task);
        Box::pin(async move {
            tokio::select! {
                biased;
                done = work => done,
                () = stop.wait() => Ok(ToolOutput::default()),
            }
        })
    }

    /// Performs a task that may be stopped, and shows what a command has printed while it runs.
    fn perform_watched(&self, task: ToolTask, stop: StopSignal, _output: RunningOutput) -> Work<ToolOutput> {
        self.perform_until(task, stop)
    }

    /// Records a call that the agent makes to a server of its own, and returns the same work. The call starts
    /// when the recording starts.
    fn noted(&self, _call: ExternalToolCall, work: Work<ToolOutput>) -> Work<ToolOutput> {
        work
    }

    /// Returns the additional tools that are offered by name. They are the same for all sessions that are allowed
    /// the same, and kept once.
    fn offers(&self) -> Arc<[OfferedTool]> {
        Arc::default()
    }
}

/// What a command that still runs has printed, both outputs in the order in which they came, without secrets. Of a long output
/// the end is kept.
#[derive(Clone, Debug)]
pub struct RunningOutput(Arc<tokio::sync::watch::Sender<Printed>>);

/// Bytes of an output.
#[derive(Clone, Debug, Default)]
struct Printed {
    kept: Vec<u8>,
    /// Bytes before those that are kept.
    dropped: u64,
}

impl Default for RunningOutput {
    fn default() -> Self {
        Self(Arc::new(tokio::sync::watch::Sender::new(Printed::default())))
    }
}

impl RunningOutput {
    /// Adds what was printed.
    pub fn push(&self, piece: &[u8]) {
        if piece.is_empty() {
            return;
        }
        self.0.send_modify(|printed| {
            printed.kept.extend_from_slice(piece);
            let surplus = printed.kept.len().saturating_sub(RUNNING_OUTPUT_MAX_BYTES);
            // In large steps, since the rest is moved.
            if surplus > RUNNING_OUTPUT_MAX_BYTES / 2 {
                printed.kept.drain(..surplus);
                printed.dropped += surplus as u64;
            }
        });
    }

    /// Returns the end of what was printed, and whether there was more.
    pub fn text(&self) -> (String, bool) {
        let printed = self.0.borrow();
        (String::from_utf8_lossy(&printed.kept).into_owned(), printed.dropped > 0)
    }

    /// Waits until there is more than the first bytes, and returns it with how many bytes there are then. A letter of which
    /// only a part was printed waits for the rest.
    pub async fn after(&self, seen: u64) -> (String, u64) {
        let mut changes = self.0.subscribe();
        loop {
            {
                let printed = changes.borrow_and_update();
                let from = usize::try_from(seen.saturating_sub(printed.dropped)).unwrap_or(usize::MAX);
                let rest = printed.kept.get(from..).unwrap_or_default();
                let whole = rest.len() - cut_letter(rest);
                if whole > 0 {
                    let upto = printed.dropped + (from + whole) as u64;
                    return (String::from_utf8_lossy(&rest[..whole]).into_owned(), upto);
                }
            }
            if changes.changed().await.is_err() {
                // Not reached: this holds a sender.
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Returns how many bytes at the end are the beginning of a letter.
fn cut_letter(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => bytes.len() - error.valid_up_to(),
        _ => 0,
    }
}

/// The end of a running command's output that is kept for whoever looks: what a call may have as its output.
const RUNNING_OUTPUT_MAX_BYTES: usize = 1024 * 1024;

/// Signals work to end. The owner of the sender either sends the signal or keeps the sender until the work is
/// done.
#[derive(Clone, Debug)]
pub struct StopSignal(pub tokio::sync::watch::Receiver<bool>);

impl StopSignal {
    /// Returns when the work is to end.
    pub async fn wait(mut self) {
        if self.0.wait_for(|stop| *stop).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// A call of a tool that does not belong to the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalToolCall {
    /// The name the agent uses: `mcp__server__tool`.
    pub tool: String,
    pub arguments: Value,
}

/// A tool that is called by its name, with [`ToolTask::Call`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedTool {
    pub name: String,
    pub description: String,
    /// JSON Schema of an object.
    pub input_schema: Value,
    pub need: RequiredPermission,
}

/// The permission a call of a tool needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredPermission {
    Nothing,
    /// It changes a file of the project.
    EditPermission,
    Permission,
}

/// What can be done in a session's folder. Paths are relative to the working folder, or absolute inside the
/// root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolTask {
    Read {
        path: String,
        /// Counted from 1; 0 means from the start.
        first_line: u64,
        /// 0 means all.
        lines: u64,
        /// Unchanged, secrets included: for programs that could read the file themselves and will write it
        /// back.
        raw: bool,
    },
    Write {
        path: String,
        content: String,
    },
    /// Replaces `old` with `new`. `old` must occur, and only once unless `all` is set.
    Edit {
        path: String,
        old: String,
        new: String,
        all: bool,
    },
    List {
        path: String,
    },
    /// Finds lines by a regular expression, in files whose names match a pattern such as `*.rs`; in all files
    /// if it is empty.
    Search {
        pattern: String,
        path: String,
        files: String,
    },
    Run {
        command: String,
        /// Added to the few variables every command has.
        environment: Vec<(String, String)>,
        /// Empty: the working folder.
        folder: String,
        timeout: Option<Duration>,
    },
    /// Calls one of [`SessionTools::offers`]. The caller has the permission it needs.
    Call {
        tool: String,
        arguments: Value,
    },
}

impl ToolTask {
    /// Returns whether it changes files.
    pub fn changes_files(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Edit { .. })
    }
}

/// The result of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolOutput {
    /// False for a command that ran but failed.
    pub ok: bool,
    pub output: String,
    /// Only for a command.
    pub exit_code: Option<i32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn output_is_read_on_from_where_a_reader_was() {
        let output = RunningOutput::default();
        output.push(b"one\n");
        let (text, seen) = output.after(0).await;
        assert_eq!((text.as_str(), seen), ("one\n", 4));
        let waiting = tokio::spawn({
            let output = output.clone();
            async move { output.after(4).await }
        });
        // The first byte of a letter alone is nothing that could be shown.
        output.push("\u{e4}".as_bytes().get(..1).unwrap());
        output.push("\u{e4}".as_bytes().get(1..).unwrap());
        assert_eq!(waiting.await.unwrap(), ("\u{e4}".to_owned(), 6));
        output.push(&vec![b'x'; RUNNING_OUTPUT_MAX_BYTES * 2]);
        let (text, is_cut) = output.text();
        assert!(is_cut && text.len() == RUNNING_OUTPUT_MAX_BYTES);
        assert_eq!(output.after(6).await.1, 6 + 2 * RUNNING_OUTPUT_MAX_BYTES as u64);
    }
}
