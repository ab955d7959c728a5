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
