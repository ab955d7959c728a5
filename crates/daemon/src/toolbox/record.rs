//! The audit row of an agent's task, written even if the agent abandons it.

use std::sync::Arc;
use std::time::Instant;

use agent_port::toolbox::{ExternalToolCall, ToolTask};
use domain::{Error, SessionId};
use host::clock;
use serde_json::{Map, Value, json};
use workbench::Workbench;
use workbench::audit::{AuditEntry, AuditOutcome, input_text};

use super::Outcome;

/// A task in progress.
pub(super) struct Record {
    workbench: Arc<Workbench>,
    /// `None` once it is written.
    entry: Option<AuditEntry>,
    began: Instant,
}

impl Record {
    pub(super) fn begin(workbench: Arc<Workbench>, session: &SessionId, task: &ToolTask) -> Self {
        let (operation, input) = described(task);
        Self::new(workbench, session, operation, &input)
    }

    /// Starts the row of a call to an agent's own MCP server.
    pub(super) fn of_call(workbench: Arc<Workbench>, session: &SessionId, call: &ExternalToolCall) -> Self {
        // As text: a row holds only plain fields.
        let input = [("tool", call.tool.clone()), ("arguments", call.arguments.to_string())];
        let input = input.map(|(name, value)| (name.to_owned(), Value::String(value))).into_iter().collect();
        Self::new(workbench, session, "Toolbox.Mcp", &input)
    }

    fn new(
        workbench: Arc<Workbench>,
        session: &SessionId,
        operation: &str,
        input: &Map<String, Value>,
    ) -> Self {
        let entry = AuditEntry {
            at: clock::now(),
            session: session.to_string(),
            caller: format!("agent {session}"),
            operation: operation.to_owned(),
            input: input_text(workbench.scrubber(), input),
            ..AuditEntry::default()
        };
        Self { workbench, entry: Some(entry), began: Instant::now() }
    }

    /// Writes the result.
    pub(super) async fn end(mut self, outcome: &Result<Outcome, Error>) -> Result<(), Error> {
        let Some(mut entry) = self.entry.take() else { return Ok(()) };
        match outcome {
            Ok(outcome) => {
                entry.outcome = AuditOutcome::Done;
                entry.summary = self.workbench.scrubber().scrub_text(&outcome.summary);
                entry.tier = outcome.tier.to_owned();
                entry.secrets = outcome.secrets;
            }
            Err(error) => {
                entry.outcome = AuditOutcome::Failed(error.code);
                entry.summary = self.workbench.scrubber().scrub_text(&error.message);
            }
        }
        entry.duration_us = self.micros();
        self.workbench.audit().append(entry).await.map(|_| ())
    }

    fn micros(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let Some(mut entry) = self.entry.take() else { return };
        entry.outcome = AuditOutcome::Cancelled;
        entry.summary = "the agent let go of it before its end".to_owned();
        entry.duration_us = self.micros();
        let workbench = Arc::clone(&self.workbench);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = workbench.audit().append(entry).await {
                    tracing::warn!(%error, "what an agent did cannot be written down");
                }
            });
        }
    }
}

/// Returns the name of a task in the audit, and its input.
fn described(task: &ToolTask) -> (&'static str, Map<String, Value>) {
    let (operation, input) = match task {
        ToolTask::Read { path, first_line, lines, raw } => {
            ("Toolbox.Read", json!({"path": path, "first_line": first_line, "lines": lines, "raw": raw}))
        }
        ToolTask::Write { path, content } => ("Toolbox.Write", json!({"path": path, "content": content})),
        ToolTask::Edit { path, old, new, all } => {
            ("Toolbox.Edit", json!({"path": path, "old": old, "new": new, "all": all}))
        }
        ToolTask::List { path } => ("Toolbox.List", json!({"path": path})),
        ToolTask::Search { pattern, path, files } => {
            ("Toolbox.Search", json!({"pattern": pattern, "path": path, "files": files}))
        }
        ToolTask::Call { tool, arguments } => ("Toolbox.Call", json!({"tool": tool, "arguments": arguments})),
        // Values of variables may be secrets that no rule knows.
        ToolTask::Run { command, environment, folder, timeout } => {
            let names: Vec<&str> = environment.iter().map(|(name, _)| name.as_str()).collect();
            let timeout = timeout.map(|wait| wait.as_millis().to_string());
            (
                "Toolbox.Run",
                json!({"command": command, "environment": names, "folder": folder, "timeout_ms": timeout}),
            )
        }
    };
    match input {
        Value::Object(input) => (operation, input),
        _ => (operation, Map::new()),
    }
}
