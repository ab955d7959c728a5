//! Workers, and lines of standard error: rows that are changed by later events without growing as text does.

use domain::{EventKind, any_event};

use super::Step;
use crate::row::{CallState, RowBody};
use crate::{limits, notices};

impl Step<'_> {
    /// Adds or changes the row of a worker.
    pub(super) fn worker(&mut self, kind: &EventKind) {
        let (id, new_title, new_call, new_state, new_summary) = match kind {
            EventKind::WorkerStarted { worker, call, title } => {
                (worker, title.as_str(), call.as_ref().map(ToString::to_string), CallState::Running, "")
            }
            EventKind::WorkerProgressed { worker, summary, .. } => {
                (worker, "", None, CallState::Running, summary.as_str())
            }
            EventKind::WorkerFinished { worker, ok, summary, .. } => {
                let state = if *ok { CallState::Ok } else { CallState::Failed };
                (worker, "", None, state, summary.as_str())
            }
            any_event!(life turn output request settings plan usage report) => return,
        };
        let seq = self.seq;
        let known = self.transcript.workers.get(id).copied();
        if let Some(place) = known {
            if let Some(row) = self.transcript.row_mut(place) {
                row.last = seq;
                if let RowBody::Worker { state, summary, .. } = &mut row.body {
                    *state = new_state;
                    new_summary.clone_into(summary);
                }
            }
        } else {
            let body = RowBody::Worker {
                worker: id.clone(),
                call: new_call,
                title: new_title.to_owned(),
                state: new_state,
                summary: new_summary.to_owned(),
            };
            self.push(None, body);
            let place = self.transcript.dropped + self.transcript.rows.len() - 1;
            self.transcript.workers.insert(id.clone(), place);
        }
        if new_state != CallState::Running {
            self.transcript.workers.remove(id);
        }
    }

    /// Joins lines of standard error that follow each other.
    pub(super) fn stderr(&mut self, line: &str) {
        let seq = self.seq;
        if let Some(row) = self.transcript.rows.back_mut()
            && let RowBody::Notice { word: "stderr", text, .. } = &mut row.body
            && text.split('\n').count() < limits::STDERR_LINES_MAX
        {
            text.push('\n');
            text.push_str(line);
            row.last = seq;
            return;
        }
        self.push(None, notices::stderr(line));
    }
}
