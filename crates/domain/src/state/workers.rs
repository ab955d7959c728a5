//! The part of the state about workers: which ones there are, what they spend, and what was approved automatically.

use serde::{Deserialize, Serialize};

use super::State;
use crate::any_event;
use crate::budget::Spending;
use crate::event::EventKind;
use crate::id::{CallId, RequestId};
use crate::limits;
use crate::permission::Grant;
use crate::request::RequestSubject;
use crate::time::Timestamp;
use crate::worker::CallClass;

/// A worker: a sub-agent of the agent, or a session that works for this one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Worker {
    /// The call that started it, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    pub title: String,
    /// What it has spent so far, if it is a session of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spent: Option<Spending>,
}

impl State {
    /// Applies events of workers.
    pub(super) fn evolve_workers(&mut self, at: Timestamp, kind: &EventKind) {
        match kind {
            EventKind::WorkerStarted { worker, call, title } if self.workers.len() < limits::WORKERS_MAX => {
                let title = title.chars().take(limits::PREVIEW_MAX_CHARS).collect();
                self.workers.insert(worker.clone(), Worker { call: call.clone(), title, spent: None });
            }
            EventKind::WorkerProgressed { worker, spent: Some(spent), .. } => {
                if let Some(worker) = self.workers.get_mut(worker) {
                    worker.spent = Some(*spent);
                }
            }
            EventKind::WorkerFinished { worker, spent, .. } => {
                if let Some(worker) = self.workers.remove(worker) {
                    self.workers_spent.add(&spent.or(worker.spent).unwrap_or_default());
                }
                self.last_activity_at = Some(at);
            }
            any_event!(
                life turn output request settings plan usage WorkerStarted WorkerProgressed report
            ) => {}
        }
    }

    /// Counts a call that was approved automatically.
    pub(super) fn note_automatic(&mut self, at: Timestamp, request: RequestId, grant: &str) {
        let is_automatic = |other: &Grant| other.id == grant && other.is_automatic();
        if grant.is_empty() || !self.grants.iter().any(is_automatic) {
            return;
        }
        if let Some(RequestSubject::Permission(asked)) = self.requests.get(&request).map(|open| &open.ask) {
            self.auto_approved.note(at, CallClass::of(&asked.tool));
        }
    }
}
