//! The port through which agents reach a session's folder when the daemon works for them: agents that live in it, and
//! programs that ask their client for files and commands. Says what can be asked; how it is done, and behind which
//! walls, is the business of whoever puts the daemon together.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use domain::{Error, SessionSpec};
use serde_json::Value;

/// Work under way. Dropping it ends it, commands included.
pub type Work<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// Hands out the tools of sessions.
pub trait SessionToolbox: Send + Sync {
    /// Returns the tools of one session; they never touch anything outside its root.
    fn open(&self, spec: &SessionSpec) -> Arc<dyn SessionTools>;
}

/// The tools of one session.
pub trait SessionTools: Send + Sync {
    /// Does something. An error says, in words for the agent, why it could not be done.
    fn perform(&self, task: ToolTask) -> Work<ToolOutput>;

    /// Does something that may be stopped: a command then ends with what it has printed, anything else with nothing.
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

    /// Notes what the agent does by itself, at a server of its own, and returns the same work. It is begun when the
    /// note is.
    fn noted(&self, _call: ExternalToolCall, work: Work<ToolOutput>) -> Work<ToolOutput> {
        work
    }

    /// Returns what else is offered, under names of its own: the same to all, and kept once.
    fn offers(&self) -> Arc<[OfferedTool]> {
        Arc::default()
    }
}

/// Tells work that it is to end. Whoever holds the sender says so with it, or keeps it until the work is done.
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

/// A call of a tool that is not the daemon's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalToolCall {
    /// As the agent calls it: `mcp__server__tool`.
    pub tool: String,
    pub arguments: Value,
}

/// A tool that is called by its name, with [`Task::Call`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedTool {
    pub name: String,
    pub description: String,
    /// JSON Schema of an object.
    pub input_schema: Value,
    pub need: RequiredPermission,
}

/// What a call of a tool needs before it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredPermission {
    Nothing,
    /// It changes a file of the project.
    EditPermission,
    Permission,
}

/// What can be done in a session's folder. Paths are relative to the working folder, or absolute inside the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolTask {
    Read {
        path: String,
        /// From 1; 0: from the start.
        first_line: u64,
        /// 0: all.
        lines: u64,
        /// As it is, secrets included: for programs that could read the file themselves and will write it back.
        raw: bool,
    },
    Write {
        path: String,
        content: String,
    },
    /// Puts `new` in the place of `old`, which must be there, and only once unless `all` is wanted.
    Edit {
        path: String,
        old: String,
        new: String,
        all: bool,
    },
    List {
        path: String,
    },
    /// Finds lines by a regular expression, in files whose names fit a pattern such as `*.rs`; empty: in all.
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
    /// Calls one of [`Tools::offers`]. Whoever asks has the permission it needs.
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

/// What became of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolOutput {
    /// A command that fails was done, but is not well.
    pub ok: bool,
    pub output: String,
    /// Of a command.
    pub exit_code: Option<i32>,
}
