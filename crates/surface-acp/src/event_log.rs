//! The log of what happened on a connection, one JSON object per line, in the format of the former bridge. A
//! background task writes it, so that callers never wait for the disk.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::notify::{self, NotificationSourceKind};
use super::outbox::ClientOutbox;
use crate::limits;

/// Receives the events; discards them if no log file is configured.
#[derive(Default)]
pub(super) struct EventLog {
    writer: Mutex<Option<EventLogWriter>>,
}

struct EventLogWriter {
    lines: mpsc::Sender<String>,
    writing: JoinHandle<()>,
}

impl EventLog {
    /// Starts to write to a file. With a path, must be called on a tokio runtime.
    pub(super) fn begin(path: Option<PathBuf>, out: ClientOutbox) -> Self {
        let Some(path) = path else { return Self::default() };
        let (lines, reports) = mpsc::channel(limits::ACP_EVIDENCE_READY_MAX);
        let writing = tokio::spawn(write(path, reports, out));
        Self { writer: Mutex::new(Some(EventLogWriter { lines, writing })) }
    }

    /// Adds an event. It is dropped if the queue is full: the journal holds what happened.
    pub(super) fn report(&self, event: &str, session: &str, details: &Value) {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(writer) = writer.as_ref() else { return };
        let (seconds, nanos) = host::clock::now().seconds_and_nanos();
        let now = seconds * 1_000 + i64::from(nanos) / 1_000_000;
        let session = if session.is_empty() { Value::Null } else { session.into() };
        let line = json!({"timestampMs": now, "event": event, "sessionId": session, "details": details});
        let _full = writer.lines.try_send(line.to_string());
    }

    /// Waits until everything is written.
    pub(super) async fn end(&self) {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(EventLogWriter { lines, writing }) = writer else { return };
        drop(lines);
        let _late = tokio::time::timeout(limits::ACP_POLLING_INTERVAL, writing).await;
    }
}

/// Writes the reported lines to the file, one after the other. A failure is logged to the client.
async fn write(path: PathBuf, mut reports: mpsc::Receiver<String>, out: ClientOutbox) {
    while let Some(line) = reports.recv().await {
        let path = path.clone();
        let written =
            tokio::task::spawn_blocking(move || notify::forward(&path, NotificationSourceKind::File, &line))
                .await;
        if let Ok(Err(problem)) = written {
            out.log("warn", format!("the evidence cannot be written: {problem}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn reports_are_lines_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("evidence.jsonl");
        let (out, _frames) = ClientOutbox::new(false);
        let evidence = EventLog::begin(Some(path.clone()), out);
        evidence.report("initialize", "", &json!({"protocolVersion": 1}));
        evidence.report("session_created", "sess_1", &json!({}));
        evidence.end().await;
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0]["timestampMs"].as_u64().is_some_and(|now| now > 1_600_000_000_000));
        assert_eq!((&lines[0]["event"], &lines[0]["sessionId"]), (&json!("initialize"), &Value::Null));
        assert_eq!(
            (&lines[1]["event"], &lines[1]["sessionId"]),
            (&json!("session_created"), &json!("sess_1"))
        );
    }
}
